//! The SmartIO scheduler: reads before writes, with concurrency limits (Nguyen et al. 2015).
//!
//! A request first waits in one of 17 queues: one for each level of the real-time and best-effort classes,
//! and one for the idle class. For a time slice, Algorithm 6.1 moves requests of one queue to the dispatch
//! queue, in the order of insertion, as long as Algorithm 6.2 permits. The dispatch queue has a section for
//! each class; in a section, reads precede writes (section 5, Figure 9). From the dispatch queue, requests go
//! to the device. For each kind (sequential or random, read or write), the number of requests in flight is
//! limited, because more requests do not increase the device's throughput (section 4.5).
//!
//! Where the study leaves choices open, this model
//!
//! - moves requests until Algorithm 6.2 forbids it, because a dispatch queue of one request cannot be
//!   ordered;
//! - dispatches writes when no read waits or is in flight ("delay writes as long as there are reads");
//! - dispatches a write before reads after it has been in the dispatch queue for a slice ("write starvation
//!   is avoided by applying a time slice");
//! - chooses the next queue in priority order when the slice has expired, and the highest queue when the
//!   current queue is empty;
//! - treats a request as sequential if it begins where the last request of the same process and direction
//!   ended.
//!
//! The study does not say whether its scheduler kept CFQ's idling. [`Tunables::hold`] holds writes back for a
//! moment after a read has completed, because the reader may continue; it is 0 by default.
//!
//! `vectors` runs this policy on inputs given as text, to check that other implementations make the same
//! decisions.

use std::collections::{BTreeMap, VecDeque};

use fonio_core::{Nanos, Op, Sector, Timestamp};

use super::cfq::may_dispatch;
use super::{Class, Priority, ProcessId, Request, RequestId, Scheduler};

/// The parameters given in the study.
#[derive(Clone, Copy, Debug)]
pub struct Tunables {
    /// The time for which a queue is served.
    pub slice: Nanos,
    /// The maximum number of a queue's requests in the dispatch queue and in the device while another queue
    /// waits.
    pub quantum: u32,
    /// The maximum number of requests in flight, by [`Kind`]. Each limit must be at least 1.
    pub limits: [u32; 4],
    /// The time for which writes are held back after the last read. The study has no such parameter.
    pub hold: Nanos,
}

impl Tunables {
    /// The slice and quantum of sections 5 and 6, with the limits of the Samsung S5 (section 4.5).
    pub const SAMSUNG_S5: Tunables =
        Tunables { slice: Nanos(100_000_000), quantum: 8, limits: [2, 4, 4, 2], hold: Nanos(0) };

    /// The slice and quantum of [`Tunables::SAMSUNG_S5`], with the limits of the Motorola Razr (section 7.2).
    pub const RAZR: Tunables = Tunables { limits: [2, 2, 2, 2], ..Tunables::SAMSUNG_S5 };
}

/// A kind of requests with its own limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A read that begins where the process's last read ended.
    SequentialRead,
    /// Any other read, which counts as random.
    RandomRead,
    /// A write or discard that begins where the process's last write ended.
    SequentialWrite,
    /// Any other write or discard, which counts as random.
    RandomWrite,
}

impl Kind {
    const READS: [Kind; 2] = [Kind::SequentialRead, Kind::RandomRead];
    const WRITES: [Kind; 2] = [Kind::SequentialWrite, Kind::RandomWrite];

    /// Returns the kind's name in test vectors.
    pub fn name(self) -> &'static str {
        match self {
            Kind::SequentialRead => "seq_read",
            Kind::RandomRead => "rand_read",
            Kind::SequentialWrite => "seq_write",
            Kind::RandomWrite => "rand_write",
        }
    }

    /// All kinds, in the order of [`Tunables::limits`].
    pub const ALL: [Kind; 4] =
        [Kind::SequentialRead, Kind::RandomRead, Kind::SequentialWrite, Kind::RandomWrite];
}

