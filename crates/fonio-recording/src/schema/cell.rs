//! Defines the column types, and their conversion to and from Arrow arrays.
//!
//! 64-bit quantities are stored in signed columns, although the rows have `u64`. The reason is that users
//! subtract times, sectors and sizes in SQL and pandas, which fail if the difference of unsigned numbers is
//! negative. The bits of a number do not change. So other tools show a number of 2^63 or more as negative,
//! but fonio reads it back exactly. Such numbers occur only in damaged traces.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt16Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, DictionaryArray, Int32Array, PrimitiveArray, StringArray,
};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::DataType;
use fonio_core::{
    BlockedIn, ByteCount, Content, DeviceId, FileFlags, Flags, IoWait, LinkEnd, LinkKind, Metric, Nanos, Op,
    Sector, SqliteWrite, Timestamp, WaitReason,
};

use super::BadCell;

/// Maximum number of bytes of a text in a table. The longest texts are SQL statements and paths, which have a
/// few KiB at most.
pub(crate) const TEXT_BYTES_MAX: usize = 64 << 10;
/// Maximum number of characters of a wrong value in an error message.
const SHOWN_MAX: usize = 100;

/// Cuts a wrong value for an error message.
fn shown(value: &str) -> String {
    match value.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

/// A field of a row: a [`Value`] or an `Option` of a [`Value`].
pub(crate) trait Cell: Sized {
    const NULLABLE: bool;
    type Value: Value;

    fn data_type() -> DataType {
        <Self::Value as Value>::data_type()
    }
    fn get(&self) -> Option<&Self::Value>;
    /// Returns the number of bytes of a text; 0 for other values.
    fn text_bytes(&self) -> usize {
        self.get().map_or(0, Value::text_bytes)
    }
    /// Returns `None` if `value` is null but the cell cannot be null.
    fn from_value(value: Option<Self::Value>) -> Option<Self>;
}

impl<V: Value> Cell for V {
    const NULLABLE: bool = false;
    type Value = V;

    fn get(&self) -> Option<&V> {
        Some(self)
    }
    fn from_value(value: Option<V>) -> Option<V> {
        value
    }
}

impl<V: Value> Cell for Option<V> {
    const NULLABLE: bool = true;
    type Value = V;

    fn get(&self) -> Option<&V> {
        self.as_ref()
    }
    fn from_value(value: Option<V>) -> Option<Option<V>> {
        Some(value)
    }
}

/// A type that can be stored in a column.
pub(crate) trait Value: Sized {
    /// The Arrow array from which the values are read.
    type Column;

    fn data_type() -> DataType;
    fn encode<'r>(cells: impl ExactSizeIterator<Item = Option<&'r Self>>) -> ArrayRef
    where
        Self: 'r;
    /// Returns the number of bytes of a text; 0 for other values.
    fn text_bytes(&self) -> usize {
        0
    }
    fn open(array: &ArrayRef) -> Self::Column;
    /// Reads the value at `row`, which must not be null. The error contains the invalid value.
    fn read(column: &Self::Column, row: usize) -> Result<Self, String>;
}

/// Builds a column from the values of `field` in `rows`.
pub(crate) fn encode<R, C: Cell>(rows: &[R], field: impl Fn(&R) -> &C) -> ArrayRef {
    C::Value::encode(rows.iter().map(|row| field(row).get()))
}

/// A column whose cells are converted from Arrow to values of rows.
pub(crate) struct Cells<C: Cell> {
    name: &'static str,
    nulls: Option<NullBuffer>,
    column: <C::Value as Value>::Column,
}

/// Opens a column of a batch that was read with [`super::arrow_schema`].
pub(crate) fn open<C: Cell>(name: &'static str, array: Option<&ArrayRef>) -> Cells<C> {
    let array = array.expect("a batch has every column of its schema");
    // `logical_nulls` also reports a null among a dictionary's values.
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    Cells { name, nulls, column: C::Value::open(array) }
}

