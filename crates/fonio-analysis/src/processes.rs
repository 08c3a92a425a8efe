//! Which process: requests, bytes and latency by the name of the thread that caused them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Requests by process name.
///
/// A request belongs to the thread that dirtied the data where that is known, else to the one that queued it; the name
/// is the thread's `comm` at that time. Kernel workers count as one (`kworker`), since their names change all the time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Processes {
    /// Each name, greatest summed latency first, then by requests and name.
    pub processes: Vec<Process>,
    /// Distinct names beyond the cap of 1024, which are counted together as `(other)`.
    pub names_beyond_cap: u64,
}

/// One process name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// The name; `(unknown)` where the source does not show the thread, `tid N` where it does not show the name.
    pub name: String,
    /// Requests.
    pub requests: u64,
    /// Of those, reads.
    pub reads: u64,
    /// Of those, writes.
    pub writes: u64,
    /// Of those, writes that somebody waits for.
    pub sync_writes: u64,
    /// Of those, flushes.
    pub flushes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Summed issue to completion, in nanoseconds.
    pub service_sum_ns: u64,
    /// Longest issue to completion, in nanoseconds.
    pub service_max_ns: u64,
    /// Share of all requests' summed service time.
    pub latency_share: Option<f64>,
}
