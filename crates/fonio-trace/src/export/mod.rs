//! Rows out to other tools' formats. Each export is a [`RowSink`](fonio_core::RowSink) over a `Write`; rows should come
//! in the tables' order. Parquet is the recording itself.

pub mod csv;
pub mod fio_iolog;
mod names;
pub mod perfetto_json;
