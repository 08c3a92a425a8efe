//! Puts the events of all processors into the order of time.
//!
//! The recorder drains the kernel's buffers in rounds: processor 0, 1, 2, … A new round begins when the number
//! of the processor falls. Every processor is drained in a round after all drains of the round before. So when
//! a round has ended, all events up to the latest time of the round before it have been read, and can be given
//! out. Within a round, the order in the file is useless: the completions of one processor come before the
//! issues of another.
//!
//! Two data sources can record at the same time. Each has its own packet sequence and its own rounds. If both
//! recorded the same event, it is given out once.
//!
//! A trace whose rounds never end (only one processor has events, or a sequence stops early) is given out in
//! halves of [`PENDING_MAX`] events. Events that come after later events were given out are counted.

use fonio_core::Instants;

use super::bundle::{Event, Item};
use crate::waiting::{Ready, Waiting};

/// Maximum number of events that wait for the end of a round: five times the largest number in a trace of 2.4
/// million events that the recorder drained every 100 ms.
const PENDING_MAX: usize = 256 << 10;

/// Maximum number of packet sequences with ftrace events. Further sequences share the rounds of the last one.
const SOURCES_MAX: usize = 64;

/// Maximum number of events of the same time among which the same event of another data source is searched. Processors have
/// at most one event in a nanosecond.
const SAME_TIME_MAX: usize = 1024;

/// The rounds of one packet sequence.
#[derive(Debug, Default)]
struct Rounds {
    sequence: u32,
    cpu: Option<u32>,
    /// The latest time of this round and all rounds before.
    latest: u64,
    /// The latest time of all rounds before this one.
    latest_before: u64,
    /// All events until this time have been read.
    complete: u64,
}

/// Decides about an event that is about to become ready; see [`Waiting::release_until`].
type Decide<'a> = &'a mut dyn FnMut(u64, &Event, Ready<'_, Event>) -> Option<bool>;

/// The events that were read but not given out.
#[derive(Debug, Default)]
pub(super) struct Order {
    sources: Vec<Rounds>,
    waiting: Waiting<Event>,
    given_until: u64,
    /// Number of events that came too late to be sorted.
    pub late: u64,
    /// Number of events that a second data source recorded again.
    pub repeated: u64,
}

impl Order {
    /// Returns the number of the data source with this packet sequence.
    pub fn source(&mut self, sequence: u32) -> u16 {
        let known = self.sources.iter().position(|rounds| rounds.sequence == sequence);
        let place = known.unwrap_or_else(|| {
            if self.sources.len() < SOURCES_MAX {
                self.sources.push(Rounds { sequence, ..Rounds::default() });
            }
            self.sources.len() - 1
        });
        place as u16
    }

    /// Adds the events of one bundle.
    pub fn bundle(&mut self, source: u16, cpu: u32, events: &mut Vec<Event>) {
        let rounds = &mut self.sources[usize::from(source)];
        let falls = rounds.cpu.replace(cpu).is_some_and(|before| cpu < before);
        if falls {
            rounds.complete = rounds.latest_before;
            rounds.latest_before = rounds.latest;
        }
        for event in events.drain(..) {
            // A damaged time must not release all later events at once.
            if rounds.latest == 0 || event.time <= rounds.latest.saturating_add(Instants::FAR.0) {
                rounds.latest = rounds.latest.max(event.time);
            }
            self.waiting.add(event.time, event);
        }
        let complete = self.sources.iter().map(|rounds| rounds.complete).min().unwrap_or(0);
        if falls && complete > self.given_until {
            self.give(|waiting, decide| waiting.release_until(complete, decide));
            self.given_until = complete;
        }
        if self.waiting.len() >= PENDING_MAX {
            let until = self.give(|waiting, decide| waiting.release_half(decide));
            self.given_until = self.given_until.max(until);
        }
    }

    /// Makes all remaining events ready, at the end of the trace.
    pub fn finish(&mut self) {
        self.give(|waiting, decide| waiting.release_until(u64::MAX, decide));
    }

    /// Makes the events ready that `release` chooses.
    fn give<R>(&mut self, release: impl FnOnce(&mut Waiting<Event>, Decide<'_>) -> R) -> R {
        let (has_repeats, given_until) = (self.sources.len() > 1, self.given_until);
        let (late, repeated) = (&mut self.late, &mut self.repeated);
        release(&mut self.waiting, &mut |time, event, ready| {
            if has_repeats {
                let is_repeated = |other: &Event| other.source != event.source && other.is_same(event);
                let same_time = ready.latest_first().take_while(|other| other.time == time);
                if same_time.take(SAME_TIME_MAX).any(is_repeated) {
                    *repeated += 1;
                    return None;
                }
            }
            let is_late = time < given_until && !matches!(event.item, Item::Gap { .. });
            *late += u64::from(is_late);
            Some(is_late)
        })
    }

    /// Returns the next event in the order of time, and whether later events were given out before it.
    #[inline]
    pub fn next(&mut self) -> Option<(&Event, bool)> {
        self.waiting.next()
    }
}
