//! Writes the tables and metadata of a recording.

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

pub use room::Room;
pub(crate) use tables::{DIAGNOSTICS_FILE, META_FILE};

/// The options with which a recording is written.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// Replace an existing recording, but no other file or directory.
    pub overwrite: bool,
    /// Memory in bytes for requests and bios that wait to be sorted. Encoding needs up to about 60 MB more.
    pub memory_bytes: usize,
    /// Directory for the unlinked files with the rows that do not fit into `memory_bytes`. `None` means the
    /// directory of the recording. The file system of this directory needs room for the rows anyway.
    pub spill_dir: Option<PathBuf>,
    /// If the file system becomes full or a quota is used up, keep a recording with the rows that fit. Without
    /// this option, no part of the recording remains.
    pub keep_what_fits: bool,
    /// The room that was held for this recording before its rows were known. If it is missing,
    /// `keep_what_fits` holds room when the writer is created.
    pub room: Option<Room>,
    /// If the recording's name is in use when the recording is finished, use `NAME-2`, or the next free
    /// number. If this option is not set, a name in use is an error, and nothing remains.
    pub other_name_if_taken: bool,
    /// The user and group that own the finished recording; `None` for the user of this process. Only root can
    /// give a recording to another user.
    pub owner: Option<(u32, u32)>,
}

/// A recording that was written completely.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FinishedRecording {
    /// The requested path, or another path because of [`WriterOptions::other_name_if_taken`].
    pub path: PathBuf,
    /// The metadata of the recording (`meta.json`).
    pub meta: Meta,
    /// The tables that lack rows because the file system was full; always empty without
    /// [`WriterOptions::keep_what_fits`].
    pub incomplete: Vec<Incomplete>,
}

/// A table whose last rows are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Incomplete {
    /// The table that lacks its last rows.
    pub table: Table,
    /// Number of rows in the table.
    pub kept: u64,
    /// Number of rows that did not fit into the file system.
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
            room: None,
            other_name_if_taken: false,
            owner: None,
        }
    }
}

/// A [`RowSink`] that writes a recording.
///
/// Requests and bios may come in any order that the producer's `settled` marks allow; other rows are written
/// in order of arrival. All files are written into a directory `.NAME.partial-PID` next to the final path.
/// [`finish`](Writer::finish) renames this directory, so an unfinished run leaves nothing that looks like a
/// recording. Only the owner can read a recording, because its rows contain paths, command lines and statements. Dropping a writer removes this directory. If the process is killed, the directory is removed by
/// the next writer of a recording with the same path.
pub struct Writer {
    ordered: Ordered,
    tables: TableSet,
    staging: Staging,
    room: Option<Room>,
    began: Option<Timestamp>,
}

impl Writer {
    /// Begins to write a recording with the final path `dir`. The parent directory must exist. Fails with
    /// [`RecordingError::Exists`] if `dir` is a recording and `overwrite` is not set;
    /// [`RecordingError::NotOurs`] if `dir` is neither a recording nor an empty directory;
    /// [`RecordingError::NoRoom`] if `keep_what_fits` is set and not even a small recording fits;
    /// [`RecordingError::Io`].
    pub fn create(dir: &Path, options: WriterOptions) -> Result<Writer, RecordingError> {
        let staging = Staging::create(dir, options.overwrite, options.other_name_if_taken, options.owner)?;
        let spill_dir = options.spill_dir.as_deref().unwrap_or(staging.path());
        // The tables of requests and bios share the memory. A waiting row is stored together with its key,
        // and temporarily exists twice.
        let row_bytes = size_of::<Request>().max(size_of::<Bio>()) + size_of::<(u64, u64, u32)>();
        let ordered = Ordered::new(options.memory_bytes / 2 / (2 * row_bytes), spill_dir);
        let room = match options.room {
            None if options.keep_what_fits => Some(Room::hold(staging.path())?),
            room => room,
        };
        let tables = TableSet::create(staging.path(), room.clone())?;
        Ok(Writer { ordered, tables, staging, room, began: None })
    }

    /// Writes the last rows and `meta.json`, makes all files durable and renames the recording to its final
    /// path. Returns the written `meta`, in which `schema_version` and `rows` were filled in, as were
    /// `writer` and `began` if they were missing. Fails with [`RecordingError::Io`] and other errors. After
    /// an error, no part of the recording remains.
    pub fn finish(self, meta: Meta) -> Result<Meta, RecordingError> {
        Ok(self.install(meta)?.meta)
    }

    /// Does the same as [`finish`](Writer::finish), and also returns the path and the missing rows. Returns
    /// the errors of [`finish`](Writer::finish).
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
        tables::write_meta(self.staging.path(), &meta, self.room.as_ref())?;
        if let Some(room) = self.room {
            room.give_up_all();
        }
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
