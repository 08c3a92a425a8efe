//! `cargo xtask bench`: compares turning a block trace into the HTML report with Debian's blktrace package, in one run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use xtask::results::{Cell, StudyResult};

use crate::process::Usage;
use crate::{process, tools};

/// Requests in the trace and runs, unless the command line says otherwise.
const IOS: u64 = 5_000_000;
const RUNS: usize = 3;

/// `[--ios N] [--runs N]`.
pub fn run(arguments: &[String]) -> Result<()> {
    let (mut ios, mut runs) = (IOS, RUNS);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let number = words.next().and_then(|text| text.parse::<u64>().ok());
        match (word.as_str(), number) {
            ("--ios", Some(number)) => ios = number,
            ("--runs", Some(number)) => runs = usize::try_from(number).unwrap_or(1).max(1),
            _ => bail!("the options are --ios N and --runs N, each with a whole number"),
        }
    }
    tools::ensure(&[tools::BUILD, tools::BENCH])?;
    let fonio = process::build_fonio()?;
    let dir = process::scratch("bench")?;
    let prefix = dir.join(format!("generated-{ios}"));
    if !with_suffix(&prefix, ".blktrace.0").exists() {
        println!("Generating {ios} requests …");
        crate::gen_trace::run(&["--out".into(), path_text(&prefix)?, "--ios".into(), ios.to_string()])?;
    }
    let merged = dir.join("merged.bin");
    let rows: Vec<(&str, Command)> = vec![
        ("blkparse -i X -d X.bin -O", {
            let mut command = Command::new("blkparse");
            command.arg("-i").arg(&prefix).arg("-d").arg(&merged).arg("-O");
            command
        }),
        ("btt -i X.bin", {
            let mut command = Command::new("btt");
            // It writes files with names of its own into the current directory.
            command.arg("-i").arg(&merged).current_dir(&dir);
            command
        }),
        ("fonio report X --html", {
            let mut command = Command::new(&fonio);
            command.arg("report").arg(&prefix).arg("--html").arg(dir.join("report.html"));
            command
        }),
        // The other programs use one processor. Two threads that share a core do less each, so the processor
        // time of a report grows.
        ("the same on one processor", {
            let mut command = Command::new("taskset");
            command.args(["--cpu-list", "0"]).arg(&fonio);
            command.arg("report").arg(&prefix).arg("--html").arg(dir.join("report.html"));
            command
        }),
    ];
    println!("Medians of {runs} interleaved runs; CPU is user and system time.\n");
    let command = format!("cargo xtask bench --ios {ios} --runs {runs}");
    let columns = ["", "CPU", "elapsed", "peak memory"];
    let title = "the cost of a report on a block trace";
    let mut result = StudyResult::begin("bench-report", title, &command, &columns)?;
    result.rounds = Some(runs as u64);
    let mut measured = vec![Vec::new(); rows.len()];
    let mut rows = rows;
    for _ in 0..runs {
        for (row, results) in rows.iter_mut().zip(&mut measured) {
            results.push(process::measure(&mut row.1)?);
        }
    }
    let mut cpu = Vec::new();
    for ((name, _), mut results) in rows.into_iter().zip(measured) {
        let cell = |figure: fn(&Usage) -> f64, unit: &str, decimals| {
            Cell::rounds(results.iter().map(figure), unit, decimals)
        };
        let cells = vec![
            cell(|usage| usage.cpu.as_secs_f64(), "s", 2),
            cell(|usage| usage.wall.as_secs_f64(), "s", 2),
            cell(|usage| usage.peak_bytes as f64 / f64::from(1 << 20), "MiB", 0),
        ];
        result.row(format!("`{name}`"), cells);
        results.sort_by_key(|usage| usage.cpu);
        cpu.push(results[results.len() / 2].cpu.as_secs_f64());
    }
    result.keep(ios >= IOS && runs >= RUNS)?;
    if let [blkparse, btt, fonio, alone] = cpu[..] {
        println!(
            "\nfonio takes {:.1} times less CPU than blkparse and btt together, {:.1} times less on one processor.",
            (blkparse + btt) / fonio,
            (blkparse + btt) / alone
        );
    }
    std::fs::remove_file(&merged).with_context(|| format!("cannot remove {}", merged.display()))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn path_text(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).with_context(|| format!("{} is not valid UTF-8", path.display()))
}
