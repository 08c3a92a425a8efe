//! The rows of a table as Arrow record batches.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use crate::error::RecordingError;
use crate::schema::{self, BadCell, Row};
use crate::table::Table;

use super::table_file::{TableFile, next_batch};

/// The record batches of a table of a recording, with the columns of [`Table::schema`].
///
/// The types and the nulls of the columns are checked. The values are not: [`Recording::replay`](super::Recording::replay)
/// also refuses, for example, an unknown name of an op.
pub struct Batches {
    schema: SchemaRef,
    /// `None` if the recording lacks the table.
    file: Option<OpenFile>,
}

/// Returns the columns of the schema from a batch of the file.
type InSchema = fn(&RecordBatch, &[Option<usize>]) -> Result<Vec<ArrayRef>, BadCell>;

struct OpenFile {
    path: PathBuf,
    reader: ParquetRecordBatchReader,
    /// The index of each schema column in the file's batches.
    order: Vec<Option<usize>>,
    in_schema: InSchema,
    rows_before: u64,
}

impl Batches {
    pub(super) fn of<R: Row>(table: &TableFile<R>) -> Result<Batches, RecordingError> {
        let file = OpenFile {
            path: table.path().to_owned(),
            reader: table.batches()?,
            order: table.order().to_vec(),
            in_schema: schema::in_schema::<R>,
            rows_before: 0,
        };
        Ok(Batches { schema: schema::arrow_schema::<R>(), file: Some(file) })
    }

    pub(super) fn none(table: Table) -> Batches {
        Batches { schema: table.schema(), file: None }
    }

    /// Returns the columns of the batches.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, RecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.file.as_mut()?.next(&self.schema).transpose()?;
        if batch.is_err() {
            // After an error, the Parquet library's reader must not be used.
            self.file = None;
        }
        Some(batch)
    }
}

impl OpenFile {
    fn next(&mut self, schema: &SchemaRef) -> Result<Option<RecordBatch>, RecordingError> {
        let path = || self.path.clone();
        let batch = next_batch(&mut self.reader)
            .map_err(|source| RecordingError::Damaged { path: path(), source })?;
        let Some(batch) = batch else { return Ok(None) };
        let columns = (self.in_schema)(&batch, &self.order).map_err(|bad| RecordingError::Value {
            path: path(),
            column: bad.column,
            row: self.rows_before + bad.row as u64,
            value: bad.value,
        })?;
        self.rows_before += batch.num_rows() as u64;
        RecordBatch::try_new(Arc::clone(schema), columns)
            .map(Some)
            .map_err(|error| RecordingError::Columns { path: path(), why: error.to_string() })
    }
}
