//! Reads tables of requests, from fonio or from any other tool.
//!
//! The columns are those of the table `requests` of recordings. A table of another tool can have a part of them, in
//! any order and with any integer type, and can have further columns, which are ignored.

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_array::types::{
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, RecordBatch};
use arrow_schema::DataType;
use fonio_core::{ByteCount, DeviceId, Flags, Op, Request, Sector, Timestamp};
use fonio_sim::engine::{Arrival, replay};
use fonio_sim::scheduler::{Priority, ProcessId};
use pyo3::prelude::*;

use crate::error::{refused, wrong};

/// Returns the requests of a table as arrivals, in the order of the table.
pub fn read_arrivals(reader: RecordBatchStreamReader) -> PyResult<Vec<Arrival>> {
    let (mut arrivals, mut before) = (Vec::new(), 0);
    for batch in reader {
        let batch = batch.map_err(refused)?;
        let columns = Columns::of(&batch, before)?;
        arrivals.reserve(batch.num_rows());
        for at in 0..batch.num_rows() {
            arrivals.push(columns.arrival(at)?);
        }
        before += batch.num_rows() as u64;
    }
    Ok(arrivals)
}

/// Passes every row of a table of requests to `give`. A row without `request_id` gets its number in the table. Fails if
/// a needed column is missing, or if a value does not fit its column.
pub fn read_rows(
    reader: RecordBatchStreamReader,
    mut give: impl FnMut(Request) -> PyResult<()>,
) -> PyResult<()> {
    let mut before = 0;
    for batch in reader {
        let batch = batch.map_err(refused)?;
        let columns = Columns::of(&batch, before)?;
        for at in 0..batch.num_rows() {
            give(columns.request(at)?)?;
        }
        before += batch.num_rows() as u64;
    }
    Ok(())
}

/// The columns of a batch that a request can have.
struct Columns {
    /// Number of rows in the batches before this batch.
    before: u64,
    op: Vec<Op>,
    request_id: Option<Numbers>,
    sector: Option<Numbers>,
    bytes: Numbers,
    flags: Option<Numbers>,
    queued: Option<Numbers>,
    inserted: Option<Numbers>,
    issued: Option<Numbers>,
    completed: Option<Numbers>,
    tid: Option<Numbers>,
    ioprio: Option<Numbers>,
}

impl Columns {
    fn of(batch: &RecordBatch, before: u64) -> PyResult<Columns> {
        let needed = |name: &str| {
            batch.column_by_name(name).ok_or_else(|| {
                let has: Vec<String> =
                    batch.schema().fields().iter().map(|field| field.name().clone()).collect();
                wrong(format!("the requests have no column `{name}`; their columns are {}", has.join(", ")))
            })
        };
        let numbers = |name: &'static str| -> PyResult<Option<Numbers>> {
            batch.column_by_name(name).map(|array| Numbers::of(name, array)).transpose()
        };
        Ok(Columns {
            before,
            op: ops(needed("op")?, before)?,
            request_id: numbers("request_id")?,
            sector: numbers("sector")?,
            bytes: Numbers::of("bytes", needed("bytes")?)?,
            flags: numbers("flags")?,
            queued: numbers("queued_ns")?,
            inserted: numbers("inserted_ns")?,
            issued: numbers("issued_ns")?,
            completed: numbers("completed_ns")?,
            tid: numbers("tid")?,
            ioprio: numbers("ioprio")?,
        })
    }

    /// Returns a row as an arrival, like `replay::arrival` of its request, which has many more columns.
    fn arrival(&self, at: usize) -> PyResult<Arrival> {
        let row = self.before + at as u64;
        let get = |column: &Option<Numbers>| column.as_ref().map_or(Ok(None), |column| column.get(at, row));
        let (op, flags) = (self.op[at], Flags(self.narrow(&self.flags, at, row)?.unwrap_or(0)));
        let queued = match get(&self.queued)? {
            None => match get(&self.inserted)? {
                None => get(&self.issued)?,
                inserted => inserted,
            },
            queued => queued,
        };
        let (Some(queued), Some(sector)) = (queued, get(&self.sector)?.or((op == Op::Flush).then_some(0)))
        else {
            // The missing value is found again, for its error.
            return replay::arrival(&self.request(at)?).map_err(refused);
        };
        Ok(Arrival {
            at: Timestamp(queued),
            op,
            is_sync: op == Op::Read || flags.contains(Flags::SYNC),
            fua: flags.contains(Flags::FUA),
            sector: Sector(sector),
            bytes: ByteCount(self.bytes.get(at, row)?.unwrap_or(0)),
            process: ProcessId(self.narrow(&self.tid, at, row)?.unwrap_or(0)),
            priority: self.narrow(&self.ioprio, at, row)?.map_or(Priority::DEFAULT, Priority::from_ioprio),
        })
    }

    fn request(&self, at: usize) -> PyResult<Request> {
        let row = self.before + at as u64;
        let get = |column: &Option<Numbers>| column.as_ref().map_or(Ok(None), |column| column.get(at, row));
        let time = |column: &Option<Numbers>| Ok::<_, PyErr>(get(column)?.map(Timestamp));
        let bytes = self.bytes.get(at, row)?.unwrap_or(0);
        Ok(Request {
            request_id: get(&self.request_id)?.unwrap_or(row),
            flags: Flags(self.narrow(&self.flags, at, row)?.unwrap_or(0)),
            sector: get(&self.sector)?.map(Sector),
            queued: time(&self.queued)?,
            inserted: time(&self.inserted)?,
            issued: time(&self.issued)?,
            completed: time(&self.completed)?,
            tid: self.narrow(&self.tid, at, row)?,
            ioprio: self.narrow(&self.ioprio, at, row)?,
            ..Request::new(DeviceId::default(), self.op[at], ByteCount(bytes))
        })
    }

    fn narrow<T: TryFrom<u64>>(&self, column: &Option<Numbers>, at: usize, row: u64) -> PyResult<Option<T>> {
        let Some(column) = column else { return Ok(None) };
        let Some(number) = column.get(at, row)? else { return Ok(None) };
        T::try_from(number)
            .map(Some)
            .map_err(|_| wrong(format!("column {}, row {row}: {number} is too large", column.name)))
    }
}

