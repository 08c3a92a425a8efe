//! Puts the events of all processors into the order of time.
//!
//! perf drains the kernel's buffers in rounds, and writes a mark after each. An event of a round can be older than events of
//! the round before, but not older than events of earlier rounds. So at the end of a round, all events up to the latest time of
//! the round before it have been read, and can be given out.
//!
//! A file whose rounds never end is given out in halves of [`PENDING_MAX`] events. Events that come after later events were
//! given out are counted.

use std::collections::VecDeque;

use fonio_core::Instants;

/// Maximum number of events that wait for the end of a round. perf's default buffer of a processor (512 KiB) has about 5000
/// events.
const PENDING_MAX: usize = 256 << 10;

/// An event with its time.
pub(super) trait Timed {
    fn time(&self) -> u64;
}

/// The events that were read but not given out.
#[derive(Debug)]
pub(super) struct Rounds<T> {
    pending: Vec<T>,
    /// The events in the order of time, and whether each came too late to be sorted.
    ready: VecDeque<(T, bool)>,
    /// The latest time of all rounds, and of all rounds before this one.
    latest: u64,
    latest_before: u64,
    given_until: u64,
    /// Number of events that came too late to be sorted.
    pub late: u64,
}

impl<T> Default for Rounds<T> {
    fn default() -> Rounds<T> {
        Rounds {
            pending: Vec::new(),
            ready: VecDeque::new(),
            latest: 0,
            latest_before: 0,
            given_until: 0,
            late: 0,
        }
    }
}

impl<T: Timed> Rounds<T> {
    /// Adds an event.
    pub fn add(&mut self, event: T) {
        let time = event.time();
        // A damaged time must not release all later events at once.
        if self.latest == 0 || time <= self.latest.saturating_add(Instants::FAR.0) {
            self.latest = self.latest.max(time);
        }
        self.pending.push(event);
        if self.pending.len() >= PENDING_MAX {
            self.pending.sort_by_key(Timed::time);
            let count = self.pending.len() / 2;
            let until = self.pending[count - 1].time();
            self.give(count);
            self.given_until = self.given_until.max(until);
        }
    }

    /// Handles the end of a round.
    pub fn end(&mut self) {
        let complete = std::mem::replace(&mut self.latest_before, self.latest);
        if complete > self.given_until {
            self.pending.sort_by_key(Timed::time);
            let count = self.pending.partition_point(|event| event.time() <= complete);
            self.give(count);
            self.given_until = complete;
        }
    }

    /// Makes all remaining events ready, at the end of the file.
    pub fn finish(&mut self) {
        self.pending.sort_by_key(Timed::time);
        self.give(self.pending.len());
    }

    fn give(&mut self, count: usize) {
        for event in self.pending.drain(..count) {
            let is_late = event.time() < self.given_until;
            self.late += u64::from(is_late);
            self.ready.push_back((event, is_late));
        }
    }

    /// Returns the latest time so far.
    pub fn latest(&self) -> u64 {
        self.latest
    }

    /// Returns the next event in the order of time, and whether it came too late to be sorted.
    pub fn next(&mut self) -> Option<(T, bool)> {
        self.ready.pop_front()
    }
}
