//! Writes the table files of a recording.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use fonio_core::{
    Bio, BlockedCount, Call, Diagnostic, File, Link, Mark, Meta, Request, RowSink, Sample, Severity,
    Statement, Thread, Timestamp, Wait, ignore_rows,
};
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;

use super::Incomplete;
use super::room::{Room, RoomyFile, Takes};
use crate::error::RecordingError;
use crate::schema::{self, Row};
use crate::table::{Table, with_tables};

pub(crate) const META_FILE: &str = "meta.json";
pub(crate) const DIAGNOSTICS_FILE: &str = "diagnostics.jsonl";

/// Number of rows that are converted to columns at a time: large enough to make the cost per batch small, but
/// small enough for the processor's cache.
const BATCH_ROWS: usize = 4096;
/// Number of bytes of texts from which gathered rows are written. A recording of a stranger can have texts of 64
/// KiB, and its rows are written again when it is redacted.
const BATCH_TEXT_BYTES: usize = 4 << 20;
/// Encoded size in bytes from which a row group is written. The row groups of ordinary tables are smaller.
const GROUP_BYTES_MAX: usize = 24 << 20;
/// Estimated encoded size of a row in bytes; only few rows are larger.
const GATHERED_ROW_BYTES: usize = 48;

macro_rules! table_writers {
    ($($rows:ident: $table:ident $row:ident $method:ident,)*) => {
        struct TableWriters {
            $($rows: TableWriter<$row>,)*
        }

        impl TableWriters {
            fn create(dir: &Path, room: Option<&Room>) -> Result<TableWriters, RecordingError> {
                Ok(TableWriters { $($rows: TableWriter::create(dir, room)?,)* })
            }

            /// Returns every table, in the order of [`Table::ALL`].
            fn all(&mut self) -> [&mut dyn OpenTable; Table::ALL.len()] {
                [$(&mut self.$rows,)*]
            }
        }
    };
}
with_tables!(table_writers);

/// Number of tables of events. They come first in the order of the tables, and are closed first when the file
/// system fills up.
const TABLES_OF_EVENTS: usize = 7;

/// Writes rows that are already in the order of their tables.
pub(super) struct TableSet {
    writers: TableWriters,
    diagnostics: BufWriter<RoomyFile>,
    diagnostics_path: PathBuf,
    /// The room for the rest of the recording; `None` unless rows that do not fit are left out.
    room: Option<Room>,
    takes: Takes,
    /// The times of the first and last omitted request or bio.
    missing_events: Option<(Timestamp, Timestamp)>,
}

impl TableSet {
    pub(super) fn create(dir: &Path, room: Option<Room>) -> Result<TableSet, RecordingError> {
        let diagnostics_path = dir.join(DIAGNOSTICS_FILE);
        let diagnostics = RoomyFile::create_new(&diagnostics_path, room.as_ref())
            .map_err(RecordingError::io("create", &diagnostics_path))?;
        Ok(TableSet {
            writers: TableWriters::create(dir, room.as_ref())?,
            diagnostics: BufWriter::new(diagnostics),
            diagnostics_path,
            room,
            takes: Takes::All,
            missing_events: None,
        })
    }

    /// Closes all open tables. Returns the tables that lack rows, and reports them as diagnostics.
    pub(super) fn close(&mut self) -> Result<Vec<Incomplete>, RecordingError> {
        let mut tables = self.writers.all();
        tables.iter_mut().try_for_each(|table| table.close())?;
        let incomplete: Vec<Incomplete> = tables.iter().filter_map(|table| table.incomplete()).collect();
        for table in &incomplete {
            let diagnostic = Diagnostic {
                severity: Severity::Error,
                code: "disk-full".to_owned(),
                message: format!("the file system was full: the last {table} were left out"),
                file: Some(table.table.file_name()),
                record: Some(table.kept),
                offset: None,
                count: table.missing,
            };
            self.diagnostic(&diagnostic)
                .map_err(|error| RecordingError::from_sink(error, &self.diagnostics_path))?;
        }
        Ok(incomplete)
    }

    /// Returns the times of the first and last omitted request or bio.
    pub(super) fn missing_events(&self) -> Option<(Timestamp, Timestamp)> {
        self.missing_events
    }

    fn unwritten_bytes(&mut self) -> u64 {
        self.writers.all().iter().map(|table| table.unwritten_bytes()).sum()
    }

    /// Closes tables while their footers still fit. Checks the free space at every batch of rows, and at
    /// every row once space is scarce.
    #[inline]
    fn look_at_room(&mut self, pushed: Pushed) -> io::Result<()> {
        let is_due = match self.takes {
            Takes::All => pushed == Pushed::FilledBatch,
            Takes::NoEvents => pushed != Pushed::LeftOut,
            Takes::Nothing => false,
        };
        if is_due { self.close_what_does_not_fit() } else { Ok(()) }
    }

