//! Writes rows in other tools' formats. Each export is a [`RowSink`](fonio_core::RowSink) over a `Write` that is handed
//! in; rows should come in the tables' order. Parquet is no export: it is the recording itself.

pub mod csv;
pub mod fio_iolog;
mod names;
pub mod perfetto_json;
