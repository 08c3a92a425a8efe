//! The serving process: it contains only the model, the data and the clock, so it never waits for the device
//! itself.
//!
//! A single process that both served a device and waited for it (in mount, mkfs or sync) could not even be
//! killed after its serving part had ended. The owner sends JSON lines to the server's standard input: a
//! [`ServeConfig`], then [`Order`]s. The server sends an [`Answer`] to each of these messages on standard
//! output. The server ends when its standard input ends, so it does not outlive a killed owner.

use std::io::{self, BufRead, Write};
use std::num::NonZeroU64;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fonio_core::{ByteCount, Nanos, Op, Sector, Timestamp};
use fonio_sim::device::{Command, Device, Limits};
use fonio_sim::measure::write_in_order;
use rustix::time::ClockId;
use serde::{Deserialize, Serialize};

use crate::awake::Awake;
use crate::disk::Disk;
use crate::error::EmulatorError;
use crate::faults::{Fault, Faults};
use crate::floor::OverheadsByTime;
use crate::image::Image;
use crate::memory::{MemoryReport, ProcessMemory};
use crate::pacer::Pacer;
use crate::report::ServeReport;
use crate::{fuse, nbd, profile, ublk};

/// The configuration of the serving process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServeConfig {
    /// Profile of the device: the name of a shipped profile, or a file path.
    pub profile: String,
    /// The capacity of the device.
    pub capacity: ByteCount,
    /// Seed of the random numbers of the model and the faults.
    pub seed: u64,
    /// Number of bytes written sequentially before serving starts, so that the device behaves like a used
    /// device. Only the model gets these writes; the data remain zeros, or the contents of the image.
    pub written: ByteCount,
    /// Number of wall-clock seconds for each second of the model; at least 1.
    pub dilate: f64,
    /// The file with the device's data; `None` to keep the data in memory.
    pub image: Option<PathBuf>,
    /// Whether data in memory get their memory only when they are first written. This is for devices that one
    /// command of fonio makes, uses and removes: such a device must not hold swap space.
    pub is_sparse: bool,
    /// The file for the log of all writes and flushes; `None` for no log.
    pub log: Option<PathBuf>,
    /// Faults to inject, in their textual form.
    pub faults: Vec<String>,
    /// The interface through which the host accesses the device.
    pub front: Front,
}

impl ServeConfig {
    /// Returns the configuration of a new device in memory, at the model's speed and without faults.
    pub fn of(profile: impl Into<String>, capacity: ByteCount, seed: u64) -> ServeConfig {
        ServeConfig {
            profile: profile.into(),
            capacity,
            seed,
            written: ByteCount(0),
            dilate: 1.0,
            image: None,
            is_sparse: false,
            log: None,
            faults: Vec::new(),
            // The owner later replaces the path or the front end.
            front: Front::Fuse(PathBuf::new()),
        }
    }
}

/// The interface through which the host accesses the device.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Front {
    /// Serves the device as the file `disk` of a FUSE file system, mounted on this directory.
    Fuse(PathBuf),
    /// Serves the device through NBD on this Unix socket.
    Nbd(PathBuf),
    /// Serves the ublk device that [`Order::ServeUblk`] names. The owner creates this device after it has
    /// received the limits.
    Ublk,
}

/// An order of the owner. The order is in effect once the server's answer arrives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Complete every later command after this delay, without model and log.
    Measure(Nanos),
    /// Complete every later command at once. Model and log record these commands.
    Unpace,
    /// Complete every later command at the model's time, minus the latency of the I/O path.
    Pace(OverheadsByTime),
    /// Open the ublk device of this number and serve its requests.
    ServeUblk(u32),
    /// Write a mark with this name to the log.
    Mark(String),
    /// Return the statistics of the serving process.
    Report,
}

/// An answer of the serving process to its owner.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The device is ready. Until the first order, the device completes commands at once, without model and
    /// log.
    Ready {
        /// The limits that the device reports to its host.
        limits: Limits,
        /// Minimum service time of a 4 KiB command.
        fastest_ns: Nanos,
        /// Whether the kernel keeps the CPUs awake, so that completions are not late.
        cpus_awake: bool,
        /// The locked memory of the serving process.
        memory: MemoryReport,
    },
    /// The owner's order is in effect.
    Done,
    /// The statistics of the serving process.
    Report(Box<ServeReport>),
    /// The process must end because of an error.
    Failed(String),
}

/// Maximum time for reporting a panic, in seconds.
const PANIC_REPORT_S: u32 = 2;

/// Runs a serving process: reads its configuration and orders from standard input, and serves the device
/// until the input ends. Sends an error to the owner as [`Answer::Failed`], and fails only if that is not possible,
/// because the owner prints it.
pub fn serve() -> Result<(), EmulatorError> {
    let mut out = io::stdout().lock();
    match run(&mut out) {
        Err(error) => say(&mut out, &Answer::Failed(fonio_system::chain(&error))).map_err(|_| error),
        Ok(()) => Ok(()),
    }
}

