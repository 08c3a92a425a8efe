//! Converts columns that other tools wrote with other types: Spark replaces unsigned integers by wider signed
//! integers, and pandas turns integers with nulls into floating-point numbers.
//!
//! The conversion is lossless: a value must be an integer within the range of the column's type.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_schema::DataType;

use super::{BadCell, Column};

/// The largest number up to which `f64` represents every integer exactly.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Returns whether the schema's data type is an integer type.
pub(super) fn is_whole(data_type: &DataType) -> bool {
    data_type.is_integer()
}

/// Returns whether a column of this data type may contain integers.
pub(super) fn can_be_whole(data_type: &DataType) -> bool {
    data_type.is_integer() || *data_type == DataType::Float64
}

/// Converts a column of a file to the data type in the schema.
pub(super) fn convert(array: &ArrayRef, column: &Column) -> Result<ArrayRef, BadCell> {
    if *array.data_type() == column.data_type {
        return Ok(Arc::clone(array));
    }
    let values = whole(array).map_err(|(row, value)| BadCell { column: column.name, row, value })?;
    let narrowed = match column.data_type {
        DataType::Int32 => narrow::<Int32Type>(&values),
        DataType::Int64 => narrow::<Int64Type>(&values),
        DataType::UInt16 => narrow::<UInt16Type>(&values),
        DataType::UInt32 => narrow::<UInt32Type>(&values),
        ref other => unreachable!("no table has a column of type {other}"),
    };
    narrowed.map_err(|row| {
        let value = values[row].map_or("null".to_owned(), |value| value.to_string());
        BadCell { column: column.name, row, value }
    })
}

/// Returns the values of a numeric column, converted to the widest type. The error has the row and the text
/// of a value that is not an integer.
fn whole(array: &ArrayRef) -> Result<Vec<Option<i128>>, (usize, String)> {
    fn wide<T: ArrowPrimitiveType<Native: Into<i128>>>(array: &ArrayRef) -> Vec<Option<i128>> {
        array.as_primitive::<T>().iter().map(|value| value.map(Into::into)).collect()
    }
    Ok(match array.data_type() {
        DataType::Int8 => wide::<Int8Type>(array),
        DataType::Int16 => wide::<Int16Type>(array),
        DataType::Int32 => wide::<Int32Type>(array),
        DataType::Int64 => wide::<Int64Type>(array),
        DataType::UInt8 => wide::<UInt8Type>(array),
        DataType::UInt16 => wide::<UInt16Type>(array),
        DataType::UInt32 => wide::<UInt32Type>(array),
        DataType::UInt64 => wide::<UInt64Type>(array),
        _ => {
            let values = array.as_primitive::<Float64Type>().iter().enumerate();
            let to_whole = |(row, value): (usize, Option<f64>)| match value {
                // A NaN is a null, because pandas has no other null for floating-point columns.
                Some(value) if value.is_nan() => Ok(None),
                Some(value) if value.trunc() == value && value.abs() <= EXACT_MAX => Ok(Some(value as i128)),
                Some(value) => Err((row, value.to_string())),
                None => Ok(None),
            };
            values.map(to_whole).collect::<Result<_, _>>()?
        }
    })
}

/// Converts integers to a narrower type. The error is the index of the row with a value that is out of range.
fn narrow<T: ArrowPrimitiveType<Native: TryFrom<i128>>>(values: &[Option<i128>]) -> Result<ArrayRef, usize> {
    let narrowed = values.iter().enumerate().map(|(row, value)| match value {
        Some(value) => T::Native::try_from(*value).map(Some).map_err(|_| row),
        None => Ok(None),
    });
    Ok(Arc::new(narrowed.collect::<Result<PrimitiveArray<T>, usize>>()?))
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, Int64Array, UInt64Array};

    use super::super::Layout;
    use super::*;

    #[test]
    fn nothing_is_lost_or_made_up() {
        let column =
            |data_type| Column { name: "x", data_type, nullable: true, layout: Layout::Few, is_added: false };
        let floats: ArrayRef =
            Arc::new(Float64Array::from(vec![Some(3.0), None, Some(f64::NAN), Some(-1.0)]));
        let signed = convert(&floats, &column(DataType::Int32)).expect("they are whole");
        assert_eq!(
            signed.as_primitive::<Int32Type>().iter().collect::<Vec<_>>(),
            [Some(3), None, None, Some(-1)]
        );
        let bad = convert(&floats, &column(DataType::UInt32)).expect_err("one is negative");
        assert_eq!((bad.column, bad.row, bad.value.as_str()), ("x", 3, "-1"));
        for value in [0.5, 1e300, f64::INFINITY, EXACT_MAX * 2.0] {
            let floats: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), Some(value)]));
            assert_eq!(convert(&floats, &column(DataType::Int64)).expect_err("not exact").row, 1);
        }
        let wide: ArrayRef = Arc::new(Int64Array::from(vec![0, 65535, 65536]));
        assert_eq!(convert(&wide, &column(DataType::UInt16)).expect_err("too large").row, 2);
        assert!(convert(&wide, &column(DataType::UInt32)).is_ok());
        let unsigned: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX]));
        assert!(convert(&unsigned, &column(DataType::Int64)).is_err());
    }
}
