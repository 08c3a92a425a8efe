//! The jobs that benchmarks of readers and of the analysis run: the example `jobs` of `fonio-analysis`, with the
//! optimisation of a release, and traces of the wanted size.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use xtask::text_trace::later;

use crate::{gen_trace, process};

/// Size of a request in a generated block trace, in bytes: six records.
const REQUEST_BYTES: u64 = 275;
/// Time between the repetitions of a sample in seconds: longer than each sample.
const PERIOD_S: u64 = 100;

/// A trace format of which inputs can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// blktrace's binary format: a generated trace, one file for each of two processors.
    Blktrace,
    /// A text, of which this sample of the repository is repeated with later times.
    Text { name: &'static str, sample: &'static str },
    /// A table with one line per request, exported from a generated block trace.
    Csv,
    /// A recording of fonio, imported from a generated block trace.
    Recording,
}

/// The formats of other tools of which inputs are made without a program of fonio, in the order of tables.
pub const TRACES: [Format; 5] = [
    Format::Blktrace,
    Format::Text { name: "blkparse", sample: "takeoverjp-sample.blkparse.txt" },
    Format::Text { name: "ftrace", sample: "ftrace-6.18.txt" },
    Format::Text { name: "perf-script", sample: "perf-6.1.script.txt" },
    Format::Text { name: "biosnoop", sample: "biosnoop.txt" },
];
/// The formats that the program fonio writes.
pub const OWN: [Format; 2] = [Format::Csv, Format::Recording];

/// About the size of a request in bytes: a line of fonio's CSV, and a row of the table `requests` in Parquet.
const LINE_BYTES: u64 = 90;
const ROW_BYTES: u64 = 27;

impl Format {
    /// Returns the format's name in fonio.
    pub fn name(self) -> &'static str {
        match self {
            Format::Blktrace => "blktrace",
            Format::Text { name, .. } => name,
            Format::Csv => "csv",
            Format::Recording => "recording (Parquet)",
        }
    }

    /// Returns what `wc -l` counts instead, and whose size counts: the files with the requests.
    pub fn read_by_wc(self, input: &[PathBuf]) -> Vec<PathBuf> {
        match self {
            Format::Recording => input.iter().map(|folder| folder.join("requests.parquet")).collect(),
            _ => input.to_vec(),
        }
    }

    /// Returns the files of a trace with at least this size. They are made once and kept for the next run.
    pub fn input(self, bytes: u64) -> Result<Vec<PathBuf>> {
        match self {
            Format::Blktrace => {
                let prefix = gen_trace::for_benchmarks(bytes.div_ceil(REQUEST_BYTES))?;
                Ok([0, 1].map(|cpu| PathBuf::from(format!("{}.blktrace.{cpu}", prefix.display()))).into())
            }
            Format::Text { name, sample } => {
                let path = process::scratch("bench")?.join(format!("{name}-{bytes}.txt"));
                if !path.exists() {
                    let sample = process::root().join("crates/fonio-trace/tests/data").join(sample);
                    let text =
                        fs::read(&sample).with_context(|| format!("cannot read {}", sample.display()))?;
                    let new = path.with_extension("new");
                    let file =
                        File::create(&new).with_context(|| format!("cannot make {}", new.display()))?;
                    repeat(&String::from_utf8_lossy(&text), bytes, &mut BufWriter::new(file))?;
                    fs::rename(&new, &path)?;
                }
                Ok(vec![path])
            }
            Format::Csv => made(bytes, LINE_BYTES, "csv", |fonio| {
                let mut export = Command::new(fonio);
                export.args(["export", "--format", "csv"]);
                export
            }),
            Format::Recording => made(bytes, ROW_BYTES, "recording", |fonio| {
                let mut import = Command::new(fonio);
                import.arg("import");
                import
            }),
        }
    }
}

/// Makes a file or a folder from a generated block trace with a command of fonio.
fn made(
    bytes: u64,
    request_bytes: u64,
    name: &str,
    command: impl FnOnce(&Path) -> Command,
) -> Result<Vec<PathBuf>> {
    let path = process::scratch("bench")?.join(format!("made-{bytes}.{name}"));
    if !path.exists() {
        let prefix = gen_trace::for_benchmarks(bytes.div_ceil(request_bytes))?;
        let new = path.with_extension("new");
        process::remove_folder(&new)?;
        process::run(command(&process::build_fonio()?).arg("--output").arg(&new).arg(prefix))?;
        fs::rename(&new, &path).with_context(|| format!("cannot make {}", path.display()))?;
    }
    Ok(vec![path])
}

/// Builds the program that runs jobs, and returns its path.
pub fn build() -> Result<PathBuf> {
    // With the features of the whole workspace, as in the build of fonio, so that both share their dependencies.
    process::run(process::cargo().args(["build", "--release", "--workspace", "--example", "jobs"]))?;
    Ok(process::target().join("release/examples/jobs"))
}

/// Returns the command of a job: `read` or `report`.
pub fn command(program: &Path, step: &str, files: &[PathBuf]) -> Command {
    let mut command = Command::new(program);
    command.arg(step).args(files);
    command
}

/// Writes a text again and again, each time with later times, until this size is reached. Lines without a time,
/// such as headers, are written once.
fn repeat(text: &str, bytes: u64, to: &mut impl Write) -> Result<()> {
    let (mut written, mut number) = (0, 0);
    while written < bytes {
        for line in text.lines() {
            let later = later(line, number * PERIOD_S);
            let Some(line) = later.as_deref().or((number == 0).then_some(line)) else { continue };
            writeln!(to, "{line}")?;
            written += line.len() as u64 + 1;
        }
        number += 1;
    }
    to.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_later_and_headers_come_once() {
        let text = "# header\n  dd-7 [000] 1.000500: a\n  dd-7 [000] 2.5 b\n";
        let mut out = Vec::new();
        repeat(text, 60, &mut out).expect("memory does not fail");
        let expected = "# header\n  dd-7 [000] 1.000500: a\n  dd-7 [000] 2.5 b\n  dd-7 [000] 101.000500: a\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
}
