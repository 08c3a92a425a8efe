//! Do reads wait for writes, and writes for reads: slowdown in the wild.
//!
//! The two-process protocol of Nguyen et al. (section 4.3) compares the same work alone and beside another. A recording
//! of real work has no such pair, so this compares requests that met the other op with those that did not. The two must
//! not be taken for each other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fewer requests than this on either side are too few to say anything. Ours: the usual rule of thumb for a mean.
pub const ENOUGH: u64 = 30;

/// Slowdown in the wild.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interference {
    /// Reads with and without writes in flight.
    pub read: Slowdown,
    /// Writes with and without reads in flight.
    pub write: Slowdown,
}

/// One op with and without the other.
///
/// *With*: at least one request of the other op was in flight on the same device at some moment from this request's
/// queueing to its issue (at its issue, where its queueing is unknown). What comes after the issue is not looked at:
/// slow requests would meet more of everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slowdown {
    /// Requests with the other op in flight.
    pub with: SlowdownSide,
    /// Requests without.
    pub without: SlowdownSide,
    /// Mean response with over mean response without; absent where either is unknown.
    pub response_slowdown: Option<f64>,
    /// Mean service with over mean service without.
    pub service_slowdown: Option<f64>,
    /// Whether both sides have at least 30 requests. Where not, the ratio says little.
    pub enough: bool,
}

/// One side of the comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowdownSide {
    /// Requests with a known service time.
    pub requests: u64,
    /// Mean queued to completion, in nanoseconds.
    pub mean_response_ns: Option<f64>,
    /// Mean issue to completion, in nanoseconds.
    pub mean_service_ns: Option<f64>,
    /// Mean size in bytes: where it differs much between the sides, so may the response without any interference.
    pub mean_bytes: Option<f64>,
}