/// A column of integers that are not negative, as signed 64-bit numbers.
struct Numbers {
    name: &'static str,
    values: Vec<i64>,
    nulls: Option<arrow_array::BooleanArray>,
}

impl Numbers {
    fn of(name: &'static str, array: &ArrayRef) -> PyResult<Numbers> {
        fn widened<T: ArrowPrimitiveType<Native: TryInto<i64>>>(array: &ArrayRef) -> Vec<i64> {
            // A number beyond the range of the column is refused later, as a negative number.
            array.as_primitive::<T>().values().iter().map(|value| (*value).try_into().unwrap_or(-1)).collect()
        }
        let values = match array.data_type() {
            DataType::Int8 => widened::<Int8Type>(array),
            DataType::Int16 => widened::<Int16Type>(array),
            DataType::Int32 => widened::<Int32Type>(array),
            DataType::Int64 => array.as_primitive::<Int64Type>().values().to_vec(),
            DataType::UInt8 => widened::<UInt8Type>(array),
            DataType::UInt16 => widened::<UInt16Type>(array),
            DataType::UInt32 => widened::<UInt32Type>(array),
            DataType::UInt64 => widened::<UInt64Type>(array),
            DataType::Null => vec![0; array.len()],
            // pandas turns integers with nulls into floating-point numbers.
            DataType::Float64 => {
                let is_whole = |value: f64| value.trunc() == value && value.abs() < 9e15;
                let values = array.as_primitive::<Float64Type>().values().iter();
                values.map(|value| if is_whole(*value) { *value as i64 } else { -1 }).collect()
            }
            other => {
                return Err(wrong(format!("the column `{name}` is {other}; it must have integers")));
            }
        };
        let is_nan = match array.data_type() {
            DataType::Float64 => Some(array.as_primitive::<Float64Type>()),
            _ => None,
        };
        let nulls = (0..array.len()).map(|at| {
            let nan = is_nan.is_some_and(|values| values.value(at).is_nan());
            *array.data_type() == DataType::Null || array.is_null(at) || nan
        });
        let has_nulls = array.null_count() > 0 || is_nan.is_some() || *array.data_type() == DataType::Null;
        let nulls = has_nulls.then(|| nulls.map(Some).collect());
        Ok(Numbers { name, values, nulls })
    }

    fn get(&self, at: usize, row: u64) -> PyResult<Option<u64>> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.value(at)) {
            return Ok(None);
        }
        u64::try_from(self.values[at]).map(Some).map_err(|_| {
            wrong(format!("column {}, row {row}: the value is not an integer from 0 to 2⁶³ - 1", self.name))
        })
    }
}

/// Returns the ops of a column of names.
fn ops(array: &ArrayRef, before: u64) -> PyResult<Vec<Op>> {
    let op = |at: usize, name: Option<&str>| {
        let name =
            name.ok_or_else(|| wrong(format!("column op, row {}: the op is null", before + at as u64)))?;
        Op::from_name(name).ok_or_else(|| {
            let names = Op::ALL.map(Op::name);
            let nearest = fonio_core::nearest(name, names);
            let row = before + at as u64;
            wrong(format!(
                "column op, row {row}: `{name}` is not an op{nearest}; the ops are {}",
                names.join(", ")
            ))
        })
    };
    match array.data_type() {
        DataType::Utf8 => {
            array.as_string::<i32>().iter().enumerate().map(|(at, name)| op(at, name)).collect()
        }
        DataType::LargeUtf8 => {
            array.as_string::<i64>().iter().enumerate().map(|(at, name)| op(at, name)).collect()
        }
        DataType::Utf8View => {
            array.as_string_view().iter().enumerate().map(|(at, name)| op(at, name)).collect()
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let keys = if dictionary.values().is_empty() { Vec::new() } else { dictionary.normalized_keys() };
            // Each name is parsed once. A dictionary can have names that no row uses.
            let names: Vec<Option<Op>> = ops_of_names(dictionary.values())?;
            (0..array.len())
                .map(|at| {
                    let known = if array.is_null(at) { None } else { names[keys[at]] };
                    let shown =
                        || if array.is_null(at) { None } else { text_at(dictionary.values(), keys[at]) };
                    known.map_or_else(|| op(at, shown().as_deref()), Ok)
                })
                .collect()
        }
        other => {
            Err(wrong(format!("the column `op` is {other}; it must have names, such as read and write")))
        }
    }
}

fn ops_of_names(names: &ArrayRef) -> PyResult<Vec<Option<Op>>> {
    match names.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            Ok((0..names.len()).map(|at| Op::from_name(&text_at(names, at)?)).collect())
        }
        other => Err(wrong(format!("the column `op` has values of type {other}; it must have names"))),
    }
}

fn text_at(names: &ArrayRef, at: usize) -> Option<String> {
    if names.is_null(at) {
        return None;
    }
    Some(match names.data_type() {
        DataType::LargeUtf8 => names.as_string::<i64>().value(at).to_owned(),
        DataType::Utf8View => names.as_string_view().value(at).to_owned(),
        _ => names.as_string::<i32>().value(at).to_owned(),
    })
}
