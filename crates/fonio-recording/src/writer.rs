//! Writing a recording.

use std::path::{Path, PathBuf};

use fonio_core::{Meta, RowSink};

use crate::RecordingError;

/// How a recording is written.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// Replace a recording that is there. What is not a recording is never replaced.
    pub overwrite: bool,
    /// Memory for rows that wait to be put in order, bytes; encoding takes up to about 60 MB more.
    pub memory_bytes: usize,
    /// Where rows beyond `memory_bytes` go, as unlinked files; `None` is beside the recording.
    pub spill_dir: Option<PathBuf>,
}

impl Default for WriterOptions {
    fn default() -> WriterOptions {
        WriterOptions { overwrite: false, memory_bytes: 64 << 20, spill_dir: None }
    }
}

/// A [`RowSink`] that leaves a recording.
pub struct Writer {}

impl Writer {
    /// Begins a recording that will be at `dir`.
    ///
    /// # Errors
    /// [`RecordingError::Exists`], [`RecordingError::NotOurs`], [`RecordingError::Io`].
    pub fn create(_dir: &Path, _options: WriterOptions) -> Result<Writer, RecordingError> {
        Ok(Writer {})
    }

    /// Writes the last rows and `meta.json` and puts the recording in its place. Returns `meta` as it was written: with
    /// `schema_version` and `rows` filled in.
    ///
    /// # Errors
    /// [`RecordingError::Io`] and the like; nothing is left behind then.
    pub fn finish(self, meta: Meta) -> Result<Meta, RecordingError> {
        Ok(meta)
    }
}

impl RowSink for Writer {}