/// The number of queues: 8 for the real-time class, 8 for the best-effort class, 1 for the idle class.
pub const QUEUES: usize = 17;

/// The SmartIO scheduler.
#[derive(Debug)]
pub struct SmartIo {
    settings: Tunables,
    queues: [Queue; QUEUES],
    /// The queue being served, and the end of its slice.
    current: Option<(usize, Timestamp)>,
    /// Whether Algorithm 6.2 has stopped the current queue.
    is_full: bool,
    sections: [Section; 3],
    in_flight: [u32; 4],
    /// The kinds of the requests in flight.
    kinds: BTreeMap<RequestId, Kind>,
    /// The first sector after each process's last request, by direction.
    ends: BTreeMap<(ProcessId, bool), Sector>,
    last_read: Option<Timestamp>,
    waiting: usize,
}

#[derive(Debug, Default)]
struct Queue {
    requests: VecDeque<(Request, Kind)>,
    /// Number of requests in the dispatch queue and in flight.
    dispatched: u32,
}

/// A section of the dispatch queue for one class: requests by kind, with their arrival times.
#[derive(Debug, Default)]
struct Section {
    kinds: [VecDeque<(Request, Timestamp)>; 4],
}

impl Section {
    fn has(&self, kinds: [Kind; 2]) -> bool {
        kinds.iter().any(|kind| !self.kinds[*kind as usize].is_empty())
    }

    /// Returns the arrival time of the oldest write.
    fn oldest_write(&self) -> Option<Timestamp> {
        let oldest = |kind: Kind| self.kinds[kind as usize].front().map(|(_, came)| *came);
        Kind::WRITES.into_iter().filter_map(oldest).min()
    }
}

impl SmartIo {
    /// Makes an empty scheduler. Panics if a limit or the quantum is 0.
    pub fn new(settings: Tunables) -> SmartIo {
        assert!(settings.quantum > 0 && !settings.limits.contains(&0), "quantum and limits must exceed 0");
        SmartIo {
            settings,
            queues: Default::default(),
            current: None,
            is_full: false,
            sections: Default::default(),
            in_flight: [0; 4],
            kinds: BTreeMap::new(),
            ends: BTreeMap::new(),
            last_read: None,
            waiting: 0,
        }
    }

    /// Returns the queue of a priority: real-time levels first, then best-effort levels, then the idle class.
    fn queue_of(priority: Priority) -> usize {
        let level = usize::from(priority.level.min(Priority::LEVEL_MAX));
        match priority.class {
            Class::RealTime => level,
            Class::BestEffort => 8 + level,
            Class::Idle => QUEUES - 1,
        }
    }

    fn kind_of(&mut self, request: &Request) -> Kind {
        let is_read = request.op == Op::Read;
        let last = self.ends.insert((request.process, is_read), request.end());
        match (is_read, last == Some(request.sector)) {
            (true, true) => Kind::SequentialRead,
            (true, false) => Kind::RandomRead,
            (false, true) => Kind::SequentialWrite,
            (false, false) => Kind::RandomWrite,
        }
    }

    /// Repeats Algorithm 6.1 until it moves no more requests.
    fn fill(&mut self, now: Timestamp) {
        loop {
            let is_over = self
                .current
                .is_none_or(|(queue, expires)| self.queues[queue].requests.is_empty() || expires <= now);
            if is_over {
                self.current = self.another_queue(now).map(|queue| (queue, now + self.settings.slice));
            }
            let Some((index, _)) = self.current else { return };
            let busy = self.queues.iter().filter(|queue| !queue.requests.is_empty()).count() as u32;
            let queue = &mut self.queues[index];
            self.is_full = !may_dispatch(queue.dispatched, busy, self.settings.quantum);
            if self.is_full {
                return;
            }
            let Some((request, kind)) = queue.requests.pop_front() else { return };
            queue.dispatched += 1;
            let section = &mut self.sections[request.priority.class as usize];
            section.kinds[kind as usize].push_back((request, now));
        }
    }

