//! The cfq scheduler: time slices for processes.
//!
//! Each process has a queue for its synchronous requests. Asynchronous requests of all processes share 17
//! queues: one for each level of the real-time and best-effort classes, and one for the idle class. A queue
//! has the device for a time slice, which is longer at higher levels. Requests of a queue are dispatched in
//! the order of insertion.
//!
//! Three groups of queues take turns within each class. A group's turn lasts for the sum of its queues'
//! slices:
//!
//! - *sequential*: one queue at a time. If the queue is empty, the device idles for a moment
//!   ([`Tunables::slice_idle`]), because the process may continue its sequence.
//! - *random*: queues of processes with random requests or with think times longer than the idle time. These
//!   queues are served together: when a queue is empty, the next queue follows. The device idles only after
//!   the last queue.
//! - *asynchronous*: dispatched only while no synchronous request is in flight, and only a few at a time.
//!
//! On flash, small requests count as random, because the time of a request depends on its size, not on its
//! address.
//!
//! Sources: J. Axboe, "Linux block I/O: present and future" (Ottawa Linux Symposium 2004); the kernel's
//! `Documentation/block/cfq-iosched.txt` and `ioprio.txt` (Linux 3.9 to 3.14); the commit messages
//! "cfq-iosched: rework seeky detection", "cfq-iosched: rethink seeky detection for SSDs" and "cfq-iosched:
//! fairness for sync no-idle queues" (2009, 2010); Nguyen et al. 2015, sections 3.1 and 6. Linux 5.0 removed
//! CFQ, so the model cannot be checked against a running kernel.

use std::collections::{BTreeMap, VecDeque};

use fonio_core::{ByteCount, Nanos, Sector, Timestamp};

use super::thinking::ThinkTime;
use super::{Class, Priority, ProcessId, Request, Scheduler};

/// The tunables, under the kernel's names, and two properties of the device.
#[derive(Clone, Copy, Debug)]
pub struct Tunables {
    /// The time slice of a synchronous queue at priority level 4.
    pub slice_sync: Nanos,
    /// The time slice of an asynchronous queue at priority level 4.
    pub slice_async: Nanos,
    /// The time for which the device idles to wait for the next request of a process. 0 disables idling.
    pub slice_idle: Nanos,
    /// The maximum number of in-flight requests of a queue while another queue waits.
    pub quantum: u32,
    /// The maximum number of in-flight asynchronous requests of a queue while another queue waits.
    pub slice_async_rq: u32,
    /// On flash, requests below this size count as random. Zero for disks, where only the distance counts.
    pub random_below: ByteCount,
    /// Distance from the end of the process's last request beyond which a request counts as random.
    pub seek_min: ByteCount,
}

impl Tunables {
    /// The kernel's default tunables on flash. `random_below` and `seek_min` are assumed.
    pub const DEFAULT: Tunables = Tunables {
        slice_sync: Nanos(100_000_000),
        slice_async: Nanos(40_000_000),
        slice_idle: Nanos(8_000_000),
        quantum: 8,
        slice_async_rq: 2,
        random_below: ByteCount(32 << 10),
        seek_min: ByteCount(4 << 20),
    };
}

/// Returns whether another request of a queue may be dispatched. Algorithm 6.2 of Nguyen et al. 2015, for CFQ
/// and SmartIO: a queue may have `quantum` requests in flight, and more if no other queue waits.
pub fn may_dispatch(in_flight: u32, busy_queues: u32, quantum: u32) -> bool {
    in_flight < quantum || busy_queues == 1
}

/// The CFQ scheduler.
#[derive(Debug)]
pub struct Cfq {
    settings: Tunables,
    queues: Vec<Queue>,
    by_key: BTreeMap<Key, usize>,
    /// Queues with requests that wait for the device, by class and group, in turn order.
    busy: [[VecDeque<usize>; 3]; 3],
    group: Option<GroupTurn>,
    turn: Option<Turn>,
    waiting: usize,
    sync_in_flight: u32,
    /// Number of requests in flight in classes other than idle.
    others_in_flight: u32,
    /// The time at which the next held request may be dispatched.
    held_until: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Sync(Priority, ProcessId),
    Async(Priority),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Sequential,
    Random,
    Asynchronous,
}

const GROUPS: [Group; 3] = [Group::Sequential, Group::Random, Group::Asynchronous];

/// The turn of a group, during which the group has the device.
#[derive(Clone, Copy, Debug)]
struct GroupTurn {
    class: Class,
    group: Group,
    ends: Timestamp,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    queue: usize,
    ends: Timestamp,
}

