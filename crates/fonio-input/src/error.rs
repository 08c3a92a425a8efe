//! Errors of opening and reading an input.

use std::io;
use std::path::PathBuf;

use fonio_analysis::FilterError;
use fonio_recording::RecordingError;
use fonio_trace::recognise::OpenError;
use fonio_watch::WatchError;

/// The reason why an input cannot be opened or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// There is no file with this path.
    #[error("{}: there is no such file", path.display())]
    Missing {
        /// The path as given by the user.
        path: PathBuf,
    },
    /// There is no file with this path, and the path is not the prefix of blktrace's files.
    #[error("{}: no such file, and no {}.blktrace.0", path.display(), path.display())]
    MissingSet {
        /// The path as given by the user.
        path: PathBuf,
    },
    /// A folder cannot be listed.
    #[error("{} cannot be listed", path.display())]
    List {
        /// The path of the folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file cannot be opened.
    #[error("{} cannot be opened", path.display())]
    Open {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A folder contains neither a recording nor a trace.
    #[error(
        "{} is neither a recording (meta.json and requests.parquet), nor a directory of per-CPU blktrace files, nor a CTF \
         trace of LTTng (metadata and streams); to record its I/O, run `fonio check {}`",
        path.display(), path.display()
    )]
    NotAnInput {
        /// The path of the folder.
        path: PathBuf,
    },
    /// A folder contains several traces.
    #[error("{} contains several {kind}traces; name one of {names}", path.display())]
    Several {
        /// The path of the folder.
        path: PathBuf,
        /// The format of the traces with a space, such as `CTF `; empty if the format needs no name.
        kind: &'static str,
        /// The traces, separated by commas.
        names: String,
    },
    /// One of several paths is not a file of a trace.
    #[error(
        "{} is {what}; several inputs must be the files of one trace. Read one recording or stall at a time, or compare \
         them: `fonio compare {all}`", path.display()
    )]
    NotAlone {
        /// The path that is not a file of a trace.
        path: PathBuf,
        /// The kind of the path.
        what: &'static str,
        /// All paths, separated by spaces.
        all: String,
    },
    /// The filter of the analysis is not valid.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The kept stall cannot be read.
    #[error(transparent)]
    Kept(#[from] WatchError),
    /// The trace has an unknown format, or the stated format or columns do not fit.
    #[error(transparent)]
    Trace(#[from] OpenError),
    /// A file cannot be read, or the sink of the rows failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}
