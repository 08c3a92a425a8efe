//! Tracks a file system's journal: the threads that sync files, the threads that changed metadata, and the
//! cause of each commit.

use std::collections::VecDeque;

use fonio_core::Timestamp;

use super::Contributors;

/// Maximum number of stored transactions. A file system has one running and one committing transaction.
const TRANSACTIONS_MAX: usize = 4;
/// By how many transactions an event can be late: threads may already change metadata in the next transaction
/// when a commit begins, and the clocks of two processors differ slightly.
const LATE_MAX: i32 = 1;
/// Maximum number of stored commits. Commits are needed until the rows of their flushes arrive. These rows
/// arrive later than the events.
const COMMITS_MAX: usize = 4096;

/// The journal of a file system.
#[derive(Clone, Debug, Default)]
pub(super) struct Journal {
    /// The threads in fsync, in order of entry.
    pub(super) syncing: Vec<u32>,
    /// For each transaction, oldest first, the threads that changed metadata in it.
    pub(super) transactions: Vec<(u32, Contributors)>,
    /// The thread that caused the current or last commit.
    pub(super) cause: Option<u32>,
    /// The thread that writes commits, and the start time and cause of each of its last commits.
    pub(super) thread: u32,
    pub(super) commits: VecDeque<(Timestamp, Option<u32>)>,
    /// The latest transaction.
    pub(super) latest: Option<u32>,
}

impl Journal {
    /// Notes a transaction. Returns whether it belongs to another file system, on a later device with this
    /// number: the numbers of a file system's transactions only increase, also when it is mounted again. If
    /// so, the threads that changed the earlier file system are forgotten.
    pub(super) fn is_of_another(&mut self, transaction: u32) -> bool {
        let ahead = transaction.wrapping_sub(self.latest.unwrap_or(transaction)) as i32;
        let is_other = ahead < -LATE_MAX;
        if is_other {
            // The rows of the flushes of earlier commits may still arrive.
            let commits = std::mem::take(&mut self.commits);
            *self = Journal { thread: self.thread, commits, ..Journal::default() };
        }
        if is_other || ahead >= 0 {
            self.latest = Some(transaction);
        }
        is_other
    }

    pub(super) fn changed(&mut self, transaction: u32, tid: u32, blocks: u64) {
        let known = self.transactions.iter().position(|(known, _)| *known == transaction);
        let at = known.unwrap_or_else(|| {
            if self.transactions.len() == TRANSACTIONS_MAX {
                self.transactions.remove(0);
            }
            self.transactions.push((transaction, Contributors::default()));
            self.transactions.len() - 1
        });
        self.transactions[at].1.add(tid, blocks);
    }

    pub(super) fn commit(&mut self, time: Timestamp, tid: u32, transaction: u32) {
        let known = self.transactions.iter().position(|(known, _)| *known == transaction);
        let changed = known.map(|at| self.transactions.remove(at).1);
        self.cause = self.syncing.first().copied().or_else(|| changed?.first());
        self.thread = tid;
        if self.commits.len() == COMMITS_MAX {
            self.commits.pop_front();
        }
        self.commits.push_back((time, self.cause));
    }
}
