//! Describes one request for a scatter plot or a list.

use fonio_core::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::class::Class;
use crate::question::seen::Seen;

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// The request's id in the recording.
    pub request_id: u64,
    /// Time of issue, or of queueing if the issue is unknown, in nanoseconds since the span began.
    pub at_ns: u64,
    /// Index into `devices` of the analysis.
    pub device: u32,
    /// The request's class.
    pub class: Class,
    /// First sector.
    pub sector: Option<u64>,
    /// Size in bytes.
    pub bytes: u64,
    /// Time from issue to completion in nanoseconds.
    pub service_ns: Option<u64>,
    /// Time from queue to completion in nanoseconds.
    pub response_ns: Option<u64>,
    /// Index into the list of processes.
    pub process: u32,
}

impl Point {
    /// Creates a point. The point's time is on the recording's clock, and its process is the number of the
    /// thread's name.
    pub(crate) fn of(seen: &Seen) -> Point {
        Point {
            request_id: seen.id,
            at_ns: seen.at.0,
            device: seen.device as u32,
            class: seen.class,
            sector: seen.sector.map(|sector| sector.0),
            bytes: seen.bytes.0,
            service_ns: seen.service.map(|time| time.0),
            response_ns: seen.response.map(|time| time.0),
            process: seen.process,
        }
    }

    /// Converts the time to an offset from the start of the span, and the process to its row in the table.
    pub(crate) fn place(&mut self, began: Timestamp, places: &[u32]) {
        self.at_ns = (Timestamp(self.at_ns) - began).0;
        self.process = places[self.process as usize];
    }
}
