//! Finds the uninterruptible waits of all threads, from `sched_switch`, `sched_waking` and `sched_wakeup`.
//!
//! The recorder reads the processors' buffers one after the other. Therefore, an event can come after later
//! ones of other processors. Events are kept until [`BlockedThreads::until`] states the instant up to which
//! all have come; then they are handled in order of time.
//!
//! A wait begins with the `sched_switch` by which the thread leaves its processor, and ends with the next `sched_wakeup`. Its
//! `sched_waking` comes just before that and shows who woke the thread. It can even come before the `sched_switch`, if
//! another processor wakes the thread while it is leaving; so it cannot show by itself that a wait ended.

use fonio_core::Timestamp;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::ring_buffer::{Interrupt, Left, SchedEvent, SchedRecord};

/// The maximum number of threads whose waits can be open at once.
const OPEN_MAX: usize = 1 << 16;
/// The maximum number of events that are kept until they can be handled: 24 MiB at 24 bytes each, without
/// stacks.
const EVENTS_MAX: usize = 1 << 20;
/// How long before a wait a thread can have been woken out of it, while it was leaving.
const WOKEN_WHILE_LEAVING_NS: u64 = 1_000_000;

/// The cause of a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeUp {
    /// When.
    pub at: Timestamp,
    /// The processor.
    pub cpu: u32,
    /// The thread that ran there.
    pub current: u32,
    /// The interrupt that woke the thread; `None` if `current` did.
    pub interrupt: Option<Interrupt>,
}

/// A thread that is blocked uninterruptibly, or was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedThread {
    /// The thread.
    pub tid: u32,
    /// Its name; empty if the events do not give it.
    pub comm: Vec<u8>,
    /// When it left its processor.
    pub began: Timestamp,
    /// It was blocked before the recording began; `began` is when the recording began.
    pub began_before: bool,
    /// When it was woken; `None` if that has not happened.
    pub ended: Option<Timestamp>,
    /// The cause of its wake-up; `None` if that is not known.
    pub woken_by: Option<WakeUp>,
    /// The functions of the kernel in which it was blocked, innermost first; empty if there was no stack.
    pub stack: Vec<u64>,
    /// Whether the kernel counts the wait as I/O; `None` if the events do not say so.
    pub is_io: Option<bool>,
}

/// An event until it is handled, in the order in which events of the same instant are handled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Events before this instant are missing.
    Gap,
    Left {
        tid: u32,
        seen: Box<Seen>,
    },
    Waking {
        tid: u32,
        cpu: u32,
        current: u32,
        is_hard: bool,
        is_soft: bool,
    },
    Reason {
        tid: u32,
        caller: u64,
        is_io: bool,
    },
    Woken {
        tid: u32,
    },
}

/// The command and stack of a thread that left its processor. Few events have them, so they are kept
/// elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    comm: Vec<u8>,
    stack: Vec<u64>,
}

const _: () = assert!(size_of::<(u64, Kind)>() == 24);

impl Kind {
    /// The thread, unless the event is about all.
    fn tid(&self) -> Option<u32> {
        match self {
            Kind::Gap => None,
            Kind::Left { tid, .. }
            | Kind::Waking { tid, .. }
            | Kind::Reason { tid, .. }
            | Kind::Woken { tid } => Some(*tid),
        }
    }
}

/// The threads that are blocked, and the events that have not been handled.
#[derive(Debug, Default)]
pub struct BlockedThreads {
    /// The events, and when they happened.
    events: Vec<(u64, Kind)>,
    /// On each processor, the last thread that left it blocked: its stack may follow.
    leaving: FxHashMap<u32, (u64, Kind)>,
    open: FxHashMap<u32, BlockedThread>,
    /// The last wake-ups of threads that were not blocked.
    wakings: FxHashMap<u32, WakeUp>,
    stacks: u64,
    end_missed: u64,
    missing: u64,
    /// The last event for which there was no room since the events were last handled.
    missing_until: Option<u64>,
}

impl BlockedThreads {
    /// Adds a thread that was blocked already when the recording began.
    pub fn was_blocked(&mut self, tid: u32, began: Timestamp) {
        if self.open.len() < OPEN_MAX {
            self.open.insert(tid, BlockedThread { began_before: true, ..blocked(tid, began.0) });
        }
    }

    /// Notes an event of a processor. The events of each processor come in their order.
    pub fn event(&mut self, time: u64, cpu: u32, record: &SchedRecord<'_>) {
        if let SchedEvent::Stack(stack) = record.event {
            if let Some((_, Kind::Left { seen, .. })) = self.leaving.get_mut(&cpu) {
                seen.stack.extend(stack.addresses());
                self.stacks += 1;
            }
            return;
        }
        self.leaves(cpu);
        match record.event {
            SchedEvent::Switch { prev, prev_comm, left: Left::Blocked { uninterruptible: true }, .. } => {
                let seen = Box::new(Seen { comm: prev_comm.to_vec(), stack: Vec::new() });
                self.leaving.insert(cpu, (time, Kind::Left { tid: prev, seen }));
            }
            SchedEvent::Waking { tid } => self.note(
                time,
                Kind::Waking {
                    tid,
                    cpu,
                    current: record.current,
                    is_hard: record.interrupt == Some(Interrupt::Hard),
                    is_soft: record.interrupt == Some(Interrupt::Soft),
                },
            ),
            SchedEvent::Woken { tid } => self.note(time, Kind::Woken { tid }),
            SchedEvent::BlockedReason { tid, caller, is_io } => {
                self.note(time, Kind::Reason { tid, caller, is_io });
            }
            _ => {}
        }
    }

