//! `cargo xtask bench probes`: compares the cost of recording by two builds of fonio. This shows what new BPF
//! programs cost.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;
use fonio_core::statistics::welch::Interval;
use xtask::results::{Cell, StudyResult};

use super::kernel::{LoopDevice, Statistics};
use super::recorded_job::{Job, Run, Tool, ratio};
use crate::{process, tools};

/// The number of rounds and the number of requests in each run of a complete measurement.
const ROUNDS: u64 = 30;
const REQUESTS: u64 = 20_000;
/// The pause between two requests of the job, in microseconds. With it, the job makes about 10,000 requests per
/// second.
const PAUSE_US: u32 = 30;
/// The run time may become longer by this share while fonio records.
const MORE_MAX: f64 = 0.015;

/// The options of `cargo xtask bench probes`.
#[derive(Args)]
pub struct Arguments {
    /// The program `fonio` of the other build, such as a release build of an earlier commit.
    #[arg(value_name = "FONIO")]
    other: PathBuf,
    /// Number of times to run the job with each build and without recording.
    #[arg(long, value_name = "N", default_value_t = ROUNDS, value_parser = clap::value_parser!(u64).range(2..))]
    rounds: u64,
    /// Requests of each run.
    #[arg(long, value_name = "N", default_value_t = REQUESTS)]
    requests: u64,
}

/// Runs the job without recording and with the recorder of each build, in turn.
pub fn run(Arguments { other, rounds, requests }: &Arguments) -> Result<()> {
    ensure!(other.is_file(), "{} is not a program", other.display());
    ensure!(process::is_root(), "only root can record");
    tools::ensure(&[tools::BUILD, tools::BENCH])?;
    process::outlive_signals()?;
    let fonio = process::build_fonio()?;
    let dir = process::scratch("bench")?;
    let device = LoopDevice::over(&dir)?;
    let options = [format!("--thinktime={PAUSE_US}us")];
    let job = Job { device: &device, dir: &dir, requests: *requests, options: &options, groups: &[] };
    let kinds: [(&str, Option<Tool<'_>>); 3] = [
        ("without recording", None),
        ("other build", Some(Tool::Fonio(other))),
        ("this build", Some(Tool::Fonio(&fonio))),
    ];
    // The first run fills the file of the device.
    job.run(None)?;
    let mut runs = vec![Vec::new(); kinds.len()];
    for round in 0..*rounds as usize {
        // The order rotates, so that a drift of the machine does not look like a difference.
        for at in 0..kinds.len() {
            let kind = (round + at) % kinds.len();
            runs[kind].push(job.run(kinds[kind].1)?);
            process::check_signals()?;
        }
        eprintln!("round {} of {rounds} is done", round + 1);
    }
    // Measuring the BPF programs makes them slower, so it has its own runs.
    let statistics = Statistics::enable()?;
    let in_bpf: Vec<Run> = kinds.iter().map(|(_, tool)| job.run(*tool)).collect::<Result<_>>()?;
    drop(statistics);

    let columns = [
        "",
        "requests a second",
        "run time",
        "longer by",
        "interval",
        "recorder, of one processor",
        "BPF runs per request",
        "BPF time per request",
    ];
    let command = format!("cargo xtask bench probes FONIO --rounds {rounds} --requests {requests}");
    let title = "the cost of recording by this build and by another build";
    let mut result = StudyResult::begin("bench-probes", title, &command, &columns)?;
    result.rounds = Some(*rounds);
    let mut verdicts = Vec::new();
    let percent = |value: f64| (value - 1.0) * 100.0;
    let longer = |more: Interval| {
        let interval = format!("{:.2} % to {:.2} %", percent(more.low), percent(more.high));
        [Cell::once(percent(more.value), "%", 2), interval.into()]
    };
    for (((name, fonio), runs_of), in_bpf) in kinds.iter().zip(&runs).zip(&in_bpf) {
        let more = fonio.map(|_| ratio(&runs[0], runs_of, |run| run.seconds)).transpose()?;
        let per_request = |value: u64| Some(value as f64 / *requests as f64).filter(|_| fonio.is_some());
        let [more_by, interval] = more.map_or([Cell::once(None, "%", 2), "–".into()], longer);
        result.row(
            *name,
            vec![
                Cell::rounds(runs_of.iter().map(|run| *requests as f64 / run.seconds), "", 0),
                Cell::rounds(runs_of.iter().map(|run| run.seconds), "s", 3),
                more_by,
                interval,
                Cell::rounds(
                    runs_of.iter().map(|run| fonio.map(|_| run.recorder_s / run.seconds * 100.0)),
                    "%",
                    2,
                ),
                Cell::once(per_request(in_bpf.bpf_runs), "", 2),
                Cell::once(per_request(in_bpf.bpf_ns), "ns", 0),
            ],
        );
        verdicts.extend(more.map(|more| format!("{name} against no recording: {}", verdict(more))));
    }
    // The rows above compare with runs without a recording; this row compares the builds.
    let more = ratio(&runs[1], &runs[2], |run| run.seconds)?;
    let none = || Cell::from("–");
    let [more_by, interval] = longer(more);
    result
        .row("this build against the other", vec![none(), none(), more_by, interval, none(), none(), none()]);
    verdicts.push(format!("this build against the other: {}", verdict(more)));
    println!("\nThe job's run time: {}.", verdicts.join("; "));
    result.keep(*rounds >= ROUNDS && *requests >= REQUESTS)?;
    Ok(())
}

/// Returns the verdict about a ratio of run times.
fn verdict(more: Interval) -> &'static str {
    match MORE_MAX {
        max if more.high <= 1.0 + max => "at most 1.5 % longer",
        max if more.low > 1.0 + max => "more than 1.5 % longer",
        _ => "not resolved, because the interval contains 1.5 %",
    }
}