impl<C: Cell> Cells<C> {
    #[inline]
    pub(crate) fn at(&mut self, row: usize) -> Result<C, BadCell> {
        let null = self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        let found = if null { Ok(None) } else { C::Value::read(&self.column, row).map(Some) };
        match found.map(C::from_value) {
            Ok(Some(cell)) => Ok(cell),
            Ok(None) => Err(BadCell { column: self.name, row, value: "null".to_owned() }),
            Err(value) => Err(BadCell { column: self.name, row, value }),
        }
    }
}

macro_rules! numbers {
    ($($value:ty, $arrow:ty, $to:expr, $from:expr;)*) => {$(
        impl Value for $value {
            type Column = ScalarBuffer<<$arrow as ArrowPrimitiveType>::Native>;

            fn data_type() -> DataType {
                <$arrow>::DATA_TYPE
            }
            fn encode<'r>(cells: impl ExactSizeIterator<Item = Option<&'r Self>>) -> ArrayRef {
                let to: fn($value) -> <$arrow as ArrowPrimitiveType>::Native = $to;
                Arc::new(cells.map(|cell| cell.map(|value| to(*value))).collect::<PrimitiveArray<$arrow>>())
            }
            fn open(array: &ArrayRef) -> Self::Column {
                array.as_primitive::<$arrow>().values().clone()
            }
            #[inline]
            fn read(column: &Self::Column, row: usize) -> Result<$value, String> {
                let from: fn(<$arrow as ArrowPrimitiveType>::Native) -> $value = $from;
                Ok(from(column[row]))
            }
        }
    )*};
}

numbers! {
    u64, Int64Type, |value| value as i64, |stored| stored as u64;
    i64, Int64Type, |value| value, |stored| stored;
    Timestamp, Int64Type, |value| value.0 as i64, |stored| Timestamp(stored as u64);
    Nanos, Int64Type, |value| value.0 as i64, |stored| Nanos(stored as u64);
    Sector, Int64Type, |value| value.0 as i64, |stored| Sector(stored as u64);
    ByteCount, Int64Type, |value| value.0 as i64, |stored| ByteCount(stored as u64);
    u32, UInt32Type, |value| value, |stored| stored;
    Flags, UInt32Type, |value| value.0, |stored| Flags(stored);
    FileFlags, UInt32Type, |value| value.0, |stored| FileFlags(stored);
    u16, UInt16Type, |value| value, |stored| stored;
    i32, Int32Type, |value| value, |stored| stored;
}

impl Value for String {
    type Column = StringArray;

    fn data_type() -> DataType {
        DataType::Utf8
    }
    fn encode<'r>(cells: impl ExactSizeIterator<Item = Option<&'r String>>) -> ArrayRef {
        let mut builder = StringBuilder::with_capacity(cells.len(), 16 * cells.len());
        for cell in cells {
            builder.append_option(cell);
        }
        Arc::new(builder.finish())
    }
    fn text_bytes(&self) -> usize {
        self.len()
    }
    fn open(array: &ArrayRef) -> StringArray {
        array.as_string::<i32>().clone()
    }
    fn read(column: &StringArray, row: usize) -> Result<String, String> {
        let text = column.value(row);
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("a text of {} bytes", text.len()));
        }
        Ok(text.to_owned())
    }
}

/// A column of names. It consists of each row's index into the batch's dictionary, and the meaning of each
/// dictionary entry.
pub(crate) struct Names<V> {
    keys: ScalarBuffer<i32>,
    values: Vec<Result<V, String>>,
}

/// Returns the dictionary type with signed 32-bit keys, because pandas categories do not support unsigned
/// keys.
fn dictionary_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

fn open_names<V>(array: &ArrayRef, parse: impl Fn(&str) -> Option<V>) -> Names<V> {
    let dictionary = array.as_dictionary::<Int32Type>();
    let values = dictionary.values().as_string::<i32>();
    let values = values.iter().map(|name| {
        let name = name.unwrap_or("null");
        parse(name).ok_or_else(|| shown(name))
    });
    Names { keys: dictionary.keys().values().clone(), values: values.collect() }
}

