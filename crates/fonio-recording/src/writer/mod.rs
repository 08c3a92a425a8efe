//! Writing a recording.

mod room;
mod staging;
mod tables;

use std::io;
use std::path::{Path, PathBuf};

use fonio_core::meta::SCHEMA_VERSION;
use fonio_core::{Bio, LostEvents, Meta, Request, RowSink, Timestamp, forward_rows};

use crate::sequence::ordered::Ordered;
use crate::{RecordingError, Table};
use staging::Staging;
use tables::TableSet;

pub(crate) use tables::{DIAGNOSTICS_FILE, META_FILE};

/// How a recording is written.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// Replace a recording that is there. What is not a recording is never replaced.
    pub overwrite: bool,
    /// Memory for requests and bios that wait to be put in order, in bytes. Encoding takes up to about 60 MB more.
    pub memory_bytes: usize,
    /// Where rows beyond `memory_bytes` go, as unlinked files; `None` is beside the recording, where there has to be
    /// room for it anyway.
    pub spill_dir: Option<PathBuf>,
    /// Where the file system fills up: stop in time, and leave a recording of the rows that fit. Without this, nothing is
    /// left.
    pub keep_what_fits: bool,
    /// Where something else has the recording's name by the time it is finished: take `NAME-2`, or the first free number
    /// after it. Without this, that is an error, and nothing is left.
    pub beside_if_taken: bool,
}

/// A recording that was finished.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finished {
    /// Where it is: as asked for, unless [`WriterOptions::beside_if_taken`] gave it another name.
    pub path: PathBuf,
    /// Its `meta.json`.
    pub meta: Meta,
    /// The tables that lack rows because the file system was full; only with [`WriterOptions::keep_what_fits`].
    pub incomplete: Vec<Incomplete>,
}

/// A table that lacks its last rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Incomplete {
    /// The table.
    pub table: Table,
    /// The rows that it has.
    pub kept: u64,
    /// The rows for which there was no room.
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
            beside_if_taken: false,
        }
    }
}

/// A [`RowSink`] that leaves a recording.
///
/// Requests and bios may come in any order that the producer's `settled` marks allow; rows of other tables are written
/// in the order in which they come. Everything goes to a directory `.NAME.partial-PID` beside the place asked for, which
/// gets its name in [`finish`](Writer::finish): whatever stops the run before leaves nothing that looks like a recording.
/// A writer that is dropped removes that directory; what a killed one left is removed by the next writer that is to
/// leave a recording of the same name there.
pub struct Writer {
    ordered: Ordered,
    tables: TableSet,
    staging: Staging,
    began: Option<Timestamp>,
}

impl Writer {
    /// Begins a recording that will be at `dir`. The directory above must exist.
    ///
    /// # Errors
    /// [`RecordingError::Exists`] where there is a recording and `overwrite` is not set, [`RecordingError::NotOurs`]
    /// where there is anything else but an empty directory, [`RecordingError::Io`].
    pub fn create(dir: &Path, options: WriterOptions) -> Result<Writer, RecordingError> {
        let staging = Staging::create(dir, options.overwrite, options.beside_if_taken)?;
        let spill_dir = options.spill_dir.as_deref().unwrap_or(staging.path());
        // Two tables share the memory. A waiting row is held with its key, and twice while rows are moved together.
        let row_bytes = size_of::<Request>().max(size_of::<Bio>()) + size_of::<(u64, u64, u32)>();
        let ordered = Ordered::new(options.memory_bytes / 2 / (2 * row_bytes), spill_dir);
        let tables = TableSet::create(staging.path(), options.keep_what_fits)?;
        Ok(Writer { ordered, tables, staging, began: None })
    }

    /// Writes the last rows and `meta.json`, makes all durable and puts the recording in its place. Returns `meta` as it
    /// was written: with `schema_version` and `rows` filled in, and `writer` and `began` where they were not given.
    ///
    /// # Errors
    /// [`RecordingError::Io`] and the like; nothing is left behind then.
    pub fn finish(self, meta: Meta) -> Result<Meta, RecordingError> {
        Ok(self.install(meta)?.meta)
    }

    /// Does what [`finish`](Writer::finish) does, and says also where the recording is and what it lacks.
    ///
    /// # Errors
    /// As [`finish`](Writer::finish).
    pub fn install(mut self, mut meta: Meta) -> Result<Finished, RecordingError> {
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
        Ok(Finished { path, meta, incomplete })
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
    forward_rows!(tables: link, call, wait, file, thread, sample, mark, diagnostic);
    fn settled(&mut self, before: Timestamp) -> io::Result<()> {
        self.ordered.settled(before);
        Ok(())
    }
}
