//! `cargo xtask fuzz`: libFuzzer on stable Rust.
//!
//! Coverage feedback needs only a pass of LLVM, which stable rustc supports; the address sanitizer would need a nightly
//! compiler and finds nothing in crates without `unsafe`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use xtask::process;

/// The flags that cargo-fuzz passes for libFuzzer without a sanitizer.
const COVERAGE_FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks";

/// The options of `cargo xtask fuzz`.
#[derive(Args)]
pub struct Arguments {
    /// Run only these targets.
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Run each for this long.
    #[arg(long, value_name = "N", default_value_t = 600)]
    seconds: u32,
}

/// Runs the chosen targets, or all.
pub fn run(Arguments { targets: chosen, seconds }: &Arguments) -> Result<()> {
    let targets = targets()?;
    if let Some(unknown) = chosen.iter().find(|name| !targets.contains(name)) {
        bail!("there is no fuzz target `{unknown}`; there are: {}", targets.join(", "));
    }
    fuzz(if chosen.is_empty() { &targets } else { chosen }, &Effort::Search { seconds: *seconds })
}

/// Compiles all targets.
pub fn build() -> Result<()> {
    programs().map(drop)
}

/// Runs every target on its seeds and on the same inputs each time.
pub fn repeat_all() -> Result<()> {
    fuzz(&targets()?, &Effort::Repeat)
}

/// How long a target runs.
enum Effort {
    /// Runs new inputs for this long, starting from all earlier inputs.
    Search { seconds: u32 },
    /// Runs the seeds, then inputs from a fixed random seed: luck must not decide whether a change passes.
    Repeat,
}

/// Inputs of a target in a repeated run. The slowest target takes about 15 s for them.
const REPEATED_INPUTS: u32 = 100_000;
/// Time limit of a repeated run, for slow machines.
const REPEATED_SECONDS: u32 = 20;

/// Returns the names of the targets in alphabetical order.
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
    let out = Command::new("rustc").arg("-vV").output().context("cannot start rustc")?;
    let text = String::from_utf8_lossy(&out.stdout);
    text.lines()
        .find_map(|line| line.strip_prefix("host: ").map(str::to_owned))
        .context("`rustc -vV` names no host")
}

/// Compiles the targets, and returns the folder of the programs.
fn programs() -> Result<PathBuf> {
    let host = host()?;
    let build_dir = process::scratch("fuzz")?;
    let manifest = process::root().join("fuzz/Cargo.toml");
    // With --target, the flags apply to the targets but not to build scripts and procedural macros.
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

fn fuzz(targets: &[String], effort: &Effort) -> Result<()> {
    let programs = programs()?;
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    for group in targets.chunks(at_once) {
        let started: Vec<Run> =
            group.iter().map(|name| Run::start(&programs, name, effort)).collect::<Result<_>>()?;
        for run in started {
            run.finish()?;
        }
    }
    Ok(())
}

/// A running target. Dropping this early ends the process.
struct Run {
    name: String,
    child: Child,
    log: PathBuf,
    artifacts: PathBuf,
}

impl Run {
    fn start(programs: &Path, name: &str, effort: &Effort) -> Result<Run> {
        let fuzz = process::root().join("fuzz");
        let seeds = fuzz.join("seeds").join(name);
        let artifacts = fuzz.join("artifacts").join(name);
        std::fs::create_dir_all(&artifacts)?;
        let log = artifacts.join("log.txt");
        let out = std::fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(programs.join(name));
        command
            .args(["-rss_limit_mb=2048", "-timeout=20", "-print_final_stats=1"])
            .arg(format!("-artifact_prefix={}/", artifacts.display()));
        match effort {
            Effort::Search { seconds } => {
                let corpus = fuzz.join("corpus").join(name);
                std::fs::create_dir_all(&corpus)?;
                command.arg(format!("-max_total_time={seconds}")).arg(corpus);
            }
            Effort::Repeat => {
                // libFuzzer writes new inputs into the first folder. This must not be the seeds' folder, and it must be
                // free of an earlier run's inputs.
                let found = process::scratch("fuzz")?.join("found").join(name);
                if found.exists() {
                    std::fs::remove_dir_all(&found)?;
                }
                std::fs::create_dir_all(&found)?;
                command
                    .arg(found)
                    .args(["-seed=1", &format!("-runs={REPEATED_INPUTS}")])
                    .arg(format!("-max_total_time={REPEATED_SECONDS}"));
            }
        }
        if seeds.is_dir() {
            command.arg(&seeds);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(out);
        let child = command.spawn().with_context(|| format!("cannot start the fuzz target {name}"))?;
        Ok(Run { name: name.to_owned(), child, log, artifacts })
    }

    fn finish(mut self) -> Result<()> {
        let status = self.child.wait()?;
        let log = std::fs::read(&self.log)?;
        let log = String::from_utf8_lossy(&log).into_owned();
        if !status.success() {
            let tail: Vec<&str> = log.lines().rev().take(40).collect();
            for line in tail.iter().rev() {
                eprintln!("{line}");
            }
            bail!(
                "the fuzz target {} failed ({status}); its input is in {}",
                self.name,
                self.artifacts.display()
            );
        }
        let executed = log
            .lines()
            .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))
            .context("libFuzzer printed no statistics")?;
        println!("fuzz target {}: {} inputs, no failure", self.name, executed.trim());
        Ok(())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // On the usual path the process has already been waited for; then both calls fail, which is harmless.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
