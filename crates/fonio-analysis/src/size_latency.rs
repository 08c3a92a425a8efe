//! Size against latency: the service time of each size class (the block-trace study's Figure 3).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Distribution, Group};

/// Service time by size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeLatency {
    /// Reads, then sync and other writes, each by ascending size; only size classes that have requests.
    pub rows: Vec<SizeLatencyRow>,
}

/// One group's service time in one size class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeLatencyRow {
    /// `reads`, `writes`, `write_sync`, `write_async` or `discard`.
    pub group: Group,
    /// Sizes above this many bytes …
    pub over_bytes: u64,
    /// … and up to this many; absent for the largest class.
    pub up_to_bytes: Option<u64>,
    /// Issue to completion in nanoseconds, without curve.
    pub service_ns: Distribution,
}
