//! How often the device is flushed: requests, bytes and time between consecutive flushes of a device (the block-trace
//! study's Figure 5 and Table II).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Distribution;

/// Flushes and the gaps between them.
///
/// A flush is a flush request, or a write with preflush for which no flush request was issued between its queueing and
/// its issue (the block layer carries most preflushes out as a flush request of their own, and one flush must not count
/// twice). A write with FUA alone is not a flush, because it does not empty the device's cache; it is counted beside,
/// and an option counts it in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flushes {
    /// Flushes on all devices.
    pub flushes: u64,
    /// Of those, flush requests.
    pub flush_requests: u64,
    /// Of those, writes with preflush.
    pub preflush_writes: u64,
    /// Writes with FUA.
    pub fua_writes: u64,
    /// Whether writes with FUA were counted as flushes (option).
    pub fua_counted: bool,
    /// Flushes in a second of the span.
    pub flushes_per_s: Option<f64>,
    /// Write requests to a flush; absent without flushes.
    pub writes_per_flush: Option<f64>,
    /// Bytes written to a flush.
    pub write_bytes_per_flush: Option<f64>,
    /// Gaps of all devices together; absent where no device has two flushes.
    pub gaps: Option<FlushGaps>,
    /// Each device that has flushes.
    pub devices: Vec<DeviceFlushes>,
}

/// What happens between consecutive flushes of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlushGaps {
    /// Read and write requests between two flushes.
    pub requests: Distribution,
    /// Their bytes.
    pub bytes: Distribution,
    /// Time from flush to flush, in nanoseconds.
    pub time_ns: Distribution,
}

/// Flushes of one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceFlushes {
    /// Index into `devices` of the analysis.
    pub device: u32,
    /// Flushes.
    pub flushes: u64,
    /// Write requests.
    pub writes: u64,
    /// Gaps; absent with fewer than two flushes.
    pub gaps: Option<FlushGaps>,
}
