//! Finds each flush once, whether it is a separate request or a flag of a write.

use fonio_core::{Flags, Op, Timestamp};

use super::ratio::at;
use crate::requests::class::Class;

/// How a flush reaches the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    Request,
    Preflush,
    /// A write with FUA, if an option counts writes with FUA as flushes.
    Fua,
}

#[derive(Debug, Default)]
pub(crate) struct FlushFinder {
    fua_counts: bool,
    /// For each device, the time of the last flush request, if no write with preflush has been matched with
    /// this request.
    last_requests: Vec<Option<Timestamp>>,
}

impl FlushFinder {
    pub(crate) fn new(fua_counts: bool) -> FlushFinder {
        FlushFinder { fua_counts, last_requests: Vec::new() }
    }

    /// Returns the form of the flush, if the request is a flush. `time` is the request's time in the table;
    /// `queued` is its queue time.
    #[inline]
    pub(crate) fn find(
        &mut self,
        device: usize,
        (op, class, flags): (Op, Class, Flags),
        time: Timestamp,
        queued: Option<Timestamp>,
    ) -> Option<Flush> {
        if op == Op::Flush {
            *at(&mut self.last_requests, device) = Some(time);
            return Some(Flush::Request);
        }
        if !class.is_write() || flags.0 & (Flags::PREFLUSH | Flags::FUA).0 == 0 {
            return None;
        }
        if flags.contains(Flags::PREFLUSH) {
            let request = at(&mut self.last_requests, device).take();
            // The block layer issued this write's flush as a separate request.
            let is_counted = request.is_some_and(|at| queued.is_none_or(|queued| at >= queued));
            return (!is_counted).then_some(Flush::Preflush);
        }
        self.fua_counts.then_some(Flush::Fua)
    }
}
