//! Measures the speed of the simulator in Python, and keeps the result.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;
use xtask::process;
use xtask::results::{Cell, StudyResult};

/// The output of `python -m fonio.speed --json`.
#[derive(Deserialize)]
struct Speed {
    rounds: u64,
    requests: u64,
    loops: Vec<Loops>,
    tables: Vec<Tables>,
    sweep: Sweep,
}

#[derive(Deserialize)]
struct Loops {
    profile: String,
    scheduler: String,
    rates: Vec<f64>,
}

#[derive(Deserialize)]
struct Tables {
    profile: String,
    source: String,
    rates: Vec<f64>,
}

#[derive(Deserialize)]
struct Sweep {
    runs: u64,
    serial: Vec<f64>,
    two_threads: Vec<f64>,
}

/// Measures the speed of the installed package.
pub(super) fn measure(python: &Path) -> Result<()> {
    let text = process::output(Command::new(python).args(["-m", "fonio.speed", "--json"]))?;
    let speed: Speed = serde_json::from_str(&text).context("the output of fonio.speed is not its JSON")?;
    let title = "the speed of the simulator in Python";
    let mut result = StudyResult::begin("python-speed", title, "cargo xtask python --speed", &["", "speed"])?;
    result.rounds = Some(speed.rounds);
    let millions = |rates: &[f64]| {
        vec![
            Cell::rounds(rates.iter().map(|rate| rate / 1e6), "million requests a second and core", 2)
                .with_range(),
        ]
    };
    for Loops { profile, scheduler, rates } in &speed.loops {
        result.row(format!("processes on `{profile}` under {scheduler}"), millions(rates));
    }
    for Tables { profile, source, rates } in &speed.tables {
        result.row(format!("a table of {source} on `{profile}` under noop"), millions(rates));
    }
    let Sweep { runs, serial, two_threads } = speed.sweep;
    let percent = serial.iter().map(|share| share * 100.0);
    result.row(
        format!("serial share of the processor time of a sweep of {runs} runs"),
        vec![Cell::rounds(percent, "%", 2).with_range()],
    );
    result.row(
        "elapsed time of the sweep with 2 threads, relative to 1 thread",
        vec![Cell::rounds(two_threads, "", 2).with_range()],
    );
    result.remark = format!("Each run has {} requests.", speed.requests);
    result.keep(true)?;
    Ok(())
}
