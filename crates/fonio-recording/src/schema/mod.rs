//! Defines the columns of the tables: [`tables`] has one line per column, and [`cell`] has the column types.

pub(crate) mod cell;
mod convert;
mod tables;

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use fonio_core::meta::SCHEMA_VERSION;
use parquet::basic::{Compression, Encoding};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use crate::error::RecordingError;
use crate::table::Table;

/// Key for the name of the table in the key-value metadata of the Parquet file.
pub(crate) const TABLE_KEY: &str = "fonio.table";
/// Metadata key of the schema version. Its value is a decimal number.
pub(crate) const VERSION_KEY: &str = "fonio.schema_version";

/// Number of rows in a row group. Larger groups make the footer smaller (10^9 rows form 4000 groups), but
/// need more memory for encoding (about 60 bytes per row).
pub(crate) const ROW_GROUP_ROWS: usize = 256 * 1024;

/// How Parquet stores the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Each value is close to the previous value; Parquet stores packed differences.
    Near,
    /// The column has few distinct values, so Parquet stores a dictionary.
    Few,
}

/// A column of a table in the schema.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub name: &'static str,
    pub data_type: DataType,
    pub nullable: bool,
    pub layout: Layout,
    /// Whether recordings of older versions lack the column. If so, its values are null in these recordings.
    pub is_added: bool,
}

/// A row type of `fonio-core` that is stored in a table.
pub(crate) trait Row: Clone {
    const TABLE: Table;

    fn columns() -> Vec<Column>;

    /// Builds one array for each column, in the order of [`columns`](Row::columns).
    fn encode(rows: &[Self]) -> Vec<ArrayRef>;

    /// Returns the number of bytes of the row's texts.
    fn text_bytes(&self) -> usize;

    /// Appends `count` rows to `rows`, from arrays in the order of [`columns`](Row::columns).
    fn decode(columns: &[ArrayRef], count: usize, rows: &mut Vec<Self>) -> Result<(), BadCell>;
}

/// A value that is invalid in its column. `row` is the index of its row in the batch.
#[derive(Debug)]
pub(crate) struct BadCell {
    pub column: &'static str,
    pub row: usize,
    pub value: String,
}

pub(crate) fn arrow_schema<R: Row>() -> SchemaRef {
    let fields =
        R::columns().into_iter().map(|column| Field::new(column.name, column.data_type, column.nullable));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

pub(crate) fn writer_properties<R: Row>() -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("fonio ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(vec![
            KeyValue::new(TABLE_KEY.to_owned(), R::TABLE.name().to_owned()),
            KeyValue::new(VERSION_KEY.to_owned(), SCHEMA_VERSION.to_string()),
        ]))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        // With the minimum and maximum per row group, a reader can skip row groups. Statistics and offsets of
        // pages would stay in memory until the file is closed, and would save little time, because rows are
        // small and have a fixed width.
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true);
    for column in R::columns() {
        let path = ColumnPath::from(column.name);
        properties = match column.layout {
            Layout::Few => properties.set_column_dictionary_enabled(path, true),
            Layout::Near => properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
        };
    }
    properties.build()
}

/// Appends the rows of a batch to `rows`. `places` has the index of each schema column in the batch; a column
/// without an index is filled with nulls.
pub(crate) fn decode<R: Row>(
    batch: &RecordBatch,
    places: &[Option<usize>],
    rows: &mut Vec<R>,
) -> Result<(), BadCell> {
    R::decode(&in_schema::<R>(batch, places)?, batch.num_rows(), rows)
}

/// Returns the columns of the schema from a batch of a file, with the types of the schema. `places` is as in
/// [`decode`].
pub(crate) fn in_schema<R: Row>(
    batch: &RecordBatch,
    places: &[Option<usize>],
) -> Result<Vec<ArrayRef>, BadCell> {
    let columns = R::columns().into_iter().zip(places);
    let columns = columns.map(|(column, place)| match place {
        Some(place) => convert::convert(batch.column(*place), &column),
        None => Ok(new_null_array(&column.data_type, batch.num_rows())),
    });
    columns.collect()
}

