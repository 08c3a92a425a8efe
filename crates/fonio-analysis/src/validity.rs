//! Can this be trusted: what is missing, ambiguous or lost, and what the source could not show.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether the measurement holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Validity {
    /// False where the figures must not be relied on; the command line then exits with 3.
    pub ok: bool,
    /// Why not: one sentence each.
    pub problems: Vec<String>,
    /// What the source could not show, one sentence each; those figures are absent, not zero.
    pub unknown: Vec<String>,
    /// Requests analysed.
    pub requests: u64,
    /// Requests with a service time.
    pub with_service: u64,
    /// Requests with a response time.
    pub with_response: u64,
    /// Requests whose issue was not seen.
    pub without_issue: u64,
    /// Requests whose completion was not seen.
    pub without_completion: u64,
    /// Requests that complete before they are issued or queued: the source's times are damaged.
    pub out_of_order_times: u64,
    /// Requests that arrived after a later one: the source is not in table order.
    pub out_of_order_rows: u64,
    /// Requests that ended with an error.
    pub errors: u64,
    /// Events for which the assembler found more than one request.
    pub ambiguous: u64,
    /// Events that were lost while recording.
    pub lost_events: u64,
    /// Gaps in the recording.
    pub gaps: u64,
    /// What the assembler counted, by its names.
    pub assembly: BTreeMap<String, u64>,
}
