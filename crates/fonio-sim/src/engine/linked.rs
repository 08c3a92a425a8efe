//! Threads whose requests wait for each other: a recording's wait graph.

use std::collections::BTreeMap;

use fonio_core::{Nanos, Timestamp};

use super::arrival::Arrival;

/// When a request of a thread is queued. In addition, a thread's requests are queued in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// This long after the beginning of the run: the thread did not wait for an earlier request.
    At(Nanos),
    /// This long after the thread's previous request completed: it had waited for that one.
    AfterEnd(Nanos),
    /// This long after the thread's previous request was queued: it did not wait.
    AfterBegin(Nanos),
    /// This long after a request of another thread and its own previous one completed: it had waited for that thread.
    AfterOther {
        /// The signal of the other thread's request.
        signal: u32,
        /// The time from the later completion to the queueing.
        pause: Nanos,
    },
}

/// A request of a thread, and the condition for its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When it is queued.
    pub begins: Begins,
    /// The request. Its instant does not count.
    pub request: Arrival,
    /// The signal that it sets when it completes.
    pub signal: Option<u32>,
}

/// A thread in progress.
pub(super) struct Thread {
    steps: Vec<Step>,
    /// How many were queued.
    pub made: u32,
    /// Whether the instant of the next request is among the events.
    is_armed: bool,
    /// When the last one was queued, and when it completed.
    queued: Timestamp,
    completed: Option<Timestamp>,
}

/// The times at which signals were set, and the sources that wait for one.
#[derive(Default)]
pub(super) struct Signals {
    set: BTreeMap<u32, Timestamp>,
    waiting: BTreeMap<u32, Vec<u32>>,
}

impl Signals {
    /// Sets a signal; returns the sources that waited for it.
    pub(super) fn set(&mut self, signal: u32, now: Timestamp) -> Vec<u32> {
        self.set.insert(signal, now);
        self.waiting.remove(&signal).unwrap_or_default()
    }
}

impl Thread {
    pub(super) fn new(steps: Vec<Step>) -> Thread {
        Thread { steps, made: 0, is_armed: false, queued: Timestamp(0), completed: None }
    }

    pub(super) fn start(&mut self, from: Timestamp) {
        self.queued = from;
        self.completed = Some(from);
    }

    /// The number of requests that were not made.
    pub(super) fn left(&self) -> u64 {
        self.steps.len() as u64 - u64::from(self.made)
    }

    /// The instant of the next request, once it is known. `source` is this thread's place among the sources.
    pub(super) fn arm(&mut self, source: u32, from: Timestamp, signals: &mut Signals) -> Option<Timestamp> {
        if self.is_armed {
            return None;
        }
        let at = match self.steps.get(self.made as usize)?.begins {
            Begins::At(time) => from + time,
            Begins::AfterBegin(pause) => self.queued + pause,
            Begins::AfterEnd(pause) => self.completed? + pause,
            Begins::AfterOther { signal, pause } => {
                let own = self.completed?;
                let Some(other) = signals.set.get(&signal) else {
                    let waiting = signals.waiting.entry(signal).or_default();
                    if !waiting.contains(&source) {
                        waiting.push(source);
                    }
                    return None;
                };
                own.max(*other + pause)
            }
        };
        self.is_armed = true;
        Some(at)
    }

    /// Makes the next request.
    pub(super) fn make(&mut self, now: Timestamp) -> Arrival {
        let step = self.steps[self.made as usize];
        self.made += 1;
        (self.is_armed, self.queued, self.completed) = (false, now, None);
        Arrival { at: now, ..step.request }
    }

    /// A request completed. Returns the signal that it sets.
    pub(super) fn complete(&mut self, step: u32, now: Timestamp) -> Option<u32> {
        if step + 1 == self.made {
            self.completed = Some(now);
        }
        self.steps[step as usize].signal
    }
}
