//! Caches summaries in memory. The first query of a summary reads it from the database. After that, the
//! writer thread keeps it up to date. This is sufficient, because no other process writes to the database.
//!
//! A summary must count the changes of each commit exactly once. So the writer increments a generation number
//! before and after each commit. The number is odd during a commit, and even otherwise. If the number was odd
//! when a summary was read, or if it has changed since then, the summary is used for this query only and not
//! cached.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::summary::Summary;

/// The scope of a distribution: one figure of the results with one comparison key, for all devices or for one
/// device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope {
    /// The device's id, or 0 for all devices.
    pub device_id: i64,
    /// The id of the comparison key.
    pub key_id: i64,
    /// The id of the figure.
    pub figure_id: i64,
}

/// Maximum number of summaries; a full cache is emptied. A summary has at most a few thousand bins of 16
/// bytes, so all summaries have at most 200 MB.
const SUMMARIES_MAX: usize = 4096;

#[derive(Debug, Default)]
struct Inside {
    /// The generation number. It is incremented before and after each commit, so it is odd during a commit.
    generation: u64,
    summaries: HashMap<Scope, Arc<Summary>>,
}

/// The cache of summaries, by scope.
#[derive(Clone, Debug, Default)]
pub struct Summaries(Arc<Mutex<Inside>>);

impl Summaries {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the summary of a scope if it is in the cache.
    pub fn get(&self, scope: Scope) -> Option<Arc<Summary>> {
        self.inside().summaries.get(&scope).cloned()
    }

    /// Returns the current generation number. Callers need it before they read a summary from the database.
    pub fn generation(&self) -> u64 {
        self.inside().generation
    }

    /// Caches a summary that was read at `generation`, unless a commit has begun or ended since then.
    pub fn keep(&self, scope: Scope, summary: Arc<Summary>, generation: u64) {
        let mut inside = self.inside();
        if inside.generation == generation && generation.is_multiple_of(2) {
            if inside.summaries.len() >= SUMMARIES_MAX {
                inside.summaries.clear();
            }
            inside.summaries.insert(scope, summary);
        }
    }

    /// Marks the beginning of a commit.
    pub(super) fn begin(&self) {
        let mut inside = self.inside();
        assert!(inside.generation.is_multiple_of(2), "only one thread commits");
        inside.generation += 1;
    }

    /// Marks the end of a commit, and adds the changes of the commit to the bins.
    pub(super) fn end<'a>(&self, changes: impl IntoIterator<Item = (&'a Scope, i64, i64)>) {
        let mut inside = self.inside();
        inside.generation += 1;
        for (scope, bin, results) in changes {
            if let Some(summary) = inside.summaries.get_mut(scope) {
                Arc::make_mut(summary).add(bin, results);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fonio_core::Better;

    const SCOPE: Scope = Scope { device_id: 0, key_id: 1, figure_id: 2 };

    fn of(count: i64) -> Arc<Summary> {
        Arc::new(Summary::new(Better::Lower, vec![(7, count)]))
    }

    #[test]
    fn a_summary_that_a_commit_overtook_is_not_kept() {
        let summaries = Summaries::default();
        let before = summaries.generation();
        summaries.begin();
        // A summary that was read before the commit is offered to the cache during and after the commit. A
        // summary that was read during the commit is offered after it.
        summaries.keep(SCOPE, of(1), before);
        let during = summaries.generation();
        summaries.keep(SCOPE, of(1), during);
        summaries.end([(&SCOPE, 7, 1)]);
        summaries.keep(SCOPE, of(1), before);
        summaries.keep(SCOPE, of(1), during);
        assert_eq!(summaries.get(SCOPE), None);
        summaries.keep(SCOPE, of(2), summaries.generation());
        summaries.begin();
        summaries.end([(&SCOPE, 7, 1), (&SCOPE, 8, 1)]);
        let summary = summaries.get(SCOPE).expect("it was kept");
        assert_eq!(*summary, Summary::new(Better::Lower, vec![(7, 3), (8, 1)]));
    }
}
