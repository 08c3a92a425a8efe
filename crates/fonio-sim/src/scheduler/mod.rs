//! I/O schedulers: they decide which waiting request goes to the device next, and when no request does.
//!
//! A driver inserts requests, asks for one while the device has room, and reports completions. A scheduler may hold
//! requests back: while others are in flight, or until an instant, which it then names. It has no clock; the
//! driver passes the time, which does not go backwards.
//!
//! The models were written from papers and documentation (`docs/scheduler-models.md` names them and says what each model
//! lacks). Requests do not merge here: a recorded request is merged already. Flushes bypass schedulers, as in the kernel.

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

/// The order in which requests were inserted; unique for one scheduler. Ties go to the smaller number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The process that owns the request. Schedulers only compare it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

/// A request that waits in a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its number.
    pub id: RequestId,
    /// The operation; not a flush.
    pub op: Op,
    /// Whether a program waits for it. Every read counts as synchronous, regardless of this value.
    pub is_sync: bool,
    /// The first sector.
    pub sector: Sector,
    /// The length.
    pub bytes: ByteCount,
    /// The process that queued it.
    pub process: ProcessId,
    /// Its class and level.
    pub priority: Priority,
}

impl Request {
    /// Returns whether a program waits for it.
    pub fn is_synchronous(&self) -> bool {
        self.is_sync || self.op == Op::Read
    }

    /// The first sector after the request.
    pub fn end(&self) -> Sector {
        self.sector.after(self.bytes)
    }
}

/// An I/O priority: the kernel's `ioprio`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority {
    /// The class.
    pub class: Class,
    /// From 0, the highest, to [`Priority::LEVEL_MAX`]. The idle class has no levels.
    pub level: u8,
}

/// A class of priority, highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Before all others.
    RealTime,
    /// The class of processes without a class of their own.
    BestEffort,
    /// Only while no other process uses the device.
    Idle,
}

impl Class {
    /// All classes, highest first.
    pub const ALL: [Class; 3] = [Class::RealTime, Class::BestEffort, Class::Idle];

    /// The name in vectors.
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

    /// The priority of processes without a priority of their own: level 4 of the best-effort class.
    pub const DEFAULT: Priority = Priority { class: Class::BestEffort, level: 4 };

    /// The priority in a recorded `ioprio`: class in the top 3 of 16 bits, level in the lowest 3. No class is the
    /// default.
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

/// A policy: it decides which waiting request goes next.
///
/// Instants given to its functions must not go backwards. Each inserted request is dispatched once. While no request is
/// in flight, a scheduler with waiting requests either dispatches one or names a later instant in
/// [`Scheduler::next_timer`]; so none waits forever.
pub trait Scheduler: Send {
    /// The kernel's name for it.
    fn name(&self) -> &'static str;

    /// Takes a request.
    fn insert(&mut self, request: Request, now: Timestamp);

    /// Gives the request that goes to the device now, where `in_flight` requests are in progress. `None` if
    /// none waits, or those that wait are held back.
    fn dispatch(&mut self, now: Timestamp, in_flight: u32) -> Option<Request>;

    /// Notes that a request, which was dispatched at `issued`, has completed.
    fn complete(&mut self, _request: &Request, _issued: Timestamp, _now: Timestamp) {}

    /// The next instant after `now` at which requests that were held back may go without another insertion or
    /// completion. Without this function, the scheduler holds none back.
    fn next_timer(&self, _now: Timestamp) -> Option<Timestamp> {
        None
    }

    /// The number of waiting requests.
    fn waiting(&self) -> usize;
}

/// The policies that have a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// In the order of insertion.
    Noop,
    /// Deadlines and batches, for a single queue (up to Linux 5.0).
    Deadline,
    /// Time slices for processes (up to Linux 5.0).
    Cfq,
    /// Reads before writes, with limits of concurrency (Nguyen et al. 2015).
    SmartIo,
    /// Deadlines and batches for each class (since Linux 4.11).
    MqDeadline,
    /// Limits that follow latencies (since Linux 4.12).
    Kyber,
    /// Budgets by weight (since Linux 4.12).
    Bfq,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 7] = [
        Policy::Noop,
        Policy::Deadline,
        Policy::Cfq,
        Policy::SmartIo,
        Policy::MqDeadline,
        Policy::Kyber,
        Policy::Bfq,
    ];

    /// The kernel's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Noop => "noop",
            Policy::Deadline => "deadline",
            Policy::Cfq => "cfq",
            Policy::SmartIo => "smartio",
            Policy::MqDeadline => "mq-deadline",
            Policy::Kyber => "kyber",
            Policy::Bfq => "bfq",
        }
    }

    /// The policy of this name.
    pub fn named(name: &str) -> Option<Policy> {
        Policy::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// A scheduler with this policy and its default settings; for SmartIO, those of the Samsung S5.
    pub fn scheduler(self) -> Box<dyn Scheduler> {
        match self {
            Policy::Noop => Box::new(noop::Noop::default()),
            Policy::Deadline => Box::new(deadline::Deadline::new(deadline::Tunables::DEFAULT)),
            Policy::Cfq => Box::new(cfq::Cfq::new(cfq::Tunables::DEFAULT)),
            Policy::SmartIo => Box::new(smartio::SmartIo::new(smartio::Tunables::SAMSUNG_S5)),
            Policy::MqDeadline => Box::new(mq_deadline::MqDeadline::new(mq_deadline::Tunables::DEFAULT)),
            Policy::Kyber => Box::new(kyber::Kyber::new(kyber::Tunables::DEFAULT)),
            Policy::Bfq => Box::new(bfq::Bfq::new(bfq::Tunables::DEFAULT)),
        }
    }
}

#[cfg(test)]
mod tests;
