//! What can go wrong before a mount stands, and when it is asked about.

use std::io;
use std::path::PathBuf;

use fonio_system::SystemError;

/// An error of mounting. Each says what was tried, on what, and where it can, the way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// A system call failed.
    #[error(transparent)]
    System(#[from] SystemError),
    /// `fusermount3`, which mounts for users, is not there.
    #[error(
        "fusermount3 is not installed, and only root mounts without it; on Debian: apt-get install fuse3"
    )]
    HelperMissing,
    /// `fusermount3` refused; it said why on standard error.
    #[error("fusermount3 did not mount {} ({status})", path.display())]
    HelperRefused {
        /// Where.
        path: PathBuf,
        /// How it ended.
        status: String,
    },
    /// The kernel speaks another version of the protocol.
    #[error("this kernel speaks FUSE {major}.{minor}; 7.23 (Linux 3.15) is the least")]
    Protocol {
        /// Its version.
        major: u32,
        /// Its minor version.
        minor: u32,
    },
    /// The mode cannot be had here.
    #[error("{reason}")]
    Mode {
        /// What is missing, and what to take instead.
        reason: &'static str,
    },
    /// Nothing of ours is mounted there.
    #[error("no fonio mount at {}", path.display())]
    NotMounted {
        /// Where.
        path: PathBuf,
    },
    /// The daemon's answer is not what it should be: it is of another version.
    #[error("the daemon of {} gave an answer that cannot be read", path.display())]
    Answer {
        /// Where it is mounted.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
}

impl MountError {
    /// For `map_err`.
    pub(crate) fn system<E: Into<io::Error>>(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> Self {
        let failed = SystemError::on(action, path);
        move |source| failed(source).into()
    }
}
