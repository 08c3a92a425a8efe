//! Finds the thread with the longest total blocked time so far, for the progress line.

use fonio_core::{BlockedIn, Nanos};
use rustc_hash::FxHashMap;

use super::BlockedWait;

/// Maximum number of threads whose waits are summed.
const THREADS_MAX: usize = 1 << 16;

/// The total time for which each thread was blocked on storage, in waits with their own rows.
#[derive(Debug, Default)]
pub(super) struct SoFar {
    threads: FxHashMap<u32, FxHashMap<BlockedIn, u64>>,
}

/// The thread that has been blocked longest so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Longest {
    pub(super) tid: u32,
    pub(super) time: Nanos,
    /// The operation in which the thread was blocked longest.
    pub(super) operation: BlockedIn,
}

impl SoFar {
    pub(super) fn add(&mut self, wait: &BlockedWait) {
        // Kernel threads work for other threads.
        if !wait.blocked_in.is_for_storage(wait.reason) || wait.blocked_in == BlockedIn::KernelThread {
            return;
        }
        let Some(time) = wait.ended.and_then(|ended| ended.since(wait.began)) else { return };
        if self.threads.len() < THREADS_MAX || self.threads.contains_key(&wait.tid) {
            *self.threads.entry(wait.tid).or_default().entry(wait.blocked_in).or_default() += time.0;
        }
    }

    pub(super) fn longest(&self) -> Option<Longest> {
        let time = |operations: &FxHashMap<BlockedIn, u64>| operations.values().sum::<u64>();
        let (tid, operations) =
            self.threads.iter().max_by_key(|(tid, operations)| (time(operations), **tid))?;
        let (operation, _) = operations.iter().max_by_key(|(operation, time)| (**time, **operation))?;
        Some(Longest { tid: *tid, time: Nanos(time(operations)), operation: *operation })
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
            inode: None,
        };
        let mut so_far = SoFar::default();
        assert_eq!(so_far.longest(), None);
        for wait in [
            wait(1, 0, 50, BlockedIn::Read, WaitReason::Storage),
            wait(2, 0, 20, BlockedIn::Read, WaitReason::Storage),
            wait(2, 30, 70, BlockedIn::Fsync, WaitReason::Unknown),
            wait(3, 0, 900, BlockedIn::Other, WaitReason::Lock),
            wait(4, 0, 900, BlockedIn::KernelThread, WaitReason::Storage),
        ] {
            so_far.add(&wait);
        }
        let longest = Longest { tid: 2, time: Nanos(60), operation: BlockedIn::Fsync };
        assert_eq!(so_far.longest(), Some(longest));
    }
}
