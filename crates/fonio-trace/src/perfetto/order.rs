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

use std::collections::VecDeque;

use fonio_core::Instants;

use super::bundle::{Event, Item};

/// Maximum number of events that wait for the end of a round: five times the largest number in a trace of 2.4
/// million events that the recorder drained every 100 ms.
const PENDING_MAX: usize = 256 << 10;

/// Maximum number of packet sequences with ftrace events. Further sequences share the rounds of the last one.
const SOURCES_MAX: usize = 64;

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

/// The events that were read but not given out.
#[derive(Debug, Default)]
pub(super) struct Order {
    sources: Vec<Rounds>,
    pending: Vec<Event>,
    ready: VecDeque<Event>,
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
        for event in events.iter() {
            // A damaged time must not release all later events at once.
            if rounds.latest == 0 || event.time <= rounds.latest.saturating_add(Instants::FAR.0) {
                rounds.latest = rounds.latest.max(event.time);
            }
        }
        self.pending.append(events);
        let complete = self.sources.iter().map(|rounds| rounds.complete).min().unwrap_or(0);
        if falls && complete > self.given_until {
            self.pending.sort_by_key(|event| event.time);
            let count = self.pending.partition_point(|event| event.time <= complete);
            self.give(count);
            self.given_until = complete;
        }
        if self.pending.len() >= PENDING_MAX {
            self.pending.sort_by_key(|event| event.time);
            let count = self.pending.len() / 2;
            let until = self.pending[count - 1].time;
            self.give(count);
            self.given_until = self.given_until.max(until);
        }
    }

    /// Makes all remaining events ready, at the end of the trace.
    pub fn finish(&mut self) {
        self.pending.sort_by_key(|event| event.time);
        self.give(self.pending.len());
    }

    /// Moves the first events to the events that are ready.
    fn give(&mut self, count: usize) {
        for mut event in self.pending.drain(..count) {
            let mut before = self.ready.iter().rev().take_while(|other| other.time == event.time);
            let is_repeated = |other: &Event| other.source != event.source && other.is_same(&event);
            if self.sources.len() > 1 && before.any(is_repeated) {
                self.repeated += 1;
                continue;
            }
            event.late = event.time < self.given_until && !matches!(event.item, Item::Gap { .. });
            self.late += u64::from(event.late);
            self.ready.push_back(event);
        }
    }

    /// Returns the next event in the order of time.
    pub fn next(&mut self) -> Option<Event> {
        self.ready.pop_front()
    }
}
