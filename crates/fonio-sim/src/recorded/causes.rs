//! Finds the access for which a thread waited before its next access: its own previous access, or an access
//! of the thread that woke this thread.

use std::collections::BTreeMap;

use fonio_core::{Nanos, Thread, Timestamp, Wait, WaitReason};
use rustc_hash::FxHashMap;

use super::lanes::Threaded;
use crate::engine::Begins;

/// Maximum length of a chain of threads that wait for each other.
const CHAIN_MAX: usize = 16;

/// An access that must complete before a later access starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cause {
    /// The thread of the access.
    pub tid: u32,
    /// The index of the access among all accesses of its thread.
    pub at: usize,
    /// When the access completed.
    pub ended: Timestamp,
}

/// The accesses, waits and parents of all threads in a recording.
#[derive(Debug, Default)]
pub struct Causes {
    /// For each thread, the completion times and indexes of its accesses.
    accesses: FxHashMap<u32, Vec<(Timestamp, usize)>>,
    /// For each thread, the end of each wait for another thread, and the thread that ended this wait.
    waits: FxHashMap<u32, Vec<(Timestamp, u32)>>,
    parents: FxHashMap<u32, u32>,
}

impl Causes {
    /// Adds a wait of a thread.
    pub fn add_wait(&mut self, row: &Wait) {
        let (Some(ended), Some(waker)) = (row.ended, row.waker_tid) else { return };
        if matches!(row.reason, WaitReason::Lock | WaitReason::Thread) && waker != row.tid {
            self.waits.entry(row.tid).or_default().push((ended, waker));
        }
    }

    /// Adds a thread with its parent.
    pub fn add_thread(&mut self, row: &Thread) {
        let starter = match row.pid {
            // Recordings show only parents of processes. Other threads count as started by their process's
            // main thread.
            Some(pid) if pid != row.tid => Some(pid),
            _ => row.parent_pid,
        };
        if let Some(starter) = starter.filter(|starter| *starter != row.tid) {
            // A process is reparented when its parent ends, so keep the first parent.
            self.parents.entry(row.tid).or_insert(starter);
        }
    }

    /// Adds the access with index `at` of a thread.
    pub fn add_access(&mut self, tid: u32, at: usize, ended: Timestamp) {
        self.accesses.entry(tid).or_default().push((ended, at));
    }

    /// Sorts the entries. Call this method after the last entry has been added.
    fn settle(&mut self) {
        self.accesses.values_mut().for_each(|ends| ends.sort_unstable());
        self.waits.values_mut().for_each(|waits| waits.sort_unstable());
    }

    /// Returns the last completed access for which the thread `tid` had waited by the given time. A thread
    /// without earlier accesses and waits had waited for the thread that started it.
    fn of(&self, tid: u32, at: Timestamp) -> Option<Cause> {
        self.chain(tid, at, CHAIN_MAX)
    }

    fn chain(&self, tid: u32, at: Timestamp, left: usize) -> Option<Cause> {
        let own = last(self.accesses.get(&tid), at).map(|(ended, at)| Cause { tid, at, ended });
        let wait = last(self.waits.get(&tid), at);
        // If the thread's own access completed after the wait ended, the thread had waited for its own
        // access.
        let wait = wait.filter(|(ended, _)| own.is_none_or(|own| own.ended < *ended));
        let next = match (wait, own) {
            (Some((ended, waker)), _) => Some((waker, ended)),
            (None, None) => self.parents.get(&tid).map(|parent| (*parent, at)),
            (None, Some(_)) => None,
        };
        let other = next.filter(|_| left > 0).and_then(|(other, until)| self.chain(other, until, left - 1));
        [own, other].into_iter().flatten().max_by_key(|cause| cause.ended)
    }
}

/// Assigns numbers to the signals that accesses set when they complete.
#[derive(Debug, Default)]
struct SignalNumbers(FxHashMap<(u32, usize), u32>);

impl SignalNumbers {
    /// Returns the signal of an access for which another access waits.
    fn wanted(&mut self, cause: &Cause) -> u32 {
        let next = self.count();
        *self.0.entry((cause.tid, cause.at)).or_insert(next)
    }

    /// If another access waits for this access, returns the signal that this access sets.
    fn of(&self, tid: u32, at: usize) -> Option<u32> {
        self.0.get(&(tid, at)).copied()
    }

    fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }
}

/// An access that can wait for another thread's access, and for which other threads can wait.
pub trait Waits {
    /// Returns the condition for starting the access.
    fn begins(&mut self) -> &mut Begins;
    /// Returns the signal that the access sets when it completes.
    fn signal(&mut self) -> &mut Option<u32>;
}