#[derive(Debug)]
struct Queue {
    key: Key,
    requests: VecDeque<Request>,
    in_flight: u32,
    think: ThinkTime,
    last_end: Option<Sector>,
    /// One bit for each of the queue's last 32 requests, set if the request was random.
    history: u32,
}

/// A queue is random if more than this number of its last 32 requests were random.
const RANDOM_MAX: u32 = 32 / 8;

impl Queue {
    fn new(key: Key) -> Queue {
        let think = ThinkTime::default();
        Queue { key, requests: VecDeque::new(), in_flight: 0, think, last_end: None, history: 0 }
    }

    fn priority(&self) -> Priority {
        match self.key {
            Key::Sync(priority, _) | Key::Async(priority) => priority,
        }
    }

    fn is_sync(&self) -> bool {
        matches!(self.key, Key::Sync(..))
    }

    fn note(&mut self, request: &Request, now: Timestamp, settings: &Tunables) {
        let distance = self.last_end.map_or(0, |end| end.0.abs_diff(request.sector.0));
        let is_far = distance > settings.seek_min.0 / fonio_core::SECTOR_BYTES;
        let is_random = is_far || request.bytes < settings.random_below;
        self.history = self.history << 1 | u32::from(is_random);
        self.last_end = Some(request.end());
        if self.requests.is_empty() && self.in_flight == 0 {
            self.think.continued(now, Nanos(2 * settings.slice_idle.0));
        }
    }

    fn group(&self, settings: &Tunables) -> Group {
        let is_random = self.history.count_ones() > RANDOM_MAX;
        match self.key {
            Key::Async(_) => Group::Asynchronous,
            Key::Sync(..) if is_random || self.think.mean() > settings.slice_idle => Group::Random,
            Key::Sync(..) => Group::Sequential,
        }
    }

    /// Returns the length of the slice. Level 4 gets the base. Each step to a higher priority adds a fifth of
    /// the base; each step to a lower priority subtracts a fifth. A base of 100 ms gives slices of 180 ms
    /// (level 0) to 40 ms (level 7).
    fn slice(&self, settings: &Tunables) -> Nanos {
        let base = if self.is_sync() { settings.slice_sync } else { settings.slice_async };
        Nanos(base.0 / 5 * (9 - u64::from(self.priority().level.min(Priority::LEVEL_MAX))))
    }
}

impl Cfq {
    /// Makes an empty scheduler.
    pub fn new(settings: Tunables) -> Cfq {
        Cfq {
            settings,
            queues: Vec::new(),
            by_key: BTreeMap::new(),
            busy: Default::default(),
            group: None,
            turn: None,
            waiting: 0,
            sync_in_flight: 0,
            others_in_flight: 0,
            held_until: None,
        }
    }

    fn queue_of(&mut self, request: &Request) -> usize {
        let level = request.priority.level.min(Priority::LEVEL_MAX);
        let level = if request.priority.class == Class::Idle { Priority::LEVEL_MAX } else { level };
        let priority = Priority { level, ..request.priority };
        let key = match request.is_synchronous() {
            true => Key::Sync(priority, request.process),
            false => Key::Async(priority),
        };
        let queues = &mut self.queues;
        *self.by_key.entry(key).or_insert_with(|| {
            queues.push(Queue::new(key));
            queues.len() - 1
        })
    }

    /// Returns the number of queues with requests.
    fn busy_queues(&self) -> u32 {
        let others: usize = self.busy.iter().flatten().map(VecDeque::len).sum();
        let own = self.turn.is_some_and(|turn| !self.queues[turn.queue].requests.is_empty());
        others as u32 + u32::from(own)
    }

    /// Returns the queue to dispatch from; `None` if the scheduler waits for the queue that has the device.
    fn select(&mut self, now: Timestamp) -> Option<usize> {
        if let Some(turn) = self.turn {
            let queue = &self.queues[turn.queue];
            let is_preempted = self.higher_class_waits(queue.priority().class);
            if !is_preempted && now < turn.ends {
                if !queue.requests.is_empty() {
                    return Some(turn.queue);
                }
                self.held_until = self.idles_until(turn, now);
                if self.held_until.is_some() {
                    return None;
                }
            }
            self.end_turn();
        }
        let group = self.next_group(now)?;
        self.group = Some(group);
        let queue = self.busy[group.class as usize][group.group as usize].pop_front()?;
        self.turn = Some(Turn { queue, ends: now + self.queues[queue].slice(&self.settings) });
        Some(queue)
    }

    fn higher_class_waits(&self, class: Class) -> bool {
        self.busy[..class as usize].iter().flatten().any(|queues| !queues.is_empty())
    }

    fn end_turn(&mut self) {
        let Some(turn) = self.turn.take() else { return };
        self.make_busy(turn.queue);
    }

