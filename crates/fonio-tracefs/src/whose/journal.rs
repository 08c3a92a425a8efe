//! Tracks a file system's journal: the threads that sync files, the threads that changed metadata, and the
//! cause of each commit.

use std::collections::VecDeque;

use fonio_core::Timestamp;

use super::Contributors;

/// Maximum number of stored transactions. A file system has one running and one committing transaction.
const TRANSACTIONS_MAX: usize = 4;
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
}

impl Journal {
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
