//! `cargo xtask bench watch`: measures the costs of `fonio watch`: bytes written to flash, processor time and
//! memory.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use fonio_core::quantity::{Unit, parse_duration};
use xtask::results::{Cell, StudyResult};

use super::kernel::{self, LoopDevice, Statistics};
use crate::emulated::{self, Emulated, Options};
use crate::process;

/// The profile of two cards. The watch stores its history on the first card, and stores nothing on the second
/// card.
const CARD: &str = "sd_a1";
const SIZE: &str = "512MiB";
/// The profile of a slow card on which a program occasionally stalls.
const SLOW_CARD: &str = "ridata";
/// The interval at which a program appends a line to a file on both cards, and the interval at which another
/// program stalls on the slow card.
const LINE_EVERY: Duration = Duration::from_secs(10);
const STALL_EVERY: Duration = Duration::from_secs(600);
/// The interval at which intermediate figures are printed.
const REPORT_EVERY: Duration = Duration::from_secs(600);
const DAY_S: f64 = 86_400.0;
/// The default interval at which a watch writes its history.
const WRITE_EVERY: Duration = Duration::from_secs(2 * 3600);
/// The maximum time until a file system sends a write to the device.
const SETTLED: Duration = Duration::from_secs(40);
/// The watch's goals: bytes written per day, memory, and processor share at `RATE` requests per second.
const WRITTEN_MAX: f64 = (1 << 20) as f64;
const MEMORY_MAX: u64 = 24 << 20;
const PROCESSOR_MAX: f64 = 0.005;
const RATE: u64 = 1000;
/// The options of `cargo xtask bench watch`.
#[derive(Args)]
pub struct Arguments {
    /// Measure only this part.
    #[arg(value_parser = ["written", "cost"])]
    part: Option<String>,
    /// Duration of the measurement. The default is 2h for `written` and 90s for `cost`.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    time: Option<Duration>,
    /// The interval at which the watch writes its history.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "2h")]
    write_every: Duration,
    /// Measure this program (default: builds fonio).
    #[arg(long, value_name = "FONIO")]
    program: Option<PathBuf>,
}

/// Measures the chosen parts and writes the result.
pub fn run(arguments: &Arguments) -> Result<()> {
    let fonio = arguments.program.clone().map_or_else(emulated::fonio, Ok)?;
    process::outlive_signals()?;
    let part = arguments.part.as_deref();
    let columns = ["", "measured", "goal", "verdict"];
    let command = process::shown(Command::new("cargo").arg("xtask").args(std::env::args().skip(1)));
    let mut result =
        StudyResult::begin("bench-watch", "the cost of the watch", command.trim_matches('`'), &columns)?;
    if part != Some("written") {
        let time = arguments.time.filter(|_| part.is_some());
        cost(&fonio, time.unwrap_or(Duration::from_secs(90)), &mut result)?;
    }
    if part != Some("cost") {
        written(&fonio, arguments.time.unwrap_or(WRITE_EVERY), arguments.write_every, &mut result)?;
    }
    let is_complete = part.is_none() && arguments.time.is_none_or(|time| time >= WRITE_EVERY);
    result.keep(is_complete && arguments.write_every == WRITE_EVERY).map(drop)
}

/// A running watch of some devices. Dropping this value stops the watch.
struct Watch {
    child: Child,
    fonio: PathBuf,
    folders: Vec<String>,
}

impl Watch {
    fn start(fonio: &Path, dir: &Path, state: &Path, devices: &[&str], every: Duration) -> Result<Watch> {
        let config = dir.join("watch.toml");
        fs::write(&config, format!("devices = {devices:?}\nwrite-every = \"{}s\"\n", every.as_secs()))?;
        let run = dir.join("run");
        fs::create_dir_all(&run)?;
        let folders =
            ["--state", path(state)?, "--run", path(&run)?, "--config", path(&config)?].map(str::to_owned);
        let mut command = process::bound_to_this(fonio);
        let child = command.args(["watch", "run"]).args(&folders).stdout(Stdio::null()).spawn()?;
        Ok(Watch { child, fonio: fonio.to_owned(), folders: folders.to_vec() })
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{name}", self.child.id())).unwrap_or_default()
    }

    /// Returns the processor time of the watch in user and kernel mode, in seconds.
    fn cpu_s(&self) -> Result<f64> {
        Ok(process::processor_time(self.child.id())?.as_secs_f64())
    }

    /// Returns the sum of a field over the BPF programs or maps of the watch, from the information on their
    /// file descriptors.
    fn of_bpf(&self, field: &str) -> u64 {
        kernel::of_bpf(self.child.id(), field)
    }

    /// Returns the anonymous memory of the watch. Pages of files, such as the executable, are not counted,
    /// because the kernel can drop these pages when memory is short.
    fn own_memory(&self) -> u64 {
        let status = self.file("status");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
    }

    /// Returns the peak memory of the watch during `time`.
    fn most_memory(&self, time: Duration) -> u64 {
        let (began, mut most) = (Instant::now(), 0);
        while began.elapsed() < time {
            most = most.max(self.own_memory());
            std::thread::sleep(Duration::from_millis(5));
        }
        most
    }

