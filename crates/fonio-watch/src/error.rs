//! The errors of this crate.

use std::io;
use std::path::PathBuf;

/// Errors with the files of a watch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// A file or folder cannot be used.
    #[error("{path} cannot be {doing}: {cause}")]
    File {
        /// The file.
        path: PathBuf,
        /// `read`, `written`, …
        doing: &'static str,
        /// The system's error; the sentence already contains it.
        cause: io::Error,
    },
    /// The file is not one of a watch.
    #[error("{path} is not {what}; move it away, or name another folder with --state")]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// The kind of file that it should be.
        what: &'static str,
    },
    /// A later version of fonio wrote the file.
    #[error(
        "{path} was written by a newer fonio (format {found}, this one knows {known}); update fonio, or move the file away"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of the file.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// A watch runs already.
    #[error("a watch runs already (process {pid}); `fonio watch stop` ends it")]
    Runs {
        /// Its process.
        pid: u32,
    },
    /// The settings are wrong.
    #[error("{path}: {problem}")]
    Settings {
        /// The file.
        path: PathBuf,
        /// The mistake, its place, and the text to write instead.
        problem: String,
    },
    /// The kept stall is damaged.
    #[error("{path} is damaged{}: {problem}", at.map(|at| format!(" at byte {at} of its contents")).unwrap_or_default())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The byte, after decompression.
        at: Option<u64>,
        /// The damage.
        problem: String,
    },
    /// The server of the figures cannot listen.
    #[error("cannot listen on {address}: {problem}; choose another address with `listen`")]
    Listen {
        /// The address.
        address: String,
        /// The system's words.
        problem: String,
    },
}

impl WatchError {
    pub(crate) fn file(path: &std::path::Path, doing: &'static str) -> impl FnOnce(io::Error) -> WatchError {
        let path = path.to_owned();
        move |cause| WatchError::File { path, doing, cause }
    }
}
