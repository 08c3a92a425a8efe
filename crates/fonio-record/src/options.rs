//! The options of a capture, its progress messages, and its summary.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use fonio_core::meta::{Device, Lost};
use fonio_core::{BlockedIn, ByteCount, Nanos, RowSink, Timestamp};
use fonio_recording::Key;

/// The options of a recording: its scope, its duration, and its folder.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The recording's directory; it must not exist yet, or be empty. If it is taken by the end of the capture, the
    /// recording goes to `NAME-2`, or the first free number after it.
    pub out: PathBuf,
    /// Replace an existing recording at `out`.
    pub overwrite: bool,
    /// The devices to watch; if empty, every block device.
    pub select: Vec<Selector>,
    /// End after this time. If the command still runs then, it gets SIGTERM.
    pub duration: Option<Duration>,
    /// Run this command and end when it ends: the program, then its arguments.
    pub command: Option<Vec<OsString>>,
    /// The command that the recording names, if it is not `command` itself.
    pub told_command: Option<Vec<String>>,
    /// How the command is started.
    pub setting: CommandSetting,
    /// Also record when and why the command's threads, and those of its descendants, were blocked.
    pub waits: bool,
    /// How to record which threads of the machine storage or a lock of the kernel blocked. Has no effect if
    /// the command's threads are followed (`waits`, `until_idle`).
    pub blocked: BlockedBy,
    /// Also record the file-system calls of the command and of its descendants, by BPF.
    pub calls: bool,
    /// Also record the file-system calls of these processes and of their later descendants.
    pub calls_of: Vec<u32>,
    /// With calls, also record the SQL statements of SQLite, without their values.
    pub statements: bool,
    /// Also record to which file each request belongs, the kind of data, and which thread caused it.
    pub files: bool,
    /// End the capture when the command has become quiet, and end the command then. Records waits too.
    pub until_idle: Option<Quiet>,
    /// Memory for raw trace pages.
    pub buffer: ByteCount,
    /// Directory for raw trace pages once half of `buffer` is full, best on a disk that is not watched. The recorder
    /// creates a nameless temporary file in it. Without it, the capture ends when the buffer is full.
    pub spill_to: Option<PathBuf>,
    /// How often the monitor samples the system; `None` for no monitor.
    pub sample_interval: Option<Duration>,
    /// The size of the kernel's ring buffer for each processor. `None` lets the recorder choose: over all processors 64
    /// MiB, but at most a 32nd of the memory, and for each 1 to 8 MiB.
    pub kernel_buffer_per_cpu: Option<ByteCount>,
    /// Write tokens of this key instead of names, so that the recording can be passed on.
    pub redact: Option<Key>,
}

impl RecordOptions {
    /// Records everything until interrupted, with a buffer of 256 MiB and two samples a second.
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
            blocked: BlockedBy::Best,
            calls: false,
            calls_of: Vec::new(),
            statements: true,
            files: true,
            until_idle: None,
            buffer: ByteCount(256 << 20),
            spill_to: None,
            sample_interval: Some(Duration::from_millis(500)),
            kernel_buffer_per_cpu: None,
            redact: None,
        }
    }
}

/// How the recorder finds out which threads storage or a lock of the kernel blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockedBy {
    /// By BPF; by events of the scheduler in tracefs if BPF is not possible.
    #[default]
    Best,
    /// By BPF only.
    Bpf,
    /// By events of the scheduler in tracefs, which show less.
    Tracefs,
    /// Not at all.
    No,
}

/// How a command is started.
#[derive(Clone, Debug, Default)]
pub struct CommandSetting {
    /// Its working directory; `None` is ours.
    pub dir: Option<PathBuf>,
    /// Variables that are added to our environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Makes it the leader of a new process group, which ends with it.
    pub own_group: bool,
    /// The folders of the control groups in which it begins.
    pub cgroups: Vec<PathBuf>,
    /// The destination of its standard output.
    pub output: CommandOutput,
}

/// The destination of a command's standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommandOutput {
    /// To our standard output; the command also shares our standard input.
    #[default]
    Inherit,
    /// To our standard error.
    ToError,
    /// Nowhere; its standard error is discarded too.
    Discard,
}

/// When a command that does not end by itself counts as quiet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quiet {
    /// Its threads together use less than this share of one processor, and none waits for storage …
    pub below_share: f64,
    /// … for this long.
    pub lasting: Duration,
}

/// A way to name the devices to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// A block device: `mmcblk0`, `/dev/mmcblk0`, a link to it, or `179:0`.
    Device(OsString),
    /// A file or directory: the devices under its file system.
    Path(PathBuf),
}

/// The thread that was blocked on storage for longest so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedSoFar {
    /// Its name.
    pub name: String,
    /// The sum of its waits of 1 ms and more.
    pub time: Nanos,
    /// The operation in which it was blocked for longest.
    pub blocked_in: BlockedIn,
}

/// Progress messages of the recorder.
#[derive(Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// One sentence that the user should know.
    Note(&'a str),
    /// The capture began.
    Started {
        /// The watched devices; empty means every device.
        devices: &'a [Device],
    },
    /// The capture runs; sent about once a second.
    Running {
        /// Time since the capture began.
        elapsed: Duration,
        /// Raw trace so far.
        trace_bytes: ByteCount,
        /// The part of it that is held in memory.
        held_bytes: ByteCount,
        /// The thread that was blocked on storage for longest; `None` without a blocked thread, or if the
        /// recording has no waits.
        blocked: Option<BlockedSoFar>,
    },
    /// The command was started.
    CommandStarted {
        /// Its process id.
        pid: u32,
    },
    /// The capture ended and the recording is being written.
    Writing {
        /// Events written so far.
        events: u64,
        /// Raw trace read so far.
        trace_bytes: ByteCount,
        /// Total raw trace.
        trace_bytes_total: ByteCount,
    },
}

/// Why a capture ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The stated duration has passed.
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

/// The summary of a finished capture.
#[derive(Clone, Debug)]
pub struct RecordSummary {
    /// The recording: [`RecordOptions::out`], or a directory next to it.
    pub out: PathBuf,
    /// First instant that the recording covers, on its clock.
    pub began: Timestamp,
    /// Last instant that it covers.
    pub ended: Timestamp,
    /// Why the capture ended.
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
    /// Requests and bios that the recorder itself caused; they are left out.
    pub own_rows: u64,
    /// Events that the kernel's buffers lost.
    pub lost: Lost,
    /// Processor time of the recorder while the capture ran.
    pub capture_cpu: Duration,
    /// Processor time of the recorder for writing the recording.
    pub write_cpu: Duration,
    /// Sentences that the user should know; each was also sent as [`Progress::Note`].
    pub notes: Vec<String>,
}

/// Adds rows that only the caller of a recording has, such as the phases of its command.
pub type OtherRows<'a> = dyn FnMut(&mut dyn RowSink) -> std::io::Result<()> + 'a;
