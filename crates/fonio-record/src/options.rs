//! Defines the options of a capture, its progress messages, and its summary.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fonio_core::meta::{Device, Lost};
use fonio_core::{BlockedIn, ByteCount, DeviceId, Nanos, RowSink, Timestamp};
use fonio_recording::Key;

/// The options for creating a recording.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The recording's directory, which must be new or empty. If the path exists at the end of the capture,
    /// the recording goes to `NAME-2`, or to the name with the next free number.
    pub out: PathBuf,
    /// Replace an existing recording at `out`.
    pub overwrite: bool,
    /// The devices to watch; empty means every block device.
    pub select: Vec<Selector>,
    /// End the capture after this time. A command that still runs then gets SIGTERM.
    pub duration: Option<Duration>,
    /// Run this command, and end the capture when the command ends. The list contains the program, then its
    /// arguments.
    pub command: Option<Vec<OsString>>,
    /// The command line stored in the recording; `None` for `command` itself.
    pub told_command: Option<Vec<String>>,
    /// Without a command: end the capture when this becomes true, instead of at the first Ctrl-C or SIGTERM.
    pub until: Option<Arc<AtomicBool>>,
    /// By `ptrace`: when the command has ended, sync the file systems on which it changed files, so that requests for
    /// its files do not come later.
    pub sync_changed: bool,
    /// The environment in which the command is started.
    pub setting: CommandSetting,
    /// Also record when and why threads of the command and of its descendants were blocked.
    pub waits: bool,
    /// How to record all threads of the machine that storage or a kernel lock blocks. This option has no
    /// effect if the command's threads are followed (`waits`, `until_idle`).
    pub blocked: BlockedBy,
    /// Also record the file-system calls of the command and of its descendants, by BPF.
    pub calls: bool,
    /// Also record the file-system calls of the processes with these ids, and of descendants that these
    /// processes start later.
    pub calls_of: Vec<u32>,
    /// Also record the file-system calls of all programs that run when the capture begins, except this process, and of
    /// processes that they start later.
    pub calls_of_all: bool,
    /// With calls, also record the SQL statements of SQLite, without their values.
    pub statements: bool,
    /// Also record the file, the kind of data and the causing thread of each request.
    pub files: bool,
    /// End the capture and the command when the command becomes quiet. Waits are then recorded, too.
    pub until_idle: Option<Quiet>,
    /// Memory for raw trace pages in the recorder.
    pub buffer: ByteCount,
    /// Directory to which raw trace pages are written once half of `buffer` is full, preferably on a disk
    /// that is not watched. The recorder creates an unnamed temporary file in this directory. If the option
    /// is `None`, the capture ends when the buffer is full.
    pub spill_to: Option<PathBuf>,
    /// Interval between two samples of the monitor; `None` to run without the monitor.
    pub sample_interval: Option<Duration>,
    /// The size of the kernel's ring buffer per processor. If `None`, the recorder chooses the size: 1 to 8
    /// MiB per processor, 64 MiB in total, and at most 1/32 of the memory.
    pub kernel_buffer_per_cpu: Option<ByteCount>,
    /// Replace names by tokens computed with this key, so that the recording can be shared.
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
            until: None,
            sync_changed: false,
            setting: CommandSetting::default(),
            waits: false,
            blocked: BlockedBy::Best,
            calls: false,
            calls_of: Vec::new(),
            calls_of_all: false,
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

/// How the recorder finds the threads that storage or a kernel lock blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockedBy {
    /// The recorder uses BPF or, if BPF is not possible, scheduler events in tracefs.
    #[default]
    Best,
    /// By BPF only; without BPF, blocked threads are not recorded.
    Bpf,
    /// By scheduler events in tracefs, which show less than BPF.
    Tracefs,
    /// Blocked threads are not recorded.
    No,
}

/// The environment in which a command is started.
#[derive(Clone, Debug, Default)]
pub struct CommandSetting {
    /// The command's working directory; `None` for the recorder's directory.
    pub dir: Option<PathBuf>,
    /// The mount namespace in which the command starts; `None` for the recorder's namespace. The working
    /// directory is looked up in it.
    pub mounts: Option<Arc<OwnedFd>>,
    /// The overlays in this namespace: the device number and the upper folder of each.
    pub overlays: Vec<(DeviceId, PathBuf)>,
    /// The folders with copies that this namespace shows in the place of the user's folders: each with the user's
    /// folder. Files in the former are recorded with their paths in the latter, which the user knows.
    pub copies: Vec<(PathBuf, PathBuf)>,
    /// Environment variables added to the recorder's environment variables.
    pub environment: Vec<(OsString, OsString)>,
    /// Make the command the leader of a new process group, which ends when the command ends.
    pub own_group: bool,
    /// The folders of the control groups in which the command starts.
    pub cgroups: Vec<PathBuf>,
    /// Where the command's standard output goes.
    pub output: CommandOutput,
    /// A descriptor to which the command's standard output goes instead, such as the end of a pipe.
    pub stdout: Option<Arc<OwnedFd>>,
    /// A file to which the command's standard output and standard error go instead.
    pub log: Option<Arc<OwnedFd>>,
}

