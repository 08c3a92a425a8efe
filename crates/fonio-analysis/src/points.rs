//! Single requests for scatter plots: a sample chosen by a hash of the request's id, and the slowest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Class;

/// Sampled requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Points {
    /// Requests that the sample stands for.
    pub of_requests: u64,
    /// The sample, in table order: every request where there are few, else those with the least hash of their id.
    pub sample: Vec<Point>,
    /// The slowest by response (by service where that is unknown), slowest first.
    pub slowest: Vec<Point>,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// The request's id in the recording.
    pub request_id: u64,
    /// When it was issued (else queued), in nanoseconds since the span began.
    pub at_ns: u64,
    /// Index into `devices` of the analysis.
    pub device: u32,
    /// Its class: what it does, and whether somebody waits.
    pub class: Class,
    /// First sector.
    pub sector: Option<u64>,
    /// Size in bytes.
    pub bytes: u64,
    /// Issue to completion in nanoseconds.
    pub service_ns: Option<u64>,
    /// Queued to completion in nanoseconds.
    pub response_ns: Option<u64>,
    /// Index into the list of processes.
    pub process: u32,
}
