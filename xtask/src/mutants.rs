//! `cargo xtask mutants`: checks with cargo-mutants that the tests detect errors in the code.
//!
//! cargo-mutants changes the code in one spot at a time and runs the tests. A change that no test detects is
//! a surviving mutant. For each surviving mutant, write a test that fails with this change. If the change has
//! no effect, add a pattern with the reason to `mutants.toml`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};

use crate::process;

/// The options of `cargo xtask mutants`.
#[derive(Args)]
pub struct Arguments {
    /// Test only these areas (default: all).
    #[arg(value_enum)]
    areas: Vec<Area>,
    /// The mutants to test: one in N, starting with number K.
    #[arg(long, value_name = "K/N", default_value = "0/20")]
    shard: String,
}

/// A part of the code that is mutated. The tests of its crate must detect the mutants.
#[derive(Clone, Copy, ValueEnum)]
enum Area {
    Assembler,
    Recorder,
    Statistics,
    Buffer,
}

impl Area {
    /// Returns the name of the area's crate, and the pattern of cargo-mutants for the files of the area.
    fn files(self) -> (&'static str, &'static str) {
        match self {
            Area::Assembler => ("fonio-trace", "crates/fonio-trace/src/assembler/**/*.rs"),
            Area::Recorder => ("fonio-record", "crates/fonio-record/src/**/*.rs"),
            Area::Statistics => ("fonio-analysis", "crates/fonio-analysis/src/compare/**/*.rs"),
            Area::Buffer => ("fonio-bfuse", "crates/fonio-bfuse/src/buffer/**/*.rs"),
        }
    }

    /// Returns options of `cargo test` that exclude two groups of tests: tests of mounts, which take minutes
    /// and fail on a busy machine, and tests of comparisons, which take minutes.
    fn tests(self) -> &'static [&'static str] {
        match self {
            Area::Assembler | Area::Recorder => &[],
            Area::Statistics | Area::Buffer => &["--cargo-test-arg", "--lib"],
        }
    }
}

/// Runs cargo-mutants on each chosen area.
pub fn run(arguments: &Arguments) -> Result<()> {
    let program = installed()?;
    let scratch = process::scratch("mutants")?;
    let chosen = if arguments.areas.is_empty() { Area::value_variants() } else { &arguments.areas };
    let mut survived = Vec::new();
    for area in chosen {
        let (package, files) = area.files();
        println!("== {package}, {files}: part {} of the mutants", arguments.shard);
        let mut command = Command::new(&program);
        command.current_dir(process::root()).args(["mutants", "--config", "mutants.toml"]);
        command.args(["--package", package, "--file", files, "--shard", &arguments.shard]);
        command.args(["--sharding", "round-robin"]).args(area.tests());
        command.arg("--output").arg(scratch.join(package));
        // cargo-mutants tests a copy of the sources. The build directory of this copy is kept for the next
        // run. Each mutant is compiled for a single test run, so compile time matters more than run time.
        command.env("CARGO_TARGET_DIR", scratch.join("build")).env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
        command.env("CARGO_PROFILE_DEV_DEBUG", "0").env_remove(fonio_testing::SKIPS);
        std::fs::create_dir_all(scratch.join(package))?;
        if process::run(&mut command).is_err() {
            survived.push(package);
        }
        process::check_signals()?;
    }
    ensure!(
        survived.is_empty(),
        "mutants survived (see {}): write a test for each, or add a pattern with a reason to mutants.toml",
        survived.join(", ")
    );
    Ok(())
}

/// Returns the path of cargo-mutants. Installs it in the target directory if it is missing.
fn installed() -> Result<PathBuf> {
    if let Some(found) = fonio_testing::find_program("cargo-mutants") {
        return Ok(found);
    }
    let root = process::target().join("tools");
    let program = root.join("bin/cargo-mutants");
    if !program.is_file() {
        println!("cargo-mutants is missing; installing it in {} (once, some minutes)", root.display());
        process::run(process::cargo().args(["install", "--locked", "cargo-mutants", "--root"]).arg(&root))?;
    }
    Ok(program)
}
