//! What can go wrong with a recording, and the way out of it.

use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;

/// A recording could not be written, opened or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The path does not hold a recording.
    #[error("{} is not a recording: {why}; give a directory that `fonio record` or an import wrote", path.display())]
    NotARecording {
        /// What was opened.
        path: PathBuf,
        /// What was found instead.
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
        /// Who wrote it.
        writer: String,
    },
    /// A table that every recording has, or that `meta.json` counts rows of, is not there.
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
        /// What the Parquet library found.
        #[source]
        source: ParquetError,
    },
    /// A table is a directory of files.
    #[error(
        "{} is a directory, as Spark writes a table; write it in one part, with coalesce(1), and put the part in its place",
        path.display()
    )]
    Parts {
        /// The directory.
        path: PathBuf,
    },
    /// A table is Parquet, but not the table that its name promises.
    #[error("{} does not have the columns of this table: {why}; see docs/recording.md", path.display())]
    Columns {
        /// The table's file.
        path: PathBuf,
        /// Which column, and what is wrong with it.
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
        /// What was found.
        value: String,
    },
    /// A row that is not in its table's order.
    #[error("{}: row {row} is not in the table's order; sort the table as docs/recording.md says", path.display())]
    Order {
        /// The table's file.
        path: PathBuf,
        /// The row, counted from 0.
        row: u64,
    },
    /// A table has more or fewer rows than `meta.json` says.
    #[error("{} has {found} rows and should have {expected}; copy the whole directory again", path.display())]
    RowCount {
        /// The table's file.
        path: PathBuf,
        /// What `meta.json` says.
        expected: u64,
        /// What the table has.
        found: u64,
    },
    /// `meta.json`, or a line of `diagnostics.jsonl`, is not what it should be.
    #[error("{}, line {line}: not valid; copy it again or record anew", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// What the JSON library found.
        #[source]
        source: serde_json::Error,
    },
    /// There is a recording already.
    #[error("{} exists; choose another name, or overwrite it explicitly", path.display())]
    Exists {
        /// The recording that would have been overwritten.
        path: PathBuf,
    },
    /// What is there would be lost, and fonio did not write it.
    #[error("{} will not be overwritten: {why}; choose another name or remove it yourself", path.display())]
    NotOurs {
        /// What would have been overwritten.
        path: PathBuf,
        /// Why it is not taken for a recording.
        why: String,
    },
    /// The operating system said no.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried: `create`, `write`, `rename`, …
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The sink that rows were given to failed; the recording is not at fault.
    #[error("the rows of the recording could not be processed")]
    Sink(#[source] io::Error),
}

impl RecordingError {
    /// For `map_err` on calls of `std::fs`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecordingError {
        let path = path.to_owned();
        move |source| RecordingError::Io { action, path, source }
    }

    /// The error inside an `io::Error` that the conversion below made; another one was met while working in `dir`.
    pub(crate) fn from_sink(error: io::Error, dir: &Path) -> RecordingError {
        error.downcast().unwrap_or_else(|source| RecordingError::Io {
            action: "write",
            path: dir.to_owned(),
            source,
        })
    }
}

/// A [`RowSink`](fonio_core::RowSink) can fail with an `io::Error` only; the recording's own error rides inside.
impl From<RecordingError> for io::Error {
    fn from(error: RecordingError) -> io::Error {
        let kind = match &error {
            RecordingError::Io { source, .. } | RecordingError::Sink(source) => source.kind(),
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
