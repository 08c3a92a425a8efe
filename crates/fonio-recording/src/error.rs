//! Defines the errors of reading and writing recordings.

use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;

/// An error in writing, opening or reading a recording. Each message says what the user can do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The path is not a recording.
    #[error("{} is not a recording: {why}; give a directory that `fonio record` or an import wrote", path.display())]
    NotARecording {
        /// The path that is not a recording.
        path: PathBuf,
        /// Why the path is not a recording.
        why: String,
    },
    /// A later version of fonio wrote the recording.
    #[error(
        "{} has schema version {found}, and this fonio knows versions up to {known}; read it with the fonio that wrote it ({writer}) or a later one",
        path.display()
    )]
    NewerSchema {
        /// The path of the recording.
        path: PathBuf,
        /// The schema version of the recording.
        found: u32,
        /// The highest schema version that this build reads.
        known: u32,
        /// The name and version of the program that wrote the recording.
        writer: String,
    },
    /// A table is missing, although every recording has it or `meta.json` counts rows in it.
    #[error("{} is missing, so the recording is incomplete; copy the whole directory again", path.display())]
    MissingTable {
        /// The path of the table's file.
        path: PathBuf,
    },
    /// The file of a table is truncated or damaged.
    #[error("{} cannot be read as Parquet, because it is truncated or damaged; copy it again or record anew", path.display())]
    Damaged {
        /// The path of the table's file.
        path: PathBuf,
        /// The Parquet library's error.
        #[source]
        source: ParquetError,
    },
    /// A file of the recording would need too much memory or time.
    #[error("{} would need too much memory or time: {why}", path.display())]
    TooLarge {
        /// The path of the file.
        path: PathBuf,
        /// The size that is too large, and its limit.
        why: String,
    },
    /// A table is a directory of files instead of a single file.
    #[error(
        "{} is a directory, like a table from Spark; write a single file with coalesce(1), and replace the directory by it",
        path.display()
    )]
    Parts {
        /// The path of the directory.
        path: PathBuf,
    },
    /// A Parquet file is not the table that its name indicates.
    #[error("{} does not have the columns of this table: {why}; see docs/recording-reference.md", path.display())]
    Columns {
        /// The path of the table's file.
        path: PathBuf,
        /// The name of the column, and what is wrong with it.
        why: String,
    },
    /// A cell contains a value that the schema does not allow.
    #[error("{}: column {column}, row {row}: {value:?} is not a value of this column", path.display())]
    Value {
        /// The path of the table's file.
        path: PathBuf,
        /// The name of the column with the value.
        column: &'static str,
        /// The index of the row with the value, from 0.
        row: u64,
        /// The value that is not allowed.
        value: String,
    },
    /// A row is out of order in its table.
    #[error("{}: row {row} is out of order; sort the table as docs/recording-reference.md says", path.display())]
    Order {
        /// The path of the table's file.
        path: PathBuf,
        /// The index of the row that is out of order, from 0.
        row: u64,
    },
    /// The number of rows in a table differs from `meta.json`.
    #[error("{} has {found} rows and should have {expected}; copy the whole directory again", path.display())]
    RowCount {
        /// The path of the table's file.
        path: PathBuf,
        /// The number of rows according to `meta.json`.
        expected: u64,
        /// The number of rows that the table has.
        found: u64,
    },
    /// `meta.json` or a line of `diagnostics.jsonl` is not valid.
    #[error("{}, line {line}: not valid; copy it again or record anew", path.display())]
    Json {
        /// The path of the file that is not valid.
        path: PathBuf,
        /// The number of the line that is not valid, from 1.
        line: u64,
        /// The JSON library's error.
        #[source]
        source: serde_json::Error,
    },
    /// There is already a recording.
    #[error("{} exists: name another path with --output, or add --overwrite", path.display())]
    Exists {
        /// The recording that would have been overwritten.
        path: PathBuf,
    },
    /// The path contains something that fonio did not write and must not remove.
    #[error("{} will not be overwritten: {why}; choose another name or remove it yourself", path.display())]
    NotOurs {
        /// The existing file or directory that would have been replaced.
        path: PathBuf,
        /// Why the file or directory is not a recording.
        why: String,
    },
    /// The file system is full, or a quota is used up, before a recording has begun.
    #[error(
        "the file system or your quota has no room for a recording in {}: it needs at least {kib} KiB; make room there, or name another folder with --output",
        dir.display()
    )]
    NoRoom {
        /// The folder of the recording.
        dir: PathBuf,
        /// The size of the smallest recording, in KiB.
        kib: u64,
    },
    /// A system call failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The action on the file that failed: `create`, `write`, `rename`, …
        action: &'static str,
        /// The file or directory on which the action failed.
        path: PathBuf,
        /// The system's error for the action.
        #[source]
        source: io::Error,
    },
    /// The sink to which the rows were passed failed; the recording is not damaged.
    #[error("the rows of the recording could not be processed")]
    Sink(#[source] io::Error),
}

impl RecordingError {
    /// Returns a function that converts errors of `std::fs` calls, for `map_err`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecordingError {
        let path = path.to_owned();
        move |source| RecordingError::Io { action, path, source }
    }

    /// Extracts the error from an `io::Error` that the conversion below created. Any other `io::Error`
    /// becomes the error of a failed write in `dir`.
    pub(crate) fn from_sink(error: io::Error, dir: &Path) -> RecordingError {
        error.downcast().unwrap_or_else(|source| RecordingError::Io {
            action: "write",
            path: dir.to_owned(),
            source,
        })
    }
}

/// A [`RowSink`](fonio_core::RowSink) can fail only with an `io::Error`, so this conversion wraps the error
/// of the recording in an `io::Error`.
impl From<RecordingError> for io::Error {
    fn from(error: RecordingError) -> io::Error {
        let kind = match &error {
            RecordingError::Io { source, .. } | RecordingError::Sink(source) => source.kind(),
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
