//! `cargo xtask bench instructions`: counts the instructions that small jobs execute in user space, and compares
//! them with the counts of the repository. `cargo xtask test` runs this as a check.
//!
//! Unlike times, counts are the same on a busy machine. They depend on the compiler and its options, so the jobs
//! are compiled as in a release, and the file of counts names the compiler. With another compiler, nothing is
//! compared: a developer with a new compiler counts again with `--keep`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use xtask::results::{Cell, StudyResult};

use super::jobs::{self, Format, TRACES};
use crate::{process, tools};

pub const ID: &str = "bench-instructions";
/// The title of the column that `bench --against` compares.
pub const INSTRUCTIONS: &str = "instructions";

/// Size of the trace of each job. A job then takes a second or two under callgrind.
const INPUT_BYTES: u64 = 4_000_000;
/// The part by which a count may grow without a reason. Between machines with the same compiler, counts differ by
/// the C library and by the processor for which it chooses its functions.
const MORE_MAX: f64 = 0.05;

/// The options of `cargo xtask bench instructions`.
#[derive(Args)]
pub struct Arguments {
    /// Write the counts to xtask/instructions.json, with which later counts are compared.
    #[arg(long)]
    keep: bool,
}

/// The counts in the repository.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    /// The compiler's version and the architecture.
    compiler: String,
    /// The number of instructions of each job.
    instructions: BTreeMap<String, u64>,
}

/// A line of the file with allowed growth: the job, the allowed growth in percent, and the reason.
#[derive(Debug, PartialEq)]
struct Allowed {
    job: String,
    percent: f64,
    reason: String,
}

fn kept_file() -> PathBuf {
    process::root().join("xtask/instructions.json")
}

fn allowed_file() -> PathBuf {
    process::root().join("xtask/instructions-allowed.txt")
}

/// Counts, prints, and compares with the counts of the repository, or replaces them.
pub fn run(arguments: &Arguments) -> Result<()> {
    let (counts, _) = measure()?;
    if !arguments.keep {
        return compare_with_kept(&counts);
    }
    let kept = Kept { compiler: compiler()?, instructions: counts };
    let path = kept_file();
    fs::write(&path, serde_json::to_string_pretty(&kept)? + "\n")
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!(
        "\nThe counts are in {}. Remove lines from {} that are no longer needed.",
        path.display(),
        allowed_file().display()
    );
    Ok(())
}

/// Counts the instructions of each job, and fails if a job executes more than is allowed.
pub fn check() -> Result<()> {
    compare_with_kept(&measure()?.0)
}

/// Counts the instructions of each job.
pub fn measure() -> Result<(BTreeMap<String, u64>, StudyResult)> {
    tools::ensure(&[tools::BUILD, tools::COUNT])?;
    let program = jobs::build()?;
    let command = "cargo xtask bench instructions";
    let title = "instructions of small jobs in user space";
    let mut result = StudyResult::begin(ID, title, command, &["job", INSTRUCTIONS, "for each byte"])?;
    let mut counts = BTreeMap::new();
    let reads = TRACES.map(|format| ("read", format));
    for (step, format) in reads.into_iter().chain([("report", Format::Blktrace)]) {
        let files = format.input(INPUT_BYTES)?;
        let bytes = files.iter().map(|path| Ok(fs::metadata(path)?.len())).sum::<Result<u64>>()?;
        let count = count(&program, step, &files)?;
        let name = format!("{step} {}", format.name());
        let cells = vec![Cell::once(count as f64, "", 0), Cell::once(count as f64 / bytes as f64, "", 1)];
        result.row(&name, cells);
        counts.insert(name, count);
    }
    result.remark = format!("Counted by callgrind; compiled by {} as in a release.", compiler()?);
    result.keep(false)?;
    Ok((counts, result))
}

/// Returns the number of instructions that a job executes.
fn count(program: &Path, step: &str, files: &[PathBuf]) -> Result<u64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program).arg(step).args(files);
    let output = command.output().context("cannot start valgrind")?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed: {}\n{text}", process::shown(&command), output.status);
    collected(&text).with_context(|| format!("valgrind printed no count:\n{text}"))
}

/// Returns the count in callgrind's line `==1== Collected : 123`.
fn collected(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())
}

fn compiler() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = process::output(Command::new(rustc).arg("--version").current_dir(process::root()))?;
    Ok(format!("{version}, {}", std::env::consts::ARCH))
}

