//! Threads whose requests depend on each other: the wait graph of a recording.

use std::collections::BTreeMap;

use fonio_core::{Nanos, Timestamp};
use serde::{Deserialize, Serialize};

use super::arrival::Arrival;

/// The condition under which a thread queues a request. A thread's requests are always queued in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Begins {
    /// Queue the request when this time has passed since the beginning of the run. The thread did not wait
    /// for an earlier request.
    At(Nanos),
    /// Queue the request when this time has passed since the thread's previous request completed. The thread
    /// had waited for that request.
    AfterEnd(Nanos),
    /// Queue the request when this time has passed since the thread's previous request was queued. The thread
    /// did not wait for that request.
    AfterBegin(Nanos),
    /// Queue the request after both the thread's previous request and a request of another thread have
    /// completed, and after a pause: the thread had waited for the other thread.
    AfterOther {
        /// The signal that is set when the other thread's request completes.
        signal: u32,
        /// The time from the later of the two completions to the queueing.
        pause: Nanos,
    },
}

/// A request of a thread, and the condition under which the thread queues it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The condition for queueing the request.
    pub begins: Begins,
    /// The request; the time in it is ignored.
    pub request: Arrival,
    /// The signal that the request sets when it completes.
    pub signal: Option<u32>,
}

pub(super) struct Thread {
    steps: Vec<Step>,
    /// Number of requests that the thread has queued.
    pub made: u32,
    /// Whether the next request is in the event queue.
    is_armed: bool,
    /// The times at which the last request was queued and completed.
    queued: Timestamp,
    completed: Option<Timestamp>,
}

/// The times at which signals were set, and the sources that wait for a signal.
#[derive(Default)]
pub(super) struct Signals {
    set: BTreeMap<u32, Timestamp>,
    waiting: BTreeMap<u32, Vec<u32>>,
}

impl Signals {
    /// Sets a signal, and returns the sources that waited for this signal.
    pub(super) fn set(&mut self, signal: u32, now: Timestamp) -> Vec<u32> {
        self.set.insert(signal, now);
        self.waiting.remove(&signal).unwrap_or_default()
    }
}

impl Thread {
    /// Makes a thread that begins at `from`.
    pub(super) fn new(steps: Vec<Step>, from: Timestamp) -> Thread {
        Thread { steps, made: 0, is_armed: false, queued: from, completed: Some(from) }
    }

    /// Returns the number of requests that were not queued.
    pub(super) fn left(&self) -> u64 {
        self.steps.len() as u64 - u64::from(self.made)
    }

    /// If the time of the next request is now known, returns this time. `source` is the index of this
    /// thread among the sources.
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

    pub(super) fn make(&mut self, now: Timestamp) -> Arrival {
        let step = self.steps[self.made as usize];
        self.made += 1;
        (self.is_armed, self.queued, self.completed) = (false, now, None);
        Arrival { at: now, ..step.request }
    }

    /// Records the completion of a request, and returns the signal that the completion sets.
    pub(super) fn complete(&mut self, step: u32, now: Timestamp) -> Option<u32> {
        if step + 1 == self.made {
            self.completed = Some(now);
        }
        self.steps[step as usize].signal
    }
}
