//! The BFQ scheduler: budgets by weight.
//!
//! - *Queues.* Each process has a queue for its synchronous requests; processes of the same priority that
//!   start within a short time share a queue (a *burst*). Asynchronous requests share a queue for each
//!   priority.
//! - *Order in a queue* (`queue.rs`). The request closest to the end of the last request is next; requests
//!   at higher sectors are preferred.
//! - *Turns.* One queue at a time has the device. The turn of a queue ends when its budget of sectors or its
//!   time is used up, or when the queue is empty. If a synchronous queue is empty, the device may idle for a
//!   moment, because the process may continue. If the device does not idle, the turn ends when another queue
//!   gets its first request; then the next queue is chosen.
//! - *Order of queues* (`class.rs`). B-WF2Q+, with weights derived from priority levels.
//! - *Budgets.* The first budget is two thirds of [`Tunables::max_budget`]. If a queue used up its budget,
//!   its next budget is four times larger, but at most `max_budget`. If the queue became empty, its next
//!   budget is the number of sectors that it used, but at least a share of `max_budget`.
//! - *Asynchronous requests* are charged with a multiple of their size.
//!
//! Sources: P. Valente and A. Avanzini, "Evolution of the BFQ storage-I/O scheduler" (MST 2015); P. Valente
//! and F. Checconi, "High throughput disk scheduling with fair bandwidth distribution" (IEEE Transactions on
//! Computers 2010); the kernel's `Documentation/block/bfq-iosched`; the commit messages "block, bfq: merge
//! bursts of newly-created queues" and "block, bfq: reduce write overcharge"; and decisions of running
//! kernels (`docs/scheduler-models.md` lists the rules that they confirm).

mod class;
mod queue;

use std::collections::BTreeMap;

use fonio_core::{Nanos, SECTOR_BYTES, Sector, Timestamp};

use self::class::ClassQueues;
use self::queue::{Key, Queue, State};
use super::{Class, Priority, Request, Scheduler};

/// The tunables, under the kernel's names, and properties of the device.
#[derive(Clone, Copy, Debug)]
pub struct Tunables {
    /// The maximum budget of a queue in sectors, once the queue has used up its first budget. The kernel's
    /// value 0 (measure the device) is not modelled.
    pub max_budget: u64,
    /// The maximum duration of a turn.
    pub timeout_sync: Nanos,
    /// The time for which the device idles to wait for the next request of a process. 0 disables idling.
    pub slice_idle: Nanos,
    /// Whether requests are dispatched one at a time, with idling after every queue.
    pub strict_guarantees: bool,
    /// Whether the device has a command queue. A device with a command queue idles only while processes with
    /// different weights use it.
    pub device_queues: bool,
}

impl Tunables {
    /// The kernel's defaults for flash without a command queue.
    pub const DEFAULT: Tunables = Tunables {
        max_budget: BUDGET_DEFAULT,
        timeout_sync: Nanos(124_000_000),
        slice_idle: Nanos(8_000_000),
        strict_guarantees: false,
        device_queues: false,
    };
}

/// The kernel's maximum budget in sectors before it has measured the device. Observed first budgets are two
/// thirds of this value.
const BUDGET_DEFAULT: u64 = 16 * 1024;
/// The number of turns with the default maximum budget before [`Tunables::max_budget`] applies. Values from 9
/// to 20 fit the observed decisions.
const TURNS_BEFORE_MAX_BUDGET: u64 = 9;
/// The minimum budget is the maximum budget divided by this number, as observed in a running kernel.
const BUDGET_MIN_PART: u64 = 32;
/// The factor by which asynchronous requests are charged; at least 3 in a running kernel.
const ASYNC_CHARGE: u64 = 3;
/// Processes that start within this time share a queue. The observed kernel's value is between 1 ms and 300
/// ms; we chose 100 ms.
const BURST: Nanos = Nanos(100_000_000);
/// A request that has waited for this time is dispatched first in its queue's next turn
/// (`fifo_expire_sync`, `fifo_expire_async`).
const EXPIRE_SYNC: Nanos = Nanos(125_000_000);
const EXPIRE_ASYNC: Nanos = Nanos(250_000_000);

