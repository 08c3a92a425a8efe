//! `cargo xtask gen-trace`: generates a blktrace capture (`crates/fonio-trace/examples/generate.rs`).

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use crate::process;

/// The options of `cargo xtask gen-trace`.
#[derive(Args)]
pub struct Arguments {
    /// Write to PREFIX.blktrace.0, PREFIX.blktrace.1, …
    #[arg(long, value_name = "PREFIX", default_value = "generated")]
    out: PathBuf,
    /// Number of requests; each has at least five records of 48 bytes.
    #[arg(long, value_name = "N", default_value_t = 5_000_000)]
    ios: u64,
    /// Seed of the random generator.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of processors, with one file each.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=256))]
    cpus: u64,
}

/// Generates the trace and writes its files.
pub fn run(Arguments { out, ios, seed, cpus }: &Arguments) -> Result<()> {
    let out = std::path::absolute(out)?;
    if let Some(dir) = out.parent() {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    }
    let mut generate = process::cargo();
    generate.args(["run", "--package", "fonio-trace", "--example", "generate", "--"]).arg(out);
    process::run(generate.args([ios, seed, cpus].map(u64::to_string)))
}

/// Returns the prefix of a trace with `ios` requests for benchmarks, which is generated once.
pub fn for_benchmarks(ios: u64) -> Result<PathBuf> {
    let out = process::scratch("bench")?.join(format!("generated-{ios}"));
    if !out.with_extension("blktrace.0").exists() {
        println!("Generating {ios} requests …");
        run(&Arguments { out: out.clone(), ios, seed: 1, cpus: 2 })?;
    }
    Ok(out)
}