/// Finds the columns that this build knows in the schema of a file. The file may have them in any order, and
/// may have further columns. Returns the schema for reading the file, and the index of each known column in
/// the file. The index is `None` for an added column that the file lacks.
pub(crate) fn match_columns<R: Row>(
    file_schema: &Schema,
    path: &Path,
) -> Result<(SchemaRef, Vec<Option<usize>>), RecordingError> {
    let wrong = |why: String| RecordingError::Columns { path: path.to_owned(), why };
    let mut fields = file_schema.fields().to_vec();
    let mut places = Vec::new();
    for column in R::columns() {
        let (place, found) = match file_schema.column_with_name(column.name) {
            Some(found) => found,
            None if column.is_added => {
                places.push(None);
                continue;
            }
            None => return Err(wrong(format!("the column {:?} is missing", column.name))),
        };
        let data_type = if stored_type(found.data_type()) == stored_type(&column.data_type) {
            column.data_type
        } else if convert::is_whole(&column.data_type) && convert::can_be_whole(found.data_type()) {
            found.data_type().clone()
        } else {
            return Err(wrong(format!(
                "column {:?} is {} instead of {}",
                column.name,
                found.data_type(),
                column.data_type
            )));
        };
        fields[place] = Arc::new(Field::new(column.name, data_type, found.is_nullable()));
        places.push(Some(place));
    }
    Ok((Arc::new(Schema::new(fields)), places))
}

/// Returns the data type that Parquet stores. The reader chooses whether to read strings as a dictionary.
fn stored_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, value) => stored_type(value),
        DataType::LargeUtf8 | DataType::Utf8View => &DataType::Utf8,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the columns of a table from `docs/recording-reference.md`: name, SQL type, and whether it can be
    /// null.
    fn documented(document: &str, table: Table) -> Vec<(String, String, bool)> {
        let (_, section) =
            document.split_once(&format!("\n### {table}\n")).expect("the document has a section per table");
        let section = section.split("\n#").next().unwrap_or_default();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
        let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
        cells.map(|row| (row[0].trim_end_matches('`').to_owned(), row[1].to_owned(), row[2] != "—")).collect()
    }

    fn sql_type(data_type: &DataType) -> &'static str {
        match data_type {
            DataType::Int64 => "BIGINT",
            DataType::Int32 => "INTEGER",
            DataType::UInt32 => "UINTEGER",
            DataType::UInt16 => "USMALLINT",
            DataType::Utf8 | DataType::Dictionary(..) => "VARCHAR",
            other => panic!("{other} has no SQL type name here"),
        }
    }

    #[test]
    fn the_document_has_every_column() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recording-reference.md");
        let document = std::fs::read_to_string(path).unwrap();
        fn check<R: Row>(document: &str) {
            let columns = R::columns().into_iter();
            let columns: Vec<_> = columns
                .map(|column| {
                    (column.name.to_owned(), sql_type(&column.data_type).to_owned(), column.nullable)
                })
                .collect();
            assert_eq!(documented(document, R::TABLE), columns, "{}", R::TABLE);
        }
        check::<fonio_core::Request>(&document);
        check::<fonio_core::Bio>(&document);
        check::<fonio_core::Link>(&document);
        check::<fonio_core::Call>(&document);
        check::<fonio_core::Wait>(&document);
        check::<fonio_core::BlockedCount>(&document);
        check::<fonio_core::File>(&document);
        check::<fonio_core::Thread>(&document);
        check::<fonio_core::Sample>(&document);
        check::<fonio_core::Mark>(&document);
        for (flag, name) in fonio_core::Flags::NAMES {
            let row = format!("| {} | {} | {name} |", flag.0.trailing_zeros(), flag.0);
            assert!(document.contains(&row), "{row}");
        }
        for blocked_in in fonio_core::BlockedIn::ALL {
            let name = format!("`{}`", blocked_in.name());
            assert!(document.contains(&name), "{name}");
        }
        for metric in fonio_core::Metric::ALL {
            assert!(document.contains(metric.name()), "{}", metric.name());
        }
    }
}
