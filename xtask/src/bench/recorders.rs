//! `cargo xtask bench recorders`: the cost of recording by fonio, perf, trace-cmd and bpftrace, with the same job.
//!
//! Each round runs the job alone and with each tool, in rotating order. One of the tools does nothing, at the tracepoints
//! that fonio uses: no recorder there can cost less. Each round also runs the job alone a second time: an interval of this
//! row that excludes 0 shows a comparison that cannot be trusted. The second part limits the job and the tool to the
//! share of a processor that is as fast as a Raspberry Pi Zero.

use anyhow::{Result, ensure};
use clap::Args;
use fonio_core::statistics::welch::Interval;
use xtask::results::{Cell, StudyResult};

use super::kernel::{LoopDevice, Statistics};
use super::recorded_job::{Job, Run, Tool, build_nothing, ratio};
use super::slow::{SLOW, Slow, parse_share};
use crate::{process, tools};

/// The number of rounds in a complete measurement.
const ROUNDS: u64 = 30;
/// Number of requests of a run without pauses.
const REQUESTS: u64 = 100_000;
/// Requests a second, and number of requests, of a run on the slow processor.
const SLOW_RATE: u64 = 1000;
const SLOW_REQUESTS: u64 = 3000;
/// One of this many rounds also runs on the slow processor, on which tools need seconds to start.
const SLOW_ROUNDS: u64 = 3;
/// Aims: the job may take this share longer; the recorder may use this share of the slow processor.
const LONGER_MAX: f64 = 0.05;
const SLOW_MAX: f64 = 0.01;

/// The options of `cargo xtask bench recorders`.
#[derive(Args)]
pub struct Arguments {
    /// Number of times to run the job with each tool and alone.
    #[arg(long, value_name = "N", default_value_t = ROUNDS, value_parser = clap::value_parser!(u64).range(2..))]
    rounds: u64,
    /// The share of a processor that is as fast as a Raspberry Pi Zero. Without this option, fonio measures it, which fails
    /// if other programs or other machines on the same host use the processors.
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    share: Option<f64>,
}

/// Runs the job alone and with each tool, in turn.
pub fn run(&Arguments { rounds, share }: &Arguments) -> Result<()> {
    ensure!(process::is_root(), "only root can record");
    tools::ensure(&[tools::BUILD, tools::BENCH, tools::RECORDERS])?;
    process::outlive_signals()?;
    let fonio = process::build_fonio()?;
    let dir = process::scratch("bench")?;
    let nothing = build_nothing(&dir)?;
    let device = LoopDevice::over(&dir)?;
    // First, because nothing else runs yet.
    let slow = Slow::make(share, &fonio, &dir);
    let mut tools = vec![
        ("alone", None),
        ("`fonio record`", Some(Tool::Fonio(&fonio))),
        ("`perf record` of requests, switches and wake-ups", Some(Tool::Perf)),
        ("`trace-cmd record` of the same events", Some(Tool::TraceCmd)),
        ("bpftrace: what biosnoop prints", Some(Tool::Biosnoop)),
        ("BPF programs that do nothing, at fonio's tracepoints", Some(Tool::Nothing(&nothing))),
        ("alone, again", None),
    ];
    let job = Job { device: &device, dir: &dir, requests: REQUESTS, options: &[], groups: &[] };
    let mut missing = String::new();
    for (name, tool) in std::mem::take(&mut tools) {
        match tool.map(|tool| job.try_tool(tool)) {
            Some(Err(error)) if tool != Some(Tool::Fonio(&fonio)) => {
                missing +=
                    &format!(" {name} is left out, because it cannot record on this machine: {error}.");
            }
            Some(Err(error)) => return Err(error),
            _ => tools.push((name, tool)),
        }
    }
    let given = share.map(|share| format!(" --share {share}")).unwrap_or_default();
    let command = format!("cargo xtask bench recorders --rounds {rounds}{given}");
    let columns = [
        "",
        "requests a second",
        "run time",
        "longer by",
        "interval",
        "a request takes",
        "tool, of one processor",
        "BPF runs per request",
        "BPF time per request",
    ];
    let title = "the cost of recording by fonio and by other tools";
    let mut result = StudyResult::begin("bench-recorders", title, &command, &columns)?;
    result.rounds = Some(rounds);
    let fast = Part { rounds, what: "no pauses", of: |run| run.seconds };
    let told = fast.measure(&job, &tools, 1.0, &mut result)?;

    result.remark = format!(
        "Job without pauses: its run time with `fonio record` against alone is {told} (aim: {:.0} % longer at most).{missing} ",
        LONGER_MAX * 100.0
    );
    match slow {
        Ok(slow) => {
            let options = [format!("--rate_iops={SLOW_RATE}")];
            let what = format!("{SLOW_RATE} requests a second on {:.2} of a processor", slow.share);
            let rounds = rounds.div_ceil(SLOW_ROUNDS).max(2);
            let part = Part { rounds, what: &what, of: |run| run.job_s };
            let (requests, groups) = (SLOW_REQUESTS, slow.groups());
            let job = Job { device: &device, dir: &dir, requests, options: &options, groups };
            let told = part.measure(&job, &tools, slow.share, &mut result)?;
            result.remark += &format!(
                "On a processor like that of a {SLOW}, in {} rounds: the time in the row is the job's processor time, which is {told}; the tool's \
                 share is of the slow processor (aim: {:.0} %).",
                part.rounds,
                SLOW_MAX * 100.0
            );
        }
        Err(error) => {
            result.remark += &format!("Not measured on a processor like that of a {SLOW}: {error:#}.")
        }
    }
    println!("\n{}", result.remark);
    result.keep(rounds >= ROUNDS)?;
    Ok(())
}