#[inline]
fn read_name<V: Copy>(names: &Names<V>, row: usize) -> Result<V, String> {
    // In a damaged file, the dictionary key can have any value.
    let key = names.keys[row];
    match usize::try_from(key).ok().and_then(|key| names.values.get(key)) {
        Some(Ok(value)) => Ok(*value),
        Some(Err(name)) => Err(name.clone()),
        None => Err(format!("entry {key} of the dictionary")),
    }
}

macro_rules! names {
    ($($value:ident),*) => {$(
        impl Value for $value {
            type Column = Names<$value>;

            fn data_type() -> DataType {
                dictionary_type()
            }
            fn encode<'r>(cells: impl ExactSizeIterator<Item = Option<&'r Self>>) -> ArrayRef {
                let keys: Int32Array = cells.map(|cell| cell.map(|value| *value as i32)).collect();
                let values = $value::ALL.iter().map(|value| Some(value.name())).collect::<StringArray>();
                Arc::new(DictionaryArray::new(keys, Arc::new(values)))
            }
            fn open(array: &ArrayRef) -> Names<$value> {
                open_names(array, $value::from_name)
            }
            #[inline]
            fn read(column: &Names<$value>, row: usize) -> Result<$value, String> {
                read_name(column, row)
            }
        }
    )*};
}
// The discriminant of a value is its index in `ALL`; a test below checks this.
names!(Op, Content, LinkKind, LinkEnd, Metric, WaitReason, BlockedIn, IoWait, SqliteWrite);

impl Value for DeviceId {
    type Column = Names<DeviceId>;

    fn data_type() -> DataType {
        dictionary_type()
    }
    fn encode<'r>(cells: impl ExactSizeIterator<Item = Option<&'r DeviceId>>) -> ArrayRef {
        // Most rows have the same device as the previous row.
        let mut seen: Vec<DeviceId> = Vec::new();
        let mut places = BTreeMap::new();
        let mut last = 0;
        let keys: Int32Array = cells
            .map(|cell| {
                let device = *cell?;
                if seen.get(last) != Some(&device) {
                    last = *places.entry(device).or_insert_with(|| {
                        seen.push(device);
                        seen.len() - 1
                    });
                }
                Some(last as i32)
            })
            .collect();
        let values = seen.iter().map(|device| Some(device.to_string())).collect::<StringArray>();
        Arc::new(DictionaryArray::new(keys, Arc::new(values)))
    }
    fn open(array: &ArrayRef) -> Names<DeviceId> {
        open_names(array, parse_device)
    }
    #[inline]
    fn read(column: &Names<DeviceId>, row: usize) -> Result<DeviceId, String> {
        read_name(column, row)
    }
}

/// Parses a device number as decimal `major:minor`. Both parts must fit into a [`DeviceId`].
fn parse_device(text: &str) -> Option<DeviceId> {
    let (major, minor) = text.split_once(':')?;
    let device = DeviceId::new(major.parse().ok()?, minor.parse().ok()?);
    (device.to_string() == text).then_some(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_discriminant_is_the_place_in_all() {
        macro_rules! check {
            ($($enum:ident),*) => {$(
                for (place, value) in $enum::ALL.iter().enumerate() {
                    assert_eq!(*value as usize, place);
                }
            )*};
        }
        check!(Op, Content, LinkKind, LinkEnd, Metric, WaitReason, IoWait);
    }

    #[test]
    fn devices_are_major_and_minor() {
        for device in [0, 8 << 20, 179 << 20 | 2, u32::MAX].map(DeviceId) {
            assert_eq!(parse_device(&device.to_string()), Some(device));
        }
        for text in ["", "8", "8:", ":0", "8:0:0", "08:0", "4096:0", "0:1048576", "-1:0"] {
            assert_eq!(parse_device(text), None, "{text}");
        }
    }
}
