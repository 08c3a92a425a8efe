//! How much: requests and bytes by op, and reads to a write (the block-trace study's Table I).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Requests, bytes and their ratios.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Requests of every kind.
    pub requests: u64,
    /// Read requests, readahead included.
    pub reads: u64,
    /// Write requests, zone appends included.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Reads to a write, by requests; absent without writes.
    pub read_write_ratio: Option<f64>,
    /// Bytes read to a byte written; absent without writes.
    pub read_write_bytes_ratio: Option<f64>,
    /// Requests in a second of the span; absent where the span is empty.
    pub requests_per_s: Option<f64>,
    /// Bytes read in a second of the span.
    pub read_bytes_per_s: Option<f64>,
    /// Bytes written in a second of the span.
    pub write_bytes_per_s: Option<f64>,
    /// Each op that occurs, in the order of the recording's ops.
    pub by_op: Vec<OpTotal>,
    /// Each class that occurs.
    pub by_class: Vec<ClassTotal>,
    /// Writes with FUA, durable before they complete.
    pub fua_writes: u64,
    /// Requests of file system metadata.
    pub meta_requests: u64,
}

/// One op's total.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpTotal {
    /// The op's name in the recording: `read`, `write`, `flush`, …
    pub op: String,
    /// Requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
}

/// One class's total.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassTotal {
    /// The class.
    pub class: crate::Class,
    /// Requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
}
