//! Defines the errors of a capture.

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
    /// The kernel was built without tracefs.
    #[error(
        "this kernel has no tracefs: it must be built with CONFIG_FTRACE=y and CONFIG_BLK_DEV_IO_TRACE=y"
    )]
    NoTracefs,
    /// tracefs exists but cannot be mounted.
    #[error("tracefs cannot be mounted: try `mount -t tracefs nodev /sys/kernel/tracing`")]
    Mount {
        /// The kernel's error when mounting tracefs.
        #[source]
        source: io::Error,
    },
    /// The kernel is locked down, so even root may not trace.
    #[error(
        "this kernel is locked down ({mode}), so even root cannot trace: boot without Secure Boot or with `lockdown=none`"
    )]
    Lockdown {
        /// The lockdown mode: `integrity` or `confidentiality`.
        mode: String,
    },
    /// tracefs is mounted read-only.
    #[error(
        "{path} is read-only here, as in a container: run fonio on the host, or remount it with `mount -o remount,rw {mount}`"
    )]
    ReadOnly {
        /// The file or directory that cannot be written.
        path: PathBuf,
        /// The mount that contains `path`.
        mount: PathBuf,
    },
    /// A process selected for recording its calls does not exist.
    #[error("no process {pid} is running; name a running process, or record a command with --calls")]
    NoProcess {
        /// The process id that the user selected.
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
    /// The device that the user named does not exist.
    #[error("there is no block device {name:?} here; this machine has: {}", present.join(", "))]
    UnknownDevice {
        /// The device name that the user gave.
        name: String,
        /// Names of the block devices in `/sys/block`.
        present: Vec<String>,
    },
    /// The path that the user named cannot be looked up.
    #[error("{path} cannot be looked up")]
    UnknownPath {
        /// The path that the user gave.
        path: PathBuf,
        /// The kernel's error for the path.
        #[source]
        source: io::Error,
    },
    /// The file system of a path has no block device.
    #[error(
        "{path} is on a {fs} file system, which has no block device: name a path on a disk, or a device such as /dev/mmcblk0"
    )]
    NoDeviceBelow {
        /// The path that the user gave.
        path: PathBuf,
        /// The file-system type: `tmpfs`, `nfs4`, …
        fs: String,
    },
    /// The recorded command could not be started.
    #[error("the command {program:?} could not be started")]
    Command {
        /// The program that could not be started.
        program: String,
        /// Why the program could not be started.
        #[source]
        source: NotStarted,
    },
    /// This process may not trace its own children.
    #[error(
        "this system does not allow ptrace ({source}), by which fonio sees the calls of a command; in a container, allow it with `--cap-add SYS_PTRACE` or `--security-opt seccomp=unconfined`; elsewhere, set kernel.yama.ptrace_scope to at most 1"
    )]
    NoPtrace {
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// The kernel refused the filter that stops a command at its calls.
    #[error(
        "this system does not allow seccomp filters ({source}), with which fonio selects the calls of a command: it needs CONFIG_SECCOMP_FILTER=y and Linux 5.3 or later, and a container that does not forbid the call seccomp"
    )]
    NoSeccomp {
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// The numbers of this processor's system calls are not known.
    #[error(
        "fonio sees the calls of a command only on x86-64 and 64-bit ARM, but this fonio is a program for {0}; on a 64-bit kernel, use the static fonio for that processor"
    )]
    OtherProcessor(&'static str),
    /// The command after `--` is empty.
    #[error("no program was named after `--`")]
    EmptyCommand,
    /// An operation on a file in tracefs, procfs or sysfs failed.
    #[error("{path}: {doing} failed")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The operation that failed, such as reading.
        doing: &'static str,
        /// The kernel's error for the operation.
        #[source]
        source: io::Error,
    },
    /// A `format` file of tracefs is not in a known format.
    #[error("{path} has a layout that fonio does not know: {problem}")]
    Format {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong with the file.
        problem: String,
    },
    /// The recording could not be written, and no part of it remains.
    #[error("the recording {out} could not be written")]
    Write {
        /// The path of the recording.
        out: PathBuf,
        /// Why writing failed.
        #[source]
        source: io::Error,
    },
    /// The file system became full, or a quota was used up, while the recording was written. The recording has the rows that fit.
    #[error(
        "the file system of {} is full, or your quota is used up: the recording there lacks {missing}; make room, or choose a directory on another file system, and record again",
        out.display()
    )]
    DiskFull {
        /// The path of the recording.
        out: PathBuf,
        /// The missing rows: `700 of 1000 requests, 20 of 90 bios`.
        missing: String,
    },
    /// The recording could not be created or finished.
    #[error(transparent)]
    Recording(#[from] fonio_recording::RecordingError),
    /// The spill file failed.
    #[error("cannot use the spill file in {dir}")]
    Spill {
        /// The directory of the spill file.
        dir: PathBuf,
        /// The kernel's error for the spill file.
        #[source]
        source: io::Error,
    },
    /// The user pressed Ctrl-C twice, which aborts a capture.
    #[error("interrupted twice: no recording was kept")]
    Aborted,
}
