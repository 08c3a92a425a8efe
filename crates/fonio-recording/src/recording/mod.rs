//! Opens a recording and replays its rows.

mod batches;
mod codecs;
mod diagnostics;
mod footer;
mod pages;
mod table_file;
mod thrift;

use std::io;
use std::path::{Path, PathBuf};

use fonio_core::meta::SCHEMA_VERSION;
use fonio_core::{
    Bio, BlockedCount, Call, File, Link, Mark, Meta, Request, RowSink, Sample, Statement, Thread, Timestamp,
    Wait,
};
use fonio_system::regular;

pub use batches::Batches;

use crate::error::RecordingError;
use crate::schema::Row;
use crate::sequence::Sequenced;
use crate::table::{Table, Tables, with_tables};
use crate::writer::META_FILE;
use footer::Budget;
use table_file::{Rows, TableFile};

/// Returns whether `path` looks like a recording: a directory with `meta.json` and `requests.parquet`. The
/// recording may still be damaged.
pub fn is_recording(path: &Path) -> bool {
    path.join(META_FILE).is_file() && path.join(Table::Requests.file_name()).exists()
}

macro_rules! table_files {
    ($($rows:ident: $table:ident $row:ident $method:ident,)*) => {
        /// The table files that exist in the recording.
        #[derive(Debug)]
        struct TableFiles {
            $($rows: Option<TableFile<$row>>,)*
        }

        impl TableFiles {
            fn open(dir: &Path, meta: &Meta) -> Result<TableFiles, RecordingError> {
                let rows = |table: Table| meta.rows.get(table.name()).copied();
                let mut budget = Budget::default();
                Ok(TableFiles { $($rows: TableFile::open(dir, rows(Table::$table), &mut budget)?,)* })
            }

            fn rows(&self, table: Table) -> Option<u64> {
                match table { $(Table::$table => self.$rows.as_ref().map(TableFile::rows),)* }
            }

            fn batches(&self, table: Table) -> Result<Option<Batches>, RecordingError> {
                match table { $(Table::$table => self.$rows.as_ref().map(Batches::of).transpose(),)* }
            }
        }
    };
}
with_tables!(table_files);

/// A recording that was opened for reading.
#[derive(Debug)]
pub struct Recording {
    dir: PathBuf,
    meta: Meta,
    tables: TableFiles,
}

impl Recording {
    /// Opens a recording: reads `meta.json` and each table's footer. Each error names the damaged or missing
    /// file, and says what the user can do.
    pub fn open(dir: &Path) -> Result<Recording, RecordingError> {
        let meta = read_meta(dir)?;
        Ok(Recording { tables: TableFiles::open(dir, &meta)?, dir: dir.to_owned(), meta })
    }

    /// Returns the metadata of the recording (`meta.json`).
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Returns the directory of the recording.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the number of rows in a table; 0 if the table is missing.
    pub fn rows(&self, table: Table) -> u64 {
        self.tables.rows(table).unwrap_or(0)
    }

    /// Returns the rows of a table as Arrow record batches, in the order of the table, with the columns of
    /// [`Table::schema`]. A missing table has no batches. One batch at a time is in memory.
    pub fn batches(&self, table: Table) -> Result<Batches, RecordingError> {
        Ok(self.tables.batches(table)?.unwrap_or_else(|| Batches::none(table)))
    }

    /// Passes the rows of `tables` to `sink`, each table in its own order. First come threads, files, marks,
    /// samples, calls, statements, waits and blocked counts, one table after the other. Then come requests
    /// and bios, interleaved by time (a bio before a request of the same time), with `settled` marks. Links
    /// and diagnostics come last. Bios and links are left out if the sink does not want them.
    ///
    /// A replay needs bounded memory for a recording of any size. Fails with [`RecordingError::Sink`] if the
    /// sink failed, or with the error of the recording.
    pub fn replay(&self, sink: &mut dyn RowSink, tables: Tables) -> Result<(), RecordingError> {
        let bios = sink.wants_bios();
        let wanted = |table| tables.contains(table);
        let files = &self.tables;
        if let Some(began) = self.meta.began {
            sink.began(began).map_err(RecordingError::Sink)?;
        }
        each(files.threads.as_ref().filter(|_| wanted(Table::Threads)), |row| sink.thread(row))?;
        each(files.files.as_ref().filter(|_| wanted(Table::Files)), |row| sink.file(row))?;
        each(files.marks.as_ref().filter(|_| wanted(Table::Marks)), |row| sink.mark(row))?;
        each(files.samples.as_ref().filter(|_| wanted(Table::Samples)), |row| sink.sample(row))?;
        // Calls come before waits and requests, because sinks look up the call of each wait and request.
        each(files.calls.as_ref().filter(|_| wanted(Table::Calls)), |row| sink.call(row))?;
        let statements = files.statements.as_ref().filter(|_| wanted(Table::Statements));
        each(statements, |row| sink.statement(row))?;
        // Waits come before requests, because sinks count the requests that are outstanding during each wait.
        each(files.waits.as_ref().filter(|_| wanted(Table::Waits)), |row| sink.wait(row))?;
        let counts = files.blocked_counts.as_ref().filter(|_| wanted(Table::BlockedCounts));
        each(counts, |row| sink.blocked_count(row))?;
        interleaved(
            files.requests.as_ref().filter(|_| wanted(Table::Requests)),
            files.bios.as_ref().filter(|_| bios && wanted(Table::Bios)),
            sink,
        )?;
        each(files.links.as_ref().filter(|_| bios && wanted(Table::Links)), |row| sink.link(row))?;
        if tables.has_diagnostics() { diagnostics::replay(&self.dir, sink) } else { Ok(()) }
    }
}

