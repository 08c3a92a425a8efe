//! Puts the events of all processors into the order of time.
//!
//! perf drains the kernel's buffers in rounds, and writes a mark after each. An event of a round can be older than events of
//! the round before, but not older than events of earlier rounds. So at the end of a round, all events up to the latest time of
//! the round before it have been read, and can be given out.
//!
//! A file whose rounds never end is given out in halves of [`PENDING_MAX`] events. Events that come after later events were
//! given out are counted.

use fonio_core::Instants;

use crate::waiting::Waiting;

/// Maximum number of events that wait for the end of a round. perf's default buffer of a processor (512 KiB) has about 5000
/// events.
const PENDING_MAX: usize = 256 << 10;

/// The events that were read but not given out.
#[derive(Debug)]
pub(super) struct Rounds<T> {
    waiting: Waiting<T>,
    /// The latest time of all rounds, and of all rounds before this one.
    latest: u64,
    latest_before: u64,
    given_until: u64,
    /// Number of events that came too late to be sorted.
    pub late: u64,
}

impl<T> Default for Rounds<T> {
    fn default() -> Rounds<T> {
        Rounds { waiting: Waiting::default(), latest: 0, latest_before: 0, given_until: 0, late: 0 }
    }
}

impl<T> Rounds<T> {
    /// Adds an event.
    #[inline]
    pub fn add(&mut self, time: u64, event: T) {
        // A damaged time must not release all later events at once.
        if self.latest == 0 || time <= self.latest.saturating_add(Instants::FAR.0) {
            self.latest = self.latest.max(time);
        }
        self.waiting.add(time, event);
        if self.waiting.len() >= PENDING_MAX {
            let (given_until, late) = (self.given_until, &mut self.late);
            let until = self.waiting.release_half(|time, _, _| Some(is_late(time, given_until, late)));
            self.given_until = self.given_until.max(until);
        }
    }

    /// Handles the end of a round.
    pub fn end(&mut self) {
        let complete = std::mem::replace(&mut self.latest_before, self.latest);
        if complete > self.given_until {
            self.give_until(complete);
            self.given_until = complete;
        }
    }

    /// Makes all remaining events ready, at the end of the file.
    pub fn finish(&mut self) {
        self.give_until(u64::MAX);
    }

    fn give_until(&mut self, until: u64) {
        let (given_until, late) = (self.given_until, &mut self.late);
        self.waiting.release_until(until, |time, _, _| Some(is_late(time, given_until, late)));
    }

    /// Returns the latest time so far.
    pub fn latest(&self) -> u64 {
        self.latest
    }

    /// Returns the next event in the order of time, and whether it came too late to be sorted.
    #[inline]
    pub fn next(&mut self) -> Option<(&T, bool)> {
        self.waiting.next()
    }
}

/// Returns whether an event comes after later events were given out, and counts it.
fn is_late(time: u64, given_until: u64, late: &mut u64) -> bool {
    let is_late = time < given_until;
    *late += u64::from(is_late);
    is_late
}
