//! Describes one request for a scatter plot or a list.

use fonio_core::{ByteCount, Nanos, Sector, Timestamp};
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
    pub at_ns: Nanos,
    /// Index into `devices` of the analysis.
    pub device: u32,
    /// The request's class.
    pub class: Class,
    /// First sector.
    pub sector: Option<Sector>,
    /// Size in bytes.
    pub bytes: ByteCount,
    /// Time from issue to completion in nanoseconds.
    pub service_ns: Option<Nanos>,
    /// Time from queue to completion in nanoseconds.
    pub response_ns: Option<Nanos>,
    /// Index into the list of processes.
    pub process: u32,
}

impl Point {
    /// Creates a point. The point's time is on the recording's clock, and its process is the number that
    /// stands for the process name.
    pub(crate) fn of(seen: &Seen) -> Point {
        Point {
            request_id: seen.id,
            at_ns: Nanos(seen.at.0),
            device: seen.device as u32,
            class: seen.class,
            sector: seen.sector,
            bytes: seen.bytes,
            service_ns: seen.service,
            response_ns: seen.response,
            process: seen.process,
        }
    }

    /// Converts the time to an offset from the start of the span, and the process to its row in the table.
    pub(crate) fn place(&mut self, began: Timestamp, places: &[u32]) {
        self.at_ns = Timestamp(self.at_ns.0) - began;
        self.process = places[self.process as usize];
    }
}
