//! Builds the programs of the fuzz targets, and runs them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use wait4::Wait4;
use xtask::process;

use super::files;

/// The compiler flags that cargo-fuzz uses for libFuzzer without a sanitizer.
///
/// To measure coverage, libFuzzer needs only an LLVM pass that stable rustc supports. The address sanitizer is not
/// used: it would need a nightly compiler and finds nothing in crates without `unsafe`.
const COVERAGE_FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks";

/// The environment variable with the folder in which a target writes its seeds (`fuzz/src/seeds.rs`).
const SEEDS: &str = "FONIO_FUZZ_SEEDS";
/// Maximum processor time for one input, in seconds.
const INPUT_SECONDS: u64 = 20;
/// The exit code of libFuzzer after a signal.
const INTERRUPTED: i32 = 72;
/// The names of the files in which libFuzzer stores inputs that fail. It also stores slow inputs, which do not fail.
const FAILURES: [&str; 4] = ["crash-", "timeout-", "oom-", "leak-"];

/// The compiled fuzz targets.
pub struct Programs {
    folder: PathBuf,
    /// The folder for seeds, temporary files and logs.
    scratch: PathBuf,
}

/// A run of a fuzz target that shall be done.
pub struct Work<'a> {
    pub name: &'a str,
    /// The options for libFuzzer.
    pub options: Vec<String>,
    /// The folder with inputs, to which libFuzzer adds inputs.
    pub corpus: PathBuf,
}

/// The result of a run.
#[derive(Debug, PartialEq)]
pub struct Run {
    pub processor: Duration,
    pub executions: u64,
    /// Number of covered edges between basic blocks.
    pub coverage: u64,
    /// The file with the input that failed.
    pub finding: Option<PathBuf>,
}

impl Programs {
    /// Compiles the fuzz targets with a profile of cargo, `release` or `repeat` (fuzz/Cargo.toml).
    pub fn build(profile: &str) -> Result<Programs> {
        let host = host()?;
        let scratch = process::scratch("fuzz")?;
        let manifest = process::root().join("fuzz/Cargo.toml");
        // Because of --target, the flags apply to the fuzz targets but not to build scripts and procedural
        // macros.
        process::run(
            process::cargo()
                .args(["build", "--profile", profile, "--bins", "--target", &host, "--manifest-path"])
                .arg(&manifest)
                .arg("--target-dir")
                .arg(&scratch)
                .env("RUSTFLAGS", COVERAGE_FLAGS),
        )?;
        Ok(Programs { folder: scratch.join(&host).join(profile), scratch })
    }

