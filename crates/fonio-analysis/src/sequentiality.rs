//! Sequential and random bytes, in sum and over time (Kim et al., Table V and Figure 6).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sequential: starts where an earlier request of the same op on the same device ended, among the last `window` ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sequentiality {
    /// How many ends are remembered for each op and device. 1 by default: our choice, the studies give no definition.
    pub window: u32,
    /// Reads.
    pub read: SequentialShare,
    /// Writes.
    pub write: SequentialShare,
    /// Bytes so far, over time.
    pub cumulative: CumulativeCurves,
}

/// Sequential and random requests and bytes of one op.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SequentialShare {
    /// Sequential requests.
    pub sequential_requests: u64,
    /// Random requests.
    pub random_requests: u64,
    /// Sequential bytes.
    pub sequential_bytes: u64,
    /// Random bytes.
    pub random_bytes: u64,
    /// Share of bytes that are sequential; absent without bytes.
    pub sequential_bytes_share: Option<f64>,
}

/// Cumulative curves: value `i` holds at the end of bin `i`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CumulativeCurves {
    /// Start of the first bin, in nanoseconds since the span began.
    pub start_ns: u64,
    /// Width of a bin in nanoseconds.
    pub bin_ns: u64,
    /// Bytes read sequentially.
    pub sequential_read_bytes: Vec<u64>,
    /// Bytes read at random.
    pub random_read_bytes: Vec<u64>,
    /// Bytes written sequentially.
    pub sequential_write_bytes: Vec<u64>,
    /// Bytes written at random.
    pub random_write_bytes: Vec<u64>,
}
