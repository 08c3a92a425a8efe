//! Queue and service time, depth, busy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Distribution, Group};

/// Where requests wait, and how many are in flight.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Queueing {
    /// Time from queueing to first issue, by group; only groups of which the source shows it.
    pub groups: Vec<QueueRow>,
    /// Share of the summed response that was spent queued, over requests of which both are known.
    pub queue_share_of_response: Option<f64>,
    /// Requests that the driver gave back, and how often; absent where the source shows no requeues.
    pub requeues: Option<Requeues>,
    /// Each device's depth.
    pub devices: Vec<DeviceDepth>,
}

/// Queue time of one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueRow {
    /// The group.
    pub group: Group,
    /// Queued to first issue, in nanoseconds.
    pub queue_ns: Distribution,
}

/// Requeues.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Requeues {
    /// Requests that were given back at least once.
    pub requests: u64,
    /// Requeues in all.
    pub requeues: u64,
}

/// Requests in flight on one device: from issue (from queueing, where the source shows no issue) to completion.
/// Requests that are not known to complete are left out. At one instant, completions come before issues.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceDepth {
    /// Index into `devices` of the analysis.
    pub device: u32,
    /// Mean over the span, weighted by time.
    pub mean_depth: Option<f64>,
    /// Mean over the time in which the device was busy.
    pub mean_depth_when_busy: Option<f64>,
    /// Greatest.
    pub max_depth: u64,
    /// Time at each depth in nanoseconds, from depth 0; the last entry holds all greater depths too. At most 65 entries.
    pub time_at_depth_ns: Vec<u64>,
    /// Time with at least one request in flight, in nanoseconds.
    pub busy_ns: u64,
    /// Busy time over the span.
    pub busy_share: Option<f64>,
    /// Mean number of requests already in flight when one was issued.
    pub mean_depth_at_issue: Option<f64>,
}
