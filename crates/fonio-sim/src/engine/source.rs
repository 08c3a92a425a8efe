//! The sources from which the engine gets requests.

use fonio_core::random::seed_for;
use fonio_core::{ByteCount, Nanos, Op, Random, SECTOR_BYTES, Sector, Timestamp};

use super::EngineError;
use super::arrival::Arrival;
use super::linked::{Step, Thread};
use crate::measure::Order;
use crate::scheduler::{Priority, ProcessId};

/// A source of requests.
pub enum Source<'a> {
    /// A process that keeps a fixed number of requests in flight and waits for them.
    Closed(ClosedLoop),
    /// Requests at given times, in time order. The arrival times do not depend on the device. An error ends
    /// the run.
    Open(Box<dyn Iterator<Item = Result<Arrival, EngineError>> + 'a>),
    /// A thread whose requests depend on earlier requests of this thread or of other threads.
    Linked(Vec<Step>),
}

/// A process that keeps a fixed number of requests in flight. When a request completes, the process
/// waits for its think time and queues the next request.
#[derive(Clone, Copy, Debug)]
pub struct ClosedLoop {
    /// The process's ID; to the scheduler, loops with the same ID are one process.
    pub process: ProcessId,
    /// The priority of the process's requests.
    pub priority: Priority,
    /// Whether the process's writes are synchronous: direct I/O and fsync, not write-back.
    pub is_sync: bool,
    /// Percentage of requests that are reads. Each request is a read or a write at random, with this probability.
    pub reads_percent: u8,
    /// Whether the requests of each direction are sequential or random.
    pub order: Order,
    /// The first byte of the process's range on the device.
    pub start: ByteCount,
    /// The length of the range. A sequential process that reaches the end continues at the beginning.
    pub range: ByteCount,
    /// The size of each request.
    pub request: ByteCount,
    /// The total number of requests.
    pub count: u64,
    /// The number of requests in flight.
    pub depth: u32,
    /// The pause between a completion and the next request.
    pub think: Think,
}

/// A think time, uniformly distributed between a minimum and a maximum.
#[derive(Clone, Copy, Debug, Default)]
pub struct Think {
    /// The minimum think time.
    pub min: Nanos,
    /// The maximum think time.
    pub max: Nanos,
}

impl Think {
    /// No think time: the process queues its next request at once.
    pub const NONE: Think = Think { min: Nanos(0), max: Nanos(0) };
}

#[derive(Clone, Debug)]
pub(super) struct Progress {
    random: Random,
    /// Number of requests in each direction, writes first.
    by_direction: [u64; 2],
    places: u64,
}

impl Progress {
    fn new(process: &ClosedLoop, seed: u64) -> Progress {
        assert!(
            process.range.0 >= process.request.0 && process.request.0 > 0,
            "a process's range fits one request"
        );
        let places = process.range.0 / process.request.0;
        Progress { random: Random::new(seed), by_direction: [0; 2], places }
    }

    fn next(&mut self, process: &ClosedLoop, at: Timestamp) -> Arrival {
        // Draw no random number for a process with only one direction, so that its sequence of addresses
        // stays the same.
        let is_read = match process.reads_percent {
            0 => false,
            100.. => true,
            percent => self.random.below(100) < u64::from(percent),
        };
        let made = &mut self.by_direction[usize::from(is_read)];
        let place = match process.order {
            Order::Sequential => *made % self.places,
            Order::Random => self.random.below(self.places),
        };
        *made += 1;
        Arrival {
            at,
            op: if is_read { Op::Read } else { Op::Write },
            is_sync: process.is_sync,
            fua: false,
            sector: Sector((process.start.0 + place * process.request.0) / SECTOR_BYTES),
            bytes: process.request,
            process: process.process,
            priority: process.priority,
        }
    }

    fn think(&mut self, think: Think) -> Nanos {
        if think.max > think.min { Nanos(self.random.between(think.min.0, think.max.0)) } else { think.min }
    }
}

pub(super) enum State<'a> {
    Closed { process: ClosedLoop, progress: Progress, started: u64 },
    Open { arrivals: Box<dyn Iterator<Item = Result<Arrival, EngineError>> + 'a>, next: Option<Arrival> },
    Linked(Thread),
}

impl<'a> State<'a> {
    pub(super) fn new(source: Source<'a>, seed: u64, at: usize, from: Timestamp) -> State<'a> {
        match source {
            Source::Closed(process) => {
                let progress = Progress::new(&process, seed_for(seed, at as u64 + 1));
                State::Closed { process, progress, started: 0 }
            }
            Source::Open(arrivals) => State::Open { arrivals, next: None },
            Source::Linked(steps) => State::Linked(Thread::new(steps, from)),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self, State::Open { .. })
    }

    /// Returns the number of a thread's queued steps.
    pub(super) fn made(&self) -> u32 {
        if let State::Linked(thread) = self { thread.made } else { 0 }
    }

    /// Returns the number of a thread's steps that were not queued.
    pub(super) fn left(&self) -> u64 {
        if let State::Linked(thread) = self { thread.left() } else { 0 }
    }

    /// Returns the number of requests queued at the beginning, before any completion.
    pub(super) fn concurrency(&self) -> u32 {
        match self {
            State::Closed { process, .. } => process.depth,
            State::Open { .. } | State::Linked(_) => 1,
        }
    }

    /// Returns the time of the source's next request; `None` after the last request.
    pub(super) fn next_at(&mut self, now: Timestamp) -> Result<Option<Timestamp>, EngineError> {
        match self {
            State::Closed { process, started, .. } => {
                let is_over = *started == process.count;
                *started += u64::from(!is_over);
                Ok((!is_over).then_some(now))
            }
            State::Open { arrivals, next } => {
                let last = next.take().map(|last| last.at);
                *next = arrivals.next().transpose()?;
                match (last, next) {
                    (Some(last), Some(next)) if next.at < last => {
                        Err(EngineError::OutOfOrder { at: next.at, last })
                    }
                    (_, next) => Ok(next.map(|next| next.at)),
                }
            }
            State::Linked(_) => Ok(None),
        }
    }

    /// Returns the time of a closed source's next request after a completion.
    pub(super) fn continue_at(&mut self, completed: Timestamp) -> Option<Timestamp> {
        let State::Closed { process, progress, started, .. } = self else { return None };
        if *started == process.count {
            return None;
        }
        *started += 1;
        Some(completed + progress.think(process.think))
    }

    /// Returns the request that is due at `now`.
    pub(super) fn make(&mut self, now: Timestamp) -> Arrival {
        match self {
            State::Closed { process, progress, .. } => progress.next(process, now),
            State::Open { next, .. } => next.expect("the time of the next request is known"),
            State::Linked(thread) => thread.make(now),
        }
    }
}
