//! Measures the cost of recording requests, files, causes and waits.
//!
//! A fixed fio job runs on a loop device in pairs of runs, one with and one without recording: at 1,000 and
//! 10,000 requests a second, and at an unlimited rate with 1 and 32 requests in flight. The unlimited rate
//! shows the cost of the tracepoints.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fonio_record::{RecordOptions, RecordSummary, Selector, record};

use crate::{LoopDevice, Result, row, span_s};

struct Load {
    name: &'static str,
    /// Requests per second; `None` for an unlimited rate.
    rate: Option<u64>,
    /// Number of requests in flight.
    depth: u32,
    /// The number of requests a second that determines the length of a run. For loads with an unlimited rate,
    /// this number is an estimate, so that all loads take about the same time.
    a_second: u64,
}

const LOADS: [Load; 4] = [
    Load { name: "1,000, one at a time", rate: Some(1_000), depth: 1, a_second: 1_000 },
    Load { name: "10,000, one at a time", rate: Some(10_000), depth: 1, a_second: 10_000 },
    Load { name: "unlimited, one at a time", rate: None, depth: 1, a_second: 50_000 },
    Load { name: "unlimited, 32 at once", rate: None, depth: 32, a_second: 100_000 },
];

/// Measures each load in pairs of runs, with and without recording.
pub fn run(rounds: u64, seconds: u64) -> Result<()> {
    let dir = tempfile::tempdir_in("/dev/shm")?;
    let device = LoopDevice::over(dir.path())?;
    for load in LOADS {
        let job = Job { device: &device, dir: dir.path(), requests: seconds * load.a_second, load };
        // Warm up with one run of each kind, whose results are discarded.
        job.without()?;
        job.with()?;
        for round in 0..rounds {
            // The order alternates, so that a drift of the machine does not look like overhead.
            let (without, (with, summary)) = if round % 2 == 0 {
                let without = job.without()?;
                (without, job.with()?)
            } else {
                let with = job.with()?;
                (job.without()?, with)
            };
            job.print(&without, &with, &summary);
        }
    }
    Ok(())
}

struct Job<'a> {
    device: &'a LoopDevice,
    dir: &'a Path,
    load: Load,
    requests: u64,
}

/// The measurements of one run, from fio and the kernel.
struct Run {
    runtime_ms: f64,
    latency_mean_us: f64,
    latency_p99_us: f64,
    /// Processor time of fio, including the tracepoints in its system calls.
    fio_ms: f64,
    /// Busy processor time of the machine; it is meaningful only if no other programs run.
    busy_ms: f64,
}

impl Job<'_> {
    fn print(&self, without: &Run, with: &Run, summary: &RecordSummary) {
        let more = |value: fn(&Run) -> f64| Some((value(with) / value(without) - 1.0) * 100.0);
        let reached = |run: &Run| Some(self.requests as f64 / run.runtime_ms * 1e3);
        let share = |time: Duration| Some(time.as_secs_f64() / span_s(summary) * 100.0);
        let for_event = |time: Duration| Some(time.as_nanos() as f64 / summary.events.max(1) as f64);
        row(
            self.load.name,
            &[
                share(summary.capture_cpu),
                share(summary.write_cpu),
                more(|run| run.runtime_ms),
                more(|run| run.latency_mean_us),
                more(|run| run.latency_p99_us),
                more(|run| run.fio_ms),
                more(|run| run.busy_ms),
                reached(without),
                reached(with),
                for_event(summary.capture_cpu),
                for_event(summary.write_cpu),
                Some(summary.lost.events as f64),
            ],
        );
    }

    fn command(&self) -> Vec<String> {
        // At queue depth 1, most programs use blocking system calls.
        let engine = if self.load.depth == 1 { "psync" } else { "libaio" };
        let bytes = self.requests * 4096;
        let mut words = vec![
            "--output-format=json".to_owned(),
            format!("--output={}", self.dir.join("fio.json").display()),
            format!("--size={bytes}"),
            format!("--io_size={bytes}"),
            format!("--ioengine={engine}"),
            format!("--iodepth={}", self.load.depth),
        ];
        words.extend(self.load.rate.map(|rate| format!("--rate_iops={rate}")));
        self.device.fio(&words)
    }

    fn result(&self, busy_ms: f64) -> Result<Run> {
        let text = fs::read_to_string(self.dir.join("fio.json"))?;
        // fio prints notes before the JSON document.
        let begin = text.find('{').ok_or("fio wrote no result")?;
        let document: serde_json::Value = serde_json::from_str(&text[begin..])?;
        let job = &document["jobs"][0];
        let write = &job["write"];
        let number = |value: &serde_json::Value| value.as_f64().ok_or("fio's result lacks a number");
        let cpu_percent = number(&job["usr_cpu"])? + number(&job["sys_cpu"])?;
        Ok(Run {
            runtime_ms: number(&write["runtime"])?,
            fio_ms: number(&job["job_runtime"])? * cpu_percent / 100.0,
            latency_mean_us: number(&write["clat_ns"]["mean"])? / 1000.0,
            latency_p99_us: number(&write["clat_ns"]["percentile"]["99.000000"])? / 1000.0,
            busy_ms,
        })
    }

    fn without(&self) -> Result<Run> {
        let words = self.command();
        let before = busy_ms()?;
        if !Command::new(&words[0]).args(&words[1..]).status()?.success() {
            return Err("fio failed".into());
        }
        self.result(busy_ms()? - before)
    }

    fn with(&self) -> Result<(Run, RecordSummary)> {
        let options = RecordOptions {
            select: vec![Selector::Device(self.device.0.clone().into())],
            command: Some(self.command().into_iter().map(Into::into).collect()),
            overwrite: true,
            ..RecordOptions::new(self.dir.join("recording"))
        };
        let before = busy_ms()?;
        let summary = record(&options, &mut |_| {})?;
        // The recording is written after the capture. The processor time for writing the recording does not
        // count as time of the capture.
        let busy = busy_ms()? - before - summary.write_cpu.as_secs_f64() * 1000.0;
        Ok((self.result(busy)?, summary))
    }
}

/// Returns the processor time of all processors since boot without idle time, in milliseconds.
fn busy_ms() -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let first = stat.lines().next().unwrap_or("");
    let ticks: Vec<f64> = first.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    let active: f64 = [0, 1, 2, 5, 6].iter().filter_map(|&place| ticks.get(place)).sum();
    // USER_HZ is 100 on every architecture that fonio runs on.
    Ok(active * 10.0)
}