fn run(out: &mut impl Write) -> Result<(), EmulatorError> {
    let mut lines = io::stdin().lock().lines();
    let stdin = || EmulatorError::system("read", "the owner's orders");
    let first = lines.next().transpose().map_err(stdin())?.unwrap_or_default();
    let config: ServeConfig = serde_json::from_str(&first).map_err(|error| stdin()(error.into()))?;
    become_a_server();
    // The client of an NBD server is usually a virtual machine, so this machine does not depend on the server.
    let is_required = !matches!(config.front, Front::Nbd(_));
    let memory = ProcessMemory::lock(is_required, config.is_sparse)?;
    // Without permission to keep the CPUs awake, this step is skipped and reported to the owner.
    let awake = Awake::ask().ok();
    let make = || profile::device(&config.profile, config.capacity, config.seed);
    let fastest_ns = fastest(make()?.as_mut());
    let mut device = make()?;
    let written = config.written.min(config.capacity);
    let idle_at = write_in_order(device.as_mut(), written, Timestamp(0));
    let limits = device.limits().clone();
    let image = match &config.image {
        Some(path) => Image::in_file(path, config.capacity, memory.allocation)?,
        None => Image::in_memory(config.capacity, memory.allocation)?,
    };
    let faults: Vec<Fault> = config.faults.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let faults = Faults::new(faults, config.seed);
    let pacer = match config.front {
        Front::Ublk => Pacer::driven(),
        _ => Pacer::start().map_err(EmulatorError::system("start", "the pacing thread"))?,
    };
    let log = config.log.as_deref();
    let disk = Arc::new(Disk::new(device, image, faults, log, config.dilate, idle_at, pacer)?);
    let mut session = None;
    match &config.front {
        Front::Fuse(dir) => {
            let mounted = fuse::mount(Arc::clone(&disk), dir);
            session = Some(mounted.map_err(EmulatorError::system("mount a FUSE file system on", dir))?);
        }
        Front::Nbd(socket) => listen(&disk, socket)?,
        Front::Ublk => {}
    }
    say(out, &Answer::Ready { limits, fastest_ns, cpus_awake: awake.is_some(), memory: memory.report() })?;
    for line in lines {
        let line = line.map_err(stdin())?;
        let order = serde_json::from_str(&line).map_err(|error| stdin()(error.into()))?;
        let mut answer = Answer::Done;
        match order {
            Order::Measure(delay) => disk.measure(Duration::from_nanos(delay.0)),
            Order::Unpace => disk.unpace(),
            Order::Pace(overheads) => disk.pace(overheads),
            Order::ServeUblk(number) => {
                let node = format!("/dev/ublkc{number}");
                ublk::serve(&disk, number).map_err(EmulatorError::system("serve", node))?;
            }
            Order::Mark(name) => disk.mark(&name),
            Order::Report => answer = Answer::Report(Box::new(report(&disk, &memory))),
        }
        say(out, &answer)?;
    }
    disk.report();
    // The owner unmounts the file system. If this process unmounted the file system, the process would wait
    // for itself.
    std::mem::forget(session);
    Ok(())
}

fn listen(disk: &Arc<Disk>, socket: &Path) -> Result<(), EmulatorError> {
    // With NBD, the I/O path is not measured, and no order starts the timing.
    let listener = UnixListener::bind(socket).map_err(EmulatorError::system("listen on", socket))?;
    nbd::serve(disk, listener).map_err(EmulatorError::system("serve", socket))
}

fn say(out: &mut impl Write, answer: &Answer) -> Result<(), EmulatorError> {
    let mut text = serde_json::to_string(answer).expect("answers are plain data");
    text.push('\n');
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(EmulatorError::system("answer", "the owner"))
}

/// Applies settings that make the timing steadier. Each setting is optional: it is skipped without permission
/// or kernel support. The report shows how late completions were.
fn become_a_server() {
    // End the serving process if a thread panics. Otherwise, the commands of this thread would never
    // complete; if the process ends, they fail.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // Nobody may read standard error, and a full pipe must not keep the process alive.
        // SAFETY: the call only sets a timer, whose signal ends this process.
        unsafe { libc::alarm(PANIC_REPORT_S) };
        report(panic);
        std::process::abort();
    }));
    let _ = rustix::process::setpriority_process(None, -20);
    run_before_all_others();
    // The default timer slack would add 50 µs to every sleep. New threads inherit the timer slack.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Gives this thread and its future threads priority over all ordinary threads, because a real device does
/// not wait for a CPU. The pacing thread polls the clock for only a few microseconds per command, so no other
/// thread starves.
fn run_before_all_others() {
    // SAFETY: `sched_param` contains only plain numbers, for which all zeros are valid.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = 1;
    // SAFETY: the call reads `parameters`, which outlives it. 0 means this thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
}

/// Returns the minimum service time of a single 4 KiB write or read.
fn fastest(device: &mut dyn Device) -> Nanos {
    let mut now = Timestamp(0);
    let mut fastest = Nanos(u64::MAX);
    for op in [Op::Write, Op::Write, Op::Read, Op::Read] {
        let command = Command { op, sector: Sector(0), bytes: ByteCount(4096), fua: false };
        let completed = device.submit(&command, now);
        fastest = fastest.min(completed.since(now).unwrap_or_default());
        now = completed + Nanos(1_000_000_000);
    }
    fastest
}

fn report(disk: &Disk, memory: &ProcessMemory) -> ServeReport {
    let cpu = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
    let cpu_ns = cpu.tv_sec.cast_unsigned() * 1_000_000_000 + cpu.tv_nsec.cast_unsigned();
    ServeReport::new(disk.report(), Nanos(cpu_ns), memory.report())
}
