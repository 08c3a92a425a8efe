//! Exports of rows to the formats of other tools. Each export is a [`RowSink`](fonio_core::RowSink) that
//! writes to a `Write` of the caller. It should get the rows in table order. Recordings themselves are
//! Parquet, which needs no export.

pub mod csv;
pub mod fio_iolog;
mod names;
pub mod perfetto_json;