/// One of the two parts.
struct Part<'a> {
    rounds: u64,
    what: &'a str,
    /// The time that is compared.
    of: fn(&Run) -> f64,
}

impl Part<'_> {
    /// Measures the job with each tool, and adds a row for each. The first of `tools` is no tool, and the second is fonio.
    /// `share` is the part of a processor that the job and the tool have. Returns the verdict on fonio.
    fn measure(
        &self,
        job: &Job<'_>,
        tools: &[(&str, Option<Tool<'_>>)],
        share: f64,
        result: &mut StudyResult,
    ) -> Result<String> {
        // The first run fills the file of the device.
        job.run(None)?;
        let mut runs = vec![Vec::new(); tools.len()];
        for round in 0..self.rounds as usize {
            // The order rotates, so that a drift of the machine does not look like a difference.
            for at in 0..tools.len() {
                let tool = (round + at) % tools.len();
                runs[tool].push(job.run(tools[tool].1)?);
                process::check_signals()?;
            }
            eprintln!("{}: round {} of {} is done", self.what, round + 1, self.rounds);
        }
        // Measuring the BPF programs makes them slower, so it has its own runs.
        let statistics = Statistics::enable()?;
        let in_bpf: Vec<Run> = tools.iter().map(|(_, tool)| job.run(*tool)).collect::<Result<_>>()?;
        drop(statistics);
        for (at, (((name, tool), of_tool), in_bpf)) in tools.iter().zip(&runs).zip(&in_bpf).enumerate() {
            let more = (at > 0).then(|| ratio(&runs[0], of_tool, self.of)).transpose()?;
            let [by, interval] = more.map_or([Cell::once(None, "%", 1), "–".into()], |more| {
                let interval = format!("{:.1} % to {:.1} %", percent(more.low), percent(more.high));
                [Cell::once(percent(more.value), "%", 1), interval.into()]
            });
            let per_request = |value: u64| (value > 0).then(|| value as f64 / job.requests as f64);
            let of_processor = |run: &Run| tool.map(|_| run.recorder_s / run.seconds / share * 100.0);
            result.row(
                format!("{name}, {}", self.what),
                vec![
                    Cell::rounds(of_tool.iter().map(|run| job.requests as f64 / run.seconds), "", 0),
                    Cell::rounds(of_tool.iter().map(|run| (self.of)(run)), "s", 3),
                    by,
                    interval,
                    Cell::rounds(of_tool.iter().map(|run| run.mean_us), "µs", 1),
                    Cell::rounds(of_tool.iter().map(of_processor), "%", 2),
                    Cell::once(per_request(in_bpf.bpf_runs), "", 2),
                    Cell::once(per_request(in_bpf.bpf_ns), "ns", 0),
                ],
            );
        }
        Ok(verdict(ratio(&runs[0], &runs[1], self.of)?))
    }
}

fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

/// Returns the verdict about a ratio of times.
fn verdict(more: Interval) -> String {
    let aim = LONGER_MAX * 100.0;
    match 1.0 + LONGER_MAX {
        max if more.high <= max => format!("at most {aim:.0} % longer"),
        max if more.low > max => format!("more than {aim:.0} % longer"),
        _ => format!("not resolved, because the interval contains {aim:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_interval_is_not_resolved() {
        for (low, high, expected) in [
            (0.98, 1.04, "at most 5 % longer"),
            (1.06, 1.09, "more than 5 % longer"),
            (1.01, 1.09, "not resolved, because the interval contains 5 %"),
        ] {
            assert_eq!(verdict(Interval { low, value: 1.05, high }), expected);
        }
    }
}
