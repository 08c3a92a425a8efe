//! Parts that several fuzz targets share: the limit of memory, rows and recordings that are made from bytes, the
//! sinks of rows, and seed inputs.

pub mod memory;
pub mod parquet_file;
pub mod recording;
pub mod rows;
pub mod seeds;
pub mod sinks;
pub mod steps;
