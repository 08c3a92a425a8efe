//! I/O schedulers: they choose the next waiting request for the device, or hold requests back.
//!
//! A driver inserts requests, takes requests while the device has room, and reports completions. A scheduler
//! may hold requests back while other requests are in flight, or until a time that it reports. Schedulers
//! have no clock: the driver passes the time, which must not decrease.
//!
//! The models were written from papers and documentation; `docs/scheduler-models.md` lists these sources
//! and the gaps of each model. The models do not merge requests: recorded requests are already merged.
//! Flushes bypass schedulers, as in the kernel.

pub mod bfq;
pub mod cfq;
pub mod deadline;
pub mod kyber;
pub mod mq_deadline;
pub mod noop;
pub mod smartio;
mod thinking;
pub mod vectors;

use fonio_core::{ByteCount, Op, Sector, Timestamp};

/// The insertion number of a request; unique within a scheduler. Among equal candidates, the smaller number
/// wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The process that owns a request. Schedulers only compare process ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

/// The position of a request on the device. Requests at the same sector are in insertion order.
type Position = (u64, RequestId);

/// A request waiting in a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The request's ID.
    pub id: RequestId,
    /// The operation, which is never a flush.
    pub op: Op,
    /// Whether the request is synchronous. Every read counts as synchronous, regardless of this value.
    pub is_sync: bool,
    /// The first sector of the request.
    pub sector: Sector,
    /// The length of the request.
    pub bytes: ByteCount,
    /// The process that queued the request.
    pub process: ProcessId,
    /// The request's priority class and level.
    pub priority: Priority,
}

impl Request {
    /// Returns whether a program waits for the request.
    pub fn is_synchronous(&self) -> bool {
        self.is_sync || self.op == Op::Read
    }

    /// Returns the first sector after the request.
    pub fn end(&self) -> Sector {
        self.sector.after(self.bytes)
    }
}

/// An I/O priority: the kernel's `ioprio`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority {
    /// The priority class.
    pub class: Class,
    /// The level, from 0 (highest) to [`Priority::LEVEL_MAX`]. The idle class has no levels.
    pub level: u8,
}

/// A class of I/O priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Real time, served before all other classes.
    RealTime,
    /// Best effort, the default class.
    BestEffort,
    /// Idle, served only while no other process uses the device.
    Idle,
}

impl Class {
    /// All classes, highest first.
    pub const ALL: [Class; 3] = [Class::RealTime, Class::BestEffort, Class::Idle];

    /// Returns the class's name in test vectors.
    pub fn name(self) -> &'static str {
        match self {
            Class::RealTime => "rt",
            Class::BestEffort => "be",
            Class::Idle => "idle",
        }
    }
}

impl Priority {
    /// The lowest level of a class.
    pub const LEVEL_MAX: u8 = 7;

    /// The default priority: level 4 of the best-effort class.
    pub const DEFAULT: Priority = Priority { class: Class::BestEffort, level: 4 };

    /// Decodes a recorded `ioprio`: the class is in the top 3 of 16 bits, the level in the lowest 3. Without
    /// a class, the result is the default priority.
    pub fn from_ioprio(ioprio: u16) -> Priority {
        let level = (ioprio & 7) as u8;
        match ioprio >> 13 {
            1 => Priority { class: Class::RealTime, level },
            2 => Priority { class: Class::BestEffort, level },
            3 => Priority { class: Class::Idle, level: Priority::LEVEL_MAX },
            _ => Priority::DEFAULT,
        }
    }
}

/// A scheduling policy: it chooses the next request to dispatch.
///
/// Times given to a policy's functions must not decrease. Each inserted request is dispatched once. While no
/// request is in flight, a scheduler with waiting requests dispatches a request or returns a later time from
/// [`Scheduler::next_timer`]; so no request waits forever.
pub trait Scheduler: Send {
    /// Inserts a request.
    fn insert(&mut self, request: Request, now: Timestamp);

    /// Removes and returns the next request to dispatch, given `in_flight` requests in the device. Returns
    /// `None` if no request waits, or if all requests are held back.
    fn dispatch(&mut self, now: Timestamp, in_flight: u32) -> Option<Request>;

    /// Records the completion of a request that was dispatched at `issued`.
    fn complete(&mut self, _request: &Request, _issued: Timestamp, _now: Timestamp) {}

    /// Returns the next time after `now` at which held requests may be dispatched without another insertion
    /// or completion. The default suits schedulers that hold no requests back.
    fn next_timer(&self, _now: Timestamp) -> Option<Timestamp> {
        None
    }

    /// Returns the number of waiting requests.
    fn waiting(&self) -> usize;
}

macro_rules! policies {
    ($($(#[$doc:meta])* $policy:ident $name:literal $scheduler:expr;)*) => {
        /// The policies that have a model.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Policy {
            $($(#[$doc])* $policy,)*
        }

        impl Policy {
            /// All policies.
            pub const ALL: [Policy; [$(Policy::$policy),*].len()] = [$(Policy::$policy),*];

            /// Returns the kernel's name for the policy.
            pub fn name(self) -> &'static str {
                match self { $(Policy::$policy => $name),* }
            }

            /// Makes a scheduler with default settings; for SmartIO, the settings of the Samsung S5.
            pub fn scheduler(self) -> Box<dyn Scheduler> {
                match self { $(Policy::$policy => Box::new($scheduler)),* }
            }
        }
    };
}

policies! {
    /// Dispatches requests in the order of insertion.
    Noop "noop" noop::Noop::default();
    /// Deadlines and batches for the kernel's single-queue block layer (up to Linux 5.0).
    Deadline "deadline" deadline::Deadline::new(deadline::Tunables::DEFAULT);
    /// Time slices for processes (up to Linux 5.0).
    Cfq "cfq" cfq::Cfq::new(cfq::Tunables::DEFAULT);
    /// Reads before writes, with concurrency limits (Nguyen et al. 2015).
    SmartIo "smartio" smartio::SmartIo::new(smartio::Tunables::SAMSUNG_S5);
    /// Deadlines and batches for each class (since Linux 4.11).
    MqDeadline "mq-deadline" mq_deadline::MqDeadline::new(mq_deadline::Tunables::DEFAULT);
    /// Limits that adapt to latencies (since Linux 4.12).
    Kyber "kyber" kyber::Kyber::new(kyber::Tunables::DEFAULT);
    /// Budgets by weight (since Linux 4.12).
    Bfq "bfq" bfq::Bfq::new(bfq::Tunables::DEFAULT);
}

impl Policy {
    /// Returns the policy of this name.
    pub fn named(name: &str) -> Option<Policy> {
        Policy::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

#[cfg(test)]
mod tests;