/// The BFQ scheduler.
#[derive(Debug)]
pub struct Bfq {
    settings: Tunables,
    queues: Vec<Queue>,
    by_key: BTreeMap<Key, usize>,
    /// The queue, priority and start time of the newest synchronous process.
    newest: Option<(usize, Priority, Timestamp)>,
    classes: [ClassQueues; 3],
    /// The queue that has the device, and the end of its turn.
    turn: Option<(usize, Timestamp)>,
    turns: u64,
    /// The first sector after the last dispatched request.
    head: Sector,
    waiting: usize,
    in_flight: u32,
    held_until: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Exhausted,
    Empty,
    OutOfTime,
    Preempted,
}

fn sectors_of(request: &Request) -> u64 {
    request.bytes.0.div_ceil(SECTOR_BYTES).max(1)
}

fn charge_of(queue: &Queue) -> u64 {
    if queue.is_sync() { 1 } else { ASYNC_CHARGE }
}

impl Bfq {
    /// Makes an empty scheduler.
    pub fn new(settings: Tunables) -> Bfq {
        Bfq {
            settings,
            queues: Vec::new(),
            by_key: BTreeMap::new(),
            newest: None,
            classes: Default::default(),
            turn: None,
            turns: 0,
            head: Sector(0),
            waiting: 0,
            in_flight: 0,
            held_until: None,
        }
    }

    /// Returns the value from which first and minimum budgets are computed.
    fn budget_base(&self) -> u64 {
        if self.turns < TURNS_BEFORE_MAX_BUDGET { BUDGET_DEFAULT } else { self.settings.max_budget }
    }

    fn queue_of(&mut self, request: &Request, now: Timestamp) -> usize {
        let key = Key::of(request);
        if let Some(known) = self.by_key.get(&key) {
            return *known;
        }
        let is_sync = request.is_synchronous();
        let shared = self.newest.filter(|(_, priority, started)| {
            is_sync && *priority == request.priority && *started + BURST >= now
        });
        let index = match shared {
            Some((index, ..)) => index,
            None => {
                self.queues.push(Queue::new(key, self.budget_base() * 2 / 3));
                self.queues.len() - 1
            }
        };
        self.by_key.insert(key, index);
        if is_sync {
            self.newest = Some((index, request.priority, now));
        }
        index
    }

    /// Ends the current queue's turn and sets its next budget. A queue that ran out of time is charged its
    /// complete budget, so it gets its share of the time instead of its share of the sectors.
    fn end_turn(&mut self, end: End) {
        let Some((index, _)) = self.turn.take() else { return };
        let max = self.settings.max_budget;
        let min = self.budget_base() / BUDGET_MIN_PART;
        let queue = &mut self.queues[index];
        match end {
            End::Exhausted => queue.earned = max.min(queue.earned * 4),
            End::Empty => queue.earned = queue.used.max(min),
            End::OutOfTime => {
                queue.used = queue.used.max(queue.budget);
                queue.earned = max.min(queue.earned * 2);
            }
            End::Preempted => {}
        }
        let class = queue.class();
        self.classes[class].end_turn(&mut self.queues, index);
    }

    /// Returns the queue to dispatch from; `None` if no request waits or the device idles.
    fn select(&mut self, now: Timestamp) -> Option<usize> {
        if let Some((index, ends)) = self.turn {
            let queue = &self.queues[index];
            let end = match queue.next() {
                Some(_) if ends <= now => End::OutOfTime,
                Some(request) if queue.used + sectors_of(request) * charge_of(queue) > queue.budget => {
                    End::Exhausted
                }
                Some(_) => return Some(index),
                None => {
                    self.held_until = self.idles_until(index, ends, now);
                    if self.held_until.is_some() {
                        return None;
                    }
                    End::Empty
                }
            };
            self.end_turn(end);
        }
        let class = self.classes.iter().position(ClassQueues::has_next)?;
        let index = self.classes[class].begin_turn(&mut self.queues)?;
        let queue = &mut self.queues[index];
        queue.prefer_expired(now, if queue.is_sync() { EXPIRE_SYNC } else { EXPIRE_ASYNC });
        self.turns += 1;
        self.turn = Some((index, now + self.settings.timeout_sync));
        Some(index)
    }

