//! Why a device could not be measured.

use std::io;
use std::path::PathBuf;

use fonio_host::HostError;
use fonio_system::SystemError;
use thiserror::Error;

/// A benchmark that did not happen, or did not finish.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BenchError {
    /// fio is not on the path.
    #[error("fio is not installed; on Debian: apt-get install --no-install-recommends fio")]
    FioMissing,
    /// fio ended with an error.
    #[error("`{command}` failed ({status}): {output}")]
    FioFailed {
        /// The command line.
        command: String,
        /// How it ended.
        status: String,
        /// What it said.
        output: String,
    },
    /// fio's output is not what fio 3 writes.
    #[error("fio's output is not understood: {what}")]
    FioOutput {
        /// What is wrong, and where.
        what: String,
    },
    /// The system refused something.
    #[error(transparent)]
    System(#[from] SystemError),
    /// Neither a folder nor a block device.
    #[error("{} is neither a folder nor a block device", path.display())]
    NoTarget {
        /// What was named.
        path: PathBuf,
    },
    /// Direct I/O is refused, so that only the page cache could be measured.
    #[error(
        "{} ({file_system}) refuses direct I/O, so the result would be the page cache's; \
         name a folder on another file system, or the device itself", path.display()
    )]
    NoDirectIo {
        /// The folder or device.
        path: PathBuf,
        /// Its file system, as the kernel calls it.
        file_system: String,
    },
    /// The device holds data and was named once only.
    #[error(
        "{} holds {found}, which the benchmark would overwrite; confirm with --erase {}",
        path.display(), path.display()
    )]
    HoldsData {
        /// The device.
        path: PathBuf,
        /// What was found on it.
        found: String,
    },
    /// The device cannot be taken: it is in use, or cannot be read.
    #[error(transparent)]
    Host(HostError),
    /// There is no room.
    #[error(
        "{} has room for {free} bytes, and the benchmark needs {needed}; with --size {}MiB it needs less",
        path.display(), (free / 4) >> 20
    )]
    NoRoom {
        /// The folder or device.
        path: PathBuf,
        /// What is free, less a reserve.
        free: u64,
        /// What is needed.
        needed: u64,
    },
    /// The time for the whole benchmark was over before any test was done.
    #[error("the time was over before anything was measured; give it more with --time")]
    TimeOver,
    /// Somebody asked to stop.
    #[error("stopped; what was written for the benchmark is removed")]
    Interrupted,
}

impl BenchError {
    pub(crate) fn system(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> BenchError {
        let failed = SystemError::on(action, path);
        move |source| failed(source).into()
    }
}

impl From<HostError> for BenchError {
    fn from(error: HostError) -> BenchError {
        match error {
            // The command line's way to name it twice.
            HostError::HoldsData { path, found } => BenchError::HoldsData { path, found },
            other => BenchError::Host(other),
        }
    }
}
