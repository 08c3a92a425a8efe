//! Request counts and times, per process and op.

use std::collections::BTreeMap;

use fonio_core::{ByteCount, Nanos, Op, Timestamp};

use crate::scheduler::{ProcessId, Request};

/// Sum and maximum of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The sum of all durations.
    pub sum: Nanos,
    /// The longest duration.
    pub max: Nanos,
}

impl Times {
    fn add(&mut self, time: Nanos) {
        self.sum += time;
        self.max = self.max.max(time);
    }
}

/// Statistics of the requests of one process and op.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of completed requests.
    pub count: u64,
    /// Number of bytes in the completed requests.
    pub bytes: ByteCount,
    /// Times from queueing to completion.
    pub response: Times,
    /// Times from dispatch to completion.
    pub service: Times,
    /// Times from queueing to dispatch.
    pub queue: Times,
    /// The queueing time of the first request.
    pub first_queued: Timestamp,
    /// The completion time of the last request.
    pub last_completed: Timestamp,
}

impl Tally {
    /// Returns the time from the first queueing to the last completion.
    pub fn span(&self) -> Nanos {
        self.last_completed.since(self.first_queued).unwrap_or_default()
    }

    /// Returns the total time divided by the number of requests, in microseconds: the response time of Nguyen
    /// et al., section 4.3.
    pub fn micros_each(&self) -> f64 {
        self.span().0 as f64 / 1e3 / self.count as f64
    }
}

/// The result of a run of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Statistics of the requests of each process and op.
    pub tallies: BTreeMap<(ProcessId, Op), Tally>,
    /// The time at which the run began.
    pub from: Timestamp,
    /// The completion time of the last request.
    pub end: Timestamp,
}

impl Outcome {
    /// Returns the requests of a process and op; empty if there are none.
    pub fn of(&self, process: ProcessId, op: Op) -> Tally {
        self.tallies.get(&(process, op)).copied().unwrap_or_default()
    }

    /// Returns the number of completed requests of all processes.
    pub fn count(&self) -> u64 {
        self.tallies.values().map(|tally| tally.count).sum()
    }

    pub(super) fn queued(&mut self, request: &Request, now: Timestamp) {
        let first = || Tally { first_queued: now, ..Tally::default() };
        self.tallies.entry((request.process, request.op)).or_insert_with(first);
    }

    pub(super) fn completed(
        &mut self,
        request: &Request,
        (queued, issued, now): (Timestamp, Timestamp, Timestamp),
    ) {
        let tally = self.tallies.get_mut(&(request.process, request.op)).expect("it was queued");
        tally.count += 1;
        tally.bytes += request.bytes;
        tally.response.add(Nanos(now.0 - queued.0));
        tally.service.add(Nanos(now.0 - issued.0));
        tally.queue.add(Nanos(issued.0 - queued.0));
        tally.last_completed = now;
        self.end = now;
    }
}
