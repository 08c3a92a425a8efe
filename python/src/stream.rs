//! A table that Python's libraries read through the Arrow C stream interface.

use std::sync::Arc;

use arrow_array::RecordBatchReader;
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow::to_capsule;

/// Opens the batches of a table.
pub type Open = dyn Fn() -> PyResult<Box<dyn RecordBatchReader + Send>> + Send + Sync;

/// A table as a stream of record batches. Each call of `__arrow_c_stream__` reads the table from its start.
#[pyclass(frozen, module = "fonio._fonio")]
pub struct Stream {
    schema: SchemaRef,
    open: Arc<Open>,
}

impl Stream {
    /// Creates a table with these columns, whose batches `open` returns.
    pub fn new(
        schema: SchemaRef,
        open: impl Fn() -> PyResult<Box<dyn RecordBatchReader + Send>> + Send + Sync + 'static,
    ) -> Stream {
        Stream { schema, open: Arc::new(open) }
    }
}

#[pymethods]
impl Stream {
    /// Returns a capsule with the batches. The requested schema is ignored, as the interface permits.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        to_capsule(py, (self.open)()?)
    }

    /// Returns the names of the columns with their Arrow types.
    fn columns(&self) -> Vec<(String, String)> {
        self.schema
            .fields()
            .iter()
            .map(|field| (field.name().clone(), field.data_type().to_string()))
            .collect()
    }
}
