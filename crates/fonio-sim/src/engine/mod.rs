//! Runs workloads through a scheduler and a device in virtual time.
//!
//! A [`Source`] queues requests. A source is a process that waits for its requests ([`ClosedLoop`]), a list
//! of requests with given times ([`Arrival`], [`replay`]), or a thread that waits for its own and other
//! threads' requests ([`Step`]). While the device has room, the driver takes requests from the scheduler and
//! submits them to the device model, which returns the completion time. Events with the same time run in the
//! order in which they were created. Therefore, a completion first dispatches the next request; then the
//! waiting process queues another request. In the kernel, too, the interrupt runs the queue before the
//! process wakes.
//!
//! The same input gives the same result on every machine.

mod arrival;
mod linked;
mod observer;
pub mod replay;
mod source;
mod tally;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use fonio_core::{ByteCount, Op, SECTOR_BYTES, Sector, Timestamp};
use thiserror::Error;

pub use arrival::Arrival;
pub use linked::{Begins, Step};
pub use observer::{Done, Observer};
pub use source::{ClosedLoop, Source, Think};
pub use tally::{Outcome, Tally, Times};

use crate::device::{Command, Device};
use crate::scheduler::{Request, RequestId, Scheduler};
use linked::Signals;
use observer::Unobserved;
use source::State;

/// A request that the engine cannot simulate.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The request ends beyond the end of the device.
    #[error(
        "the request at sector {} with {} bytes ends beyond the device's {} bytes; simulate a larger device", .sector.0, .bytes.0, .capacity.0
    )]
    BeyondDevice {
        /// The request's first sector.
        sector: Sector,
        /// The request's length.
        bytes: ByteCount,
        /// The size of the device.
        capacity: ByteCount,
    },
    /// The request arrives before its source's previous request.
    #[error("a request at {} ns came after a request at {} ns; sort requests by queueing time", .at.0, .last.0)]
    OutOfOrder {
        /// The arrival time of the request.
        at: Timestamp,
        /// The arrival time of the previous request.
        last: Timestamp,
    },
    /// A recorded request lacks a value that a replay needs.
    #[error("request {request_id} of the recording has no {what}, so it cannot be replayed")]
    Unknown {
        /// The request's number in the recording.
        request_id: u64,
        /// The name of the missing value.
        what: &'static str,
    },
    /// The observer ended the run.
    #[error("the observer ended the run")]
    Stopped,
    /// Threads wait for requests that are never queued.
    #[error(
        "{requests} requests wait for requests that are never queued; the recording's waits contradict each other"
    )]
    NeverBegin {
        /// The number of requests that were not queued.
        requests: u64,
    },
}

/// The host: the queue depth of its driver, and the random seed of its processes.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// Maximum number of requests in flight at the driver. The device's own queue depth is a further limit.
    pub depth: u32,
    /// Seed of random addresses and think times.
    pub seed: u64,
}

/// Runs sources through a scheduler and a device, starting at `from`, until all their requests have
/// completed. Fails if a source has a request that cannot be simulated. Panics if the depth is 0, or the
/// scheduler holds requests back forever.
pub fn run(
    device: &mut dyn Device,
    scheduler: &mut dyn Scheduler,
    sources: Vec<Source<'_>>,
    from: Timestamp,
    host: Host,
) -> Result<Outcome, EngineError> {
    run_observed(device, scheduler, sources, from, host, &mut Unobserved)
}

/// Runs like [`run`], and passes every completed request to `observer`. Also fails if the observer ends the run.
pub fn run_observed(
    device: &mut dyn Device,
    scheduler: &mut dyn Scheduler,
    sources: Vec<Source<'_>>,
    from: Timestamp,
    host: Host,
    observer: &mut dyn Observer,
) -> Result<Outcome, EngineError> {
    assert!(host.depth > 0, "the driver's depth must be at least 1");
    let sources = sources.into_iter().enumerate();
    let sources = sources.map(|(at, source)| State::new(source, host.seed, at, from));
    let mut engine = Engine {
        capacity: device.limits().capacity,
        device,
        scheduler,
        depth: host.depth,
        sources: sources.collect(),
        from,
        signals: Signals::default(),
        events: BinaryHeap::new(),
        next_event: 0,
        armed: None,
        next_id: 0,
        pending: Pending::default(),
        flushes: VecDeque::new(),
        in_flight: 0,
        outcome: Outcome { tallies: BTreeMap::new(), from, end: from },
    };
    engine.start(from)?;
    while let Some(Reverse((now, _, event))) = engine.events.pop() {
        let now = Timestamp(now);
        match event {
            Event::Arrive(source) => engine.arrive(source, now)?,
            Event::Complete(id) => {
                let done = engine.complete(id, now);
                if observer.completed(&done, &*engine.device).is_break() {
                    return Err(EngineError::Stopped);
                }
            }
            Event::Timer => engine.armed = None,
        }
        engine.drive(now);
    }
    assert!(engine.pending.is_empty(), "every request completes");
    let left = engine.sources.iter().map(State::left).sum();
    if left > 0 {
        return Err(EngineError::NeverBegin { requests: left });
    }
    Ok(engine.outcome)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrive(u32),
    Complete(RequestId),
    /// The scheduler may dispatch requests that it held back.
    Timer,
}

struct Engine<'a, 'b> {
    capacity: ByteCount,
    device: &'a mut dyn Device,
    scheduler: &'a mut dyn Scheduler,
    depth: u32,
    sources: Vec<State<'b>>,
    from: Timestamp,
    signals: Signals,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    next_event: u64,
    /// The earliest timer among the events.
    armed: Option<Timestamp>,
    next_id: u64,
    pending: Pending,
    /// Flushes; they are dispatched before all other requests.
    flushes: VecDeque<Request>,
    in_flight: u32,
    outcome: Outcome,
}

