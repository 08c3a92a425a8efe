//! A request with the values that several questions need, computed once.

use fonio_core::{Flags, Op};

use crate::Class;

#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) id: u64,
    /// Index of the device.
    pub(crate) device: usize,
    pub(crate) op: Op,
    pub(crate) class: Class,
    pub(crate) flags: Flags,
    pub(crate) sector: Option<u64>,
    pub(crate) bytes: u64,
    pub(crate) queued: Option<u64>,
    /// Issued, else queued, else completed: its time in the table, never earlier than that of the request before it.
    pub(crate) at: u64,
    /// The start and the end of its flight: issue (else queueing) to completion, cut at the end of the filter's time
    /// range.
    pub(crate) flight: Option<(u64, u64)>,
    pub(crate) service: Option<u64>,
    pub(crate) response: Option<u64>,
    pub(crate) queue: Option<u64>,
    /// Index of the process.
    pub(crate) process: u32,
    /// Number of the unit of that process, if it is known.
    pub(crate) unit: Option<u32>,
    /// Whether the flush question counts it as a flush.
    pub(crate) flush: bool,
}

impl Seen {
    /// Whether the request moves data.
    pub(crate) fn has_data(&self) -> bool {
        self.class.is_read() || self.class.is_write()
    }

    /// Time from issue to completion; from queueing to completion if the source shows no issue.
    pub(crate) fn time_in_flight(&self) -> u64 {
        self.flight.map_or(0, |(start, end)| end - start)
    }
}

/// `part / whole`; `None` if `whole` is 0.
pub(crate) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The rate of `count` events in `span_ns`, per second.
pub(crate) fn per_second(count: u64, span_ns: u64) -> Option<f64> {
    (span_ns > 0).then(|| count as f64 * 1e9 / span_ns as f64)
}

/// The element of a list that grows on demand.
#[inline]
pub(crate) fn at<T: Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if index >= list.len() {
        list.resize_with(index + 1, T::default);
    }
    &mut list[index]
}
