//! Slices of equal time with the sums of each: what intervals are made of when two recordings are compared.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// At most 64 slices of equal time; every list has one value for each slice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slices {
    /// Width of a slice in nanoseconds.
    pub slice_ns: u64,
    /// How much of each slice the span covers, in nanoseconds: less than the width in the last.
    pub covered_ns: Vec<u64>,
    /// Requests.
    pub requests: Vec<u64>,
    /// Bytes read.
    pub read_bytes: Vec<u64>,
    /// Bytes written.
    pub write_bytes: Vec<u64>,
    /// Flushes.
    pub flushes: Vec<u64>,
    /// Summed issue to completion, in nanoseconds.
    pub service_sum_ns: Vec<u64>,
    /// Time with a request in flight on any device, in nanoseconds.
    pub busy_ns: Vec<u64>,
    /// Reads (readahead included).
    pub read: SliceLatency,
    /// Writes that somebody waits for.
    pub write_sync: SliceLatency,
    /// Writes that nobody waits for, or of which that is unknown.
    pub write_async: SliceLatency,
}

/// Latencies of one kind of request by slice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SliceLatency {
    /// Issue to completion.
    pub service: SliceTimes,
    /// Queued to completion.
    pub response: SliceTimes,
}

/// One latency by slice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SliceTimes {
    /// Requests with that latency.
    pub count: Vec<u64>,
    /// Its sum in nanoseconds.
    pub sum_ns: Vec<u64>,
    /// Median in nanoseconds, within 1.6 percent.
    pub p50_ns: Vec<Option<u64>>,
    /// 99th percentile in nanoseconds, within 1.6 percent.
    pub p99_ns: Vec<Option<u64>>,
}