    #[cold]
    fn close_what_does_not_fit(&mut self) -> io::Result<()> {
        let Some(room) = self.room.clone() else { return Ok(()) };
        if room.takes(self.unwritten_bytes())? >= self.takes {
            return Ok(());
        }
        // The exact size of the rows is known only after they are written; it is usually smaller than the
        // estimate.
        self.writers.all().iter_mut().try_for_each(|table| table.write_out())?;
        let takes = room.takes(self.unwritten_bytes())?.min(self.takes);
        let closed = match takes {
            Takes::All => 0,
            Takes::NoEvents => TABLES_OF_EVENTS,
            Takes::Nothing => Table::ALL.len(),
        };
        self.writers.all()[..closed].iter_mut().try_for_each(|table| table.close())?;
        self.takes = takes;
        Ok(())
    }

    fn note_missing_event(&mut self, pushed: Pushed, time: Timestamp) {
        if pushed == Pushed::LeftOut {
            let (first, last) = self.missing_events.unwrap_or((time, time));
            self.missing_events = Some((first.min(time), last.max(time)));
        }
    }

    /// Makes the diagnostics durable after the tables are closed. Returns the number of rows in each written
    /// table.
    pub(super) fn finish(&mut self) -> Result<BTreeMap<String, u64>, RecordingError> {
        let failed = RecordingError::io("write", &self.diagnostics_path);
        self.diagnostics.flush().and_then(|()| self.diagnostics.get_ref().file.sync_all()).map_err(failed)?;
        let tables = self.writers.all();
        let written = tables.iter().filter_map(|table| table.written());
        Ok(written.map(|(table, rows)| (table.name().to_owned(), rows)).collect())
    }
}

macro_rules! push_rows {
    ($($rows:ident: $method:ident $row:ident,)*) => {$(
        fn $method(&mut self, row: &$row) -> io::Result<()> {
            let pushed = self.writers.$rows.push(row)?;
            self.look_at_room(pushed)
        }
    )*};
}

impl RowSink for TableSet {
    fn request(&mut self, row: &Request) -> io::Result<()> {
        let pushed = self.writers.requests.push(row)?;
        self.note_missing_event(pushed, row.order_time());
        self.look_at_room(pushed)
    }
    fn bio(&mut self, row: &Bio) -> io::Result<()> {
        let pushed = self.writers.bios.push(row)?;
        self.note_missing_event(pushed, row.queued);
        self.look_at_room(pushed)
    }
    push_rows! {
        links: link Link,
        calls: call Call,
        statements: statement Statement,
        waits: wait Wait,
        blocked_counts: blocked_count BlockedCount,
        files: file File,
        threads: thread Thread,
        samples: sample Sample,
        marks: mark Mark,
    }
    fn diagnostic(&mut self, row: &Diagnostic) -> io::Result<()> {
        let written = serde_json::to_writer(&mut self.diagnostics, row).map_err(io::Error::from);
        let written = written.and_then(|()| self.diagnostics.write_all(b"\n"));
        Ok(written.map_err(RecordingError::io("write", &self.diagnostics_path))?)
    }
    // `meta.json` contains the beginning, and the rows are already in order.
    ignore_rows!(began, settled);
}

/// What happened to a row that was added to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pushed {
    /// The row waits for more rows.
    Gathered,
    /// The row completed a batch, and this batch was converted to columns.
    FilledBatch,
    /// The row was left out, because its table is closed.
    LeftOut,
}

/// The open file of a table with rows of any type.
trait OpenTable {
    /// Writes the gathered rows as one row group.
    fn write_out(&mut self) -> Result<(), RecordingError>;
    /// Returns an upper estimate of the encoded size of unwritten rows, in bytes.
    fn unwritten_bytes(&self) -> u64;
    /// Closes the table and makes the table durable; later rows are omitted.
    fn close(&mut self) -> Result<(), RecordingError>;
    /// Returns the table with the numbers of kept and omitted rows, if rows were omitted.
    fn incomplete(&self) -> Option<Incomplete>;
    /// Returns the table and its number of rows, if it was written.
    fn written(&self) -> Option<(Table, u64)>;
}

/// The Parquet file of a table. The file of an optional table is created with its first row.
struct TableWriter<R> {
    path: PathBuf,
    schema: SchemaRef,
    gathered: Vec<R>,
    /// Number of bytes of the texts of the gathered rows.
    gathered_text_bytes: usize,
    parquet: Option<ArrowWriter<RoomyFile>>,
    room: Option<Room>,
    rows: u64,
    is_closed: bool,
    /// Number of rows that arrived after the table was closed.
    left_out: u64,
}

