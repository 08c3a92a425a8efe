//! bfq: budgets by weight.
//!
//! Each process has a queue for its synchronous requests; asynchronous requests share a queue for each priority. One
//! queue at a time has the device, until it has used its budget of sectors or its time, or is empty. If a synchronous
//! queue is empty, the device idles for a moment, because the process may continue. Of the queues that wait, B-WF2Q+
//! chooses the next: of those whose virtual start has come, the one with the earliest virtual finish. A queue's virtual
//! time passes more slowly the greater its weight is.
//!
//! Sources: P. Valente and A. Avanzini, "Evolution of the BFQ storage-I/O scheduler" (MST 2015); P. Valente and F.
//! Checconi, "High throughput disk scheduling with fair bandwidth distribution" (IEEE Transactions on Computers 2010);
//! the kernel's `Documentation/block/bfq-iosched`. Not pinned: a running kernel decides differently
//! (`docs/scheduler-models.md`).

use std::collections::{BTreeMap, VecDeque};

use fonio_core::{Nanos, SECTOR_BYTES, Timestamp};

use super::thinking::ThinkTime;
use super::{Class, Priority, ProcessId, Request, Scheduler};

/// The tunables, under the kernel's names, and properties of the device.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The budget of a queue in sectors.
    pub max_budget: u64,
    /// The longest that a queue has the device.
    pub timeout_sync: Nanos,
    /// How long the device idles for the next request of a process. 0 turns idling off.
    pub slice_idle: Nanos,
    /// Whether the device queues commands itself. Then it idles only while processes with different weights use it.
    pub device_queues: bool,
}

impl Settings {
    /// The kernel's defaults for flash without a command queue. The kernel measures the budget; this one is assumed.
    pub const DEFAULT: Settings = Settings {
        max_budget: 16 * 1024,
        timeout_sync: Nanos(124_000_000),
        slice_idle: Nanos(8_000_000),
        device_queues: false,
    };
}

/// A scheduler of processes.
#[derive(Debug)]
pub struct Bfq {
    settings: Settings,
    queues: Vec<Queue>,
    by_key: BTreeMap<Key, usize>,
    /// The queues with requests that do not have the device, by class.
    busy: [Vec<usize>; 3],
    /// The virtual time of each class.
    now_virtual: [u64; 3],
    turn: Option<Turn>,
    waiting: usize,
    others_in_flight: u32,
    held_until: Option<Timestamp>,
}

/// Whose requests a queue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Sync(Priority, ProcessId),
    Async(Priority),
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    queue: usize,
    ends: Timestamp,
    /// Sectors that the queue has used.
    used: u64,
}

#[derive(Debug)]
struct Queue {
    key: Key,
    requests: VecDeque<Request>,
    in_flight: u32,
    think: ThinkTime,
    /// Virtual start and finish of the next turn.
    start: u64,
    finish: u64,
}

/// A sector of a process with weight 1, in virtual time: enough that divisions by weights lose little.
const SECTOR_VIRTUAL: u64 = 1 << 16;

impl Queue {
    fn new(key: Key) -> Queue {
        let think = ThinkTime::default();
        Queue { key, requests: VecDeque::new(), in_flight: 0, think, start: 0, finish: 0 }
    }

    fn priority(&self) -> Priority {
        match self.key {
            Key::Sync(priority, _) | Key::Async(priority) => priority,
        }
    }

    fn class(&self) -> usize {
        self.priority().class as usize
    }

    /// Ten for each level above the lowest, and ten more: 80 to 10.
    fn weight(&self) -> u64 {
        10 * (8 - u64::from(self.priority().level.min(Priority::LEVEL_MAX)))
    }

    fn virtual_of(&self, sectors: u64) -> u64 {
        sectors * SECTOR_VIRTUAL / self.weight()
    }
}

fn sectors(request: &Request) -> u64 {
    request.bytes.0.div_ceil(SECTOR_BYTES).max(1)
}

impl Bfq {
    /// An empty scheduler.
    pub fn new(settings: Settings) -> Bfq {
        Bfq {
            settings,
            queues: Vec::new(),
            by_key: BTreeMap::new(),
            busy: Default::default(),
            now_virtual: [0; 3],
            turn: None,
            waiting: 0,
            others_in_flight: 0,
            held_until: None,
        }
    }

    fn queue_of(&mut self, request: &Request) -> usize {
        let key = match request.is_synchronous() {
            true => Key::Sync(request.priority, request.process),
            false => Key::Async(request.priority),
        };
        let queues = &mut self.queues;
        *self.by_key.entry(key).or_insert_with(|| {
            queues.push(Queue::new(key));
            queues.len() - 1
        })
    }

    /// Ends the turn of the queue that has the device, and charges what it used. A queue that ran out of time is charged
    /// its full budget: it gets a share of the time then, rather than of the sectors.
    fn end_turn(&mut self, is_out_of_time: bool) {
        let Some(turn) = self.turn.take() else { return };
        let queue = &mut self.queues[turn.queue];
        let charged = if is_out_of_time { turn.used.max(self.settings.max_budget) } else { turn.used };
        queue.finish = queue.start + queue.virtual_of(charged);
        let class = queue.class();
        let in_class = self.busy[class].iter().map(|other| self.queues[*other].weight());
        let weights = in_class.sum::<u64>() + self.queues[turn.queue].weight();
        self.now_virtual[class] += charged * SECTOR_VIRTUAL / weights;
        if !self.queues[turn.queue].requests.is_empty() {
            let queue = &mut self.queues[turn.queue];
            queue.start = queue.finish;
            queue.finish = queue.start + queue.virtual_of(self.settings.max_budget);
            self.busy[class].push(turn.queue);
        }
    }

