//! A job of fio that makes requests to a device in memory, alone or while a tool records them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fonio_core::statistics::sample::Spread;
use fonio_core::statistics::student;
use fonio_core::statistics::welch::Interval;

use super::kernel::{self, LoopDevice};
use super::slow::confined;
use crate::process;

/// Probability that a true ratio lies outside its interval.
const LEVEL: f64 = 0.05;
/// Maximum time until a tool records.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// Time between two looks whether a tool records, and from then to the start of the job.
const SETTLED: Duration = Duration::from_millis(500);
/// What fonio says when it records.
const RECORDS: &str = "Recording";
/// The tracefs instance of trace-cmd.
const INSTANCE: &str = "fonio-bench";
const INSTANCES: &str = "/sys/kernel/tracing/instances";

/// What biosnoop prints, from tracepoints. biosnoop itself needs kprobes in functions that newer kernels inline.
const BIOSNOOP: &str = r#"
tracepoint:block:block_rq_issue {
    @start[args->dev, args->sector] = nsecs;
    @comm[args->dev, args->sector] = comm;
    @pid[args->dev, args->sector] = pid;
}
tracepoint:block:block_rq_complete /@start[args->dev, args->sector]/ {
    printf("%-12u %-16s %-6d %-7s %-10u %-7u %7d\n", elapsed / 1000, @comm[args->dev, args->sector],
        @pid[args->dev, args->sector], args->rwbs, args->sector, args->nr_sector * 512,
        (nsecs - @start[args->dev, args->sector]) / 1000);
    delete(@start[args->dev, args->sector]);
    delete(@comm[args->dev, args->sector]);
    delete(@pid[args->dev, args->sector]);
}
END { clear(@start); clear(@comm); clear(@pid); }
"#;

/// The tracepoints at which `fonio record` runs BPF programs for requests and waits.
const TRACEPOINTS: [&str; 6] =
    ["block_bio_queue", "block_split", "block_rq_issue", "block_rq_complete", "sched_switch", "sched_waking"];

/// A tool that records requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool<'a> {
    /// This program of fonio: requests, names, files and waits.
    Fonio(&'a Path),
    /// `perf record` of requests, context switches and wake-ups.
    Perf,
    /// `trace-cmd record` of the same events.
    TraceCmd,
    /// bpftrace with the script [`BIOSNOOP`]: requests and names, without waits.
    Biosnoop,
    /// A program that [`build_nothing`] built: BPF programs that do nothing at [`TRACEPOINTS`].
    Nothing(&'a Path),
}

/// Builds the program of [`Tool::Nothing`].
pub fn build_nothing(dir: &Path) -> Result<PathBuf> {
    let source = process::root().join("xtask/src/bench/nothing.c");
    let program = dir.join("nothing");
    process::run(Command::new("cc").args(["-O2", "-o"]).arg(&program).arg(source))?;
    Ok(program)
}

/// The measurements of one run of the job.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// The job's run time.
    pub seconds: f64,
    /// The job's processor time.
    pub job_s: f64,
    /// The mean time of a request, as the job sees it.
    pub mean_us: f64,
    /// The tool's processor time while the job ran.
    pub recorder_s: f64,
    /// Number of runs of the tool's BPF programs and their time, if the kernel measured them.
    pub bpf_runs: u64,
    pub bpf_ns: u64,
}

/// Returns the mean ratio of a figure in the runs of each round, with its confidence interval.
pub fn ratio(without: &[Run], with: &[Run], of: fn(&Run) -> f64) -> Result<Interval> {
    let logarithms: Vec<f64> =
        without.iter().zip(with).map(|(without, with)| (of(with) / of(without)).ln()).collect();
    let spread = Spread::of(&logarithms).context("there are no runs")?;
    let apart = student::two_sided(LEVEL, spread.count as f64 - 1.0) * spread.error();
    let [low, value, high] = [spread.mean - apart, spread.mean, spread.mean + apart].map(f64::exp);
    Ok(Interval { low, value, high })
}

pub struct Job<'a> {
    pub device: &'a LoopDevice,
    pub dir: &'a Path,
    pub requests: u64,
    /// More options of fio, such as a pause between two requests.
    pub options: &'a [String],
    /// The files `cgroup.procs` of control groups, in which the job and the tool run.
    pub groups: &'a [PathBuf],
}

