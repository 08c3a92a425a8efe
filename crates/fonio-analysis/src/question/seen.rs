//! Describes a request by the values that several questions need, which are computed once.

use fonio_core::{ByteCount, Flags, Nanos, Op, Sector, Timestamp};

use super::flush::Flush;
use crate::requests::class::Class;

#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) id: u64,
    pub(crate) device: usize,
    pub(crate) op: Op,
    pub(crate) class: Class,
    pub(crate) flags: Flags,
    pub(crate) sector: Option<Sector>,
    pub(crate) bytes: ByteCount,
    pub(crate) queued: Option<Timestamp>,
    /// The request's time in the table: the time of issue, otherwise of queueing, otherwise of completion.
    /// The value is never earlier than `at` of the preceding request.
    pub(crate) at: Timestamp,
    /// Start and end of the time in flight: issue (otherwise queueing) to completion, cut at the end of the
    /// filter's time range.
    pub(crate) flight: Option<(Timestamp, Timestamp)>,
    /// The part of the time in flight in which no earlier request of any device is in flight.
    pub(crate) busy: Option<(Timestamp, Timestamp)>,
    pub(crate) service: Option<Nanos>,
    pub(crate) response: Option<Nanos>,
    pub(crate) queue: Option<Nanos>,
    pub(crate) process: u32,
    pub(crate) unit: Option<u32>,
    /// The form of the flush, if the request is a flush.
    pub(crate) flush: Option<Flush>,
}

impl Seen {
    pub(crate) fn has_data(&self) -> bool {
        self.class.is_read() || self.class.is_write()
    }

    /// Time from issue to completion; from queueing to completion if the source shows no issue.
    pub(crate) fn time_in_flight(&self) -> Nanos {
        self.flight.map_or(Nanos(0), |(start, end)| end - start)
    }
}