    /// Returns the queue to serve instead of the current queue.
    fn another_queue(&self, now: Timestamp) -> Option<usize> {
        let has_requests = |queue: &usize| !self.queues[*queue].requests.is_empty();
        match self.current {
            Some((current, expires)) if expires <= now => {
                (1..=QUEUES).map(|step| (current + step) % QUEUES).find(has_requests)
            }
            _ => (0..QUEUES).find(has_requests),
        }
    }

    /// Returns the kind to dispatch next from a section.
    fn next_of(&self, section: &Section, now: Timestamp) -> Option<Kind> {
        let overdue = |came: Timestamp| came + self.settings.slice <= now;
        if let Some(kind) = self.oldest(section, Kind::WRITES, overdue) {
            return Some(kind);
        }
        if section.has(Kind::READS) {
            return self.oldest(section, Kind::READS, |_| true);
        }
        let is_read_in_flight = Kind::READS.iter().any(|kind| self.in_flight[*kind as usize] > 0);
        let may_write = !is_read_in_flight && self.held_until().is_none_or(|until| until <= now);
        if may_write { self.oldest(section, Kind::WRITES, |_| true) } else { None }
    }

    /// Returns the kind whose first request is older. A kind counts only if its first request has a
    /// `suitable` arrival time and the kind's limit allows another request.
    fn oldest(
        &self,
        section: &Section,
        kinds: [Kind; 2],
        suitable: impl Fn(Timestamp) -> bool,
    ) -> Option<Kind> {
        let first = |kind: Kind| {
            let (request, came) = section.kinds[kind as usize].front()?;
            let may_go = self.in_flight[kind as usize] < self.settings.limits[kind as usize];
            (may_go && suitable(*came)).then_some((request.id, kind as usize, kind))
        };
        let kinds = kinds.into_iter().filter_map(first);
        kinds.min_by_key(|(id, ..)| *id).map(|(.., kind)| kind)
    }

    /// Returns the time from which writes may follow the last read.
    fn held_until(&self) -> Option<Timestamp> {
        self.last_read.map(|read| read + self.settings.hold)
    }
}

impl Scheduler for SmartIo {
    fn insert(&mut self, request: Request, _: Timestamp) {
        let kind = self.kind_of(&request);
        self.queues[SmartIo::queue_of(request.priority)].requests.push_back((request, kind));
        self.waiting += 1;
    }

    fn dispatch(&mut self, now: Timestamp, in_flight: u32) -> Option<Request> {
        self.fill(now);
        for class in Class::ALL {
            let section = &self.sections[class as usize];
            if !section.has(Kind::READS) && !section.has(Kind::WRITES) {
                continue;
            }
            if class == Class::Idle && in_flight > 0 {
                return None;
            }
            let kind = self.next_of(section, now)?;
            let (request, _) = self.sections[class as usize].kinds[kind as usize].pop_front()?;
            self.in_flight[kind as usize] += 1;
            self.kinds.insert(request.id, kind);
            self.waiting -= 1;
            return Some(request);
        }
        None
    }

    fn complete(&mut self, request: &Request, _: Timestamp, now: Timestamp) {
        self.queues[SmartIo::queue_of(request.priority)].dispatched -= 1;
        let kind = self.kinds.remove(&request.id).expect("the request was dispatched");
        self.in_flight[kind as usize] -= 1;
        if request.op == Op::Read {
            self.last_read = Some(now);
        }
    }

    fn next_timer(&self, now: Timestamp) -> Option<Timestamp> {
        let has_writes = self.sections.iter().any(|section| section.has(Kind::WRITES));
        let held = self.held_until().filter(|_| has_writes);
        let overdue = self.sections.iter().filter_map(Section::oldest_write);
        let overdue = overdue.map(|came| came + self.settings.slice);
        let slice = self.current.filter(|_| self.is_full).map(|(_, expires)| expires);
        overdue.chain(held).chain(slice).filter(|at| *at > now).min()
    }

    fn waiting(&self) -> usize {
        self.waiting
    }
}
