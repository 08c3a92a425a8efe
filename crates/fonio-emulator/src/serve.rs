//! The serving process: it holds the model, the data and the clock, and nothing that could wait for itself.
//!
//! It is a process of its own, since a process that both serves a disk and waits for it (in mount, mkfs, sync) cannot
//! even be killed once the serving part is gone. The owner speaks to it in JSON lines: a [`ServeConfig`] first, then
//! [`Order`]s on standard input; it gives an [`Answer`] to each on standard output. When standard input ends, so does
//! it: a killed owner leaves no server.

use std::io::{self, BufRead, Write};
use std::num::NonZeroU64;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fonio_core::{ByteCount, Nanos, Op, Sector, Timestamp};
use fonio_sim::device::{Command, Device, Limits};
use fonio_sim::measure::write_in_order;
use rustix::mm::MlockAllFlags;
use rustix::time::ClockId;
use serde::{Deserialize, Serialize};

use crate::awake::Awake;
use crate::disk::Disk;
use crate::faults::{Fault, Faults};
use crate::floor::OverheadsByTime;
use crate::image::Image;
use crate::report::ServeReport;
use crate::{EmulatorError, fuse, nbd, profile};

/// What the serving process needs to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServeConfig {
    /// The device's profile: a shipped one's name, or a file's path.
    pub profile: String,
    /// The device's size.
    pub capacity: ByteCount,
    /// For the model's and the faults' random numbers.
    pub seed: u64,
    /// How much was written in order before the device is handed over; a device in use has no unwritten part. Only the
    /// model knows: the data read as zeros, or as what the image holds.
    pub written: ByteCount,
    /// How many seconds pass for one of the model's; at least 1.
    pub dilate: f64,
    /// Where the data are; `None` for memory.
    pub image: Option<PathBuf>,
    /// Where every write and flush is logged.
    pub log: Option<PathBuf>,
    /// Faults in their textual form.
    pub faults: Vec<String>,
    /// How the device is offered.
    pub front: Front,
}

/// How the device is offered.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Front {
    /// As the file `disk` of a FUSE file system, mounted on this folder.
    Fuse(PathBuf),
    /// Through NBD on this Unix socket.
    Nbd(PathBuf),
}

/// What the owner can ask for. Each is answered once it holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Answer every command after this time from now on; neither model nor log hear of it.
    Measure(Nanos),
    /// Answer at once from now on; model and log know every command.
    Unpace,
    /// Answer at the model's time from now on, less what the way here costs.
    Pace(OverheadsByTime),
    /// Put a mark into the log.
    Mark(String),
    /// Say what was done so far.
    Report,
}

/// What the serving process says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The device can be used; it answers at once, and neither model nor log hear of it until the first order.
    Ready {
        /// What the device tells its host.
        limits: Limits,
        /// The shortest service time of a 4 KiB command.
        fastest_ns: Nanos,
        /// Whether the kernel was asked to keep its CPUs awake, which makes completions punctual.
        cpus_awake: bool,
    },
    /// The order was carried out.
    Done,
    /// What was done.
    Report(Box<ServeReport>),
    /// It cannot go on.
    Failed(String),
}

/// The whole life of a serving process: reads its configuration and orders from standard input, and serves the device
/// until standard input ends.
///
/// # Errors
///
/// [`EmulatorError`]; the owner was told the same in an [`Answer::Failed`].
pub fn serve() -> Result<(), EmulatorError> {
    let mut out = io::stdout().lock();
    let served = run(&mut out);
    if let Err(error) = &served {
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(source) = cause {
            text = format!("{text}: {source}");
            cause = source.source();
        }
        say(&mut out, &Answer::Failed(text))?;
    }
    served
}

fn run(out: &mut impl Write) -> Result<(), EmulatorError> {
    let mut lines = io::stdin().lock().lines();
    let stdin = || EmulatorError::system("read", "the owner's orders");
    let first = lines.next().transpose().map_err(stdin())?.unwrap_or_default();
    let config: ServeConfig = serde_json::from_str(&first).map_err(|error| stdin()(error.into()))?;
    become_a_server();
    // Who may not ask goes without; the owner hears of it.
    let awake = Awake::ask().ok();
    let make = || profile::device(&config.profile, config.capacity, config.seed);
    let fastest_ns = fastest(make()?.as_mut());
    let mut device = make()?;
    let written = config.written.min(config.capacity);
    let idle_at = write_in_order(device.as_mut(), written, Timestamp(0));
    let limits = device.limits().clone();
    let image = match &config.image {
        Some(path) => Image::in_file(path, config.capacity)?,
        None => Image::in_memory(config.capacity)?,
    };
    let faults = config.faults.iter().map(|text| text.parse()).collect::<Result<Vec<Fault>, _>>()?;
    let faults = Faults::new(&faults, config.seed);
    let disk = Arc::new(Disk::new(device, image, faults, config.log.as_deref(), config.dilate, idle_at)?);
    let mut session = None;
    match &config.front {
        Front::Fuse(dir) => {
            let mounted = fuse::mount(Arc::clone(&disk), dir);
            session = Some(mounted.map_err(EmulatorError::system("mount a FUSE file system on", dir))?);
        }
        Front::Nbd(socket) => listen(&disk, socket)?,
    }
    say(out, &Answer::Ready { limits, fastest_ns, cpus_awake: awake.is_some() })?;
    for line in lines {
        let line = line.map_err(stdin())?;
        let order = serde_json::from_str(&line).map_err(|error| stdin()(error.into()))?;
        let answer = match order {
            Order::Measure(delay) => {
                disk.measure(Duration::from_nanos(delay.0));
                Answer::Done
            }
            Order::Unpace => {
                disk.unpace();
                Answer::Done
            }
            Order::Pace(overheads) => {
                disk.pace(overheads);
                Answer::Done
            }
            Order::Mark(name) => {
                disk.mark(&name);
                Answer::Done
            }
            Order::Report => Answer::Report(Box::new(report(&disk))),
        };
        say(out, &answer)?;
    }
    disk.report();
    // The owner unmounts; to do it here would be to wait for ourselves.
    std::mem::forget(session);
    Ok(())
}

fn listen(disk: &Arc<Disk>, socket: &Path) -> Result<(), EmulatorError> {
    // Where NBD is served without mounting, the way was not measured, and there is nobody to begin pacing for.
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

/// Each of these settings makes serving steadier and is missed by nothing else, so that a kernel or user that may not have one
/// goes without; the report shows how late completions were.
fn become_a_server() {
    // A thread that ends alone would leave commands unanswered for ever; without the process they fail.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
    // Memory that this process needs is not to be freed by writing to the disk that it serves.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    let _ = rustix::mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE);
    let _ = rustix::process::setpriority_process(None, -20);
    run_before_all_others();
    // The kernel's default of 50 µs would be added to every sleep. Threads take it over from here.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Puts this thread, and those that it will start, before every ordinary one, as a device is: it does not wait for a
/// CPU. The pacing thread watches the clock for a few microseconds a command, so that nobody starves.
fn run_before_all_others() {
    // SAFETY: `sched_param` is plain numbers, for which zero is a value.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = 1;
    // SAFETY: the call reads `parameters`, which outlives it. 0 means this thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
}

/// The shortest service time among lone 4 KiB writes and reads.
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

fn report(disk: &Disk) -> ServeReport {
    let cpu = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
    let cpu_ns = cpu.tv_sec.cast_unsigned() * 1_000_000_000 + cpu.tv_nsec.cast_unsigned();
    ServeReport::new(disk.report(), Nanos(cpu_ns))
}
