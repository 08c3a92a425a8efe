//! Measures the cost of recording: `cargo run --release -p fonio-record --example overhead [PAIRS] [SECONDS]`, as root,
//! with fio.
//!
//! A fixed fio job runs on its own loop device over a file in memory, in interleaved pairs with and without
//! recording (requests, files, causes and waits, as by default). The loads are 1,000 and 10,000 requests a
//! second, and an unlimited rate at queue depths 1 and 32, which shows the cost of the tracepoints. The
//! program prints medians and ratios, the achieved rate, and the recorder's processor time per event: for the
//! capture, and for writing the recording afterwards, which costs more.

use std::error::Error;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fonio_core::statistics::sample;
use fonio_record::{RecordOptions, RecordSummary, Selector, record};

const DEVICE_BYTES: u64 = 256 << 20;

/// A load.
#[derive(Clone, Copy)]
struct Load {
    /// Requests a second; `None` means unlimited.
    rate: Option<u64>,
    /// Requests in flight.
    depth: u32,
    /// The rate that determines the number of requests in a run. For unlimited loads, it is an estimate that
    /// makes all loads take about the same time.
    a_second: u64,
}

const LOADS: [Load; 4] = [
    Load { rate: Some(1_000), depth: 1, a_second: 1_000 },
    Load { rate: Some(10_000), depth: 1, a_second: 10_000 },
    Load { rate: None, depth: 1, a_second: 50_000 },
    Load { rate: None, depth: 32, a_second: 100_000 },
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let pairs = numbers.next().transpose()?.unwrap_or(5).max(1);
    let seconds = numbers.next().transpose()?.unwrap_or(4).max(1);
    let dir = tempfile::tempdir_in("/dev/shm")?;
    let device = LoopDevice::over(dir.path())?;
    println!("{pairs} pairs of {seconds} s each on {}, 4 KiB direct random writes", device.0.display());
    for load in LOADS {
        let job = Job { device: &device.0, dir: dir.path(), load, requests: seconds * load.a_second };
        match load.rate {
            Some(rate) => println!("\nat {rate} requests a second, one at a time:"),
            None => println!("\nat an unlimited rate, {} in flight, {} requests:", load.depth, job.requests),
        }
        compare(&job, pairs)?;
    }
    Ok(())
}

/// A loop device over a file in memory. Dropping this removes it.
struct LoopDevice(PathBuf);

impl LoopDevice {
    fn over(dir: &Path) -> Result<LoopDevice, Box<dyn Error>> {
        let file = dir.join("device");
        File::create(&file)?.set_len(DEVICE_BYTES)?;
        let out = Command::new("losetup").args(["--find", "--show"]).arg(&file).output()?;
        if !out.status.success() {
            return Err(format!("losetup: {}", String::from_utf8_lossy(&out.stderr).trim()).into());
        }
        let device = LoopDevice(PathBuf::from(String::from_utf8(out.stdout)?.trim()));
        // Allocates the file's pages before the measurement. At the end of the device, dd is expected to fail
        // with "no space left".
        Command::new("dd")
            .args(["if=/dev/zero", "bs=1M", "oflag=direct"])
            .arg(format!("of={}", device.0.display()))
            .stderr(Stdio::null())
            .status()?;
        Ok(device)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}

struct Job<'a> {
    device: &'a Path,
    dir: &'a Path,
    load: Load,
    requests: u64,
}

/// The measurements of one run, from fio and the kernel.
#[derive(Clone, Copy, Debug)]
struct Run {
    runtime_ms: f64,
    latency_mean_us: f64,
    latency_p99_us: f64,
    /// Processor time of fio, including the tracepoints in its system calls.
    fio_ms: f64,
    /// Busy processor time of the machine; misleading if other programs run.
    busy_ms: f64,
}