impl Job<'_> {
    /// Fails if a tool cannot record on this machine.
    pub fn try_tool(&self, tool: Tool<'_>) -> Result<()> {
        Recorder::start(tool, self)?.stop()
    }

    /// Runs the job while `tool` records; `None` runs the job alone.
    pub fn run(&self, tool: Option<Tool<'_>>) -> Result<Run> {
        let recorder = tool.map(|tool| Recorder::start(tool, self)).transpose()?;
        let of = |field| recorder.as_ref().map_or(0, |recorder| kernel::of_bpf(recorder.child.id(), field));
        let cpu = || recorder.as_ref().map_or(Ok(0.0), Recorder::cpu_s);
        let before = (cpu()?, of("run_cnt"), of("run_time_ns"));
        let out = self.dir.join("fio.json");
        let bytes = self.requests * 4096;
        let mut fio = confined(Path::new("fio"), self.groups);
        fio.args([
            "--name=probes",
            "--rw=randwrite",
            "--bs=4k",
            "--direct=1",
            "--ioengine=psync",
            "--randrepeat=1",
            "--norandommap=1",
            "--output-format=json",
        ]);
        fio.args([
            format!("--output={}", out.display()),
            format!("--filename={}", self.device.0),
            format!("--io_size={bytes}"),
        ]);
        process::run(fio.args(self.options))?;
        let run = Run {
            recorder_s: cpu()? - before.0,
            bpf_runs: of("run_cnt") - before.1,
            bpf_ns: of("run_time_ns") - before.2,
            ..Run::default()
        };
        if let Some(recorder) = recorder {
            recorder.stop()?;
        }
        let text = fs::read_to_string(&out)?;
        // fio prints notes before the JSON document.
        let begin = text.find('{').context("fio wrote no result")?;
        let document: serde_json::Value = serde_json::from_str(&text[begin..])?;
        let job = &document["jobs"][0];
        let number = |value: &serde_json::Value| value.as_f64().context("fio's result lacks a figure");
        let seconds = number(&job["write"]["runtime"])? / 1e3;
        Ok(Run {
            seconds,
            job_s: (number(&job["usr_cpu"])? + number(&job["sys_cpu"])?) / 100.0 * seconds,
            mean_us: number(&job["write"]["clat_ns"]["mean"])? / 1e3,
            ..run
        })
    }
}

/// A running tool. Dropping this value ends it.
struct Recorder {
    child: Child,
    has_instance: bool,
}

