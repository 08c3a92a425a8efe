//! Tracks the states of a command's threads.
//!
//! A thread runs, is ready, is blocked, or has ended. Each change of the state closes an interval. The
//! intervals in which the thread did not run become rows. Events must come in order of time. A kernel stack
//! comes after its event, as the next record of the same processor, so an interval may get its reason only
//! after it has been closed. Therefore, rows are written at the end, in the order in which their intervals
//! began.

use std::io;

use fonio_core::threads::{NameOrigin, SeenThreads};
use fonio_core::{RowSink, Thread, Timestamp, Wait, WaitReason};
use rustc_hash::FxHashMap;

use super::{Completions, Reasons};
use crate::ring_buffer::{Interrupt, Left, SchedEvent, SchedRecord};

/// The maximum time by which a wake-up or creation of a thread can seem to be later than the run that it
/// caused. The clocks of two processors can differ by some microseconds, so a thread may seem to run on one
/// processor before it was woken or created on the other.
const SKEW_NS: u64 = 1_000_000;
/// Maximum number of stored threads that ran before the event of their creation was processed.
const EARLY_MAX: usize = 4096;
/// Maximum number of stored intervals; later intervals are only counted.
const INTERVALS_MAX: usize = 4_000_000;

/// When the command's first thread began and ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandSpan {
    /// When the thread was created.
    pub began: Option<Timestamp>,
    /// When the thread last left its processor.
    pub ended: Option<Timestamp>,
}

/// The threads of a command and of all its descendants.
#[derive(Debug)]
pub struct WaitTree {
    root: u32,
    reasons: Reasons,
    threads: FxHashMap<u32, State>,
    names: SeenThreads,
    intervals: Vec<Interval>,
    beyond: u64,
    /// For each processor, the event to which the next stack on this processor belongs.
    stack_of: FxHashMap<u32, StackOf>,
    span: CommandSpan,
    /// For each unknown thread, the time when it last got a processor.
    early: FxHashMap<u32, u64>,
    /// For each processor, the time when it last switched threads, if the trace shows this time.
    switched: FxHashMap<u32, u64>,
    /// Whether the trace contains run times of threads.
    has_runtimes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Running {
        /// A wake-up that came before the thread left its processor.
        woken: Option<Woken>,
        /// If no wake-up was seen: the index of the interval that ended when the thread began to run, and the
        /// time when the thread began to run.
        unexplained: Option<(usize, u64)>,
    },
    Ready {
        /// The interval's index; `None` if the maximum number of intervals was reached.
        at: Option<usize>,
        /// The processor on which the thread was preempted; `None` if the thread was woken or created.
        left: Option<u32>,
    },
    Blocked {
        at: Option<usize>,
        /// The processor that the thread left.
        left: u32,
        woken: Option<Woken>,
    },
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum StackOf {
    Blocked(usize),
    Waking(usize),
    EarlyWaking(u32),
}

/// The wake-up that ended an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Woken {
    at: u64,
    cpu: u32,
    by: Waker,
    /// The reason from the waker's stack, if any.
    reason: Option<WaitReason>,
    has_stack: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Waker {
    Thread(u32),
    Interrupt(Interrupt),
}

impl Woken {
    fn new(at: u64, cpu: u32, by: Waker) -> Woken {
        Woken { at, cpu, by, reason: None, has_stack: false }
    }

    fn learn(&mut self, reason: Option<WaitReason>) {
        self.reason = reason;
        self.has_stack = true;
    }

    fn by_interrupt(&self) -> bool {
        matches!(self.by, Waker::Interrupt(_))
    }