impl<R: Row> TableWriter<R> {
    fn create(dir: &Path, room: Option<&Room>) -> Result<TableWriter<R>, RecordingError> {
        let path = dir.join(R::TABLE.file_name());
        let schema = schema::arrow_schema::<R>();
        let mut table = TableWriter {
            path,
            schema,
            gathered: Vec::new(),
            gathered_text_bytes: 0,
            parquet: None,
            room: room.cloned(),
            rows: 0,
            is_closed: false,
            left_out: 0,
        };
        if R::TABLE.always_written() {
            table.open()?;
        }
        Ok(table)
    }

    fn open(&mut self) -> Result<&mut ArrowWriter<RoomyFile>, RecordingError> {
        let file = RoomyFile::create_new(&self.path, self.room.as_ref())
            .map_err(RecordingError::io("create", &self.path))?;
        let properties = schema::writer_properties::<R>();
        let parquet = ArrowWriter::try_new(file, self.schema.clone(), Some(properties));
        Ok(self.parquet.insert(parquet.map_err(|error| not_written(error, &self.path))?))
    }

    #[inline]
    fn push(&mut self, row: &R) -> io::Result<Pushed> {
        if self.is_closed {
            self.left_out += 1;
            return Ok(Pushed::LeftOut);
        }
        if self.gathered.capacity() == 0 {
            self.gathered.reserve_exact(BATCH_ROWS);
        }
        self.gathered.push(row.clone());
        self.gathered_text_bytes += row.text_bytes();
        if self.gathered.len() < BATCH_ROWS && self.gathered_text_bytes < BATCH_TEXT_BYTES {
            return Ok(Pushed::Gathered);
        }
        self.flush()?;
        Ok(Pushed::FilledBatch)
    }

    fn flush(&mut self) -> Result<(), RecordingError> {
        let batch = RecordBatch::try_new(self.schema.clone(), R::encode(&self.gathered))
            .expect("the arrays of the rows match the schema");
        if self.parquet.is_none() {
            self.open()?;
        }
        let parquet = self.parquet.as_mut().expect("opened above");
        parquet.write(&batch).map_err(|error| not_written(error, &self.path))?;
        if parquet.in_progress_size() > GROUP_BYTES_MAX {
            parquet.flush().map_err(|error| not_written(error, &self.path))?;
        }
        assert!(self.gathered.len() <= BATCH_ROWS, "a batch is written when it is full");
        self.rows += self.gathered.len() as u64;
        self.gathered.clear();
        self.gathered_text_bytes = 0;
        Ok(())
    }
}

impl<R: Row> OpenTable for TableWriter<R> {
    fn write_out(&mut self) -> Result<(), RecordingError> {
        if !self.gathered.is_empty() {
            self.flush()?;
        }
        let Some(parquet) = &mut self.parquet else { return Ok(()) };
        let written = parquet.flush().map_err(|error| not_written(error, &self.path));
        written.and_then(|()| parquet.sync().map_err(RecordingError::io("write", &self.path)))
    }

    fn unwritten_bytes(&self) -> u64 {
        let encoded = self.parquet.as_ref().map_or(0, ArrowWriter::in_progress_size);
        (encoded + self.gathered.len() * GATHERED_ROW_BYTES) as u64
    }

    fn close(&mut self) -> Result<(), RecordingError> {
        self.is_closed = true;
        if !self.gathered.is_empty() {
            self.flush()?;
        }
        let Some(parquet) = self.parquet.take() else { return Ok(()) };
        let file = parquet.into_inner().map_err(|error| not_written(error, &self.path))?;
        file.file.sync_all().map_err(RecordingError::io("write", &self.path))
    }

    fn incomplete(&self) -> Option<Incomplete> {
        let (table, kept, missing) = (R::TABLE, self.rows, self.left_out);
        (missing > 0).then_some(Incomplete { table, kept, missing })
    }

    fn written(&self) -> Option<(Table, u64)> {
        (self.rows > 0 || R::TABLE.always_written()).then_some((R::TABLE, self.rows))
    }
}

/// Takes the system's error out of the error of the Parquet library. Without this, a full disk could not be
/// recognised.
fn not_written(error: ParquetError, path: &Path) -> RecordingError {
    let source = match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(source) => *source,
            Err(source) => io::Error::other(source),
        },
        other => io::Error::other(other),
    };
    RecordingError::Io { action: "write", path: path.to_owned(), source }
}

pub(super) fn write_meta(dir: &Path, meta: &Meta, room: Option<&Room>) -> Result<(), RecordingError> {
    let path = dir.join(META_FILE);
    let write = || {
        let mut file = BufWriter::new(RoomyFile::create_new(&path, room)?);
        serde_json::to_writer_pretty(&mut file, meta)?;
        file.write_all(b"\n")?;
        file.flush()?;
        file.get_ref().file.sync_all()
    };
    write().map_err(RecordingError::io("write", &path))
}