impl Recorder {
    fn start(tool: Tool<'_>, job: &Job<'_>) -> Result<Recorder> {
        let out = job.dir.join("probes");
        const EVENTS: [&str; 4] =
            ["block:block_rq_issue", "block:block_rq_complete", "sched:sched_switch", "sched:sched_waking"];
        let mut command = match tool {
            Tool::Fonio(fonio) => {
                let mut command = confined(fonio, job.groups);
                command.args(["record", "--overwrite", "--for", "10min", "--device", &job.device.0]);
                command.arg("--output").arg(&out);
                command
            }
            Tool::Perf => {
                let mut command = confined(Path::new("perf"), job.groups);
                command.args(["record", "-q", "-a"]);
                command.args(EVENTS.iter().flat_map(|event| ["-e", event]));
                command.arg("-o").arg(out.with_extension("data"));
                command
            }
            Tool::TraceCmd => {
                let mut command = confined(Path::new("trace-cmd"), job.groups);
                // Without -d, it sets the function tracer, which not every kernel has.
                command.args(["record", "-B", INSTANCE, "-d"]);
                command.args(EVENTS.iter().flat_map(|event| ["-e", event]));
                command.arg("-o").arg(out.with_extension("dat"));
                command
            }
            Tool::Biosnoop => {
                let mut command = confined(Path::new("bpftrace"), job.groups);
                command.args(["-e", BIOSNOOP]);
                command
            }
            Tool::Nothing(program) => {
                let mut command = confined(program, job.groups);
                command.args(TRACEPOINTS);
                command
            }
        };
        // trace-cmd has children, which stay if it fails.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match tool {
            // Its lines go to a file, as a user would keep them.
            Tool::Biosnoop => {
                command.stdout(fs::File::create(out.with_extension("txt"))?);
            }
            Tool::Fonio(_) => {
                command.stderr(fs::File::create(out.with_extension("log"))?);
            }
            _ => {}
        }
        let child = command.spawn().with_context(|| format!("cannot start {tool:?}"))?;
        let mut recorder = Recorder { child, has_instance: tool == Tool::TraceCmd };
        recorder.wait_until_ready(tool, &out)?;
        Ok(recorder)
    }

    fn wait_until_ready(&mut self, tool: Tool<'_>, out: &Path) -> Result<()> {
        let began = Instant::now();
        let mut before = 0;
        loop {
            std::thread::sleep(SETTLED);
            let pid = self.child.id();
            let now = match tool {
                // On a slow processor, fonio needs seconds to start.
                Tool::Fonio(_) => u64::from(says(out, RECORDS)?),
                // The number of locked bytes grows while BPF programs and tables are loaded.
                Tool::Biosnoop | Tool::Nothing(_) => kernel::of_bpf(pid, "memlock"),
                Tool::Perf => open_events(pid),
                Tool::TraceCmd => {
                    let enabled = format!("{INSTANCES}/{INSTANCE}/events/block/block_rq_complete/enable");
                    u64::from(fs::read_to_string(enabled).is_ok_and(|text| text.starts_with('1')))
                }
            };
            if now > 0 && now == before {
                return Ok(());
            }
            before = now;
            let ended = self.child.try_wait()?;
            ensure!(ended.is_none(), "{tool:?} ended at once: {}", ended.unwrap_or_default());
            ensure!(
                began.elapsed() < READY_WITHIN,
                "{tool:?} does not record yet; its output is {}.*",
                out.display()
            );
        }
    }

    /// Returns the processor time of all threads of the tool and of its children.
    fn cpu_s(&self) -> Result<f64> {
        let mut nanos = 0;
        for pid in family(self.child.id()) {
            let tasks = format!("/proc/{pid}/task");
            let entries = fs::read_dir(&tasks).with_context(|| format!("cannot read {tasks}"))?;
            let of_thread = |path: PathBuf| -> Option<u64> {
                let text = fs::read_to_string(path.join("schedstat")).ok()?;
                text.split_whitespace().next()?.parse().ok()
            };
            nanos += entries.flatten().filter_map(|entry| of_thread(entry.path())).sum::<u64>();
        }
        Ok(nanos as f64 / 1e9)
    }

    fn stop(mut self) -> Result<()> {
        self.interrupt();
        let status = self.child.wait()?;
        // Newer builds of fonio end with 130 after SIGINT, also if the recording is complete. perf ends by the signal.
        let is_fine = matches!(status.code(), Some(0 | 130)) || status.signal() == Some(2);
        ensure!(is_fine, "the recording failed: {status}");
        Ok(())
    }

    fn interrupt(&self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.interrupt();
            let _ = self.child.wait();
        }
        let group = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(group) = group {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        if self.has_instance {
            // trace-cmd keeps its instance, which is in use until its children have ended.
            for _ in 0..50 {
                if fs::remove_dir(Path::new(INSTANCES).join(INSTANCE)).is_ok() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Returns whether fonio has written this text to its log.
fn says(out: &Path, text: &str) -> Result<bool> {
    let log = out.with_extension("log");
    let said = fs::read_to_string(&log).with_context(|| format!("cannot read {}", log.display()))?;
    Ok(said.contains(text))
}

/// Returns the number of perf's open events.
fn open_events(pid: u32) -> u64 {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let is_event = |path: PathBuf| {
        fs::read_link(path).is_ok_and(|target| target.to_string_lossy().contains("[perf_event]"))
    };
    entries.filter(|entry| is_event(entry.path())).count() as u64
}

/// Returns a process and its children.
fn family(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    if let Ok(file) = fs::File::open(format!("/proc/{pid}/task/{pid}/children")) {
        for line in BufReader::new(file).lines().map_while(Result::ok) {
            all.extend(line.split_whitespace().filter_map(|word| word.parse::<u32>().ok()));
        }
    }
    all
}
