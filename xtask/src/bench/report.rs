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
const RUNS: usize = 5;

pub const ID: &str = "bench-report";
/// The title of the column with ratios of processor times, which `bench --against` compares.
pub const FASTER: &str = "blkparse and btt take";

/// The options of `cargo xtask bench` without a name.
#[derive(Args)]
#[group(skip)]
pub struct Arguments {
    /// Requests in the trace; each has five records.
    #[arg(long, value_name = "N", default_value_t = IOS)]
    pub ios: u64,
    /// Runs of each program.
    #[arg(long, value_name = "N", default_value_t = RUNS)]
    pub runs: usize,
}

/// Measures the times that fonio's report and the programs of blktrace take.
pub fn run(&Arguments { ios, runs }: &Arguments) -> Result<StudyResult> {
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
    let columns = ["", "CPU", "elapsed", "peak memory", FASTER];
    let title = "the cost of a report on a block trace";
    let mut result = StudyResult::begin(ID, title, &command, &columns)?;
    result.rounds = Some(runs as u64);
    let mut measured = vec![Vec::new(); rows.len()];
    for _ in 0..runs {
        for (row, results) in rows.iter_mut().zip(&mut measured) {
            results.push(process::measure(&mut row.1)?);
        }
    }
    let of_others: Vec<f64> = measured[0]
        .iter()
        .zip(&measured[1])
        .map(|(blkparse, btt)| (blkparse.cpu + btt.cpu).as_secs_f64())
        .collect();
    for (at, ((name, _), results)) in rows.iter().zip(&measured).enumerate() {
        let cell = |figure: fn(&Usage) -> f64, unit: &str, decimals| {
            Cell::rounds(results.iter().map(figure), unit, decimals)
        };
        let ratios = of_others.iter().zip(results).map(|(others, usage)| others / usage.cpu.as_secs_f64());
        let cells = vec![
            cell(|usage| usage.cpu.as_secs_f64(), "s", 2),
            cell(|usage| usage.wall.as_secs_f64(), "s", 2),
            cell(|usage| usage.peak_bytes as f64 / f64::from(1 << 20), "MiB", 0),
            // Other programs are not compared with themselves.
            if at < OTHERS { "".into() } else { Cell::rounds(ratios, "times the CPU", 1) },
        ];
        result.row(format!("`{name}`"), cells);
    }
    result.remark = serial_share(&measured[OTHERS], &measured[OTHERS + 1]);
    println!("\n{}", result.remark);
    result.keep(ios >= IOS && runs >= RUNS)?;
    std::fs::remove_file(&merged).with_context(|| format!("cannot remove {}", merged.display()))?;
    Ok(result)
}

/// Number of programs of the blktrace package; their rows come first.
const OTHERS: usize = 2;

/// Says how much of the report runs on one processor at a time.
fn serial_share(together: &[Usage], alone: &[Usage]) -> String {
    let median = |all: &[Usage]| {
        let mut walls: Vec<f64> = all.iter().map(|usage| usage.wall.as_secs_f64()).collect();
        walls.sort_by(f64::total_cmp);
        walls[walls.len() / 2]
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let ratio = median(together) / median(alone);
    if processors < 2 {
        return "This machine has one processor, so the gain from a second one was not measured.".to_owned();
    }
    // The report has two threads, so more processors do not help: Amdahl's law for two of them.
    format!(
        "With {processors} processors, the report takes {ratio:.2} of the time with one, so {:.0} % of it runs on one processor at a \
         time. The report has two threads; more processors than {processors} were not measured.",
        100.0 * (2.0 * ratio - 1.0).clamp(0.0, 1.0)
    )
}