impl Job<'_> {
    fn command(&self) -> Vec<String> {
        let mut words: Vec<String> = [
            "fio",
            "--name=overhead",
            "--rw=randwrite",
            "--bs=4k",
            "--direct=1",
            "--randrepeat=1",
            "--output-format=json",
        ]
        .map(str::to_owned)
        .to_vec();
        words.push(format!("--filename={}", self.device.display()));
        words.push(format!("--size={}", self.requests * 4096));
        words.push(format!("--io_size={}", self.requests * 4096));
        words.push(format!("--filesize={DEVICE_BYTES}"));
        words.push(format!("--output={}", self.output().display()));
        // At queue depth 1, most programs use blocking calls.
        let engine = if self.load.depth == 1 { "psync" } else { "libaio" };
        words.extend([format!("--ioengine={engine}"), format!("--iodepth={}", self.load.depth)]);
        words.extend(self.load.rate.map(|rate| format!("--rate_iops={rate}")));
        words
    }

    fn output(&self) -> PathBuf {
        self.dir.join("fio.json")
    }

    fn result(&self, busy_ms: f64) -> Result<Run, Box<dyn Error>> {
        let text = fs::read_to_string(self.output())?;
        // fio prints notes before the JSON document.
        let begin = text.find('{').ok_or("fio wrote no result")?;
        let document: serde_json::Value = serde_json::from_str(&text[begin..])?;
        let write = &document["jobs"][0]["write"];
        let number = |value: &serde_json::Value| value.as_f64().ok_or("fio's result lacks a number");
        let job = &document["jobs"][0];
        let cpu_percent = number(&job["usr_cpu"])? + number(&job["sys_cpu"])?;
        Ok(Run {
            runtime_ms: number(&write["runtime"])?,
            fio_ms: number(&job["job_runtime"])? * cpu_percent / 100.0,
            latency_mean_us: number(&write["clat_ns"]["mean"])? / 1000.0,
            latency_p99_us: number(&write["clat_ns"]["percentile"]["99.000000"])? / 1000.0,
            busy_ms,
        })
    }

    fn without(&self) -> Result<Run, Box<dyn Error>> {
        let words = self.command();
        let before = busy_ms()?;
        let status = Command::new(&words[0]).args(&words[1..]).status()?;
        let busy = busy_ms()? - before;
        if !status.success() {
            return Err("fio failed".into());
        }
        self.result(busy)
    }

    fn with(&self) -> Result<(Run, RecordSummary), Box<dyn Error>> {
        let options = RecordOptions {
            select: vec![Selector::Device(self.device.into())],
            command: Some(self.command().into_iter().map(Into::into).collect()),
            overwrite: true,
            ..RecordOptions::new(self.dir.join("recording"))
        };
        let before = busy_ms()?;
        let summary = record(&options, &mut |_| {})?;
        // The recording is written after the capture. The busy time of the capture excludes writing.
        let busy = busy_ms()? - before - summary.write_cpu.as_secs_f64() * 1000.0;
        Ok((self.result(busy)?, summary))
    }
}

/// Active ticks of all processors since boot.
fn busy_ms() -> Result<f64, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/stat")?;
    let first = stat.lines().next().unwrap_or("");
    let ticks: Vec<f64> = first.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    let active: f64 = [0, 1, 2, 5, 6].iter().filter_map(|&place| ticks.get(place)).sum();
    // USER_HZ is 100 on every architecture that fonio runs on.
    Ok(active * 10.0)
}

fn median(values: Vec<f64>) -> f64 {
    sample::median(&values).expect("it was measured")
}

fn compare(job: &Job<'_>, pairs: u64) -> Result<(), Box<dyn Error>> {
    let (mut without, mut with, mut summaries) = (Vec::new(), Vec::new(), Vec::new());
    // Warm up with one run of each kind, not counted.
    job.without()?;
    job.with()?;
    for pair in 0..pairs {
        // The order alternates, so that drift does not look like overhead.
        if pair % 2 == 0 {
            without.push(job.without()?);
        }
        let (run, summary) = job.with()?;
        with.push(run);
        summaries.push(summary);
        if pair % 2 == 1 {
            without.push(job.without()?);
        }
    }
    let row = |name: &str, value: fn(&Run) -> f64| {
        let of = |runs: &[Run]| median(runs.iter().map(value).collect());
        let ratios = without.iter().zip(&with).map(|(a, b)| value(b) / value(a)).collect();
        println!(
            "  {name:<28} {:>10.2} {:>10.2}   {:+.2} %",
            of(&without),
            of(&with),
            (median(ratios) - 1.0) * 100.0
        );
    };
    println!("  {:<28} {:>10} {:>10}   median of the pairs' ratios", "", "without", "with");
    let reached =
        |runs: &[Run]| job.requests as f64 / median(runs.iter().map(|run| run.runtime_ms).collect());
    println!(
        "  {:<28} {:>10.0} {:>10.0}",
        "achieved requests a second",
        reached(&without) * 1e3,
        reached(&with) * 1e3
    );
    row("run time, ms", |run| run.runtime_ms);
    row("latency, mean, us", |run| run.latency_mean_us);
    row("latency, p99, us", |run| run.latency_p99_us);
    row("fio's processor time, ms", |run| run.fio_ms);
    row("machine busy, ms", |run| run.busy_ms);
    let per_event = |time: fn(&RecordSummary) -> Duration| {
        median(summaries.iter().map(|s| time(s).as_nanos() as f64 / s.events.max(1) as f64).collect())
    };
    let events = median(summaries.iter().map(|s| s.events as f64).collect());
    let lost: u64 = summaries.iter().map(|s| s.lost.events).sum();
    let share = summaries
        .iter()
        .map(|s| s.capture_cpu.as_nanos() as f64 / (s.ended.0 - s.began.0).max(1) as f64 * 100.0);
    println!("  recorder: {events:.0} events, {lost} lost in all runs");
    println!(
        "            capture {:.0} ns of processor time per event, {:.2} % of one processor",
        per_event(|s| s.capture_cpu),
        median(share.collect())
    );
    let write_share = summaries
        .iter()
        .map(|s| s.write_cpu.as_nanos() as f64 / (s.ended.0 - s.began.0).max(1) as f64 * 100.0);
    println!(
        "            writing afterwards {:.0} ns per event, {:.2} % of one processor over the capture's length",
        per_event(|s| s.write_cpu),
        median(write_share.collect())
    );
    println!("            together {:.0} ns per event", per_event(|s| s.capture_cpu + s.write_cpu));
    Ok(())
}
