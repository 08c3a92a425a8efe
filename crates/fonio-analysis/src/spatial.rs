//! Where on the device over time: a map of addresses against time (the block-trace study's Figure 4).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A map for each device, for the first 16 devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spatial {
    /// The maps.
    pub devices: Vec<SpatialMap>,
}

/// Bytes moved by time and address. A request counts at its first sector.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpatialMap {
    /// Index into `devices` of the analysis.
    pub device: u32,
    /// Start of the first column, in nanoseconds since the span began.
    pub start_ns: u64,
    /// Width of a column in nanoseconds.
    pub column_ns: u64,
    /// Height of a row in sectors of 512 bytes; the first row begins at sector 0.
    pub row_sectors: u64,
    /// Columns.
    pub columns: u32,
    /// Rows.
    pub rows: u32,
    /// First touched sector.
    pub first_sector: Option<u64>,
    /// The sector after the last touched one.
    pub end_sector: Option<u64>,
    /// Bytes read, `columns` values for each row from the lowest address.
    pub read_bytes: Vec<u64>,
    /// Bytes written, likewise.
    pub write_bytes: Vec<u64>,
}
