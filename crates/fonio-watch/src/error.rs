//! Errors of `fonio-watch`.

use std::io;
use std::path::PathBuf;

/// Errors concerning the files and settings of a watch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the error messages explain the fields")]
pub enum WatchError {
    /// A file or folder cannot be used.
    #[error("{path} cannot be {doing}: {cause}")]
    File {
        path: PathBuf,
        doing: &'static str,
        /// The operating system's error; the message already contains it.
        cause: io::Error,
    },
    /// The existing file was not written by a watch.
    #[error("{path} is not {what}; move it away, or name another folder with --state")]
    NotOurs { path: PathBuf, what: &'static str },
    /// A newer version of fonio wrote the file.
    #[error(
        "{path} was written by a newer fonio (format {found}; this version reads {known}); update fonio, or move the file away"
    )]
    Newer { path: PathBuf, found: u32, known: u32 },
    /// A watch is already running.
    #[error("a watch is already running (process {pid}); stop it with `fonio watch stop`")]
    Runs { pid: u32 },
    /// The settings are invalid.
    #[error("{path}: {problem}")]
    Settings { path: PathBuf, problem: String },
    /// The file of a kept stall is damaged.
    #[error("{path} is damaged{}: {problem}", at.map(|at| format!(" at byte {at} of its contents")).unwrap_or_default())]
    Damaged {
        path: PathBuf,
        /// Byte offset of the damage in the decompressed data.
        at: Option<u64>,
        problem: String,
    },
    /// The HTTP server cannot listen.
    #[error("cannot listen on {address}: {problem}; choose another address with `listen`")]
    Listen { address: String, problem: String },
}

impl WatchError {
    /// Returns a closure for `map_err`, as [`WatchError::file`] does, for a file in a trusted folder. The cause
    /// names the folder or file that cannot be used.
    pub(crate) fn used(
        path: &std::path::Path,
        doing: &'static str,
    ) -> impl FnOnce(fonio_system::SystemError) -> WatchError {
        let failed = WatchError::file(path, doing);
        move |cause| failed(cause.into())
    }

    pub(crate) fn file(path: &std::path::Path, doing: &'static str) -> impl FnOnce(io::Error) -> WatchError {
        let path = path.to_owned();
        move |cause| WatchError::File { path, doing, cause }
    }
}
