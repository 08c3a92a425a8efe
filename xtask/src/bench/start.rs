//! `cargo xtask bench start`: measures how long short commands take, and the sizes of the programs.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use xtask::results::{Cell, StudyResult};

use super::slow::{SLOW, Slow, confined, parse_share};
use crate::{gen_trace, process, tools};

pub const ID: &str = "bench-start";
/// Number of rounds in a complete measurement.
const ROUNDS: u64 = 5;
/// Number of requests in the small recording.
const IOS: u64 = 1000;

/// The options of `cargo xtask bench start`.
#[derive(Args)]
pub struct Arguments {
    /// Number of times to run each command.
    #[arg(long, value_name = "N", default_value_t = ROUNDS, value_parser = clap::value_parser!(u64).range(1..))]
    pub rounds: u64,
    /// The share of a processor that is as fast as a Raspberry Pi Zero. Without this option, fonio measures it, which fails
    /// if other programs or other machines on the same host use the processors.
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub share: Option<f64>,
}

/// Runs each command once in each round.
pub fn run(&Arguments { rounds, share }: &Arguments) -> Result<StudyResult> {
    tools::ensure(&[tools::BUILD])?;
    let fonio = process::build_fonio()?;
    process::run(process::cargo().args([
        "build",
        "--profile",
        "small",
        "--workspace",
        "--bin",
        "fonio-recorder",
    ]))?;
    let recorder = process::target().join("small/fonio-recorder");
    let recording = process::scratch("bench")?.join("small");
    process::remove_folder(&recording)?;
    let trace = gen_trace::for_benchmarks(IOS)?;
    process::run(Command::new(&fonio).args(["import", "--output"]).arg(&recording).arg(&trace))?;
    let words = |words: &[&str]| words.iter().map(PathBuf::from).collect::<Vec<PathBuf>>();
    let mut report = words(&["report"]);
    report.push(recording);
    let commands = [
        ("`fonio --version`", words(&["--version"])),
        ("`fonio device list`", words(&["device", "list"])),
        ("`fonio report` of a recording with 1,000 requests", report),
        ("`fonio`, which samples for a second", words(&[])),
    ];
    let given = share.map(|share| format!(" --share {share}")).unwrap_or_default();
    let command = format!("cargo xtask bench start --rounds {rounds}{given}");
    let columns = ["", "elapsed", "CPU", "peak memory", "size"];
    let title = "the time that short commands take, and the sizes of the programs";
    let mut result = StudyResult::begin(ID, title, &command, &columns)?;
    result.rounds = Some(rounds);
    let slow = if process::is_root() {
        Slow::make(share, &fonio, &process::scratch("bench")?)
    } else {
        Err(anyhow!("only root can limit the share of a processor"))
    };
    let slow = slow
        .inspect_err(|error| result.remark = format!("Not measured on a slow processor: {error:#}."))
        .ok();
    let mut rows: Vec<(String, &[PathBuf], &[PathBuf])> =
        commands.iter().map(|(name, words)| ((*name).to_owned(), words.as_slice(), &[][..])).collect();
    if let Some(slow) = &slow {
        rows.extend(commands.iter().map(|(name, words)| {
            (format!("{name}, on {:.2} of a processor", slow.share), words.as_slice(), slow.groups())
        }));
        let origin = if share.is_some() { "as given" } else { "as `fonio run --cpu` measures" };
        result.remark = format!(
            "{:.2} of a processor of this machine is as fast as the processor of a {SLOW} ({origin}).",
            slow.share
        );
    }
    let mut measured = vec![Vec::new(); rows.len()];
    for _ in 0..rounds {
        for ((_, words, groups), results) in rows.iter().zip(&mut measured) {
            results.push(process::measure(confined(&fonio, groups).args(*words))?);
        }
    }
    for ((name, ..), results) in rows.iter().zip(&measured) {
        let cells = vec![
            Cell::rounds(results.iter().map(|usage| 1e3 * usage.wall.as_secs_f64()), "ms", 1),
            Cell::rounds(results.iter().map(|usage| 1e3 * usage.cpu.as_secs_f64()), "ms", 1),
            Cell::rounds(results.iter().map(|usage| usage.peak_bytes as f64 / f64::from(1 << 20)), "MiB", 0),
            "".into(),
        ];
        result.row(name.as_str(), cells);
    }
    for (name, path) in
        [("the program `fonio`, stripped", fonio), ("`fonio-recorder` for phones, stripped", recorder)]
    {
        let stripped = process::scratch("bench")?.join("stripped");
        process::run(Command::new("strip").arg("-o").arg(&stripped).arg(&path))?;
        let bytes =
            fs::metadata(&stripped).with_context(|| format!("cannot find {}", stripped.display()))?.len();
        fs::remove_file(&stripped)?;
        let size = Cell::once(bytes as f64 / 1e6, "MB", 1);
        result.row(name, vec!["".into(), "".into(), "".into(), size]);
    }
    result.keep(rounds >= ROUNDS)?;
    Ok(result)
}