    fn report(&self) -> Result<serde_json::Value> {
        let out =
            Command::new(&self.fonio).args(["watch", "report", "--json"]).args(&self.folders).output()?;
        Ok(serde_json::from_slice(&out.stdout).unwrap_or_default())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().context("a path is not UTF-8")
}

fn name(device: &str) -> &str {
    device.trim_start_matches("/dev/")
}

/// Returns the number of bytes written to a device since it was created.
fn written_to(device: &str) -> Result<f64> {
    let path = format!("/sys/block/{}/stat", name(device));
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let sectors = text.split_whitespace().nth(6).and_then(|word| word.parse::<f64>().ok());
    Ok(sectors.with_context(|| format!("{path} does not count written sectors"))? * 512.0)
}

/// Adds a row for a figure that has a goal.
fn goal(result: &mut StudyResult, name: &str, values: &[f64], (unit, decimals): (&str, usize), most: f64) {
    let measured = Cell::rounds(values.iter().copied(), unit, decimals);
    let holds = values.iter().all(|value| *value <= most);
    let verdict = if holds { "met" } else { "**missed**" };
    result.row(name, vec![measured, Cell::once(most, unit, decimals), verdict.into()]);
}

/// Adds a row for a figure that has no goal.
fn figure(result: &mut StudyResult, name: &str, values: &[f64], (unit, decimals): (&str, usize)) {
    result.row(name, vec![Cell::rounds(values.iter().copied(), unit, decimals), "–".into(), "–".into()]);
}

const MIB: f64 = (1 << 20) as f64;
const KIB: f64 = 1024.0;

/// Measures the bytes written to a card because of the watch, scaled to a day.
fn written(fonio: &Path, time: Duration, every: Duration, result: &mut StudyResult) -> Result<()> {
    let dir = process::scratch("watch")?;
    // Remove the state of earlier runs. Otherwise, stalls that an earlier run recorded would be written
    // during this run.
    fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    let (with_dir, without_dir, slow_dir) = (dir.join("with"), dir.join("without"), dir.join("slow"));
    for dir in [&with_dir, &without_dir, &slow_dir] {
        fs::create_dir_all(dir)?;
    }
    let state = with_dir.join("state");
    let card = |profile, dir| Options { mounted: Some(("ext4", dir)), ..Options::bare(profile, SIZE) };
    let with = Emulated::start(fonio, &card(CARD, with_dir.as_path()))?;
    let without = Emulated::start(fonio, &card(CARD, without_dir.as_path()))?;
    let slow = Emulated::start(fonio, &card(SLOW_CARD, slow_dir.as_path()))?;
    println!(
        "For {}, a program appends a line every {} on each of two cards (ext4), and another program stalls on a third card every {}. \
         The watch keeps its history on the first card.",
        Unit::S.format(time.as_secs_f64()),
        Unit::S.format(LINE_EVERY.as_secs_f64()),
        Unit::S.format(STALL_EVERY.as_secs_f64())
    );
    // In a real installation, the folder of the watch is older than the watch.
    for dir in [&state, &without_dir.join("state")] {
        fs::create_dir(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    let sync = || Command::new("sync").arg("-f").args([&with_dir, &without_dir]).status();
    sync()?;
    std::thread::sleep(SETTLED);
    sync()?;
    let written = || -> Result<[f64; 2]> { Ok([written_to(&with.device)?, written_to(&without.device)?]) };
    let before = written()?;
    let watch = Watch::start(
        fonio,
        &dir,
        &state,
        &[name(&with.device), name(&without.device), name(&slow.device)],
        every,
    )?;
    // Returns the number of bytes that the watch has caused to be written to the first card so far.
    let added = |time: Duration| -> Result<f64> {
        sync()?;
        let now = written()?;
        let [with, without] = [0, 1].map(|card| now[card] - before[card]);
        println!(
            "after {}: {} with the watch, {} without; {} stalls reported",
            Unit::S.format(time.as_secs_f64().round()),
            Unit::Bytes.format(with),
            Unit::Bytes.format(without),
            watch.report()?["stalls"]["stalls_in_all"]
        );
        Ok(with - without)
    };
    let mut writes: Vec<f64> = Vec::new();
    let began = Instant::now();
    let (mut line, mut stall, mut reported) = (Duration::ZERO, STALL_EVERY / 2, REPORT_EVERY);
    // When it ends, the watch writes its history for the last time. The file system then takes half a minute
    // to send this data to the device.
    while began.elapsed() < time + SETTLED + Duration::from_secs(2) {
        process::check_signals()?;
        std::thread::sleep(Duration::from_millis(500));
        let at = began.elapsed();
        if at >= line {
            line += LINE_EVERY;
            for dir in [&with_dir, &without_dir] {
                let mut log = fs::OpenOptions::new().append(true).create(true).open(dir.join("log"))?;
                writeln!(log, "at {:.0} s, all is well", at.as_secs_f64())?;
            }
        }
        if at >= stall {
            stall += STALL_EVERY;
            let file = format!("of={}", slow_dir.join("big").display());
            let copy = ["if=/dev/zero", &file, "bs=1M", "count=24", "conv=fsync"];
            process::run(Command::new("dd").args(copy).stderr(Stdio::null()))?;
        }
        if at >= every * (writes.len() as u32 + 1) + SETTLED {
            let so_far: f64 = writes.iter().sum();
            writes.push(added(at)? - so_far);
        }
        if at >= reported {
            reported += REPORT_EVERY;
            added(at)?;
        }
    }
    let bytes = added(time)?;
    ensure!(bytes > 0.0, "the watch wrote nothing, so it did not run");
    // The first write of the history also creates the files, so it is shown separately.
    let writes: Vec<f64> = writes.iter().map(|bytes| bytes / KIB).collect();
    figure(result, "first write of the history", writes.get(..1).unwrap_or(&[]), ("KiB", 0));
    figure(result, "each later write", writes.get(1..).unwrap_or(&[]), ("KiB", 0));
    if every == WRITE_EVERY {
        goal(
            result,
            "written in a day",
            &[bytes * DAY_S / time.as_secs_f64() / KIB],
            ("KiB", 0),
            WRITTEN_MAX / KIB,
        );
    }
    drop(watch);
    drop((with, without, slow));
    fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))
}

/// Measures the processor time and the memory of the watch on an idle machine and at 1,000 requests per
/// second. Also measures its memory after it has recorded a stall.
fn cost(fonio: &Path, time: Duration, result: &mut StudyResult) -> Result<()> {
    let dir = process::scratch("watch-cost")?;
    let slow_dir = dir.join("slow");
    fs::create_dir_all(&slow_dir)?;
    // Use a loop device instead of an emulated card, because an emulated card is served by threads that cause
    // many context switches. A real card has no such threads.
    let device = LoopDevice::over(&dir)?;
    let options = Options { mounted: Some(("ext4", slow_dir.as_path())), ..Options::bare(SLOW_CARD, SIZE) };
    let slow = Emulated::start(fonio, &options)?;
    let statistics = Statistics::enable()?;
    let watch =
        Watch::start(fonio, &dir, &dir.join("state"), &[name(&device.0), name(&slow.device)], WRITE_EVERY)?;
    // At its start, the watch reads the kernel's type information.
    let at_start = watch.most_memory(Duration::from_secs(5));
    for (load, rate) in [("nothing", 0), ("fio, random reads of 4 KiB", RATE)] {
        process::check_signals()?;
        let began = (Instant::now(), watch.cpu_s()?, watch.of_bpf("run_time_ns"));
        if rate == 0 {
            std::thread::sleep(time / 3);
        } else {
            fio(&device.0, rate, time)?;
        }
        let elapsed = began.0.elapsed().as_secs_f64();
        let (process, bpf) = (watch.cpu_s()? - began.1, (watch.of_bpf("run_time_ns") - began.2) as f64 / 1e9);
        let shares = [process + bpf, process, bpf].map(|seconds| seconds / elapsed * 100.0);
        let name = format!("processor: {load}, {rate} requests a second");
        if rate == 0 {
            figure(result, &name, &shares[..1], ("%", 2));
        } else {
            goal(result, &name, &shares[..1], ("%", 2), PROCESSOR_MAX * 100.0);
        }
        figure(result, &format!("{name}, in the process"), &shares[1..2], ("%", 2));
        figure(result, &format!("{name}, in BPF"), &shares[2..], ("%", 2));
    }
    // Cause a stall after a minute of 1,000 requests per second.
    let file = format!("of={}", slow_dir.join("big").display());
    process::run(
        Command::new("dd")
            .args(["if=/dev/zero", &file, "bs=1M", "count=24", "conv=fsync"])
            .stderr(Stdio::null()),
    )?;
    let later = watch.most_memory(Duration::from_secs(70));
    let stalls = watch.report()?["stalls"]["stalls_in_all"].as_u64().unwrap_or(0);
    let (now, tables) = (watch.own_memory(), watch.of_bpf("memlock"));
    ensure!(stalls > 0, "the watch saw no stall");
    let unit = ("MiB", 1);
    figure(result, "peak memory at the start", &[at_start as f64 / MIB], unit);
    figure(result, "peak memory while a stall is kept", &[later as f64 / MIB], unit);
    figure(result, "memory afterwards", &[now as f64 / MIB], unit);
    figure(result, "memory in kernel tables", &[tables as f64 / MIB], unit);
    let most = at_start.max(later) + tables;
    goal(result, "peak memory with kernel tables", &[most as f64 / MIB], unit, MEMORY_MAX as f64 / MIB);
    drop((watch, statistics));
    drop((device, slow));
    fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))
}

fn fio(device: &str, rate: u64, time: Duration) -> Result<()> {
    let mut fio = Command::new("fio");
    fio.args(["--name=watch", "--rw=randread", "--bs=4k", "--direct=1", "--ioengine=psync", "--time_based"]);
    fio.args(["--output=/dev/null", "--numjobs=4", "--group_reporting"]);
    fio.arg(format!("--filename={device}")).arg(format!("--runtime={}", time.as_secs()));
    fio.arg(format!("--rate_iops={}", rate / 4));
    process::run(&mut fio)
}
