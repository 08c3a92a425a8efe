//! `cargo xtask bench`: compares fonio with Debian's blktrace package: the time to turn a block trace into a
//! report.

use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;
use xtask::results::{Cell, StudyResult};

use crate::process::Usage;
use crate::{gen_trace, process, tools};

/// The number of requests in the trace and the number of runs in a complete measurement.
const IOS: u64 = 5_000_000;
const RUNS: usize = 3;

/// The options of `cargo xtask bench` without a name.
#[derive(Args)]
#[group(skip)]
pub struct Arguments {
    /// Requests in the trace; each has five records.
    #[arg(long, value_name = "N", default_value_t = IOS)]
    ios: u64,
    /// Runs of each program.
    #[arg(long, value_name = "N", default_value_t = RUNS)]
    runs: usize,
}

/// Measures the times that fonio's report and the programs of blktrace take.
pub fn run(&Arguments { ios, runs }: &Arguments) -> Result<()> {
    tools::ensure(&[tools::BUILD, tools::BENCH])?;
    let fonio = process::build_fonio()?;
    let dir = process::scratch("bench")?;
    let prefix = gen_trace::for_benchmarks(ios)?;
    let merged = dir.join("merged.bin");
    let mut rows: Vec<(&str, Command)> = vec![
        ("blkparse -i X -d X.bin -O", {
            let mut command = Command::new("blkparse");
            command.arg("-i").arg(&prefix).arg("-d").arg(&merged).arg("-O");
            command
        }),
        ("btt -i X.bin", {
            let mut command = Command::new("btt");
            // btt writes files with fixed names into the current directory.
            command.arg("-i").arg(&merged).current_dir(&dir);
            command
        }),
        ("fonio report X --html", {
            let mut command = Command::new(&fonio);
            command.arg("report").arg(&prefix).arg("--html").arg(dir.join("report.html"));
            command
        }),
        // The programs of blktrace use one processor. fonio's report uses several. If two of its threads
        // share a core, each of them runs slower, which increases the processor time of the report.
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
            "\nblkparse and btt together take {:.1} times the CPU time of fonio, and {:.1} times if fonio has one processor.",
            (blkparse + btt) / fonio,
            (blkparse + btt) / alone
        );
    }
    std::fs::remove_file(&merged).with_context(|| format!("cannot remove {}", merged.display()))
}
