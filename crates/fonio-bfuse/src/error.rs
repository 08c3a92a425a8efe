//! Errors of mounts and of their statistics.

use std::io;
use std::path::PathBuf;

use fonio_system::SystemError;

/// An error of a mount: the failed operation, the path, and if possible the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// A system call failed.
    #[error(transparent)]
    System(#[from] SystemError),
    /// `fusermount3`, which users need to mount, is not installed.
    #[error(
        "fusermount3 is not installed, and only root can mount without it; on Debian: apt-get install fuse3"
    )]
    HelperMissing,
    /// `fusermount3` refused to mount, and printed the reason to standard error.
    #[error("fusermount3 did not mount {} ({status})", path.display())]
    HelperRefused {
        /// The directory at which to mount.
        path: PathBuf,
        /// The exit status of `fusermount3`.
        status: String,
    },
    /// The FUSE protocol version of the kernel is too old, or unknown.
    #[error("this kernel supports FUSE {major}.{minor}; fonio needs 7.23 (Linux 3.15) or later")]
    Protocol {
        /// Major version of the kernel's protocol.
        major: u32,
        /// Minor version of the kernel's protocol.
        minor: u32,
    },
    /// The requested mode is not available on this machine.
    #[error("{reason}")]
    Mode {
        /// The feature that is missing, and the mode to use instead.
        reason: &'static str,
    },
    /// The memory of the daemon cannot be locked.
    #[error(
        "cannot lock {memory} in memory: the limit of locked memory (RLIMIT_MEMLOCK) is {limit}; raise it with \
         `ulimit -l unlimited`, run with CAP_IPC_LOCK, or choose a smaller `buffer`. Without the lock, programs that use \
         the mount could wait for swap"
    )]
    NotLocked {
        /// The memory that cannot be locked.
        memory: &'static str,
        /// The limit of locked memory.
        limit: String,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
    /// There is no fonio mount at the path.
    #[error("no fonio mount at {}", path.display())]
    NotMounted {
        /// The path that was given.
        path: PathBuf,
    },
    /// The daemon's reply cannot be parsed, because the daemon runs another version of fonio.
    #[error("cannot read the reply of the daemon that serves {}: it runs another version of fonio; unmount, then mount again", path.display())]
    Answer {
        /// The directory at which the file system is mounted.
        path: PathBuf,
        /// The error of the JSON parser.
        #[source]
        source: serde_json::Error,
    },
}

impl MountError {
    /// Returns a function for `map_err` that explains why `memory` cannot be locked.
    pub(crate) fn not_locked<E: Into<io::Error>>(memory: &'static str) -> impl FnOnce(E) -> Self {
        use rustix::process::{Resource, getrlimit};
        let limit = getrlimit(Resource::Memlock).current;
        let limit = limit.map_or_else(|| "unlimited".to_owned(), |bytes| format!("{} KiB", bytes >> 10));
        move |source| MountError::NotLocked { memory, limit, source: source.into() }
    }

    /// Returns a function for `map_err` that adds `action` and `path` to a system error.
    pub(crate) fn system<E: Into<io::Error>>(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> Self {
        let failed = SystemError::on(action, path);
        move |source| failed(source).into()
    }
}
