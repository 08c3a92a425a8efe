//! Defines the errors of benchmarks.

use std::io;
use std::path::PathBuf;

use fonio_host::HostError;
use fonio_system::SystemError;
use fonio_workload::WorkloadError;
use thiserror::Error;

/// The reason why a benchmark could not start or finish.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BenchError {
    /// fio is not installed.
    #[error("fio is not installed; on Debian: apt-get install --no-install-recommends fio")]
    FioMissing,
    /// fio exited with an error.
    #[error("`{command}` failed ({status}): {output}")]
    FioFailed {
        /// The command line of fio.
        command: String,
        /// fio's exit status.
        status: String,
        /// fio's standard error.
        output: String,
    },
    /// The output of fio does not have the format of fio 3.
    #[error("cannot read the output of fio: {what}; fonio needs fio 3")]
    FioOutput {
        /// The parse error and its position in the output.
        what: String,
    },
    /// A system call failed.
    #[error(transparent)]
    System(#[from] SystemError),
    /// The target is neither a directory nor a block device.
    #[error("{} is neither a directory nor a block device", path.display())]
    NoTarget {
        /// The path of the target.
        path: PathBuf,
    },
    /// The file system does not support direct I/O, so a benchmark on it would measure the page cache.
    #[error(
        "{} ({file_system}) does not support direct I/O, so the benchmark would measure the page cache; \
         use a directory on another file system, or the device itself", path.display()
    )]
    NoDirectIo {
        /// The directory or device of the benchmark.
        path: PathBuf,
        /// The kernel's name for the target's file system.
        file_system: String,
    },
    /// The device contains data, and the user has not confirmed that the data may be overwritten.
    #[error(
        "{} contains {found}, which the benchmark would overwrite; confirm with --erase {}",
        path.display(), path.display()
    )]
    HoldsData {
        /// The device that contains data.
        path: PathBuf,
        /// The partition table or file system found on the device.
        found: String,
    },
    /// The device is in use, or cannot be read.
    #[error(transparent)]
    Host(HostError),
    /// The target has too little free space.
    #[error(
        "{} has room for {free} bytes, but the benchmark needs {needed}; try --size {}MiB",
        path.display(), (free / 4) >> 20
    )]
    NoRoom {
        /// The directory or device of the benchmark.
        path: PathBuf,
        /// The free space in bytes, minus a reserve.
        free: u64,
        /// The required space in bytes.
        needed: u64,
    },
    /// The time limit of the benchmark ended before the first test was complete.
    #[error("the time limit was reached before the first measurement; allow more time with --for")]
    TimeOver,
    /// The device no longer responds.
    #[error("{} no longer responds ({reason}); check `dmesg`, reconnect it, and repeat", path.display())]
    Gone {
        /// The directory or device of the benchmark.
        path: PathBuf,
        /// The error of the failed read.
        reason: String,
    },
    /// The file system became full during the benchmark.
    #[error("{} became full during the benchmark; free some space, and repeat the benchmark", path.display())]
    Full {
        /// The directory or device of the benchmark.
        path: PathBuf,
    },
    /// The directory is read-only.
    #[error(
        "{} is read-only; mount it writable, choose a directory on another file system, or let `fonio storebench` read the raw device",
        path.display()
    )]
    ReadOnly {
        /// The path of the directory.
        path: PathBuf,
    },
    /// The machine has no state folder, in which results would survive a reboot.
    #[error("there is no state folder, because neither HOME nor XDG_STATE_HOME is set; use -o FILE")]
    NoStateFolder,
    /// The file is not a result of `fonio storebench`.
    #[error("{} is not a result of fonio storebench: {reason}", path.display())]
    NotAResult {
        /// The path of the file.
        path: PathBuf,
        /// The reason why the file is not a valid result.
        reason: String,
    },
    /// The text is not a valid result id.
    #[error("`{id}` is not a result id: an id has up to 128 letters, digits, - and _")]
    NotAnId {
        /// The text given as an id.
        id: String,
    },
    /// The benchmark could not launch the apps.
    #[error(transparent)]
    Launch(Box<WorkloadError>),
    /// The user interrupted the benchmark.
    #[error("interrupted; the benchmark's file is removed")]
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
            // The user confirms this case with `--erase`.
            HostError::HoldsData { path, found } => BenchError::HoldsData { path, found },
            other => BenchError::Host(other),
        }
    }
}
