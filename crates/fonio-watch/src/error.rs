//! The errors of this crate.

use std::io;
use std::path::PathBuf;

/// Errors with the files of a watch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum WatchError {
    /// A file or folder cannot be used.
    #[error("{path} cannot be {doing}: {cause}")]
    File {
        path: PathBuf,
        doing: &'static str,
        /// The system's error; the sentence already contains it.
        cause: io::Error,
    },
    /// The file is not one of a watch.
    #[error("{path} is not {what}; move it away, or name another folder with --state")]
    NotOurs { path: PathBuf, what: &'static str },
    /// A later version of fonio wrote the file.
    #[error(
        "{path} was written by a newer fonio (format {found}, this one knows {known}); update fonio, or move the file away"
    )]
    Newer { path: PathBuf, found: u32, known: u32 },
    /// A watch runs already.
    #[error("a watch runs already (process {pid}); `fonio watch stop` ends it")]
    Runs { pid: u32 },
    /// The settings are wrong.
    #[error("{path}: {problem}")]
    Settings { path: PathBuf, problem: String },
    /// The kept stall is damaged.
    #[error("{path} is damaged{}: {problem}", at.map(|at| format!(" at byte {at} of its contents")).unwrap_or_default())]
    Damaged {
        path: PathBuf,
        /// The byte, after decompression.
        at: Option<u64>,
        problem: String,
    },
    /// The server of the figures cannot listen.
    #[error("cannot listen on {address}: {problem}; choose another address with `listen`")]
    Listen { address: String, problem: String },
}

impl WatchError {
    pub(crate) fn file(path: &std::path::Path, doing: &'static str) -> impl FnOnce(io::Error) -> WatchError {
        let path = path.to_owned();
        move |cause| WatchError::File { path, doing, cause }
    }
}