    /// Notes that events of one processor before `time` are missing. A thread that was blocked then can have been woken.
    pub fn gap(&mut self, time: u64, cpu: u32) {
        self.leaves(cpu);
        self.note(time, Kind::Gap);
    }

    fn note(&mut self, time: u64, kind: Kind) {
        if self.events.len() < EVENTS_MAX {
            self.events.push((time, kind));
        } else {
            self.missing += 1;
            self.missing_until = self.missing_until.max(Some(time));
        }
    }

    /// The stack of the thread that left this processor has come, or there is none.
    fn leaves(&mut self, cpu: u32) {
        if let Some((time, left)) = self.leaving.remove(&cpu) {
            self.note(time, left);
        }
    }

    /// Handles all events up to `time`, and gives the waits that ended. All processors' events until then must have come.
    pub fn until(&mut self, time: u64, give: &mut dyn FnMut(BlockedThread)) {
        let mut due: Vec<u32> =
            self.leaving.iter().filter(|(_, (left, _))| *left <= time).map(|(cpu, _)| *cpu).collect();
        due.sort_unstable();
        due.into_iter().for_each(|cpu| self.leaves(cpu));
        self.events.extend(self.missing_until.take().map(|time| (time, Kind::Gap)));
        let (mut ready, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.events).into_iter().partition(|(at, _)| *at <= time);
        // Most threads that are woken were not blocked uninterruptibly.
        let mut blocked: FxHashSet<u32> = self.open.keys().copied().collect();
        blocked.extend(ready.iter().chain(&later).filter_map(|(_, kind)| match kind {
            Kind::Left { tid, .. } => Some(*tid),
            _ => None,
        }));
        let is_recent = |at: u64| at + WOKEN_WHILE_LEAVING_NS >= time;
        ready.retain(|(at, kind)| is_recent(*at) || kind.tid().is_none_or(|tid| blocked.contains(&tid)));
        ready.sort_unstable();
        self.events = later;
        ready.into_iter().for_each(|(at, kind)| self.handle(at, kind, give));
        self.wakings.retain(|_, by| by.at.0 + WOKEN_WHILE_LEAVING_NS >= time);
    }

    fn handle(&mut self, time: u64, kind: Kind, give: &mut dyn FnMut(BlockedThread)) {
        match kind {
            Kind::Gap => {
                let before = self.open.len();
                self.open.retain(|_, open| open.began.0 >= time);
                self.end_missed += (before - self.open.len()) as u64;
            }
            Kind::Left { tid, seen } => {
                let Seen { comm, stack } = *seen;
                let is_full = self.open.len() >= OPEN_MAX;
                match self.open.get_mut(&tid) {
                    Some(open) => {
                        // A thread that was found blocked when the recording began can have been woken before its events
                        // were switched on.
                        self.end_missed += u64::from(!open.began_before);
                        *open = BlockedThread { comm, stack, ..blocked(tid, time) };
                    }
                    None if is_full => self.missing += 1,
                    None => {
                        self.open.insert(tid, BlockedThread { comm, stack, ..blocked(tid, time) });
                    }
                }
            }
            Kind::Waking { tid, cpu, current, is_hard, is_soft } => {
                let interrupt = match (is_hard, is_soft) {
                    (true, _) => Some(Interrupt::Hard),
                    (_, true) => Some(Interrupt::Soft),
                    _ => None,
                };
                let by = WakeUp { at: Timestamp(time), cpu, current, interrupt };
                match self.open.get_mut(&tid) {
                    Some(open) => open.woken_by = Some(by),
                    None => {
                        self.wakings.insert(tid, by);
                    }
                }
            }
            Kind::Reason { tid, caller, is_io } => {
                if let Some(open) = self.open.get_mut(&tid) {
                    open.is_io = Some(is_io);
                    if open.stack.is_empty() {
                        open.stack.push(caller);
                    }
                }
            }
            Kind::Woken { tid } => {
                // Without an open wait, it is the end of an interruptible sleep.
                let Some(mut ended) = self.open.remove(&tid) else { return };
                let while_leaving = || {
                    let by = self.wakings.remove(&tid)?;
                    (by.at.0 + WOKEN_WHILE_LEAVING_NS >= time).then_some(by)
                };
                ended.woken_by = ended.woken_by.or_else(while_leaving);
                let at = ended.woken_by.map_or(Timestamp(time), |by| by.at);
                ended.ended = Some(at.max(ended.began));
                give(ended);
            }
        }
    }

    /// The threads that are blocked after the events that were handled, in no order.
    pub fn open(&self) -> impl Iterator<Item = &BlockedThread> {
        self.open.values()
    }

    /// The threads that are blocked after the events that were handled, in order of their numbers.
    pub fn take_open(&mut self) -> Vec<BlockedThread> {
        let mut open: Vec<BlockedThread> = std::mem::take(&mut self.open).into_values().collect();
        open.sort_unstable_by_key(|open| open.tid);
        open
    }

    /// The stacks that came.
    pub fn stacks(&self) -> u64 {
        self.stacks
    }

    /// The waits whose end was not seen. They are missing.
    pub fn end_missed(&self) -> u64 {
        self.end_missed
    }

    /// The events for which there was no room.
    pub fn missing(&self) -> u64 {
        self.missing
    }
}

fn blocked(tid: u32, began: u64) -> BlockedThread {
    BlockedThread {
        tid,
        comm: Vec::new(),
        began: Timestamp(began),
        began_before: false,
        ended: None,
        woken_by: None,
        stack: Vec::new(),
        is_io: None,
    }
}

#[cfg(test)]
mod tests;
