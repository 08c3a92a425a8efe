//! The errors of a capture.

use std::io;
use std::path::PathBuf;

use fonio_system::command::NotStarted;

/// Why there is no recording. Each message is one sentence and, if possible, says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The process lacks the permission to trace.
    #[error("tracing block I/O needs root: run the same command with sudo")]
    NotRoot,
    /// The kernel has no tracefs.
    #[error(
        "this kernel has no tracefs: it must be built with CONFIG_FTRACE=y and CONFIG_BLK_DEV_IO_TRACE=y"
    )]
    NoTracefs,
    /// tracefs exists but cannot be mounted.
    #[error("tracefs cannot be mounted: try `mount -t tracefs nodev /sys/kernel/tracing`")]
    Mount {
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// The kernel is locked down, so even root may not trace.
    #[error(
        "this kernel is locked down ({mode}), so even root cannot trace: boot without Secure Boot or with `lockdown=none`"
    )]
    Lockdown {
        /// `integrity` or `confidentiality`.
        mode: String,
    },
    /// tracefs is not writable.
    #[error(
        "{path} is read-only here, as in a container: run fonio on the host, or remount it with `mount -o remount,rw {mount}`"
    )]
    ReadOnly {
        /// The file or directory that is not writable.
        path: PathBuf,
        /// The mount that contains it.
        mount: PathBuf,
    },
    /// A process selected for recording its calls does not exist.
    #[error("no process {pid} is running; name a running process, or record a command with --calls")]
    NoProcess {
        /// Its number.
        pid: u32,
    },
    /// The kernel has no block tracepoints.
    #[error("this kernel has no block events: it must be built with CONFIG_BLK_DEV_IO_TRACE=y")]
    NoBlockEvents,
    /// The kernel has no scheduler tracepoints, or cannot follow a command's threads.
    #[error(
        "this kernel cannot show why threads wait: it needs CONFIG_CONTEXT_SWITCH_TRACER=y and Linux 4.7 or later"
    )]
    NoSchedulerEvents,
    /// The kernel has no scheduler tracepoints.
    #[error("this kernel has no scheduler events: it needs CONFIG_CONTEXT_SWITCH_TRACER=y")]
    NoSwitchEvents,
    /// The kernel's trace clocks cannot be compared with any other clock.
    #[error("this kernel cannot trace with the monotonic clock (Linux 3.18 or later can)")]
    NoMonotonicClock,
    /// The kernel does not support tracefs instances.
    #[error(
        "this kernel has no tracefs instances, and fonio does not use the kernel's only buffer: use Linux 3.10 or later"
    )]
    NoInstances,
    /// The named device does not exist.
    #[error("there is no block device {name:?} here; those present are: {}", present.join(", "))]
    UnknownDevice {
        /// The requested name.
        name: String,
        /// Names in `/sys/block`.
        present: Vec<String>,
    },
    /// The named path cannot be looked up.
    #[error("{path} cannot be looked up")]
    UnknownPath {
        /// The path.
        path: PathBuf,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// The file system of a path has no block device.
    #[error(
        "{path} is on a {fs} file system, which has no block device: name a path on a disk, or a device such as /dev/mmcblk0"
    )]
    NoDeviceBelow {
        /// The path.
        path: PathBuf,
        /// The file system: `tmpfs`, `nfs4`, …
        fs: String,
    },
    /// The command could not be started.
    #[error("the command {program:?} could not be started")]
    Command {
        /// The program.
        program: String,
        /// The kernel's error.
        #[source]
        source: NotStarted,
    },
    /// An empty command was given.
    #[error("no program was named after `--`")]
    EmptyCommand,
    /// A file of tracefs, procfs or sysfs failed.
    #[error("{path}: {doing} failed")]
    File {
        /// The file.
        path: PathBuf,
        /// The action that failed.
        doing: &'static str,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// A `format` file of tracefs is not in a known format.
    #[error("{path} has a layout that fonio does not know: {problem}")]
    Format {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The recording could not be written, and no part of it remains.
    #[error("the recording {out} could not be written")]
    Write {
        /// The recording.
        out: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file system filled up while the recording was written. The recording has the rows that fit.
    #[error(
        "the file system of {} is full: the recording there lacks {missing}; make room, or choose a directory on another file system, and record again",
        out.display()
    )]
    DiskFull {
        /// The recording.
        out: PathBuf,
        /// The missing rows: `700 of 1000 requests, 20 of 90 bios`.
        missing: String,
    },
    /// Beginning or finishing the recording failed.
    #[error(transparent)]
    Recording(#[from] fonio_recording::RecordingError),
    /// The spill file failed.
    #[error("cannot use the spill file in {dir}")]
    Spill {
        /// Its directory.
        dir: PathBuf,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// The user pressed Ctrl-C twice.
    #[error("interrupted twice: no recording was kept")]
    Aborted,
}
