//! Follows the threads through the events of the scheduler, and gives a row for each wait of a thread in state D
//! (uninterruptible sleep).
//!
//! A wait begins when the processor switches away from a thread in state D, and ends when the thread is woken
//! or, without this event, when it runs again. Android's kernels also record the reason of the wait, just after
//! the wake-up: whether the kernel counted the wait as I/O (`io_schedule`), and the function in which the thread
//! slept. A wait for a lock behind a thread that waits for I/O, or for a journal commit, is not counted as I/O.
//! So each row says yes, no or unknown.
//!
//! A wait during which events were lost is left out, because its end may belong to a later wait.

use std::collections::VecDeque;

use fonio_core::{IoWait, Timestamp, Wait, WaitReason};
use rustc_hash::FxHashMap;

/// Maximum number of threads and processors that are followed.
const THREADS_MAX: usize = 64 << 10;

/// Number of gaps that are remembered, because waits that began before them can still be open.
const GAPS_MAX: usize = 64;

/// The kernel's account of a wait: whether it was I/O, and the function in which the thread slept.
type Reason = (bool, Option<String>);

/// A thread that is blocked, or that was woken and does not run yet.
#[derive(Debug)]
struct Open {
    began: Timestamp,
    ended: Option<Timestamp>,
    reason: Option<Reason>,
}

/// The waits of all threads.
#[derive(Debug, Default)]
pub(crate) struct Sleeps {
    /// The thread that runs on each processor.
    running: FxHashMap<u32, u32>,
    open: FxHashMap<u32, Open>,
    /// Gaps: after the first time and before the second.
    gaps: VecDeque<(Timestamp, Timestamp)>,
    /// Number of waits that were left out because events were lost.
    pub cut: u64,
    /// Whether any switch was seen. Without switches, nothing shows that a thread was blocked.
    pub seen: bool,
}

impl Sleeps {
    /// Handles a switch of the processor `cpu` to the thread `to`; returns the wait of this thread. `from` is the
    /// thread that stopped; `None` if it is the thread of the previous switch.
    pub fn switch(
        &mut self,
        cpu: u32,
        at: Timestamp,
        from: Option<u32>,
        is_blocked: bool,
        to: u32,
    ) -> Option<Wait> {
        self.seen = true;
        let stopped = from.or_else(|| self.running.get(&cpu).copied());
        if self.running.len() < THREADS_MAX || self.running.contains_key(&cpu) {
            self.running.insert(cpu, to);
        }
        let wait = self.open.remove(&to).and_then(|open| self.close(to, open, at));
        // Thread 0 is the idle thread of a processor.
        if let Some(stopped) = stopped.filter(|tid| *tid != 0)
            && is_blocked
            && self.open.len() < THREADS_MAX
        {
            self.open.insert(stopped, Open { began: at, ended: None, reason: None });
        }
        wait
    }

    /// Handles a wake-up of the thread `tid`.
    pub fn waking(&mut self, at: Timestamp, tid: u32) {
        if let Some(open) = self.open.get_mut(&tid) {
            open.ended.get_or_insert(at);
        }
    }

    /// Handles the kernel's account of the wait of the thread `tid`, which was just woken.
    pub fn reason(&mut self, tid: u32, is_io: bool, function: Option<String>) {
        if let Some(open) = self.open.get_mut(&tid) {
            open.reason = Some((is_io, function));
        }
    }

    fn close(&mut self, tid: u32, open: Open, runs_at: Timestamp) -> Option<Wait> {
        let ended = open.ended.unwrap_or(runs_at);
        if self.gaps.iter().any(|(after, before)| open.began < *before && *after < ended) {
            self.cut += 1;
            return None;
        }
        let (io_wait, function) = match open.reason {
            Some((true, function)) => (IoWait::Yes, function),
            Some((false, function)) => (IoWait::No, function),
            None => (IoWait::Unknown, None),
        };
        Some(Wait {
            tid,
            began: open.began,
            ended: Some(ended.max(open.began)),
            reason: if io_wait == IoWait::Yes { WaitReason::Storage } else { WaitReason::Unknown },
            request_id: None,
            // The event of the wake-up names the running thread also if the wait ended in an interrupt.
            waker_tid: None,
            blocked_in: None,
            file_id: None,
            io_wait: Some(io_wait),
            function,
        })
    }

    /// Handles lost events of a processor: the thread that runs on it is unknown, and the end of each open wait
    /// may be among the lost events.
    pub fn gap(&mut self, cpu: Option<u32>, after: Timestamp, before: Timestamp) {
        match cpu {
            Some(cpu) => {
                self.running.remove(&cpu);
            }
            None => self.running.clear(),
        }
        self.cut += self.open.len() as u64;
        self.open.clear();
        if self.gaps.len() >= GAPS_MAX {
            self.gaps.pop_front();
        }
        self.gaps.push_back((after, before));
    }

    /// Forgets the state of all threads, because an event came too late to be sorted.
    pub fn forget(&mut self) {
        self.running.clear();
        self.cut += self.open.len() as u64;
        self.open.clear();
    }
}