    /// Gives a queue that was empty its place: its turn starts now, or behind the last one.
    fn activate(&mut self, index: usize) {
        let queue = &mut self.queues[index];
        let class = queue.class();
        queue.start = queue.finish.max(self.now_virtual[class]);
        queue.finish = queue.start + queue.virtual_of(self.settings.max_budget);
        self.busy[class].push(index);
    }

    /// The queue whose request goes next; `None` where none waits or the device idles.
    fn select(&mut self, now: Timestamp) -> Option<usize> {
        if let Some(turn) = self.turn {
            let queue = &self.queues[turn.queue];
            let is_preempted = self.busy[..queue.class()].iter().any(|queues| !queues.is_empty());
            let is_out_of_time = turn.ends <= now;
            let fits = |request: &Request| turn.used + sectors(request) <= self.settings.max_budget;
            if !is_preempted && !is_out_of_time {
                match queue.requests.front() {
                    // A request that is larger than a budget goes alone.
                    Some(request) if turn.used == 0 || fits(request) => return Some(turn.queue),
                    Some(_) => {}
                    None => {
                        self.held_until = self.idles_until(turn, now);
                        if self.held_until.is_some() {
                            return None;
                        }
                    }
                }
            }
            self.end_turn(is_out_of_time);
        }
        let class = self.busy.iter().position(|queues| !queues.is_empty())?;
        let starts = self.busy[class].iter().map(|queue| self.queues[*queue].start);
        self.now_virtual[class] = self.now_virtual[class].max(starts.min()?);
        let eligible = self.busy[class].iter().enumerate().filter(|(_, queue)| {
            let start = self.queues[**queue].start;
            start <= self.now_virtual[class]
        });
        let (at, _) = eligible.min_by_key(|(at, queue)| (self.queues[**queue].finish, *at))?;
        let queue = self.busy[class].remove(at);
        self.turn = Some(Turn { queue, ends: now + self.settings.timeout_sync, used: 0 });
        Some(queue)
    }

    /// How long the device idles for the queue that has it and is empty. `None` where it does not.
    fn idles_until(&self, turn: Turn, now: Timestamp) -> Option<Timestamp> {
        let queue = &self.queues[turn.queue];
        let is_sync = matches!(queue.key, Key::Sync(..));
        let thinks_long = queue.think.mean() > self.settings.slice_idle;
        let is_idle_class = queue.priority().class == Class::Idle;
        let others = self.busy.iter().flatten();
        let differ =
            others.map(|other| self.queues[*other].priority()).any(|other| other != queue.priority());
        let is_wanted = !self.settings.device_queues || differ;
        if self.settings.slice_idle.0 == 0 || !is_sync || thinks_long || is_idle_class || !is_wanted {
            return None;
        }
        let until = match queue.think.last() {
            _ if queue.in_flight > 0 => turn.ends,
            Some(completed) => turn.ends.min(completed + self.settings.slice_idle),
            None => return None,
        };
        (until > now).then_some(until)
    }
}

impl Scheduler for Bfq {
    fn name(&self) -> &'static str {
        "bfq"
    }

    fn insert(&mut self, request: Request, now: Timestamp) {
        let index = self.queue_of(&request);
        let queue = &mut self.queues[index];
        if queue.requests.is_empty() && queue.in_flight == 0 {
            queue.think.continued(now, Nanos(2 * self.settings.slice_idle.0));
        }
        queue.requests.push_back(request);
        self.waiting += 1;
        let has_device = self.turn.is_some_and(|turn| turn.queue == index);
        if self.queues[index].requests.len() == 1 && !has_device {
            self.activate(index);
        }
    }

    fn dispatch(&mut self, now: Timestamp, _: u32) -> Option<Request> {
        self.held_until = None;
        if self.waiting == 0 {
            return None;
        }
        let index = self.select(now)?;
        let queue = &mut self.queues[index];
        if queue.priority().class == Class::Idle && self.others_in_flight > 0 {
            return None;
        }
        let request = queue.requests.pop_front()?;
        queue.in_flight += 1;
        self.waiting -= 1;
        self.others_in_flight += u32::from(request.priority.class != Class::Idle);
        if let Some(turn) = &mut self.turn {
            turn.used += sectors(&request);
        }
        Some(request)
    }

    fn complete(&mut self, request: &Request, _: Timestamp, now: Timestamp) {
        let index = self.queue_of(request);
        let queue = &mut self.queues[index];
        queue.in_flight -= 1;
        if queue.in_flight == 0 {
            queue.think.completed(now);
        }
        self.others_in_flight -= u32::from(request.priority.class != Class::Idle);
    }

    fn next_timer(&self, now: Timestamp) -> Option<Timestamp> {
        self.held_until.filter(|until| self.waiting > 0 && *until > now)
    }

    fn waiting(&self) -> usize {
        self.waiting
    }
}
