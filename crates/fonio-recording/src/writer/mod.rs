//! Writes a recording.

mod room;
mod staging;
mod tables;

use std::io;
use std::path::{Path, PathBuf};

use fonio_core::meta::SCHEMA_VERSION;
use fonio_core::{Bio, LostEvents, Meta, Request, RowSink, Timestamp, forward_rows};

use crate::error::RecordingError;
use crate::sequence::ordered::Ordered;
use crate::table::Table;
use staging::Staging;
use tables::TableSet;

pub(crate) use tables::{DIAGNOSTICS_FILE, META_FILE};

/// How a recording is written.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// Replace an existing recording. Anything else is never replaced.
    pub overwrite: bool,
    /// Memory for requests and bios that wait for their order, in bytes. Encoding needs up to about 60 MB more.
    pub memory_bytes: usize,
    /// Directory of the rows beyond `memory_bytes`, which are stored in unlinked files. `None` is the recording's own
    /// directory, which must have room for them anyway.
    pub spill_dir: Option<PathBuf>,
    /// If the file system fills up, stop in time and keep a recording of the rows that fit. Without this option,
    /// nothing is left.
    pub keep_what_fits: bool,
    /// If the recording's name is taken by the time it is finished, use `NAME-2`, or the first free number after it.
    /// Without this option, a taken name is an error, and nothing is left.
    pub other_name_if_taken: bool,
}

/// A finished recording.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FinishedRecording {
    /// Its path: the one asked for, unless [`WriterOptions::other_name_if_taken`] gave it another name.
    pub path: PathBuf,
    /// Its `meta.json`.
    pub meta: Meta,
    /// The tables that lack rows because the file system was full. Empty without [`WriterOptions::keep_what_fits`].
    pub incomplete: Vec<Incomplete>,
}

/// A table that lacks its last rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Incomplete {
    /// The table.
    pub table: Table,
    /// Number of rows that it has.
    pub kept: u64,
    /// Number of rows for which there was no room.
    pub missing: u64,
}

impl std::fmt::Display for Incomplete {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} {}", self.missing, self.kept + self.missing, self.table.name())
    }
}

impl Default for WriterOptions {
    fn default() -> WriterOptions {
        WriterOptions {
            overwrite: false,
            memory_bytes: 64 << 20,
            spill_dir: None,
            keep_what_fits: false,
            other_name_if_taken: false,
        }
    }
}

/// A [`RowSink`] that writes a recording.
///
/// Requests and bios may come in any order that the producer's `settled` marks allow; rows of other tables are written
/// in the order in which they come. All files are written into a directory `.NAME.partial-PID` next to the final place.
/// [`finish`](Writer::finish) renames this directory: if the run stops before that, nothing is left that looks like a
/// recording. Dropping a writer removes the directory. If the process was killed, the next writer of a recording with
/// the same name there removes it.
pub struct Writer {
    ordered: Ordered,
    tables: TableSet,
    staging: Staging,
    began: Option<Timestamp>,
}

impl Writer {
    /// Begins a recording that will be at `dir`. The parent directory must exist.
    ///
    /// # Errors
    /// [`RecordingError::Exists`] if there is a recording and `overwrite` is not set, [`RecordingError::NotOurs`] if
    /// there is anything else except an empty directory, [`RecordingError::Io`].
    pub fn create(dir: &Path, options: WriterOptions) -> Result<Writer, RecordingError> {
        let staging = Staging::create(dir, options.overwrite, options.other_name_if_taken)?;
        let spill_dir = options.spill_dir.as_deref().unwrap_or(staging.path());
        // Two tables share the memory. A waiting row is stored with its key, and twice while rows are moved together.
        let row_bytes = size_of::<Request>().max(size_of::<Bio>()) + size_of::<(u64, u64, u32)>();
        let ordered = Ordered::new(options.memory_bytes / 2 / (2 * row_bytes), spill_dir);
        let tables = TableSet::create(staging.path(), options.keep_what_fits)?;
        Ok(Writer { ordered, tables, staging, began: None })
    }

    /// Writes the last rows and `meta.json`, makes all files durable and moves the recording to its place. Returns
    /// `meta` as it was written: with `schema_version` and `rows` filled in, and also `writer` and `began` if they were
    /// missing.
    ///
    /// # Errors
    /// [`RecordingError::Io`] and others; after an error nothing is left behind.
    pub fn finish(self, meta: Meta) -> Result<Meta, RecordingError> {
        Ok(self.install(meta)?.meta)
    }

    /// Does the same as [`finish`](Writer::finish), and also returns where the recording is and which rows it lacks.
    ///
    /// # Errors
    /// Those of [`finish`](Writer::finish).
    pub fn install(mut self, mut meta: Meta) -> Result<FinishedRecording, RecordingError> {
        let ordered = self.ordered.finish(&mut self.tables);
        ordered.map_err(|error| RecordingError::from_sink(error, self.staging.path()))?;
        meta.schema_version = SCHEMA_VERSION;
        let incomplete = self.tables.close()?;
        if let Some((first, last)) = self.tables.missing_events() {
            let before = meta.ended.map_or(last, |ended| ended.max(first));
            meta.lost.add(LostEvents { cpu: None, count: None, after: first, before });
        }
        meta.rows = self.tables.finish()?;
        meta.began = meta.began.or(self.began);
        if meta.writer.is_empty() {
            meta.writer = concat!("fonio ", env!("CARGO_PKG_VERSION")).to_owned();
        }
        tables::write_meta(self.staging.path(), &meta)?;
        let path = self.staging.install()?;
        Ok(FinishedRecording { path, meta, incomplete })
    }
}

impl RowSink for Writer {
    fn began(&mut self, at: Timestamp) -> io::Result<()> {
        self.began = Some(at);
        Ok(())
    }
    fn request(&mut self, row: &Request) -> io::Result<()> {
        self.ordered.request(row, &mut self.tables)
    }
    fn bio(&mut self, row: &Bio) -> io::Result<()> {
        self.ordered.bio(row, &mut self.tables)
    }
    forward_rows!(tables: link, call, statement, wait, blocked_count, file, thread, sample, mark, diagnostic);
    fn settled(&mut self, before: Timestamp) -> io::Result<()> {
        self.ordered.settled(before);
        Ok(())
    }
}