    /// Returns whether the device may idle when this queue is empty.
    fn may_idle(&self, index: usize) -> bool {
        let queue = &self.queues[index];
        if self.settings.slice_idle.0 == 0 {
            return false;
        }
        if self.settings.strict_guarantees {
            return true;
        }
        let priority = queue.key.priority();
        let differ = || {
            let mut others = self.classes.iter().flat_map(ClassQueues::busy);
            others.any(|other| self.queues[*other].key.priority() != priority)
        };
        let thinks_long = queue.think.mean() > self.settings.slice_idle;
        let is_wanted = !self.settings.device_queues || differ();
        queue.is_sync() && priority.class != Class::Idle && !thinks_long && is_wanted
    }

    /// Returns the timestamp until which the device idles for the queue in service if this queue is empty.
    /// Returns `None` if the device does not idle.
    fn idles_until(&self, index: usize, ends: Timestamp, now: Timestamp) -> Option<Timestamp> {
        if !self.may_idle(index) {
            return None;
        }
        let queue = &self.queues[index];
        queue.think.idles_until(queue.in_flight, ends, self.settings.slice_idle, now)
    }
}

impl Scheduler for Bfq {
    fn insert(&mut self, request: Request, now: Timestamp) {
        let index = self.queue_of(&request, now);
        let queue = &mut self.queues[index];
        if queue.is_empty() && queue.in_flight == 0 {
            queue.think.continued(now, Nanos(2 * self.settings.slice_idle.0));
        }
        queue.insert(request, now, self.head);
        self.waiting += 1;
        if queue.state != State::Empty {
            return;
        }
        let (class, weight) = (queue.class(), queue.weight());
        self.classes[class].activate(&mut self.queues, index);
        let Some((in_service, _)) = self.turn else { return };
        let other = &self.queues[in_service];
        let is_heavier = class == other.class() && weight > other.weight();
        let is_open = class == other.class() && !self.may_idle(in_service);
        if class < other.class() || is_heavier || is_open {
            self.end_turn(End::Preempted);
        }
    }

    fn dispatch(&mut self, now: Timestamp, _: u32) -> Option<Request> {
        self.held_until = None;
        if self.waiting == 0 || (self.settings.strict_guarantees && self.in_flight > 0) {
            return None;
        }
        let index = self.select(now)?;
        let queue = &mut self.queues[index];
        let request = queue.take()?;
        queue.in_flight += 1;
        let charge = sectors_of(&request) * charge_of(queue);
        let class = queue.class();
        self.classes[class].serve(&mut self.queues, index, charge);
        self.head = request.end();
        self.waiting -= 1;
        self.in_flight += 1;
        Some(request)
    }

    fn complete(&mut self, request: &Request, _: Timestamp, now: Timestamp) {
        let index = self.queue_of(request, now);
        let queue = &mut self.queues[index];
        queue.in_flight -= 1;
        if queue.in_flight == 0 {
            queue.think.completed(now);
        }
        self.in_flight -= 1;
        let has_device = self.turn.is_some_and(|(in_service, _)| in_service == index);
        if has_device && self.queues[index].is_empty() && !self.may_idle(index) {
            self.end_turn(End::Empty);
        }
    }

    fn next_timer(&self, now: Timestamp) -> Option<Timestamp> {
        self.held_until.filter(|until| self.waiting > 0 && *until > now)
    }

    fn waiting(&self) -> usize {
        self.waiting
    }
}
