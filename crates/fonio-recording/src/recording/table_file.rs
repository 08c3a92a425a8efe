//! Reads the file of one table of a recording.

use std::fs::File;
use std::io::ErrorKind;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use fonio_core::meta::SCHEMA_VERSION;
use fonio_system::regular;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;

use crate::error::RecordingError;
use crate::schema::{self, Row, TABLE_KEY, VERSION_KEY};

use super::footer::{self, Budget};
use super::pages;

/// Number of rows that a table of any length may have.
const ROWS_MAX: u64 = 256 << 10;
/// Maximum number of rows for each further byte of a table. Rows differ at least in their times, so real tables
/// have less than one row per byte.
const ROWS_PER_BYTE_MAX: u64 = 64;

/// A table whose footer has been read and checked.
#[derive(Debug)]
pub(super) struct TableFile<R> {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
    /// The columns to read from the file.
    mask: ProjectionMask,
    /// The index of each schema column among the read columns; `None` if the file lacks the column.
    order: Vec<Option<usize>>,
    _row: PhantomData<R>,
}

impl<R: Row> TableFile<R> {
    /// Opens a table file in `dir`. Returns `None` if an optional table is missing.
    pub(super) fn open(
        dir: &Path,
        expected_rows: Option<u64>,
        budget: &mut Budget,
    ) -> Result<Option<TableFile<R>>, RecordingError> {
        let path = dir.join(R::TABLE.file_name());
        let (file, length) = match regular::open(&path) {
            Ok(opened) => opened,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let needed = R::TABLE.always_written() || expected_rows.is_some_and(|rows| rows > 0);
                return if needed { Err(RecordingError::MissingTable { path }) } else { Ok(None) };
            }
            Err(error) if error.kind() == ErrorKind::IsADirectory => {
                return Err(RecordingError::Parts { path });
            }
            Err(error) => return Err(RecordingError::io("read", &path)(error)),
        };
        budget.check(&file, length).map_err(|refused| match refused {
            footer::Refused::Io(source) => RecordingError::io("read", &path)(source),
            footer::Refused::Invalid => RecordingError::Damaged {
                path: path.clone(),
                source: ParquetError::General("its footer is not valid".to_owned()),
            },
            footer::Refused::TooLarge(why) => RecordingError::TooLarge { path: path.clone(), why },
        })?;
        let damaged = |source: ParquetError| RecordingError::Damaged { path: path.clone(), source };
        // Ignore the Arrow types in the file, because the schema defines the types.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = guarded(|| ArrowReaderMetadata::load(&file, options)).map_err(damaged)?;
        check_places(&metadata, length).map_err(damaged)?;
        check_rows(&metadata, length).map_err(|why| RecordingError::TooLarge { path: path.clone(), why })?;
        check_key_values::<R>(&metadata, &path)?;
        let (file_schema, places) = schema::match_columns::<R>(metadata.schema(), &path)?;
        let options = ArrowReaderOptions::new().with_schema(file_schema);
        let metadata = ArrowReaderMetadata::try_new(metadata.metadata().clone(), options)
            .map_err(|error| RecordingError::Columns { path: path.clone(), why: error.to_string() })?;
        let mask = ProjectionMask::roots(metadata.parquet_schema(), places.iter().flatten().copied());
        let before = |place: &usize| places.iter().flatten().filter(|other| *other < place).count();
        let order = places.iter().map(|place| place.as_ref().map(before)).collect();
        let table = TableFile { path, metadata, mask, order, _row: PhantomData };
        let found = table.rows();
        match expected_rows {
            Some(expected) if expected != found => {
                Err(RecordingError::RowCount { path: table.path, expected, found })
            }
            _ => Ok(Some(table)),
        }
    }

    pub(super) fn rows(&self) -> u64 {
        self.metadata.metadata().file_metadata().num_rows().max(0) as u64
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a reader that starts at the first row.
    pub(super) fn read(&self) -> Result<Rows<'_, R>, RecordingError> {
        Ok(Rows { table: self, batches: self.batches()?, decoded: Vec::new(), at: 0, decoded_before: 0 })
    }

    /// Returns the index of each schema column in the batches of [`batches`](TableFile::batches).
    pub(super) fn order(&self) -> &[Option<usize>] {
        &self.order
    }

    /// Returns the record batches of the file, which have its own order of columns.
    pub(super) fn batches(&self) -> Result<ParquetRecordBatchReader, RecordingError> {
        let (file, _) = regular::open(&self.path).map_err(RecordingError::io("read", &self.path))?;
        let damaged = |source| RecordingError::Damaged { path: self.path.clone(), source };
        let (file, batch_rows) = self.checked(file)?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_projection(self.mask.clone())
            .with_batch_size(batch_rows);
        guarded(|| builder.build()).map_err(damaged)
    }

    /// Checks that the pages of the table can be read in little memory. Returns the file, and the number of
    /// rows to decode at a time.
    fn checked(&self, file: File) -> Result<(File, usize), RecordingError> {
        let damaged = |source| RecordingError::Damaged { path: self.path.clone(), source };
        let file = Arc::new(file);
        let mut refused = None;
        let rows = guarded(|| match pages::check(&file, &self.metadata, &self.mask) {
            Ok(rows) => Ok(rows),
            Err(pages::Refused::Damaged(error)) => Err(error),
            Err(pages::Refused::TooLarge(why)) => {
                refused = Some(RecordingError::TooLarge { path: self.path.clone(), why });
                Ok(1)
            }
        });
        let rows = rows.map_err(damaged)?;
        match (refused, Arc::into_inner(file)) {
            (Some(refused), _) => Err(refused),
            (None, file) => Ok((file.expect("the check has ended"), rows)),
        }
    }
}