/// Maximum number of bytes of `meta.json`. A recording of a command with the longest command line that Linux
/// allows has about 2 MiB.
const META_BYTES_MAX: u64 = 4 << 20;
/// Maximum number of devices in `meta.json`.
const DEVICES_MAX: usize = 1 << 14;

fn read_meta(dir: &Path) -> Result<Meta, RecordingError> {
    let not_a_recording = |why: String| RecordingError::NotARecording { path: dir.to_owned(), why };
    let path = dir.join(META_FILE);
    let text = match regular::read(&path, META_BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !dir.exists() => {
            return Err(not_a_recording("it does not exist".to_owned()));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(not_a_recording(format!("it has no {META_FILE}")));
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(not_a_recording("it is a file".to_owned()));
        }
        Err(error) => return Err(RecordingError::io("read", &path)(error)),
    };
    /// The fields that every version of `meta.json` has.
    #[derive(serde::Deserialize)]
    struct Version {
        schema_version: u32,
        #[serde(default)]
        writer: String,
    }
    let invalid = |source: serde_json::Error| RecordingError::Json {
        path: path.clone(),
        line: source.line() as u64,
        source,
    };
    let version: Version = serde_json::from_slice(&text).map_err(invalid)?;
    if version.schema_version > SCHEMA_VERSION {
        return Err(RecordingError::NewerSchema {
            path: dir.to_owned(),
            found: version.schema_version,
            known: SCHEMA_VERSION,
            writer: version.writer,
        });
    }
    let meta: Meta = serde_json::from_slice(&text).map_err(invalid)?;
    if meta.devices.len() > DEVICES_MAX {
        let why = format!("it has {} devices, and the limit is {DEVICES_MAX}", meta.devices.len());
        return Err(RecordingError::TooLarge { path, why });
    }
    Ok(meta)
}

fn each<R: Row>(
    table: Option<&TableFile<R>>,
    mut give: impl FnMut(&R) -> io::Result<()>,
) -> Result<(), RecordingError> {
    let Some(table) = table else { return Ok(()) };
    let mut rows = table.read()?;
    while let Some(row) = rows.head()? {
        give(row).map_err(RecordingError::Sink)?;
        rows.advance();
    }
    Ok(())
}

/// Number of rows between two settled marks of a replay.
const ROWS_PER_MARK: u32 = 4096;

fn interleaved(
    requests: Option<&TableFile<Request>>,
    bios: Option<&TableFile<Bio>>,
    sink: &mut dyn RowSink,
) -> Result<(), RecordingError> {
    let mut requests = requests.map(TableFile::read).transpose()?.map(InOrder::new);
    let mut bios = bios.map(TableFile::read).transpose()?.map(InOrder::new);
    let mut since_mark = 0;
    loop {
        let request = requests.as_mut().map(InOrder::head).transpose()?.flatten();
        let bio = bios.as_mut().map(InOrder::head).transpose()?.flatten();
        let request_time = request.map(|row| row.key().0);
        let bio_time = bio.map(|row| row.key().0);
        let Some(time) = request_time.into_iter().chain(bio_time).min() else { return Ok(()) };
        if since_mark == ROWS_PER_MARK {
            sink.settled(Timestamp(time)).map_err(RecordingError::Sink)?;
            since_mark = 0;
        }
        since_mark += 1;
        match (request, bio) {
            (_, Some(bio)) if bio_time == Some(time) => {
                sink.bio(bio).map_err(RecordingError::Sink)?;
                bios.as_mut().map(InOrder::advance).transpose()?;
            }
            (Some(request), _) => {
                sink.request(request).map_err(RecordingError::Sink)?;
                requests.as_mut().map(InOrder::advance).transpose()?;
            }
            _ => unreachable!("one of the two tables has the earliest row"),
        }
    }
}

/// Reads rows and checks their order. Consumers rely on the order, but another tool may have rewritten the
/// table.
struct InOrder<'t, R> {
    rows: Rows<'t, R>,
    last: (u64, u64),
}

impl<'t, R: Row + Sequenced> InOrder<'t, R> {
    fn new(rows: Rows<'t, R>) -> InOrder<'t, R> {
        InOrder { rows, last: (0, 0) }
    }

    #[inline]
    fn head(&mut self) -> Result<Option<&R>, RecordingError> {
        self.rows.head()
    }

    /// Moves to the next row, and checks that it is in order.
    #[inline]
    fn advance(&mut self) -> Result<(), RecordingError> {
        if let Some(row) = self.rows.head()? {
            self.last = row.key();
        }
        self.rows.advance();
        let next = self.rows.head()?.map(Sequenced::key);
        if next.is_some_and(|next| next < self.last) {
            return Err(RecordingError::Order { path: self.rows.path().to_owned(), row: self.rows.row() });
        }
        Ok(())
    }
}
