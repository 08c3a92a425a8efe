//! Finds the uninterruptible waits of all threads from `sched_switch`, `sched_waking` and `sched_wakeup`.
//!
//! The recorder reads the processors' buffers one after the other, so events of different processors arrive
//! out of order. So events are stored until [`BlockedThreads::until`] is called with the time up to which all
//! events have arrived. Then the events up to this time are handled in order of time.
//!
//! A wait begins with the `sched_switch` at which the thread leaves its processor, and ends with the
//! thread's next `sched_wakeup`. The `sched_waking` before this `sched_wakeup` shows the waker. If another
//! processor wakes the thread while it is leaving, `sched_waking` may even precede `sched_switch`. Therefore,
//! `sched_waking` alone does not show that a wait ended.

use fonio_core::Timestamp;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::ring_buffer::{Interrupt, Left, SchedEvent, SchedRecord};

/// Maximum number of waits that can be open at the same time.
const OPEN_MAX: usize = 1 << 16;
/// Maximum number of unhandled events. At 24 bytes each, the events take 24 MiB without their stacks.
const EVENTS_MAX: usize = 1 << 20;
/// Maximum time by which a wake-up can precede the beginning of a wait. A wake-up precedes it if the thread
/// was woken while it was leaving its processor.
const WOKEN_WHILE_LEAVING_NS: u64 = 1_000_000;

/// The cause of a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeUp {
    /// The time of the wake-up.
    pub at: Timestamp,
    /// The processor on which the waker ran.
    pub cpu: u32,
    /// The thread that was running on the processor `cpu`.
    pub current: u32,
    /// The interrupt that woke the thread; `None` if the thread `current` woke it.
    pub interrupt: Option<Interrupt>,
}

/// A thread that is or was blocked uninterruptibly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedThread {
    /// The id of the thread.
    pub tid: u32,
    /// The thread's name; empty if no event contains it.
    pub comm: Vec<u8>,
    /// When the thread left its processor.
    pub began: Timestamp,
    /// Whether the thread was blocked before the recording began. In this case, `began` is the beginning of
    /// the recording.
    pub began_before: bool,
    /// When the thread was woken; `None` if it is still blocked.
    pub ended: Option<Timestamp>,
    /// The cause of the thread's wake-up; `None` if unknown.
    pub woken_by: Option<WakeUp>,
    /// The kernel functions in which the thread was blocked, innermost first; empty if there was no stack.
    pub stack: Vec<u64>,
    /// Whether the kernel counts the wait as I/O; `None` if unknown.
    pub is_io: Option<bool>,
}

/// An unhandled event. Events of the same time are handled in the order of the variants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Events of a processor before this time are missing.
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

/// The name and stack of a thread that left its processor. Only few events have a name and a stack, so both
/// are stored separately.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    comm: Vec<u8>,
    stack: Vec<u64>,
}

const _: () = assert!(size_of::<(u64, Kind)>() == 24);

impl Kind {
    /// Returns the thread that the event concerns; `None` if it concerns all threads.
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

/// The blocked threads and the unhandled events.
#[derive(Debug, Default)]
pub struct BlockedThreads {
    /// The unhandled events with their times in nanoseconds.
    events: Vec<(u64, Kind)>,
    /// For each processor, the event by which the last thread blocked on it. The stack of this thread may
    /// still follow.
    leaving: FxHashMap<u32, (u64, Kind)>,
    open: FxHashMap<u32, BlockedThread>,
    /// The last wake-ups of threads that were not blocked.
    wakings: FxHashMap<u32, WakeUp>,
    stacks: u64,
    end_missed: u64,
    missing: u64,
    /// The time of the last event that did not fit into the buffer; `None` if all events since the last
    /// handling fitted.
    missing_until: Option<u64>,
}

impl BlockedThreads {
    /// Adds a thread that was already blocked when the recording began.
    pub fn was_blocked(&mut self, tid: u32, began: Timestamp) {
        if self.open.len() < OPEN_MAX {
            self.open.insert(tid, BlockedThread { began_before: true, ..blocked(tid, began.0) });
        }
    }

    /// Records an event. The events of one processor must come in order of time.
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

    /// Records that events of one processor before `time` are missing. Threads that seem to be blocked at
    /// `time` may have been woken.
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

    /// Completes the event of the last thread that left this processor, because its stack has arrived or
    /// does not exist.
    fn leaves(&mut self, cpu: u32) {
        if let Some((time, left)) = self.leaving.remove(&cpu) {
            self.note(time, left);
        }
    }

    /// Handles all events up to `time`, and passes each wait that ended to `give`. All events up to `time`
    /// must have arrived.
    pub fn until(&mut self, time: u64, give: &mut dyn FnMut(BlockedThread)) {
        let mut due: Vec<u32> =
            self.leaving.iter().filter(|(_, (left, _))| *left <= time).map(|(cpu, _)| *cpu).collect();
        due.sort_unstable();
        due.into_iter().for_each(|cpu| self.leaves(cpu));
        self.events.extend(self.missing_until.take().map(|time| (time, Kind::Gap)));
        let (mut ready, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.events).into_iter().partition(|(at, _)| *at <= time);
        // Most wake-ups are skipped, because their threads were not blocked uninterruptibly.
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
                        // A thread that was blocked when the recording began may have been woken before the
                        // events were enabled.
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
                // If the thread has no open wait, the event ends an interruptible sleep.
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

    /// Returns the threads that are still blocked after the handled events, in no order.
    pub fn open(&self) -> impl Iterator<Item = &BlockedThread> {
        self.open.values()
    }

    /// Removes and returns the threads that are still blocked after the handled events, sorted by thread id.
    pub fn take_open(&mut self) -> Vec<BlockedThread> {
        let mut open: Vec<BlockedThread> = std::mem::take(&mut self.open).into_values().collect();
        open.sort_unstable_by_key(|open| open.tid);
        open
    }

    /// Returns the number of recorded stacks of blocked threads.
    pub fn stacks(&self) -> u64 {
        self.stacks
    }

    /// Returns the number of waits that are missing because their end was not seen.
    pub fn end_missed(&self) -> u64 {
        self.end_missed
    }

    /// Returns the number of events that were dropped because the memory for events was full.
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