/// An access that can wait for another thread's access.
#[derive(Clone, Copy, Debug)]
pub struct MayWait {
    /// The thread of the access.
    pub tid: u32,
    /// The index of the access among all accesses of its thread.
    pub at: usize,
    /// When the access began.
    pub began: Timestamp,
}

/// Makes the replay start an access after another thread's access, if the recorded thread had waited for that
/// access. Returns the number of signals that accesses set.
pub fn link<A: Waits>(
    threads: &mut BTreeMap<u32, Threaded<A>>,
    mut causes: Causes,
    may_wait: &[MayWait],
) -> u32 {
    causes.settle();
    let mut signals = SignalNumbers::default();
    for MayWait { tid, at, began } in may_wait {
        let Some(cause) = causes.of(*tid, *began).filter(|cause| cause.tid != *tid) else { continue };
        if let Some(thread) = threads.get_mut(tid) {
            let pause = since(*began, cause.ended);
            *thread.accesses[*at].begins() = Begins::AfterOther { signal: signals.wanted(&cause), pause };
        }
    }
    for (tid, thread) in threads {
        for (at, access) in thread.accesses.iter_mut().enumerate() {
            *access.signal() = signals.of(*tid, at);
        }
    }
    signals.count()
}

/// Returns the time from `earlier` to `later`; zero if `later` is the earlier one.
pub fn since(later: Timestamp, earlier: Timestamp) -> Nanos {
    later.since(earlier).unwrap_or_default()
}

/// Returns the last of the sorted entries that is not later than `at`.
fn last<T: Copy>(entries: Option<&Vec<(Timestamp, T)>>, at: Timestamp) -> Option<(Timestamp, T)> {
    let entries = entries?;
    let count = entries.partition_point(|(time, _)| *time <= at);
    count.checked_sub(1).map(|place| entries[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(tid: u32, ended: u64, waker: u32, reason: WaitReason) -> Wait {
        Wait {
            tid,
            began: Timestamp(0),
            ended: Some(Timestamp(ended)),
            reason,
            request_id: None,
            waker_tid: Some(waker),
            blocked_in: None,
            file_id: None,
            io_wait: None,
            function: None,
        }
    }

    #[test]
    fn a_thread_waits_for_itself_for_those_who_woke_it_or_for_its_starter() {
        let mut causes = Causes::default();
        // Thread 1 starts threads 2 and 3. Thread 2 wakes thread 3, which wakes thread 4 and has no accesses.
        // The threads 5 and 6 wake each other and have no accesses.
        for (tid, parent) in [(2, 1), (3, 1), (4, 1), (5, 9), (6, 9)] {
            causes.add_thread(&Thread { tid, pid: Some(tid), parent_pid: Some(parent), ..Thread::default() });
        }
        causes.add_thread(&Thread { tid: 7, pid: Some(2), parent_pid: Some(1), ..Thread::default() });
        for (tid, at, ended) in [(1, 0, 100), (1, 1, 900), (2, 0, 300), (2, 1, 500)] {
            causes.add_access(tid, at, Timestamp(ended));
        }
        for (tid, ended, waker) in [(3, 510, 2), (4, 520, 3), (1, 350, 2), (5, 400, 6), (6, 390, 5)] {
            causes.add_wait(&wait(tid, ended, waker, WaitReason::Thread));
        }
        causes.add_wait(&wait(1, 800, 2, WaitReason::Timer));
        causes.settle();
        let of = |tid, at| causes.of(tid, Timestamp(at)).map(|cause| (cause.tid, cause.at));
        let cases = [
            ((1, 99), None),
            ((1, 100), Some((1, 0))),
            // Thread 2 woke thread 1 at 350, after the access of thread 2 had completed at 300.
            ((1, 360), Some((2, 0))),
            // A wait for a timer is ignored.
            ((1, 899), Some((2, 0))),
            ((1, 950), Some((1, 1))),
            ((2, 200), Some((1, 0))),
            ((7, 310), Some((2, 0))),
            // The cause is found through the chain of threads that woke each other.
            ((3, 515), Some((2, 1))),
            ((4, 530), Some((2, 1))),
            ((4, 515), Some((2, 0))),
            // These two threads wait for each other, and their parent is unknown.
            ((5, 1000), None),
        ];
        for ((tid, at), expected) in cases {
            assert_eq!(of(tid, at), expected, "{tid} at {at}");
        }
    }
}
