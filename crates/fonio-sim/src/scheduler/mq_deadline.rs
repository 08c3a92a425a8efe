//! mq-deadline: the lists of `deadline` for each class of priority, highest class first.
//!
//! Requests of a class wait until all requests of higher classes have completed, but not longer than
//! [`Settings::prio_aging_expire`].
//!
//! Sources: the kernel's `Documentation/block/deadline-iosched`; the commit messages that added I/O priorities in
//! Linux 5.14. Pinned by a running kernel for requests of one class (`tests/vectors/observed`).

use fonio_core::{Nanos, Timestamp};

use super::deadline::{self, Lists};
use super::{Class, Request, Scheduler};

/// The tunables, under the kernel's names.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Those of each class.
    pub lists: deadline::Settings,
    /// How long higher classes can hold a request back.
    pub prio_aging_expire: Nanos,
}

impl Settings {
    /// The kernel's defaults.
    pub const DEFAULT: Settings =
        Settings { lists: deadline::Settings::DEFAULT, prio_aging_expire: Nanos(10_000_000_000) };
}

/// A scheduler of classes.
#[derive(Debug)]
pub struct MqDeadline {
    settings: Settings,
    classes: [Lists; 3],
    /// Requests of each class that were dispatched and have not completed.
    in_flight: [u32; 3],
}

impl MqDeadline {
    /// An empty scheduler.
    pub fn new(settings: Settings) -> MqDeadline {
        let classes = Class::ALL.map(|_| Lists::new(settings.lists));
        MqDeadline { settings, classes, in_flight: [0; 3] }
    }

    /// The class whose request goes next.
    fn next_class(&self, now: Timestamp) -> Option<usize> {
        let lower = 1..self.classes.len();
        let aged = lower.filter(|class| self.ages_out(*class).is_some_and(|at| at <= now));
        let unfinished = |class: &usize| self.in_flight[*class] > 0 || self.classes[*class].len() > 0;
        // The lowest classes wait longest, so an aged request of a higher class goes first.
        aged.into_iter().next().or_else(|| (0..self.classes.len()).find(unfinished))
    }

    /// When higher classes can no longer hold back the oldest request of a class.
    fn ages_out(&self, class: usize) -> Option<Timestamp> {
        Some(self.classes[class].oldest()? + self.settings.prio_aging_expire)
    }
}

impl Scheduler for MqDeadline {
    fn name(&self) -> &'static str {
        "mq-deadline"
    }

    fn insert(&mut self, request: Request, now: Timestamp) {
        self.classes[request.priority.class as usize].insert(request, now);
    }

    fn dispatch(&mut self, now: Timestamp, _: u32) -> Option<Request> {
        let class = self.next_class(now)?;
        let request = self.classes[class].dispatch(now)?;
        self.in_flight[class] += 1;
        Some(request)
    }

    fn complete(&mut self, request: &Request, _: Timestamp, _: Timestamp) {
        self.in_flight[request.priority.class as usize] -= 1;
    }

    fn next_timer(&self, now: Timestamp) -> Option<Timestamp> {
        let lower = 1..self.classes.len();
        lower.filter_map(|class| self.ages_out(class)).filter(|at| *at > now).min()
    }

    fn waiting(&self) -> usize {
        self.classes.iter().map(Lists::len).sum()
    }
}
