//! How it changed over time: at most 512 bins, whose width doubles as the recording grows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Time series; every list has one value for each bin. A request counts in the bin of its issue (else of its queueing).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Start of the first bin, in nanoseconds since the span began.
    pub start_ns: u64,
    /// Width of a bin in nanoseconds.
    pub bin_ns: u64,
    /// Requests of every kind.
    pub requests: Vec<u64>,
    /// Reads.
    pub reads: Vec<u64>,
    /// Writes.
    pub writes: Vec<u64>,
    /// Bytes read.
    pub read_bytes: Vec<u64>,
    /// Bytes written.
    pub write_bytes: Vec<u64>,
    /// Flushes, as the flush question counts them.
    pub flushes: Vec<u64>,
    /// Mean issue to completion in nanoseconds; absent where nothing completed.
    pub mean_service_ns: Vec<Option<f64>>,
    /// Longest issue to completion in nanoseconds.
    pub max_service_ns: Vec<Option<u64>>,
    /// Mean issue to completion of reads in nanoseconds.
    pub mean_read_service_ns: Vec<Option<f64>>,
    /// Mean issue to completion of writes in nanoseconds.
    pub mean_write_service_ns: Vec<Option<f64>>,
    /// Requests in flight on all devices, mean over the bin.
    pub mean_depth: Vec<f64>,
}
