//! How slow: service and response by op, sync and async, and whose the summed latency is (the block-trace study's
//! Figure 2, right, and its main finding: sync writes make up most of it).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Distribution, Group};

/// Latencies of requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Each group that has requests.
    pub groups: Vec<LatencyRow>,
    /// Sum of every service time, in nanoseconds.
    pub service_sum_ns: u64,
    /// Share of that sum by class; absent where nothing completed.
    pub shares: Option<LatencyShares>,
    /// Whether the source shows which reads are readahead. Where not, all reads are in `read`.
    pub readahead_known: bool,
    /// Whether the source shows which writes somebody waits for.
    pub sync_known: bool,
}

/// Latencies of one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyRow {
    /// The group.
    pub group: Group,
    /// Requests of the group, with or without a latency.
    pub requests: u64,
    /// Issue to completion, which the studies call latency, in nanoseconds.
    pub service_ns: Option<Distribution>,
    /// Queued to completion, in nanoseconds; absent where the source shows no queueing.
    pub response_ns: Option<Distribution>,
    /// Share of all requests' summed service time.
    pub latency_share: Option<f64>,
}

/// Shares of the summed service time; together 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyShares {
    /// Reads that are not known to be readahead.
    pub read: f64,
    /// Readahead.
    pub readahead: f64,
    /// Writes that somebody waits for.
    pub write_sync: f64,
    /// Writes that nobody waits for.
    pub write_async: f64,
    /// Writes of which that is unknown.
    pub write_unknown: f64,
    /// Flush requests.
    pub flush: f64,
    /// Discards.
    pub discard: f64,
    /// The rest.
    pub other: f64,
}