    /// Runs fuzz targets in parallel, and waits for all of them. Returns their results in the same order.
    pub fn run(&self, works: &[Work<'_>]) -> Result<Vec<Run>> {
        let mut started = Vec::new();
        for work in works {
            started.push((work.name, self.start(work)?));
        }
        started.into_iter().map(|(name, child)| self.finish(name, child)).collect()
    }

    /// Returns a command for a target that reads and writes only below the scratch folder.
    fn command(&self, name: &str) -> Result<Command> {
        let temporary = self.temporary(name);
        process::remove_folder(&temporary)?;
        make(&temporary)?;
        let mut command = process::bound_to_this(&self.folder.join(name));
        command.args(["-rss_limit_mb=2048", "-print_final_stats=1"]);
        command.arg(format!("-timeout={INPUT_SECONDS}"));
        command.env("TMPDIR", temporary).env_remove(SEEDS).stdin(Stdio::null()).stdout(Stdio::null());
        Ok(command)
    }

    fn temporary(&self, name: &str) -> PathBuf {
        self.scratch.join("temporary").join(name)
    }

    fn start(&self, work: &Work<'_>) -> Result<Child> {
        let Work { name, options, corpus } = work;
        let (artifacts, own) = (artifacts(name), self.scratch.join("seeds").join(name));
        process::remove_folder(&own)?;
        for folder in [&artifacts, corpus, &own] {
            make(folder)?;
        }
        let mut command = self.command(name)?;
        command.args(options).arg(format!("-artifact_prefix={}/", artifacts.display()));
        command.arg(corpus).arg(&own).env(SEEDS, &own);
        let seeds = process::root().join("fuzz/seeds").join(name);
        if seeds.is_dir() {
            command.arg(&seeds);
        }
        command.stderr(File::create(artifacts.join("log.txt"))?);
        command.spawn().with_context(|| format!("cannot start the fuzz target {name}"))
    }

    fn finish(&self, name: &str, mut child: Child) -> Result<Run> {
        let used = child.wait4().with_context(|| format!("cannot wait for the fuzz target {name}"))?;
        process::remove_folder(&self.temporary(name))?;
        let path = artifacts(name).join("log.txt");
        let log = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let log = String::from_utf8_lossy(&log);
        let (executions, coverage) = statistics(&log);
        let processor = used.rusage.utime + used.rusage.stime;
        let mut run = Run { processor, executions, coverage, finding: None };
        let is_fine = used.status.success() || used.status.code() == Some(INTERRUPTED);
        if !is_fine {
            let Some(file) = failing_input(&log) else {
                eprintln!("{}", tail(&log));
                bail!(
                    "the fuzz target {name} failed without an input ({}); see {}",
                    used.status,
                    path.display()
                );
            };
            if is_late(&file) && self.accepts(name, &file, false)? {
                fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
            } else {
                eprintln!("{}", tail(&log));
                run.finding = Some(file);
            }
        } else if executions == 0 && used.status.code() != Some(INTERRUPTED) {
            bail!("the fuzz target {name} printed no statistics; see {}", path.display());
        }
        Ok(run)
    }

    /// Returns whether a target does not fail with the input in a file. With `is_shown`, its output is shown.
    ///
    /// libFuzzer limits the elapsed time, which is long on a busy machine. This limits the processor time.
    pub fn accepts(&self, name: &str, input: &Path, is_shown: bool) -> Result<bool> {
        let mut command = self.command(name)?;
        let artifacts = artifacts(name);
        make(&artifacts)?;
        // libFuzzer uses the last one of equal options.
        command.arg(format!("-timeout={}", 60 * INPUT_SECONDS));
        command.arg(format!("-artifact_prefix={}/", artifacts.display())).arg(input);
        command.stderr(if is_shown { Stdio::inherit() } else { Stdio::null() });
        let mut child = command.spawn().with_context(|| format!("cannot start the fuzz target {name}"))?;
        let used = child.wait4().with_context(|| format!("cannot wait for the fuzz target {name}"))?;
        process::remove_folder(&self.temporary(name))?;
        let took = used.rusage.utime + used.rusage.stime;
        Ok(used.status.success() && took < Duration::from_secs(INPUT_SECONDS))
    }

    /// Repeats the inputs that failed in earlier runs. Moves those that do not fail any more into the corpus, and
    /// returns the others.
    pub fn check_findings(&self, name: &str, corpus: &Path) -> Result<Vec<PathBuf>> {
        let artifacts = artifacts(name);
        for folder in [&artifacts, corpus] {
            make(folder)?;
        }
        let mut open = Vec::new();
        for file in files(&artifacts)?.into_iter().filter(|file| is_failure(file)) {
            if self.accepts(name, &file, false)? {
                let to = corpus.join(file.file_name().unwrap_or_default());
                fs::rename(&file, &to).with_context(|| format!("cannot move {}", file.display()))?;
            } else {
                open.push(file);
            }
        }
        Ok(open)
    }

    /// Removes inputs that cover nothing more than others. Without a success, the corpus remains as it is.
    pub fn minimise(&self, name: &str, corpus: &Path) -> Result<()> {
        let smaller = corpus.with_extension("smaller");
        process::remove_folder(&smaller)?;
        make(&smaller)?;
        let mut command = self.command(name)?;
        command.arg("-merge=1").arg(&smaller).arg(corpus).stderr(Stdio::null());
        let status = command.status().with_context(|| format!("cannot start the fuzz target {name}"))?;
        process::remove_folder(&self.temporary(name))?;
        if !status.success() || files(&smaller)?.is_empty() {
            println!("The inputs of the fuzz target {name} were not minimised: {status}");
            return process::remove_folder(&smaller);
        }
        process::remove_folder(corpus)?;
        fs::rename(&smaller, corpus).with_context(|| format!("cannot move {}", smaller.display()))
    }
}

fn make(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

fn host() -> Result<String> {
    let text = process::output(Command::new("rustc").arg("-vV"))?;
    text.lines()
        .find_map(|line| line.strip_prefix("host: ").map(str::to_owned))
        .context("`rustc -vV` names no host")
}

/// Returns the folder with a fuzz target's log and failing inputs.
fn artifacts(name: &str) -> PathBuf {
    process::root().join("fuzz/artifacts").join(name)
}

fn is_late(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("timeout-"))
}

fn is_failure(file: &Path) -> bool {
    file.file_name()
        .is_some_and(|name| FAILURES.iter().any(|start| name.to_string_lossy().starts_with(start)))
}

/// Returns the number of executed inputs and of covered edges in libFuzzer's log.
fn statistics(log: &str) -> (u64, u64) {
    let number = |text: &str| text.split_whitespace().next().and_then(|word| word.parse().ok());
    let executed = log.lines().find_map(|line| number(line.strip_prefix("stat::number_of_executed_units:")?));
    let covered = log.lines().rev().find_map(|line| number(line.strip_prefix('#')?.split_once(" cov: ")?.1));
    (executed.unwrap_or(0), covered.unwrap_or(0))
}

/// Returns the path of the failing input in libFuzzer's log.
fn failing_input(log: &str) -> Option<PathBuf> {
    let written = |line: &str| Some(PathBuf::from(line.split_once("Test unit written to ")?.1.trim()));
    log.lines().rev().filter_map(written).find(|file| is_failure(file))
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_libfuzzer_is_understood() {
        let log = "INFO: Seed: 1\n#2\tINITED cov: 20 ft: 21 corp: 1/1b exec/s: 0 rss: 30Mb\n\
            #90\tNEW    cov: 31 ft: 40 corp: 2/3b lim: 4 exec/s: 0 rss: 30Mb L: 2/2 MS: 1 ChangeBit-\n\
            artifact_prefix='/a/'; Test unit written to /a/slow-unit-1\n\
            artifact_prefix='/a/'; Test unit written to /a/crash-2\nBase64: AA==\n\
            stat::number_of_executed_units: 107\nstat::average_exec_per_sec: 0\n";
        assert_eq!(statistics(log), (107, 31));
        assert_eq!(failing_input(log), Some(PathBuf::from("/a/crash-2")));
        assert_eq!((statistics("Killed"), failing_input("Killed")), ((0, 0), None));
    }
}