/// Checks the offsets of column data in the footer. The Parquet library trusts these offsets and panics if
/// they are impossible.
fn check_places(metadata: &ArrowReaderMetadata, length: u64) -> Result<(), ParquetError> {
    for (place, group) in metadata.metadata().row_groups().iter().enumerate() {
        for column in group.columns() {
            let begin = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
            let end = begin.checked_add(column.compressed_size());
            let inside = begin >= 0
                && column.compressed_size() >= 0
                && end.is_some_and(|end| end as u64 <= length)
                && group.num_rows() >= 0;
            if !inside {
                return Err(ParquetError::General(format!(
                    "row group {place}, column {}: its data lie outside the file",
                    column.column_path()
                )));
            }
        }
    }
    Ok(())
}

/// Checks the number of rows, because a few bytes can stand for any number of equal rows, and reading them would
/// take any amount of time. Returns the reason for a refusal.
fn check_rows(metadata: &ArrowReaderMetadata, length: u64) -> Result<(), String> {
    let groups = metadata.metadata().row_groups().iter();
    let rows = groups.map(|group| group.num_rows().max(0) as u64).fold(0, u64::saturating_add);
    let limit = ROWS_MAX.saturating_add(length.saturating_mul(ROWS_PER_BYTE_MAX));
    if rows <= limit {
        return Ok(());
    }
    Err(format!("it has {rows} rows in {length} bytes, and the limit for this length is {limit}"))
}

/// Checks the table's name and version in its metadata. Without this check, a renamed table or a table of a
/// later version would give wrong rows.
fn check_key_values<R: Row>(metadata: &ArrowReaderMetadata, path: &Path) -> Result<(), RecordingError> {
    let pairs = metadata.metadata().file_metadata().key_value_metadata();
    // Other tools drop fonio's key-value pairs when they rewrite a table. For such a table, only the columns
    // are checked.
    let value = |key: &str| pairs?.iter().find(|pair| pair.key == key)?.value.as_deref();
    if let Some(name) = value(TABLE_KEY)
        && name != R::TABLE.name()
    {
        let why = format!("it is the table {name:?}");
        return Err(RecordingError::Columns { path: path.to_owned(), why });
    }
    match value(VERSION_KEY).map(str::parse::<u32>) {
        Some(Ok(found)) if found > SCHEMA_VERSION => Err(RecordingError::NewerSchema {
            path: path.to_owned(),
            found,
            known: SCHEMA_VERSION,
            writer: metadata.metadata().file_metadata().created_by().unwrap_or("unknown").to_owned(),
        }),
        Some(Err(_)) => {
            let why = format!("the {VERSION_KEY} in its metadata is not a number");
            Err(RecordingError::Columns { path: path.to_owned(), why })
        }
        _ => Ok(()),
    }
}

/// The rows of a table, with one batch in memory at a time.
pub(super) struct Rows<'t, R> {
    table: &'t TableFile<R>,
    batches: ParquetRecordBatchReader,
    decoded: Vec<R>,
    at: usize,
    /// Number of rows in the batches before the current batch.
    decoded_before: u64,
}

impl<R: Row> Rows<'_, R> {
    /// Returns the current row; [`advance`](Rows::advance) moves to the next row.
    #[inline]
    pub(super) fn head(&mut self) -> Result<Option<&R>, RecordingError> {
        if self.at == self.decoded.len() && !self.decode()? {
            return Ok(None);
        }
        Ok(self.decoded.get(self.at))
    }

    #[inline]
    pub(super) fn advance(&mut self) {
        self.at += 1;
    }

    /// Returns the index of the current row in the table, from 0.
    pub(super) fn row(&self) -> u64 {
        self.decoded_before + self.at as u64
    }

    pub(super) fn path(&self) -> &Path {
        self.table.path()
    }

    #[cold]
    fn decode(&mut self) -> Result<bool, RecordingError> {
        let path = || self.table.path.clone();
        self.decoded_before += self.decoded.len() as u64;
        self.at = 0;
        self.decoded.clear();
        let batch = next_batch(&mut self.batches)
            .map_err(|source| RecordingError::Damaged { path: path(), source })?;
        let Some(batch) = batch else { return Ok(false) };
        schema::decode(&batch, &self.table.order, &mut self.decoded).map_err(|bad| {
            RecordingError::Value {
                path: path(),
                column: bad.column,
                row: self.decoded_before + bad.row as u64,
                value: bad.value,
            }
        })?;
        Ok(!self.decoded.is_empty())
    }
}

/// Returns the next batch of a file; `None` after the last batch.
pub(super) fn next_batch(
    batches: &mut ParquetRecordBatchReader,
) -> Result<Option<RecordBatch>, ParquetError> {
    guarded(|| {
        batches.next().transpose().map_err(|error| match error {
            ArrowError::ParquetError(message) => ParquetError::General(message),
            other => ParquetError::ArrowError(other.to_string()),
        })
    })
}

/// Calls the Parquet library and turns a panic into an error. By default, the library does not verify
/// checksums, and it panics on some damage that its other checks miss. After a panic, the caller must no
/// longer use the objects that the call used.
fn guarded<T>(call: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let message = panic.downcast::<String>().map(|message| *message);
        let message = message
            .or_else(|panic| panic.downcast::<&str>().map(|message| (*message).to_owned()))
            .unwrap_or_else(|_| "the reader stopped".to_owned());
        Err(ParquetError::General(message))
    })
}
