//! Measures think times. A think time is the time from the completion of a process's last request to its next
//! request.

use fonio_core::{Nanos, Timestamp};

/// A moving average of think times, as in anticipatory scheduling (Iyer and Druschel 2001).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThinkTime {
    mean: u64,
    completed: Option<Timestamp>,
}

/// The moving average changes by the difference between a new think time and the average, divided by this
/// number.
const SHARE: u64 = 8;

impl ThinkTime {
    /// Records that a process's last request in flight has completed.
    pub(super) fn completed(&mut self, now: Timestamp) {
        self.completed = Some(now);
    }

    /// Records a new request of a process that had no request in flight. Think times above `sample_max` count
    /// as `sample_max`.
    pub(super) fn continued(&mut self, now: Timestamp, sample_max: Nanos) {
        if let Some(thought) = self.completed.and_then(|completed| now.since(completed)) {
            let sample = thought.0.min(sample_max.0);
            self.mean = (self.mean * (SHARE - 1) + sample) / SHARE;
        }
    }

    pub(super) fn mean(&self) -> Nanos {
        Nanos(self.mean)
    }

    /// Returns the time until which the device idles to wait for the next request of a process with an
    /// empty queue, in a turn that ends at `ends`; `None` if the device does not idle.
    pub(super) fn idles_until(
        &self,
        in_flight: u32,
        ends: Timestamp,
        idle: Nanos,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let until = if in_flight > 0 { ends } else { ends.min(self.completed? + idle) };
        (until > now).then_some(until)
    }
}
