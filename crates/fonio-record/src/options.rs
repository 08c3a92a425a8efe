//! What a capture may be told, what it says while it runs, and what it says at the end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use fonio_core::meta::{Device, Lost};
use fonio_core::{ByteCount, Timestamp};

/// What to record, for how long, and where to.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The recording's directory; it must not exist yet, or be empty. Where it does exist by the end of the capture, the
    /// recording is made beside it: `NAME-2`, or the first free number after it.
    pub out: PathBuf,
    /// Replace a recording that is at `out`.
    pub overwrite: bool,
    /// What to watch; every block device where this is empty.
    pub select: Vec<Selector>,
    /// End after this time. A command that still runs then is sent SIGTERM.
    pub duration: Option<Duration>,
    /// Run this and end when it ends: the program, then its arguments.
    pub command: Option<Vec<OsString>>,
    /// What the recording says was run, where that is not the command itself.
    pub told_command: Option<Vec<String>>,
    /// How it is started.
    pub setting: CommandSetting,
    /// Record also when and why the command's threads, and those of all that it starts, were blocked.
    pub waits: bool,
    /// End when the command has become quiet, and end it then. Records waits too.
    pub until_idle: Option<Quiet>,
    /// How much memory raw trace pages may take.
    pub buffer: ByteCount,
    /// Where raw trace pages go when half of `buffer` is full: a directory, best on a disk that is not watched. A
    /// nameless temporary file is made there. Without it the capture ends when the buffer is full.
    pub spill_to: Option<PathBuf>,
    /// How often the monitor samples the system; `None` for no monitor.
    pub sample_interval: Option<Duration>,
    /// The size of the kernel's ring buffer for each processor; `None` lets the recorder choose (64 MiB, or a
    /// 32nd of the memory, over all processors, but 1 to 8 MiB each).
    pub kernel_buffer_per_cpu: Option<ByteCount>,
}

impl RecordOptions {
    /// Everything, until interrupted, with 256 MiB of buffer and two samples a second.
    pub fn new(out: impl Into<PathBuf>) -> RecordOptions {
        RecordOptions {
            out: out.into(),
            overwrite: false,
            select: Vec::new(),
            duration: None,
            command: None,
            told_command: None,
            setting: CommandSetting::default(),
            waits: false,
            until_idle: None,
            buffer: ByteCount(256 << 20),
            spill_to: None,
            sample_interval: Some(Duration::from_millis(500)),
            kernel_buffer_per_cpu: None,
        }
    }
}

/// How a command is started.
#[derive(Clone, Debug, Default)]
pub struct CommandSetting {
    /// Its working directory; else ours.
    pub dir: Option<PathBuf>,
    /// Variables of its environment, beside ours.
    pub environment: Vec<(OsString, OsString)>,
    /// It leads a process group of its own, which is ended with it.
    pub own_group: bool,
    /// A control group that it begins in: its folder.
    pub cgroup: Option<PathBuf>,
    /// Where its standard output goes.
    pub output: CommandOutput,
}

/// Where a command's standard output goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommandOutput {
    /// To ours; its standard input is ours too.
    #[default]
    Inherit,
    /// To our standard error.
    ToError,
    /// Nowhere; nor is its standard error shown.
    Discard,
}

/// When a command that does not end by itself is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quiet {
    /// Its threads together take less than this share of one processor, and none waits for storage …
    pub below_share: f64,
    /// … for this long.
    pub lasting: Duration,
}

/// One way to name what is to be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// A block device: `mmcblk0`, `/dev/mmcblk0`, a link to it, or `179:0`.
    Device(OsString),
    /// A file or directory: the devices that its file system lives on.
    Path(PathBuf),
}

/// What the recorder says while it works.
#[derive(Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// Something the user should know, one sentence.
    Note(&'a str),
    /// The capture began.
    Started {
        /// What is watched; empty means every device.
        devices: &'a [Device],
    },
    /// The capture runs; said about once a second.
    Running {
        /// Since the capture began.
        elapsed: Duration,
        /// Raw trace so far.
        trace_bytes: ByteCount,
        /// The part of it that is held in memory.
        held_bytes: ByteCount,
    },
    /// The command was started.
    CommandStarted {
        /// Its process.
        pid: u32,
    },
    /// The capture ended and the recording is being written.
    Writing {
        /// Events written so far.
        events: u64,
        /// Raw trace read so far.
        trace_bytes: ByteCount,
        /// Raw trace in all.
        trace_bytes_total: ByteCount,
    },
}

/// Why a capture ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The stated duration was over.
    Duration,
    /// The command ended.
    CommandEnded,
    /// Ctrl-C.
    Interrupted,
    /// SIGTERM.
    Terminated,
    /// The memory for raw trace pages was full.
    BufferFull,
    /// The command had become quiet.
    Idle,
}

/// What became of a capture.
#[derive(Clone, Debug)]
pub struct RecordSummary {
    /// The recording: [`RecordOptions::out`], or a directory beside it.
    pub out: PathBuf,
    /// First instant covered, on the recording's clock.
    pub began: Timestamp,
    /// Last instant covered.
    pub ended: Timestamp,
    /// Why it ended.
    pub stopped_by: StopReason,
    /// The command's exit code; `None` without a command, or when a signal killed it.
    pub command_exit: Option<i32>,
    /// The signal that killed the command.
    pub command_signal: Option<i32>,
    /// Events captured.
    pub events: u64,
    /// Raw trace captured.
    pub trace_bytes: ByteCount,
    /// Rows in each table.
    pub rows: BTreeMap<String, u64>,
    /// Requests and bios left out because the recorder itself had caused them.
    pub own_rows: u64,
    /// Events that the kernel's buffers lost.
    pub lost: Lost,
    /// Processor time of the recorder while the capture ran.
    pub capture_cpu: Duration,
    /// Processor time of the recorder for writing the recording.
    pub write_cpu: Duration,
    /// What the user should know; each was also given as [`Progress::Note`].
    pub notes: Vec<String>,
}
