//! The files of a recording while they are written.

use std::collections::BTreeMap;
use std::fs::File as OsFile;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use fonio_core::{
    Bio, Call, Diagnostic, File, Link, Mark, Meta, Request, RowSink, Sample, Thread, Wait, ignore_rows,
};
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;

use crate::schema::{self, Row};
use crate::{RecordingError, Table};

pub(crate) const META_FILE: &str = "meta.json";
pub(crate) const DIAGNOSTICS_FILE: &str = "diagnostics.jsonl";

/// Rows gathered before they become columns: enough to spread the cost of a batch, few enough for the cache.
const BATCH_ROWS: usize = 4096;

/// Takes rows in their tables' order.
pub(super) struct TableSet {
    requests: TableWriter<Request>,
    bios: TableWriter<Bio>,
    links: TableWriter<Link>,
    calls: TableWriter<Call>,
    waits: TableWriter<Wait>,
    files: TableWriter<File>,
    threads: TableWriter<Thread>,
    samples: TableWriter<Sample>,
    marks: TableWriter<Mark>,
    diagnostics: BufWriter<OsFile>,
    diagnostics_path: PathBuf,
}

impl TableSet {
    pub(super) fn create(dir: &Path) -> Result<TableSet, RecordingError> {
        let diagnostics_path = dir.join(DIAGNOSTICS_FILE);
        let diagnostics =
            OsFile::create(&diagnostics_path).map_err(RecordingError::io("create", &diagnostics_path))?;
        Ok(TableSet {
            requests: TableWriter::create(dir)?,
            bios: TableWriter::create(dir)?,
            links: TableWriter::create(dir)?,
            calls: TableWriter::create(dir)?,
            waits: TableWriter::create(dir)?,
            files: TableWriter::create(dir)?,
            threads: TableWriter::create(dir)?,
            samples: TableWriter::create(dir)?,
            marks: TableWriter::create(dir)?,
            diagnostics: BufWriter::new(diagnostics),
            diagnostics_path,
        })
    }

    /// Ends every table and makes it durable. Returns how many rows each written one has.
    pub(super) fn finish(&mut self) -> Result<BTreeMap<String, u64>, RecordingError> {
        let failed = RecordingError::io("write", &self.diagnostics_path);
        self.diagnostics.flush().and_then(|()| self.diagnostics.get_ref().sync_all()).map_err(failed)?;
        let written = [
            self.requests.finish()?,
            self.bios.finish()?,
            self.links.finish()?,
            self.calls.finish()?,
            self.waits.finish()?,
            self.files.finish()?,
            self.threads.finish()?,
            self.samples.finish()?,
            self.marks.finish()?,
        ];
        Ok(written.into_iter().flatten().map(|(table, rows)| (table.name().to_owned(), rows)).collect())
    }
}

impl RowSink for TableSet {
    fn request(&mut self, row: &Request) -> io::Result<()> {
        self.requests.push(row)
    }
    fn bio(&mut self, row: &Bio) -> io::Result<()> {
        self.bios.push(row)
    }
    fn link(&mut self, row: &Link) -> io::Result<()> {
        self.links.push(row)
    }
    fn call(&mut self, row: &Call) -> io::Result<()> {
        self.calls.push(row)
    }
    fn wait(&mut self, row: &Wait) -> io::Result<()> {
        self.waits.push(row)
    }
    fn file(&mut self, row: &File) -> io::Result<()> {
        self.files.push(row)
    }
    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        self.threads.push(row)
    }
    fn sample(&mut self, row: &Sample) -> io::Result<()> {
        self.samples.push(row)
    }
    fn mark(&mut self, row: &Mark) -> io::Result<()> {
        self.marks.push(row)
    }
    fn diagnostic(&mut self, row: &Diagnostic) -> io::Result<()> {
        let written = serde_json::to_writer(&mut self.diagnostics, row).map_err(io::Error::from);
        let written = written.and_then(|()| self.diagnostics.write_all(b"\n"));
        Ok(written.map_err(RecordingError::io("write", &self.diagnostics_path))?)
    }
    // The beginning stands in `meta.json`, and the rows come in order already.
    ignore_rows!(began, settled);
}

/// One Parquet file. An optional table's file is created with its first row.
struct TableWriter<R> {
    path: PathBuf,
    schema: SchemaRef,
    gathered: Vec<R>,
    parquet: Option<ArrowWriter<OsFile>>,
    rows: u64,
}

impl<R: Row> TableWriter<R> {
    fn create(dir: &Path) -> Result<TableWriter<R>, RecordingError> {
        let path = dir.join(R::TABLE.file_name());
        let schema = schema::arrow_schema::<R>();
        let mut table = TableWriter { path, schema, gathered: Vec::new(), parquet: None, rows: 0 };
        if R::TABLE.always_written() {
            table.open()?;
        }
        Ok(table)
    }

    fn open(&mut self) -> Result<&mut ArrowWriter<OsFile>, RecordingError> {
        let file = OsFile::create_new(&self.path).map_err(RecordingError::io("create", &self.path))?;
        let properties = schema::writer_properties::<R>();
        let parquet = ArrowWriter::try_new(file, self.schema.clone(), Some(properties));
        Ok(self.parquet.insert(parquet.map_err(|error| not_written(error, &self.path))?))
    }

    #[inline]
    fn push(&mut self, row: &R) -> io::Result<()> {
        if self.gathered.capacity() == 0 {
            self.gathered.reserve_exact(BATCH_ROWS);
        }
        self.gathered.push(row.clone());
        if self.gathered.len() == BATCH_ROWS {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), RecordingError> {
        let batch = RecordBatch::try_new(self.schema.clone(), R::encode(&self.gathered))
            .expect("a row's arrays are those of its schema");
        if self.parquet.is_none() {
            self.open()?;
        }
        let parquet = self.parquet.as_mut().expect("opened above");
        parquet.write(&batch).map_err(|error| not_written(error, &self.path))?;
        self.rows += self.gathered.len() as u64;
        self.gathered.clear();
        Ok(())
    }

    fn finish(&mut self) -> Result<Option<(Table, u64)>, RecordingError> {
        if !self.gathered.is_empty() {
            self.flush()?;
        }
        let Some(parquet) = self.parquet.take() else { return Ok(None) };
        let file = parquet.into_inner().map_err(|error| not_written(error, &self.path))?;
        file.sync_all().map_err(RecordingError::io("write", &self.path))?;
        Ok(Some((R::TABLE, self.rows)))
    }
}

/// The Parquet library wraps the system's error; a full disk should be seen as one.
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

pub(super) fn write_meta(dir: &Path, meta: &Meta) -> Result<(), RecordingError> {
    let path = dir.join(META_FILE);
    let write = || {
        let mut file = BufWriter::new(OsFile::create_new(&path)?);
        serde_json::to_writer_pretty(&mut file, meta)?;
        file.write_all(b"\n")?;
        file.flush()?;
        file.get_ref().sync_all()
    };
    write().map_err(RecordingError::io("write", &path))
}
