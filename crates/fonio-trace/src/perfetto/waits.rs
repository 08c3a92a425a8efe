//! Follows the threads through the events of the scheduler, and adds up how long each thread was blocked in
//! state D (uninterruptible sleep).
//!
//! A wait begins when the processor switches away from a thread in state D, and ends when the thread is woken
//! or, without this event, when it runs again. Android's kernels also record the reason of the wait, just after
//! the wake-up: whether the kernel counted the wait as I/O (`io_schedule`), and the function in which the thread
//! slept. A wait for a lock behind a thread that waits for I/O, or for a journal commit, is not counted as I/O.
//! So three sums are kept: I/O, not I/O, and unknown.
//!
//! A wait during which events were lost is left out, because its end may belong to a later wait.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::bundle::{Event, Item};

/// Maximum number of threads and processors that are followed.
const THREADS_MAX: usize = 64 << 10;

/// Maximum number of functions of a thread that are kept.
const FUNCTIONS_MAX: usize = 8;

/// Number of gaps that are remembered, because waits that began before them can still be open.
const GAPS_MAX: usize = 64;

/// A bit of the kernel's state of a thread: uninterruptible sleep (`TASK_UNINTERRUPTIBLE`).
const UNINTERRUPTIBLE: u64 = 2;

/// A bit of the kernel's state of a thread: the sleep does not count as load (`TASK_NOLOAD`). Kernels before 4.14
/// show idle workers with both bits. Later kernels show such workers with a separate bit.
const NO_LOAD: u64 = 0x400;

/// A thread that is blocked, or that was woken and does not run yet.
#[derive(Debug)]
struct Open {
    began: u64,
    ended: Option<u64>,
    is_io: Option<bool>,
    caller: Option<u32>,
}

/// The waits of one thread in state D, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Blocked {
    pub count: u64,
    pub io: u64,
    pub not_io: u64,
    pub unknown: u64,
    pub longest: u64,
    /// The functions in which the thread slept, by symbol, with their times.
    pub functions: Vec<(u32, u64)>,
}

impl Blocked {
    pub fn total(&self) -> u64 {
        self.io.saturating_add(self.not_io).saturating_add(self.unknown)
    }
}

/// The waits of all threads.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// The thread that runs on each processor.
    running: FxHashMap<u32, u32>,
    open: FxHashMap<u32, Open>,
    pub blocked: FxHashMap<u32, Blocked>,
    /// Gaps: after the first time and before the second.
    gaps: VecDeque<(u64, u64)>,
    /// Number of waits that were left out because events were lost.
    pub cut: u64,
    /// Whether any event of the scheduler, and any reason of a wait, was seen.
    pub seen: bool,
    pub reasons_seen: bool,
}

impl Waits {
    /// Handles the next event in the order of time. `caller` is the symbol of the function, if it is known.
    pub fn event(&mut self, event: &Event, caller: Option<u32>) {
        if event.late {
            // The state of the threads between this event and the ones before it is unknown.
            return self.forget();
        }
        match event.item {
            Item::Gap { after } => self.gap(event.cpu, after, event.time),
            Item::Switch { from, state, to, .. } => {
                self.seen = true;
                let stopped = from.map(|(tid, _)| tid).or_else(|| self.running.get(&event.cpu).copied());
                if self.running.len() < THREADS_MAX || self.running.contains_key(&event.cpu) {
                    self.running.insert(event.cpu, to);
                }
                if let Some(open) = self.open.remove(&to) {
                    self.close(to, open, event.time);
                }
                let Some(stopped) = stopped.filter(|tid| *tid != 0) else { return };
                if state & UNINTERRUPTIBLE != 0 && state & NO_LOAD == 0 && self.open.len() < THREADS_MAX {
                    let open = Open { began: event.time, ended: None, is_io: None, caller: None };
                    self.open.insert(stopped, open);
                }
            }
            Item::Waking { tid, .. } => {
                self.seen = true;
                if let Some(open) = self.open.get_mut(&tid) {
                    open.ended.get_or_insert(event.time);
                }
            }
            Item::BlockedReason { tid, is_io, .. } => {
                self.reasons_seen = true;
                if let Some(open) = self.open.get_mut(&tid) {
                    open.is_io = Some(is_io);
                    open.caller = caller;
                }
            }
            Item::Block { .. } | Item::Named { .. } => {}
        }
    }

    fn close(&mut self, tid: u32, open: Open, runs_at: u64) {
        let ended = open.ended.unwrap_or(runs_at);
        if self.gaps.iter().any(|(after, before)| open.began < *before && *after < ended) {
            self.cut += 1;
            return;
        }
        if self.blocked.len() >= THREADS_MAX && !self.blocked.contains_key(&tid) {
            return;
        }
        let time = ended.saturating_sub(open.began);
        let blocked = self.blocked.entry(tid).or_default();
        blocked.count += 1;
        blocked.longest = blocked.longest.max(time);
        let sum = match open.is_io {
            Some(true) => &mut blocked.io,
            Some(false) => &mut blocked.not_io,
            None => &mut blocked.unknown,
        };
        *sum = sum.saturating_add(time);
        if let Some(caller) = open.caller {
            let functions = &mut blocked.functions;
            match functions.iter().position(|(known, _)| *known == caller) {
                Some(place) => functions[place].1 = functions[place].1.saturating_add(time),
                None if functions.len() < FUNCTIONS_MAX => functions.push((caller, time)),
                None => {}
            }
        }
    }

    /// Handles lost events of a processor: the thread that runs on it is unknown, and the end of each open wait
    /// may be among the lost events.
    fn gap(&mut self, cpu: u32, after: u64, before: u64) {
        self.running.remove(&cpu);
        self.cut += self.open.len() as u64;
        self.open.clear();
        if self.gaps.len() >= GAPS_MAX {
            self.gaps.pop_front();
        }
        self.gaps.push_back((after, before));
    }

    fn forget(&mut self) {
        self.running.clear();
        self.cut += self.open.len() as u64;
        self.open.clear();
    }
}
