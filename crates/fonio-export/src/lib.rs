//! Exports the rows of a recording to the formats of other tools. Each export is a
//! [`RowSink`](fonio_core::RowSink) that writes to a `Write` of the caller. An export should receive the rows
//! in the order of their table. Recordings themselves are in the Parquet format, which needs no export.

pub mod csv;
pub mod fio_iolog;
mod lanes;
mod names;
pub mod perfetto;
pub mod perfetto_json;