/// Where a command's standard output goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommandOutput {
    /// The command writes to our standard output, and also shares our standard input.
    #[default]
    Inherit,
    /// The command writes to our standard error.
    ToError,
    /// The output is discarded, and so is the standard error.
    Discard,
}

/// The condition under which a command that does not end on its own counts as quiet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quiet {
    /// The threads of a quiet command together use less than this share of one processor, and none of them
    /// waits for storage.
    pub below_share: f64,
    /// How long the command must stay below this share to count as quiet.
    pub lasting: Duration,
}

/// Selects the devices to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// A block device: `mmcblk0`, `/dev/mmcblk0`, a link to `/dev/mmcblk0`, or `179:0`.
    Device(OsString),
    /// A file or directory, for the devices below its file system.
    Path(PathBuf),
}

/// The program that has been blocked on storage longest so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedSoFar {
    /// The name of the process.
    pub name: String,
    /// The total time of its threads' waits of at least 1 ms. Threads wait in parallel, so the sum can exceed
    /// the duration of the capture.
    pub time: Nanos,
    /// The number of its threads that were blocked.
    pub threads: u64,
    /// The operation in which its threads were blocked longest.
    pub blocked_in: BlockedIn,
}

/// Messages of the recorder about its progress.
#[derive(Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// A message for the user, in one sentence.
    Note(&'a str),
    /// The capture has begun: events are recorded from now on.
    Started {
        /// The watched devices; empty means every device.
        devices: &'a [Device],
    },
    /// The capture is running. This message is sent about once a second.
    Running {
        /// Time since the capture began.
        elapsed: Duration,
        /// Size of the raw trace recorded so far.
        trace_bytes: ByteCount,
        /// The part of the raw trace that is in memory.
        held_bytes: ByteCount,
        /// The program that was blocked on storage longest; `None` if no thread was blocked, or waits are not
        /// recorded.
        blocked: Option<BlockedSoFar>,
    },
    /// The recorded command was started.
    CommandStarted {
        /// The process id of the command.
        pid: u32,
    },
    /// The capture has ended, and the recording is being written.
    Writing {
        /// Number of events written so far.
        events: u64,
        /// Size of the raw trace read so far.
        trace_bytes: ByteCount,
        /// Total size of the raw trace.
        trace_bytes_total: ByteCount,
    },
}

/// The reason why a capture ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The duration given by the user has passed.
    Duration,
    /// The recorded command ended.
    CommandEnded,
    /// The user pressed Ctrl-C.
    Interrupted,
    /// The recorder received SIGTERM.
    Terminated,
    /// The memory for raw trace pages was full.
    BufferFull,
    /// The command became quiet.
    Idle,
}

/// The summary of a finished capture.
#[derive(Clone, Debug)]
pub struct RecordSummary {
    /// The path of the recording: [`RecordOptions::out`], or a directory next to it.
    pub out: PathBuf,
    /// Start of the recorded period, on the recording's clock.
    pub began: Timestamp,
    /// End of the recorded period, on the recording's clock.
    pub ended: Timestamp,
    /// The reason why the capture ended.
    pub stopped_by: StopReason,
    /// The command's exit code; `None` if there was no command, or a signal killed it.
    pub command_exit: Option<i32>,
    /// The signal that killed the command, if one did.
    pub command_signal: Option<i32>,
    /// Number of events captured.
    pub events: u64,
    /// Size of the raw trace captured.
    pub trace_bytes: ByteCount,
    /// Number of rows in each table of the recording.
    pub rows: BTreeMap<String, u64>,
    /// Number of requests and bios of the recorder itself, which the recording omits.
    pub own_rows: u64,
    /// Events that were lost in the kernel's buffers.
    pub lost: Lost,
    /// Processor time that the recorder used during the capture.
    pub capture_cpu: Duration,
    /// Processor time that the recorder used for writing the recording.
    pub write_cpu: Duration,
    /// Messages for the user. Each message was also sent as [`Progress::Note`].
    pub notes: Vec<String>,
}

/// Adds the caller's own rows, such as the phases of its command.
pub type OtherRows<'a> = dyn FnMut(&mut dyn RowSink) -> std::io::Result<()> + 'a;