fn compare_with_kept(counts: &BTreeMap<String, u64>) -> Result<()> {
    let path = kept_file();
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let kept: Kept = serde_json::from_str(&text).with_context(|| {
        format!("{} has no counts; write it with `cargo xtask bench instructions --keep`", path.display())
    })?;
    let compiler = compiler()?;
    if kept.compiler != compiler {
        println!(
            "Instructions were not compared: the counts in {} are of {}, and this compiler is {compiler}.",
            path.display(),
            kept.compiler
        );
        return Ok(());
    }
    let path = allowed_file();
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let allowed = parse_allowed(&text).with_context(|| format!("{} cannot be read", path.display()))?;
    let more = more_than_allowed(&kept.instructions, counts, &allowed);
    if more.is_empty() {
        println!("\nNo job executes more instructions than allowed.");
        return Ok(());
    }
    bail!(
        "{}\nMake the jobs cheaper, or add a line to {} with the job, the growth in percent and the reason.",
        more.join("\n"),
        path.display()
    )
}

/// Reads lines such as `read ftrace: 12 %: the reader also checks the processor`. Lines that begin with `#` are
/// comments.
fn parse_allowed(text: &str) -> Result<Vec<Allowed>> {
    let lines =
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let parse = |(number, line): (usize, &str)| {
        let mut parts = line.splitn(3, ':').map(str::trim);
        let (job, percent, reason) = (parts.next(), parts.next(), parts.next());
        let percent = percent.and_then(|text| text.strip_suffix('%')?.trim().parse().ok());
        match (job, percent, reason) {
            (Some(job), Some(percent), Some(reason)) if !reason.is_empty() => {
                Ok(Allowed { job: job.to_owned(), percent, reason: reason.to_owned() })
            }
            _ => bail!("line {}: write `JOB: PERCENT %: REASON`, not `{line}`", number + 1),
        }
    };
    lines.map(parse).collect()
}

/// Returns a sentence for each job whose count grew more than is allowed, or that is missing.
fn more_than_allowed(
    before: &BTreeMap<String, u64>,
    now: &BTreeMap<String, u64>,
    allowed: &[Allowed],
) -> Vec<String> {
    let mut sentences = Vec::new();
    for (job, before) in before {
        let Some(now) = now.get(job) else {
            sentences.push(format!("`{job}` is not counted any more; count again with --keep."));
            continue;
        };
        let line = allowed.iter().find(|allowed| allowed.job == *job);
        let limit = line.map_or(MORE_MAX, |allowed| allowed.percent / 100.0);
        if *now as f64 > *before as f64 * (1.0 + limit) {
            let more = *now as f64 / *before as f64 - 1.0;
            sentences.push(format!(
                "`{job}` executes {:.1} % more instructions ({now}, before {before}); {:.0} % are allowed.",
                100.0 * more,
                100.0 * limit
            ));
        }
    }
    let new = now.keys().filter(|job| !before.contains_key(*job));
    sentences
        .extend(new.map(|job| format!("`{job}` has no count in the repository; count again with --keep.")));
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(all: &[(&str, u64)]) -> BTreeMap<String, u64> {
        all.iter().map(|(job, count)| ((*job).to_owned(), *count)).collect()
    }

    #[test]
    fn growth_needs_a_reason() {
        let before = counts(&[("read a", 1000), ("read b", 1000), ("report a", 1000)]);
        let now = counts(&[("read a", 1050), ("read b", 1051), ("report a", 1100)]);
        let allowed =
            parse_allowed("# a comment\n\nreport a: 10 %: it has another question\n").expect("it is valid");
        let expected = ["`read b` executes 5.1 % more instructions (1051, before 1000); 5 % are allowed."];
        assert_eq!(more_than_allowed(&before, &now, &allowed), expected);
        assert_eq!(more_than_allowed(&before, &now, &[]).len(), 2);
        assert_eq!(more_than_allowed(&now, &before, &[]), [""; 0]);
        assert_eq!(more_than_allowed(&before, &counts(&[("new", 1)]), &[]).len(), 4);
    }

    #[test]
    fn a_line_without_a_reason_is_refused() {
        for line in ["read a", "read a: 10 %", "read a: 10 %:", "read a: ten %: why", "read a: 10: why"] {
            let error = parse_allowed(line).expect_err("it has no reason").to_string();
            assert!(error.starts_with("line 1: write `JOB: PERCENT %: REASON`"), "{error}");
        }
    }

    #[test]
    fn the_files_of_the_repository_can_be_read() {
        let kept = fs::read_to_string(kept_file()).expect("it is there");
        let kept: Kept = serde_json::from_str(&kept).expect("it has counts");
        assert!(!kept.instructions.is_empty());
        let allowed = fs::read_to_string(allowed_file()).expect("it is there");
        for Allowed { job, .. } in parse_allowed(&allowed).expect("it is valid") {
            assert!(kept.instructions.contains_key(&job), "`{job}` is not a job");
        }
    }

    #[test]
    fn the_count_of_callgrind() {
        let text =
            "==7== Events    : Ir\n==7== Collected : 550605557\n==7== \n==7== I   refs:      550,605,557\n";
        assert_eq!(collected(text), Some(550_605_557));
        assert_eq!(collected("==7== \n"), None);
    }
}
