//! Passes record batches to and from Python through the Arrow C stream interface, without copies.
//!
//! An object with `__arrow_c_stream__` returns a capsule with the name `arrow_array_stream`, which contains an
//! `ArrowArrayStream` (<https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>). The consumer
//! moves the stream out of the capsule. This file has the only `unsafe` of the crate.

use std::ffi::CStr;

use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::refused;

const STREAM: &CStr = c"arrow_array_stream";

/// Returns a capsule with the batches of `reader`.
pub fn to_capsule<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM)
}

/// Returns the batches of an object with `__arrow_c_stream__`, such as a table of pyarrow, Polars, DuckDB or fonio.
/// Fails with a `TypeError` for other objects. `what` names the argument in errors.
pub fn from_object(object: &Bound<'_, PyAny>, what: &str) -> PyResult<RecordBatchStreamReader> {
    let Ok(method) = object.getattr("__arrow_c_stream__") else {
        return Err(PyTypeError::new_err(format!(
            "{what} must be a table with the Arrow interface (`__arrow_c_stream__`), such as one of pyarrow, Polars, \
             DuckDB, pandas 2.2 or fonio; it is {}",
            object.get_type().name()?
        )));
    };
    let capsule = method.call0()?;
    let capsule = capsule.cast::<PyCapsule>().map_err(|_| {
        PyTypeError::new_err(format!("`__arrow_c_stream__` of {what} did not return a capsule"))
    })?;
    let stream = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: By its name, the capsule contains an `ArrowArrayStream`, which is valid while `capsule` is alive. The
    // reader moves the stream out and marks it as released, as the interface demands of a consumer.
    let reader = unsafe { RecordBatchStreamReader::from_raw(stream.as_ptr()) };
    reader.map_err(refused)
}
