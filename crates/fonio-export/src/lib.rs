//! Exports of rows to the formats of other tools. Each export is a [`RowSink`](fonio_core::RowSink) over a `Write` that
//! the caller supplies; rows should come in the tables' order. Parquet is not an export: it is the recording itself.

pub mod csv;
pub mod fio_iolog;
mod names;
pub mod perfetto_json;
