//! Looks up the name of a thread at a given time.

use std::collections::BTreeMap;

use fonio_core::{Thread, Timestamp};

/// The rows of `threads.parquet` that have been read so far.
#[derive(Default)]
pub(crate) struct Names(BTreeMap<u32, Vec<Thread>>);

impl Names {
    pub fn add(&mut self, row: &Thread) {
        let rows = self.0.entry(row.tid).or_default();
        let place = rows.partition_point(|known| known.from <= row.from);
        rows.insert(place, row.clone());
    }

    /// Returns the thread's row that applies at `at`, or its first row if `at` is earlier.
    pub fn at(&self, tid: u32, at: Timestamp) -> Option<&Thread> {
        let rows = self.0.get(&tid)?;
        rows.get(rows.partition_point(|row| row.from <= at).saturating_sub(1))
    }

    /// Returns the thread's name at `at`.
    pub fn comm(&self, tid: u32, at: Timestamp) -> Option<&str> {
        self.at(tid, at)?.comm.as_deref()
    }
}
