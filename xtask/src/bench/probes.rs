//! `cargo xtask bench probes`: compares the cost of recording by two builds of fonio. This shows what new BPF
//! programs cost.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use fonio_core::statistics::sample::Spread;
use fonio_core::statistics::student;
use fonio_core::statistics::welch::Interval;
use xtask::results::{Cell, StudyResult};

use super::kernel::{self, LoopDevice, Statistics};
use crate::{process, tools};

/// The number of rounds and the number of requests in each run of a complete measurement.
const ROUNDS: u64 = 30;
const REQUESTS: u64 = 20_000;
/// The pause between two requests of the job, in microseconds. With it, the job makes about 10,000 requests per
/// second.
const PAUSE_US: u32 = 30;
/// The run time may become longer by this share while fonio records.
const MORE_MAX: f64 = 0.015;
/// Probability that a true ratio lies outside its interval.
const LEVEL: f64 = 0.05;
/// Maximum time until a recorder has loaded its BPF programs.
const LOADED_WITHIN: Duration = Duration::from_secs(20);
/// Time from the start of the last BPF program to the start of the job.
const SETTLED: Duration = Duration::from_millis(500);

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

/// The measurements of one run of the job.
#[derive(Clone, Copy, Default)]
struct Run {
    seconds: f64,
    /// The recorder's processor time while the job ran.
    recorder_s: f64,
    /// Number of runs of BPF programs and their time, if the kernel measured them.
    bpf_runs: u64,
    bpf_ns: u64,
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
    let job = Job { device: &device, dir: &dir, requests: *requests };
    let kinds: [(&str, Option<&Path>); 3] =
        [("without recording", None), ("other build", Some(other)), ("this build", Some(&fonio))];
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
    let in_bpf: Vec<Run> = kinds.iter().map(|(_, fonio)| job.run(*fonio)).collect::<Result<_>>()?;
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
        let more = fonio.map(|_| ratio(&runs[0], runs_of)).transpose()?;
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
    let more = ratio(&runs[1], &runs[2])?;
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

/// Returns the mean ratio of the run times of each round, with its confidence interval.
fn ratio(without: &[Run], with: &[Run]) -> Result<Interval> {
    let logarithms: Vec<f64> =
        without.iter().zip(with).map(|(without, with)| (with.seconds / without.seconds).ln()).collect();
    let spread = Spread::of(&logarithms).context("there are no runs")?;
    let apart = student::two_sided(LEVEL, spread.count as f64 - 1.0) * spread.error();
    let [low, value, high] = [spread.mean - apart, spread.mean, spread.mean + apart].map(f64::exp);
    Ok(Interval { low, value, high })
}

struct Job<'a> {
    device: &'a LoopDevice,
    dir: &'a Path,
    requests: u64,
}

impl Job<'_> {
    /// Runs the job while `fonio` records; `None` runs the job alone.
    fn run(&self, fonio: Option<&Path>) -> Result<Run> {
        let recorder = fonio.map(|fonio| Recorder::start(fonio, &self.device.0, self.dir)).transpose()?;
        let of = |field| recorder.as_ref().map_or(0, |recorder| kernel::of_bpf(recorder.0.id(), field));
        let cpu = || recorder.as_ref().map_or(Ok(0.0), Recorder::cpu_s);
        let before = (cpu()?, of("run_cnt"), of("run_time_ns"));
        let out = self.dir.join("fio.json");
        let bytes = self.requests * 4096;
        process::run(Command::new("fio").args([
            "--name=probes",
            "--rw=randwrite",
            "--bs=4k",
            "--direct=1",
            "--ioengine=psync",
            "--randrepeat=1",
            "--norandommap=1",
            "--output-format=json",
            &format!("--output={}", out.display()),
            &format!("--filename={}", self.device.0),
            &format!("--io_size={bytes}"),
            &format!("--thinktime={PAUSE_US}us"),
        ]))?;
        let run = Run {
            seconds: 0.0,
            recorder_s: cpu()? - before.0,
            bpf_runs: of("run_cnt") - before.1,
            bpf_ns: of("run_time_ns") - before.2,
        };
        if let Some(recorder) = recorder {
            recorder.stop()?;
        }
        let text = fs::read_to_string(&out)?;
        // fio prints notes before the JSON document.
        let begin = text.find('{').context("fio wrote no result")?;
        let document: serde_json::Value = serde_json::from_str(&text[begin..])?;
        let runtime =
            document["jobs"][0]["write"]["runtime"].as_f64().context("fio's result has no run time")?;
        Ok(Run { seconds: runtime / 1e3, ..run })
    }
}

/// A running recorder. Dropping this value ends it.
struct Recorder(Child);

impl Recorder {
    fn start(fonio: &Path, device: &str, dir: &Path) -> Result<Recorder> {
        let mut command = process::bound_to_this(fonio);
        command.args(["record", "--overwrite", "--for", "10min", "--device", device, "--output"]);
        command.arg(dir.join("probes")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let recorder = Recorder(command.spawn().context("cannot start fonio")?);
        let began = Instant::now();
        let mut loaded = 0;
        // The number of locked bytes grows while the recorder loads its programs and tables.
        loop {
            std::thread::sleep(SETTLED);
            let now = kernel::of_bpf(recorder.0.id(), "memlock");
            if now > 0 && now == loaded {
                return Ok(recorder);
            }
            loaded = now;
            ensure!(began.elapsed() < LOADED_WITHIN, "{} loaded no BPF programs", fonio.display());
        }
    }

    /// Returns the processor time of all threads of the recorder.
    fn cpu_s(&self) -> Result<f64> {
        let tasks = format!("/proc/{}/task", self.0.id());
        let entries = fs::read_dir(&tasks).with_context(|| format!("cannot read {tasks}"))?;
        let of_thread = |path: PathBuf| -> Option<u64> {
            let text = fs::read_to_string(path.join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse().ok()
        };
        let nanos: u64 = entries.flatten().filter_map(|entry| of_thread(entry.path())).sum();
        Ok(nanos as f64 / 1e9)
    }

    fn stop(mut self) -> Result<()> {
        self.interrupt();
        let status = self.0.wait()?;
        // Newer builds end with 130 after SIGINT, also if the recording is complete.
        ensure!(matches!(status.code(), Some(0 | 130)), "fonio record failed: {status}");
        Ok(())
    }

    fn interrupt(&self) {
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            self.interrupt();
            let _ = self.0.wait();
        }
    }
}
