//! Finds the process with the longest total blocked time so far, for the progress line.

use fonio_core::{BlockedIn, Nanos};
use rustc_hash::{FxHashMap, FxHashSet};

use super::BlockedWait;

/// Maximum number of threads whose waits are summed.
const THREADS_MAX: usize = 1 << 16;

/// The total time for which the threads of each process were blocked on storage, in waits with their own rows.
#[derive(Debug, Default)]
pub(super) struct SoFar {
    processes: FxHashMap<u32, Process>,
    threads: usize,
}

#[derive(Debug, Default)]
struct Process {
    operations: FxHashMap<BlockedIn, u64>,
    threads: FxHashSet<u32>,
}

/// The process whose threads have been blocked longest so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Longest {
    pub(super) pid: u32,
    /// One of its threads that were blocked.
    pub(super) tid: u32,
    pub(super) time: Nanos,
    /// The number of its threads that were blocked.
    pub(super) threads: u64,
    /// The operation in which its threads were blocked longest.
    pub(super) operation: BlockedIn,
}

impl SoFar {
    /// Adds a wait of a thread of process `pid`.
    pub(super) fn add(&mut self, pid: u32, wait: &BlockedWait) {
        // Kernel threads work for other threads.
        if !wait.blocked_in.is_for_storage(wait.reason) || wait.blocked_in == BlockedIn::KernelThread {
            return;
        }
        let Some(time) = wait.ended.and_then(|ended| ended.since(wait.began)) else { return };
        let is_known = |process: &Process| process.threads.contains(&wait.tid);
        if self.threads < THREADS_MAX || self.processes.get(&pid).is_some_and(is_known) {
            let process = self.processes.entry(pid).or_default();
            *process.operations.entry(wait.blocked_in).or_default() += time.0;
            self.threads += usize::from(process.threads.insert(wait.tid));
        }
    }

    pub(super) fn longest(&self) -> Option<Longest> {
        let time = |process: &Process| process.operations.values().sum::<u64>();
        let (pid, process) = self.processes.iter().max_by_key(|(pid, process)| (time(process), **pid))?;
        let (operation, _) =
            process.operations.iter().max_by_key(|(operation, time)| (**time, **operation))?;
        let (tid, threads) = (*process.threads.iter().min()?, process.threads.len() as u64);
        Some(Longest { pid: *pid, tid, time: Nanos(time(process)), threads, operation: *operation })
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::{Timestamp, WaitReason};

    use super::*;

    #[test]
    fn the_longest_sum_wins() {
        let wait = |tid, began, ended, blocked_in, reason| BlockedWait {
            tid,
            began: Timestamp(began),
            began_before: false,
            ended: Some(Timestamp(ended)),
            blocked_in,
            reason,
            waker_tid: None,
            completed_on: None,
            is_by_ring: false,
            file: None,
        };
        let mut so_far = SoFar::default();
        assert_eq!(so_far.longest(), None);
        for (pid, wait) in [
            (1, wait(1, 0, 50, BlockedIn::Read, WaitReason::Storage)),
            (2, wait(2, 0, 20, BlockedIn::Read, WaitReason::Storage)),
            (2, wait(5, 30, 70, BlockedIn::Fsync, WaitReason::Unknown)),
            (3, wait(3, 0, 900, BlockedIn::Other, WaitReason::Lock)),
            (4, wait(4, 0, 900, BlockedIn::KernelThread, WaitReason::Storage)),
        ] {
            so_far.add(pid, &wait);
        }
        let longest = Longest { pid: 2, tid: 2, time: Nanos(60), threads: 2, operation: BlockedIn::Fsync };
        assert_eq!(so_far.longest(), Some(longest));
    }
}