impl Engine<'_, '_> {
    fn start(&mut self, from: Timestamp) -> Result<(), EngineError> {
        for source in 0..self.sources.len() {
            self.arm(source as u32, from);
            for _ in 0..self.sources[source].concurrency() {
                if let Some(at) = self.sources[source].next_at(from)? {
                    self.push(at.max(from), Event::Arrive(source as u32));
                }
            }
        }
        Ok(())
    }

    /// Schedules a thread's next request, once its time is known.
    fn arm(&mut self, source: u32, now: Timestamp) {
        let State::Linked(thread) = &mut self.sources[source as usize] else { return };
        if let Some(at) = thread.arm(source, self.from, &mut self.signals) {
            self.push(at.max(now), Event::Arrive(source));
        }
    }

    fn push(&mut self, at: Timestamp, event: Event) {
        self.events.push(Reverse((at.0, self.next_event, event)));
        self.next_event += 1;
    }

    fn arrive(&mut self, source: u32, now: Timestamp) -> Result<(), EngineError> {
        let state = &mut self.sources[source as usize];
        let step = state.made();
        let made = state.make(now);
        // An open source does not wait for the completion.
        if state.is_open()
            && let Some(at) = state.next_at(now)?
        {
            self.push(at.max(now), Event::Arrive(source));
        }
        self.arm(source, now);
        let id = RequestId(self.next_id);
        self.next_id += 1;
        if made.sector.after(made.bytes).0 > self.capacity.0 / SECTOR_BYTES {
            let Arrival { sector, bytes, .. } = made;
            return Err(EngineError::BeyondDevice { sector, bytes, capacity: self.capacity });
        }
        let request = made.request(id);
        self.pending.insert(Waiting { request, queued: now, issued: None, source, step, fua: made.fua });
        self.outcome.queued(&request, now);
        match request.op {
            Op::Flush => self.flushes.push_back(request),
            _ => self.scheduler.insert(request, now),
        }
        Ok(())
    }

    fn complete(&mut self, id: RequestId, now: Timestamp) -> Done {
        let waiting = self.pending.remove(id);
        let request = waiting.request;
        let issued = waiting.issued.expect("a request is issued before it completes");
        self.in_flight -= 1;
        if request.op != Op::Flush {
            self.scheduler.complete(&request, issued, now);
        }
        self.outcome.completed(&request, (waiting.queued, issued, now));
        let source = &mut self.sources[waiting.source as usize];
        if let State::Linked(thread) = source {
            let signal = thread.complete(waiting.step, now);
            let woken = signal.map(|signal| self.signals.set(signal, now));
            for source in std::iter::once(waiting.source).chain(woken.into_iter().flatten()) {
                self.arm(source, now);
            }
        } else if !source.is_open()
            && let Some(at) = source.continue_at(now)
        {
            self.push(at, Event::Arrive(waiting.source));
        }
        Done { request, queued: waiting.queued, issued, completed: now }
    }

    /// Dispatches requests as long as the device has room and the scheduler returns a request.
    fn drive(&mut self, now: Timestamp) {
        while self.in_flight < self.depth {
            let next = self.flushes.pop_front();
            let Some(request) = next.or_else(|| self.scheduler.dispatch(now, self.in_flight)) else { break };
            self.issue(request, now);
        }
        if self.scheduler.waiting() == 0 || self.in_flight >= self.depth {
            return;
        }
        let timer = self.scheduler.next_timer(now);
        assert!(timer.is_some() || self.in_flight > 0, "a held-back request needs a timer");
        if let Some(at) = timer
            && self.armed.is_none_or(|armed| at < armed)
        {
            assert!(at > now, "a timer expires in the future");
            self.armed = Some(at);
            self.push(at, Event::Timer);
        }
    }

    fn issue(&mut self, request: Request, now: Timestamp) {
        let waiting = self.pending.get(request.id);
        assert!(waiting.issued.is_none(), "a request is dispatched only once");
        assert_eq!(waiting.request, request, "a scheduler leaves a request unchanged");
        waiting.issued = Some(now);
        let fua = waiting.fua;
        let command = Command { op: request.op, sector: request.sector, bytes: request.bytes, fua };
        let done = self.device.submit(&command, now);
        assert!(done >= now, "a request completes after its issue");
        self.in_flight += 1;
        self.push(done, Event::Complete(request.id));
    }
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    request: Request,
    queued: Timestamp,
    /// The time at which the request was issued to the device.
    issued: Option<Timestamp>,
    source: u32,
    /// The index of the request in its source, if the source is a thread of steps.
    step: u32,
    fua: bool,
}

/// The requests that have not completed, by ID: a window from the oldest to the newest.
#[derive(Debug, Default)]
struct Pending {
    first: u64,
    window: VecDeque<Option<Waiting>>,
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.window.is_empty()
    }

    fn insert(&mut self, waiting: Waiting) {
        if self.window.is_empty() {
            self.first = waiting.request.id.0;
        }
        assert_eq!(self.at(waiting.request.id), self.window.len(), "requests are numbered in order");
        self.window.push_back(Some(waiting));
    }

    fn at(&self, id: RequestId) -> usize {
        (id.0 - self.first) as usize
    }

    fn get(&mut self, id: RequestId) -> &mut Waiting {
        let at = self.at(id);
        self.window[at].as_mut().expect("the request has not completed")
    }

    fn remove(&mut self, id: RequestId) -> Waiting {
        let at = self.at(id);
        let waiting = self.window[at].take().expect("a request completes once");
        while let Some(None) = self.window.front() {
            self.window.pop_front();
            self.first += 1;
        }
        waiting
    }
}

#[cfg(test)]
mod tests;