    /// Adds a queue to the queues that wait for the device.
    fn make_busy(&mut self, index: usize) {
        let queue = &self.queues[index];
        if !queue.requests.is_empty() {
            let group = queue.group(&self.settings);
            self.busy[queue.priority().class as usize][group as usize].push_back(index);
        }
    }

    /// Returns the group whose turn is next; `None` if no queue waits.
    fn next_group(&self, now: Timestamp) -> Option<GroupTurn> {
        let class = Class::ALL.into_iter().find(|class| {
            let groups = &self.busy[*class as usize];
            groups.iter().any(|queues| !queues.is_empty())
        })?;
        let groups = &self.busy[class as usize];
        let own = self.group.filter(|turn| turn.class == class);
        if let Some(turn) = own
            && now < turn.ends
            && !groups[turn.group as usize].is_empty()
        {
            return Some(turn);
        }
        let first = own.map_or(0, |turn| turn.group as usize + 1);
        let order = (0..GROUPS.len()).map(|step| GROUPS[(first + step) % GROUPS.len()]);
        let group = order.into_iter().find(|group| !groups[*group as usize].is_empty())?;
        let slices = groups[group as usize].iter().map(|queue| self.queues[*queue].slice(&self.settings).0);
        Some(GroupTurn { class, group, ends: now + Nanos(slices.sum()) })
    }

    /// Returns the timestamp until which the device idles for the active queue if this queue is empty. Other
    /// queues are held back until then. Returns `None` if the device does not idle.
    fn idles_until(&self, turn: Turn, now: Timestamp) -> Option<Timestamp> {
        let queue = &self.queues[turn.queue];
        let class = queue.priority().class;
        let may_idle = self.settings.slice_idle.0 > 0 && queue.is_sync() && class != Class::Idle;
        let is_wanted = match self.group.filter(|of| of.class == class)?.group {
            Group::Sequential => queue.group(&self.settings) == Group::Sequential,
            // Idle only after the last queue, so that the random queues together keep their share.
            group @ Group::Random => self.busy[class as usize][group as usize].is_empty(),
            Group::Asynchronous => false,
        };
        if !may_idle || !is_wanted {
            return None;
        }
        queue.think.idles_until(queue.in_flight, turn.ends, self.settings.slice_idle, now)
    }

    /// Returns whether the queue that has the device may dispatch another request now.
    fn may_go(&self, index: usize) -> bool {
        let queue = &self.queues[index];
        if queue.priority().class == Class::Idle && self.others_in_flight > 0 {
            return false;
        }
        let quantum = match queue.is_sync() {
            true => self.settings.quantum,
            false if self.sync_in_flight > 0 => return false,
            false => self.settings.slice_async_rq,
        };
        may_dispatch(queue.in_flight, self.busy_queues(), quantum)
    }
}

impl Scheduler for Cfq {
    fn insert(&mut self, request: Request, now: Timestamp) {
        let index = self.queue_of(&request);
        let queue = &mut self.queues[index];
        queue.note(&request, now, &self.settings);
        queue.requests.push_back(request);
        self.waiting += 1;
        let has_device = self.turn.is_some_and(|turn| turn.queue == index);
        if self.queues[index].requests.len() == 1 && !has_device {
            self.make_busy(index);
        }
    }

    fn dispatch(&mut self, now: Timestamp, _: u32) -> Option<Request> {
        self.held_until = None;
        if self.waiting == 0 {
            return None;
        }
        let index = self.select(now)?;
        if !self.may_go(index) {
            // When the slice ends, another queue may dispatch.
            self.held_until = self.turn.map(|turn| turn.ends);
            return None;
        }
        let queue = &mut self.queues[index];
        let request = queue.requests.pop_front()?;
        queue.in_flight += 1;
        self.waiting -= 1;
        self.sync_in_flight += u32::from(request.is_synchronous());
        self.others_in_flight += u32::from(request.priority.class != Class::Idle);
        Some(request)
    }

    fn complete(&mut self, request: &Request, _: Timestamp, now: Timestamp) {
        let index = self.queue_of(request);
        let queue = &mut self.queues[index];
        queue.in_flight -= 1;
        if queue.in_flight == 0 {
            queue.think.completed(now);
        }
        self.sync_in_flight -= u32::from(request.is_synchronous());
        self.others_in_flight -= u32::from(request.priority.class != Class::Idle);
    }

    fn next_timer(&self, now: Timestamp) -> Option<Timestamp> {
        self.held_until.filter(|until| self.waiting > 0 && *until > now)
    }

    fn waiting(&self) -> usize {
        self.waiting
    }
}
