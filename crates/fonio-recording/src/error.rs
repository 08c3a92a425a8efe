//! Defines the errors of recordings.

use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;

/// An error in writing, opening or reading a recording. Each message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The path is not a recording.
    #[error("{} is not a recording: {why}; give a directory that `fonio record` or an import wrote", path.display())]
    NotARecording {
        /// The path.
        path: PathBuf,
        /// Why it is not a recording.
        why: String,
    },
    /// A later fonio wrote the recording.
    #[error(
        "{} has schema version {found}, and this fonio knows versions up to {known}; read it with the fonio that wrote it ({writer}) or a later one",
        path.display()
    )]
    NewerSchema {
        /// The recording.
        path: PathBuf,
        /// The recording's version.
        found: u32,
        /// The highest version that this build reads.
        known: u32,
        /// The program that wrote it.
        writer: String,
    },
    /// A table is missing, although every recording has it or `meta.json` counts rows in it.
    #[error("{} is missing, the recording is incomplete; copy the whole directory again", path.display())]
    MissingTable {
        /// The table's file.
        path: PathBuf,
    },
    /// A table is truncated or damaged.
    #[error("{} cannot be read as Parquet, it is truncated or damaged; copy it again or record anew", path.display())]
    Damaged {
        /// The table's file.
        path: PathBuf,
        /// The Parquet library's error.
        #[source]
        source: ParquetError,
    },
    /// A table is a directory of files.
    #[error(
        "{} is a directory, like a table from Spark; write a single file with coalesce(1), and replace the directory by it",
        path.display()
    )]
    Parts {
        /// The directory.
        path: PathBuf,
    },
    /// A Parquet file is not the table that its name indicates.
    #[error("{} does not have the columns of this table: {why}; see docs/recording-reference.md", path.display())]
    Columns {
        /// The table's file.
        path: PathBuf,
        /// The column and the mistake.
        why: String,
    },
    /// A value that the schema does not allow.
    #[error("{}: column {column}, row {row}: {value:?} is not a value of this column", path.display())]
    Value {
        /// The table's file.
        path: PathBuf,
        /// The column.
        column: &'static str,
        /// The row, counted from 0.
        row: u64,
        /// The value found.
        value: String,
    },
    /// A row is out of order in its table.
    #[error("{}: row {row} is out of order; sort the table as docs/recording-reference.md says", path.display())]
    Order {
        /// The table's file.
        path: PathBuf,
        /// The row, counted from 0.
        row: u64,
    },
    /// The number of rows in a table differs from `meta.json`.
    #[error("{} has {found} rows and should have {expected}; copy the whole directory again", path.display())]
    RowCount {
        /// The table's file.
        path: PathBuf,
        /// The number of rows in `meta.json`.
        expected: u64,
        /// The number of rows in the table.
        found: u64,
    },
    /// `meta.json` or a line of `diagnostics.jsonl` is not valid.
    #[error("{}, line {line}: not valid; copy it again or record anew", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
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
        /// The file or directory in the way.
        path: PathBuf,
        /// Why it does not count as a recording.
        why: String,
    },
    /// A system call failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The action that failed: `create`, `write`, `rename`, …
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The sink to which the rows were passed failed; the recording is not damaged.
    #[error("the rows of the recording could not be processed")]
    Sink(#[source] io::Error),
}

impl RecordingError {
    /// Creates a converter for `map_err` on `std::fs` calls.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecordingError {
        let path = path.to_owned();
        move |source| RecordingError::Io { action, path, source }
    }

    /// Extracts the error from an `io::Error` that the conversion below created. Any other error becomes a
    /// failed write in `dir`.
    pub(crate) fn from_sink(error: io::Error, dir: &Path) -> RecordingError {
        error.downcast().unwrap_or_else(|source| RecordingError::Io {
            action: "write",
            path: dir.to_owned(),
            source,
        })
    }
}

/// A [`RowSink`](fonio_core::RowSink) can fail only with an `io::Error`, so this conversion wraps the error
/// of the recording in one.
impl From<RecordingError> for io::Error {
    fn from(error: RecordingError) -> io::Error {
        let kind = match &error {
            RecordingError::Io { source, .. } | RecordingError::Sink(source) => source.kind(),
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
