//! Errors of emulated devices.

use std::io;
use std::path::PathBuf;

use fonio_core::{ByteCount, Nanos};
use fonio_host::HostError;
use fonio_system::SystemError;
use fonio_system::command::NotStarted;

/// An error while emulating a device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the error messages explain the fields")]
pub enum EmulatorError {
    /// An operation on the host failed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] SystemError),
    /// The device model is not available.
    #[error("{profile}: {reason}")]
    Profile { profile: String, reason: String },
    /// The serving process reported an error.
    #[error("the serving process failed: {reason}")]
    Server { reason: String },
    /// The serving process ended unexpectedly.
    #[error("the serving process ended unexpectedly")]
    ServerGone,
    /// This machine is too slow for the device.
    #[error(
        "this machine needs at least {:.0} µs per command, but the fastest command of {profile} takes only {:.0} µs; \
         use --dilate {dilate}, which makes the device {dilate} times slower",
        floor.0 as f64 / 1e3, fastest.0 as f64 / 1e3
    )]
    BelowFloor { profile: String, floor: Nanos, fastest: Nanos, dilate: u64 },
    /// The user's description of a fault is invalid.
    #[error("fault `{text}`: {reason}")]
    Fault { text: String, reason: String },
    /// The log of commands is damaged.
    #[error("{}: byte {offset}: {reason}", path.display())]
    Log {
        path: PathBuf,
        /// Byte offset of the damage in the log.
        offset: u64,
        reason: &'static str,
    },
    /// The image file exists, but its size differs from the device's.
    #[error("{} has {} bytes, but the device needs {}; use another file, or remove this one", path.display(), found.0, wanted.0)]
    ImageSize { path: PathBuf, found: ByteCount, wanted: ByteCount },
    /// The data of the device do not fit in memory.
    #[error(
        "the device's data need {} MiB of memory, but only {} MiB are available; choose a smaller --size, put the data \
         on a disk with --image FILE, or set FONIO_SPARSE_MEMORY=1, so that only written data take memory (such a device must not \
         hold swap space)",
        wanted.0 >> 20, available.0 >> 20
    )]
    NoMemory { wanted: ByteCount, available: ByteCount },
    /// The memory of the serving process cannot be locked.
    #[error(
        "cannot lock the memory of {memory}: the limit of locked memory (RLIMIT_MEMLOCK) is {limit}; raise it with \
         `ulimit -l unlimited`, or run as root with CAP_IPC_LOCK. Without the lock, the server could be swapped out \
         to its own device, and would wait for itself for good"
    )]
    NotLocked {
        memory: String,
        limit: String,
        #[source]
        source: io::Error,
    },
    /// The file system with the image has no direct I/O.
    #[error(
        "the file system of {} has no direct I/O, so the server could wait for dirty pages of its own device; put the \
         image on ext4, XFS or Btrfs, or in /dev/shm",
        path.display()
    )]
    NoDirectIo { path: PathBuf },
    /// The workload wrote nothing, so there is no moment at which the power could be cut.
    #[error("the workload wrote nothing, so the power cannot be cut during a write")]
    NothingWritten,
    /// The user's command could not be started.
    #[error("cannot start `{command}`")]
    Command {
        command: String,
        #[source]
        source: NotStarted,
    },
}

impl EmulatorError {
    pub(crate) fn system<E: Into<io::Error>>(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> EmulatorError {
        let failed = SystemError::on(action, path);
        move |source: E| failed(source).into()
    }
}