    /// Returns the kind of wait that the wake-up ended. Kernels that do not trace a processor's idle thread
    /// also record no stack for interrupts of the idle thread. A hard interrupt without a stack counts as a
    /// timer interrupt, and a soft interrupt without a stack as a network interrupt.
    fn reason(&self) -> Option<WaitReason> {
        match self.by {
            Waker::Interrupt(Interrupt::Hard) if !self.has_stack => Some(WaitReason::Timer),
            Waker::Interrupt(Interrupt::Soft) if !self.has_stack => Some(WaitReason::Network),
            _ => self.reason,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Interval {
    tid: u32,
    began: u64,
    ended: Option<u64>,
    /// The reason from the thread's own stack; `Cpu` if the thread was ready.
    reason: Option<WaitReason>,
    uninterruptible: bool,
    woken: Option<Woken>,
}

impl Interval {
    /// Returns why the thread waited. The thread's own stack determines the reason, with two exceptions. If a
    /// timer ended a wait that was not for storage, the reason is the timer. If the thread's stack shows no
    /// reason, as in `poll`, the wake-up determines the reason.
    fn reason(&self) -> WaitReason {
        let waker_stack = self.woken.and_then(|woken| woken.reason);
        let waker = self.woken.and_then(|woken| woken.reason());
        match (self.reason, waker) {
            (Some(own @ (WaitReason::Storage | WaitReason::Cpu)), _) => own,
            (Some(_), Some(WaitReason::Timer)) => WaitReason::Timer,
            (Some(own), _) => own,
            // An interrupt that ends an uninterruptible sleep is nearly always from a disk.
            (None, _)
                if waker_stack.is_none()
                    && self.uninterruptible
                    && self.woken.is_some_and(|woken| woken.by_interrupt()) =>
            {
                WaitReason::Storage
            }
            (None, Some(waker)) => waker,
            (None, None) => WaitReason::Unknown,
        }
    }
}

impl WaitTree {
    /// Creates a tree that follows the thread `root`. This thread will be created next.
    pub fn new(root: u32, reasons: Reasons) -> WaitTree {
        WaitTree {
            root,
            reasons,
            threads: FxHashMap::default(),
            names: SeenThreads::default(),
            intervals: Vec::new(),
            beyond: 0,
            stack_of: FxHashMap::default(),
            span: CommandSpan::default(),
            early: FxHashMap::default(),
            switched: FxHashMap::default(),
            has_runtimes: false,
        }
    }

    /// Processes the next event, which occurred at `time` on processor `cpu`. If the event contains a new
    /// name of a thread, appends the thread to `named`.
    pub fn event(&mut self, time: u64, cpu: u32, record: &SchedRecord<'_>, named: &mut Vec<Thread>) {
        if let SchedEvent::Stack(stack) = record.event {
            if let Some(of) = self.stack_of.remove(&cpu) {
                self.learn(of, stack.addresses());
            }
            return;
        }
        self.stack_of.remove(&cpu);
        match record.event {
            SchedEvent::Fork { parent, child } => {
                if child == self.root {
                    self.span.began = Some(Timestamp(time));
                }
                if child == self.root || self.threads.contains_key(&parent) {
                    let by = Woken::new(time, cpu, Waker::Thread(parent));
                    let at = self.open(child, time, Some(WaitReason::Cpu), false, Some(by));
                    let runs = self.early.remove(&child).is_some_and(|early| time.abs_diff(early) <= SKEW_NS);
                    let state = if runs {
                        self.close(at, time, None);
                        State::Running { woken: None, unexplained: None }
                    } else {
                        State::Ready { at, left: None }
                    };
                    self.threads.insert(child, state);
                }
            }
            SchedEvent::Waking { tid } => {
                let by = record.interrupt.map_or(Waker::Thread(record.current), Waker::Interrupt);
                self.waking(tid, Woken::new(time, cpu, by));
            }
            SchedEvent::Switch { prev, prev_comm, left, next } => {
                self.leaves(prev, time, cpu, left);
                if self.threads.contains_key(&prev) {
                    let comm = Some(prev_comm).filter(|comm| !comm.is_empty());
                    named.extend(self.names.seen(prev, None, comm, NameOrigin::Event, Timestamp(time)));
                }
                self.enters(next, time);
                self.switched.insert(cpu, time);
            }
            SchedEvent::Ran { tid, ns } => self.ran(tid, time, cpu, ns),
            SchedEvent::Stack(_) | SchedEvent::Woken { .. } | SchedEvent::BlockedReason { .. } => {}
        }
    }

    fn learn(&mut self, of: StackOf, stack: impl Iterator<Item = u64>) {
        match of {
            StackOf::Blocked(at) => self.intervals[at].reason = self.reasons.of_blocked(stack),
            StackOf::Waking(at) => {
                let reason = self.reasons.of_waker(stack);
                if let Some(woken) = &mut self.intervals[at].woken {
                    woken.learn(reason);
                }
            }
            StackOf::EarlyWaking(tid) => {
                let reason = self.reasons.of_waker(stack);
                if let Some(
                    State::Running { woken: Some(woken), .. } | State::Blocked { woken: Some(woken), .. },
                ) = self.threads.get_mut(&tid)
                {
                    woken.learn(reason);
                }
            }
        }
    }

    fn waking(&mut self, tid: u32, woken: Woken) {
        match self.threads.get_mut(&tid) {
            Some(State::Running { unexplained: Some((at, since)), .. })
                if woken.at.saturating_sub(*since) <= SKEW_NS =>
            {
                let at = *at;
                self.intervals[at].woken = Some(woken);
                self.stack_of.insert(woken.cpu, StackOf::Waking(at));
                self.threads.insert(tid, State::Running { woken: None, unexplained: None });
            }
            Some(State::Running { woken: early, .. }) => {
                *early = Some(woken);
                self.stack_of.insert(woken.cpu, StackOf::EarlyWaking(tid));
            }
            Some(State::Blocked { at, .. }) => {
                let at = *at;
                self.close(at, woken.at, Some(woken));
                if let Some(at) = at {
                    self.stack_of.insert(woken.cpu, StackOf::Waking(at));
                }
                let ready = self.open(tid, woken.at, Some(WaitReason::Cpu), false, None);
                self.threads.insert(tid, State::Ready { at: ready, left: None });
            }
            Some(State::Ready { .. } | State::Ended) | None => {}
        }
    }

    fn leaves(&mut self, tid: u32, time: u64, cpu: u32, left: Left) {
        let Some(state) = self.threads.get(&tid).copied() else { return };
        // The thread must have run before it left its processor. The trace does not show when or for how long
        // it ran, because the kernel does not trace it or because events were lost. An idle processor runs a
        // woken thread immediately.
        match state {
            State::Ready { at, left: None } if !self.has_runtimes => {
                let ready = at.map_or(time, |at| self.intervals[at].began);
                let free = self.switched.get(&cpu).map_or(ready, |switched| ready.max(*switched));
                self.close(at, free.min(time), None);
            }
            State::Ready { at, .. } | State::Blocked { at, .. } => self.close(at, time, None),
            State::Running { .. } | State::Ended => {}
        }
        let next = match left {
            Left::Preempted => {
                let at = self.open(tid, time, Some(WaitReason::Cpu), false, None);
                State::Ready { at, left: Some(cpu) }
            }
            Left::Blocked { uninterruptible } => {
                let at = self.open(tid, time, None, uninterruptible, None);
                if let Some(at) = at {
                    self.stack_of.insert(cpu, StackOf::Blocked(at));
                }
                let woken = if let State::Running { woken, .. } = state { woken } else { None };
                State::Blocked { at, left: cpu, woken }
            }
            Left::Ended => {
                if tid == self.root {
                    self.span.ended = Some(Timestamp(time));
                }
                State::Ended
            }
        };
        self.threads.insert(tid, next);
    }

    /// Records that a thread has run for `ns`. If the trace does not show when the thread got its processor,
    /// assumes that the thread got it `ns` ago. The trace can lack this time because some kernels do not
    /// trace a processor's idle thread (seen in Linux 6.18, on all processors of a virtual machine except the
    /// first).
    fn ran(&mut self, tid: u32, time: u64, cpu: u32, ns: u64) {
        self.has_runtimes = true;
        let (at, left) = match self.threads.get(&tid) {
            Some(State::Ready { at, left }) => (*at, *left),
            Some(State::Blocked { at, left, .. }) => (*at, Some(*left)),
            Some(State::Running { .. } | State::Ended) | None => return,
        };
        let came = time.saturating_sub(ns);
        let off_since = at.map_or(came, |at| self.intervals[at].began);
        // A processor with a slightly different clock reports a run time that begins before the thread left
        // another processor.
        if came < off_since && left.is_some_and(|left| left != cpu) {
            return;
        }
        self.enters(tid, came.max(off_since));
    }

    fn enters(&mut self, tid: u32, time: u64) {
        let mut unexplained = None;
        match self.threads.get(&tid).copied() {
            Some(State::Ready { at, .. }) => self.close(at, time, None),
            // The trace shows no wake-up, except perhaps while the thread was leaving its processor.
            Some(State::Blocked { at, woken, .. }) => match woken {
                Some(woken) => {
                    let left = at.map_or(time, |at| self.intervals[at].began);
                    self.close(at, left, Some(woken));
                    let ready = self.open(tid, left, Some(WaitReason::Cpu), false, None);
                    self.close(ready, time, None);
                }
                None => {
                    self.close(at, time, None);
                    unexplained = at.map(|at| (at, time));
                }
            },
            Some(State::Running { .. } | State::Ended) => {}
            None => {
                if self.early.len() >= EARLY_MAX {
                    self.early.clear();
                }
                self.early.insert(tid, time);
                if tid != self.root {
                    return;
                }
                self.span.began = self.span.began.or(Some(Timestamp(time)));
            }
        }
        self.threads.insert(tid, State::Running { woken: None, unexplained });
    }

    fn open(
        &mut self,
        tid: u32,
        began: u64,
        reason: Option<WaitReason>,
        uninterruptible: bool,
        woken: Option<Woken>,
    ) -> Option<usize> {
        if self.intervals.len() >= INTERVALS_MAX {
            self.beyond += 1;
            return None;
        }
        self.intervals.push(Interval { tid, began, ended: None, reason, uninterruptible, woken });
        Some(self.intervals.len() - 1)
    }

    fn close(&mut self, at: Option<usize>, ended: u64, woken: Option<Woken>) {
        if let Some(at) = at {
            let interval = &mut self.intervals[at];
            interval.ended = Some(ended);
            interval.woken = interval.woken.or(woken);
        }
    }

    /// Returns when the command's first thread began and ended.
    pub fn span(&self) -> CommandSpan {
        self.span
    }

    /// Returns the number of intervals that have no row because the maximum number was reached.
    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    /// Writes the rows to `sink`, ordered by the beginning of their intervals. Rows of length zero are left
    /// out, except the first row of each thread. Fails if `sink` fails.
    pub fn finish(mut self, completions: &Completions, sink: &mut dyn RowSink) -> io::Result<()> {
        self.intervals.sort_by_key(|interval| (interval.began, interval.tid));
        for interval in &self.intervals {
            let born = interval.reason == Some(WaitReason::Cpu) && interval.woken.is_some();
            if interval.ended == Some(interval.began) && !born {
                continue;
            }
            let reason = interval.reason();
            let request_id = match (reason, interval.woken) {
                (WaitReason::Storage, Some(woken)) => {
                    completions.before(woken.cpu, woken.at).map(|completed| completed.request_id)
                }
                _ => None,
            };
            sink.wait(&Wait {
                tid: interval.tid,
                began: Timestamp(interval.began),
                ended: interval.ended.map(Timestamp),
                reason,
                request_id,
                waker_tid: interval.woken.and_then(|woken| match woken.by {
                    Waker::Thread(tid) => Some(tid),
                    Waker::Interrupt(_) => None,
                }),
                blocked_in: None,
                file_id: None,
                io_wait: None,
                function: None,
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;
