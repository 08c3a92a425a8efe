//! The mq-deadline scheduler: each priority class has the lists of `deadline`, and the highest class goes
//! first.
//!
//! Requests of a class wait until all requests of higher classes have completed, but at most for
//! [`Tunables::prio_aging_expire`]. The classes share one batch, which can continue with requests of
//! another class. `writes_starved` counts the read batches of all classes.
//!
//! While requests of several classes are unfinished, the scheduler first looks for an aged request: it
//! chooses the next request of each lower class. If this choice begins a new batch, the batch counts as begun
//! even if the request is not dispatched. Therefore, waiting writes of a lower class get their batch earlier
//! than `writes_starved` says.
//!
//! Sources: the kernel's `Documentation/block/deadline-iosched`; the commit messages that added I/O
//! priorities in Linux 5.14. The shared batch, the search for aged requests, and the tick follow decisions of
//! running kernels (`tests/vectors/observed`).

use fonio_core::{Nanos, Timestamp};

use super::deadline::{self, Batches, Lists};
use super::{Class, Request, Scheduler};

/// The tunables, under the kernel's names, and a property of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Tunables {
    /// The tunables shared by all classes.
    pub lists: deadline::Tunables,
    /// The maximum time for which higher classes can hold a request back.
    pub prio_aging_expire: Nanos,
    /// The length of a tick, in which the kernel measures ages; must not be 0.
    pub tick: Nanos,
}

impl Tunables {
    /// The kernel's default tunables. Debian and most phones have 250 ticks per second.
    pub const DEFAULT: Tunables = Tunables {
        lists: deadline::Tunables::DEFAULT,
        prio_aging_expire: Nanos(10_000_000_000),
        tick: Nanos(4_000_000),
    };
}

/// The mq-deadline scheduler.
#[derive(Debug)]
pub struct MqDeadline {
    settings: Tunables,
    classes: [Lists; 3],
    batches: Batches,
    in_flight: [u32; 3],
}

impl MqDeadline {
    /// Makes an empty scheduler.
    pub fn new(settings: Tunables) -> MqDeadline {
        let batches = Batches::new(settings.lists);
        MqDeadline { settings, classes: Default::default(), batches, in_flight: [0; 3] }
    }

    fn is_unfinished(&self, class: usize) -> bool {
        self.in_flight[class] > 0 || self.classes[class].len() > 0
    }

    /// Returns the time of the last tick.
    fn tick(&self, now: Timestamp) -> Timestamp {
        Timestamp(now.0 - now.0 % self.settings.tick.0)
    }

    /// Removes and returns the next request of a class if it has waited for `age`.
    fn take(&mut self, class: usize, now: Timestamp, age: Nanos) -> Option<Request> {
        let (chosen, inserted) = self.batches.choose(&self.classes[class], now)?;
        if inserted + age > now {
            return None;
        }
        self.in_flight[class] += 1;
        Some(self.batches.take(&mut self.classes[class], chosen))
    }
}

impl Scheduler for MqDeadline {
    fn insert(&mut self, request: Request, now: Timestamp) {
        let tick = self.tick(now);
        self.classes[request.priority.class as usize].insert(request, tick);
    }

    fn dispatch(&mut self, now: Timestamp, _: u32) -> Option<Request> {
        let now = self.tick(now);
        let unfinished = (0..Class::ALL.len()).filter(|class| self.is_unfinished(*class));
        if unfinished.count() > 1 {
            // Look for aged requests in the higher classes first, so that requests of the lowest class wait
            // longest.
            for class in 1..Class::ALL.len() {
                if let Some(aged) = self.take(class, now, self.settings.prio_aging_expire) {
                    return Some(aged);
                }
            }
        }
        let class = (0..Class::ALL.len()).find(|class| self.is_unfinished(*class))?;
        self.take(class, now, Nanos(0))
    }

    fn complete(&mut self, request: &Request, _: Timestamp, _: Timestamp) {
        self.in_flight[request.priority.class as usize] -= 1;
    }

    fn next_timer(&self, now: Timestamp) -> Option<Timestamp> {
        let tick = self.settings.tick.0;
        let ages_out = |class: usize| {
            let at = self.classes[class].oldest()? + self.settings.prio_aging_expire;
            Some(Timestamp(at.0.div_ceil(tick) * tick))
        };
        (1..Class::ALL.len()).filter_map(ages_out).filter(|at| *at > now).min()
    }

    fn waiting(&self) -> usize {
        self.classes.iter().map(Lists::len).sum()
    }
}
