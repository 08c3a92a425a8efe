//! How much of the time is storage: the summed latency and the busy time over the span (the block-trace study's
//! Figure 7 and Table III).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Below this share storage is light: section IV.D of the block-trace study.
pub const LIGHT_BELOW: f64 = 0.09;
/// From this share on storage is heavy. Ours: the study gives no second threshold; its heavy group begins at 16.8 percent
/// and its moderate one ends at 13.4.
pub const HEAVY_FROM: f64 = 0.15;

/// How much storage weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Summed latency below 9 percent of the span.
    Light,
    /// Between.
    Moderate,
    /// Summed latency from 15 percent of the span.
    Heavy,
}

/// The I/O share, both ways.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IoShare {
    /// All devices together; absent where nothing completed or the span is empty.
    pub all: Option<Share>,
    /// Each device.
    pub devices: Vec<DeviceShare>,
}

/// One share, both ways.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// Summed service time over the span, as in the study; exceeds 1 where requests overlap.
    pub latency_sum_share: f64,
    /// Time with at least one request in flight over the span; never above 1.
    pub busy_union_share: f64,
    /// Summed service time in nanoseconds.
    pub latency_sum_ns: u64,
    /// Time with at least one request in flight, in nanoseconds.
    pub busy_union_ns: u64,
    /// By `latency_sum_share`.
    pub level: Level,
}

/// One device's share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceShare {
    /// Index into `devices` of the analysis.
    pub device: u32,
    /// The share.
    pub share: Share,
}
