//! `cargo xtask fuzz`: runs libFuzzer with stable Rust.
//!
//! To measure coverage, libFuzzer needs only an LLVM pass that stable rustc supports. The address sanitizer
//! is not used: it would need a nightly compiler and finds nothing in crates without `unsafe`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use xtask::process;

/// The compiler flags that cargo-fuzz uses for libFuzzer without a sanitizer.
const COVERAGE_FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks";

/// The options of `cargo xtask fuzz`.
#[derive(Args)]
pub struct Arguments {
    /// Run only these targets.
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Run each target for this long.
    #[arg(long, value_name = "N", default_value_t = 600)]
    seconds: u32,
}

/// Runs the named fuzz targets. If none is named, runs all fuzz targets.
pub fn run(Arguments { targets: chosen, seconds }: &Arguments) -> Result<()> {
    let targets = targets()?;
    if let Some(unknown) = chosen.iter().find(|name| !targets.contains(name)) {
        bail!("there is no fuzz target `{unknown}`; use one of: {}", targets.join(", "));
    }
    let targets = if chosen.is_empty() { &targets } else { chosen };
    // Each fuzz target starts from all its earlier inputs.
    fuzz(targets, &[format!("-max_total_time={seconds}")], &process::root().join("fuzz/corpus"))
}

pub fn build() -> Result<()> {
    programs().map(drop)
}

/// Runs every fuzz target on its seed inputs, and then on inputs that are generated from a fixed random seed.
/// Therefore, the result for a change does not depend on chance.
pub fn repeat_all() -> Result<()> {
    // Do not reuse the inputs of an earlier run.
    let found = process::scratch("fuzz")?.join("found");
    process::remove_folder(&found)?;
    let options = [
        "-seed=1".to_owned(),
        format!("-runs={REPEATED_INPUTS}"),
        format!("-max_total_time={REPEATED_SECONDS}"),
    ];
    fuzz(&targets()?, &options, &found)
}

/// Number of inputs of a fuzz target in a repeatable run. The slowest fuzz target takes about 15 s for them.
const REPEATED_INPUTS: u32 = 100_000;
/// Time limit of a repeatable run in seconds, for slow machines.
const REPEATED_SECONDS: u32 = 20;

/// Returns the names of the fuzz targets in alphabetical order.
fn targets() -> Result<Vec<String>> {
    let dir = process::root().join("fuzz/fuzz_targets");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn host() -> Result<String> {
    let text = process::output(Command::new("rustc").arg("-vV"))?;
    text.lines()
        .find_map(|line| line.strip_prefix("host: ").map(str::to_owned))
        .context("`rustc -vV` names no host")
}

/// Compiles the fuzz targets and returns the folder of the programs.
fn programs() -> Result<PathBuf> {
    let host = host()?;
    let build_dir = process::scratch("fuzz")?;
    let manifest = process::root().join("fuzz/Cargo.toml");
    // Because of --target, the flags apply to the fuzz targets but not to build scripts and procedural
    // macros.
    process::run(
        process::cargo()
            .args(["build", "--release", "--bins", "--target", &host, "--manifest-path"])
            .arg(&manifest)
            .arg("--target-dir")
            .arg(&build_dir)
            .env("RUSTFLAGS", COVERAGE_FLAGS),
    )?;
    Ok(build_dir.join(&host).join("release"))
}

/// Runs fuzz targets in parallel, one per processor. libFuzzer adds new inputs to a folder in `found`.
fn fuzz(targets: &[String], options: &[String], found: &Path) -> Result<()> {
    let programs = programs()?;
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    for group in targets.chunks(at_once) {
        let mut started = Vec::new();
        for name in group {
            started.push((name, start(&programs.join(name), name, options, &found.join(name))?));
        }
        for (name, child) in started {
            finish(name, child)?;
        }
    }
    Ok(())
}

/// Returns the folder with a fuzz target's log and failing inputs.
fn artifacts(name: &str) -> PathBuf {
    process::root().join("fuzz/artifacts").join(name)
}

fn start(program: &Path, name: &str, options: &[String], found: &Path) -> Result<Child> {
    let artifacts = artifacts(name);
    for folder in [&artifacts, found] {
        std::fs::create_dir_all(folder)?;
    }
    let mut command = process::bound_to_this(program);
    command.args(["-rss_limit_mb=2048", "-timeout=20", "-print_final_stats=1"]).args(options);
    command.arg(format!("-artifact_prefix={}/", artifacts.display())).arg(found);
    let seeds = process::root().join("fuzz/seeds").join(name);
    if seeds.is_dir() {
        command.arg(&seeds);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(artifacts.join("log.txt"))?);
    command.spawn().with_context(|| format!("cannot start the fuzz target {name}"))
}

fn finish(name: &str, mut child: Child) -> Result<()> {
    let status = child.wait()?;
    let artifacts = artifacts(name);
    let log = std::fs::read(artifacts.join("log.txt"))?;
    let log = String::from_utf8_lossy(&log).into_owned();
    if !status.success() {
        let tail: Vec<&str> = log.lines().rev().take(40).collect();
        tail.iter().rev().for_each(|line| eprintln!("{line}"));
        bail!("the fuzz target {name} failed ({status}); its input is in {}", artifacts.display());
    }
    let mut lines = log.lines();
    let executed = lines.find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    let executed = executed.context("libFuzzer printed no statistics")?.trim();
    println!("fuzz target {name}: {executed} inputs, no failure");
    Ok(())
}
