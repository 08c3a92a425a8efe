//! Looks up the name of a thread at a given time.
//!
//! A recording can come from a stranger, so the number of rows and the length of names are limited. Rows beyond
//! the limit are counted.

use std::collections::BTreeMap;

use fonio_core::{Thread, Timestamp, shortened};

/// Maximum number of rows that are kept: some 80 MiB with the longest names.
const ROWS_MAX: usize = 1 << 18;
/// Maximum number of bytes of a name. The kernel's names have at most 15 bytes.
const NAME_BYTES_MAX: usize = 256;

/// The name and process of a thread from some time on.
#[derive(Debug)]
pub(crate) struct Named {
    pub pid: Option<u32>,
    pub comm: Option<Box<str>>,
}

/// The rows of `threads.parquet` that have been read so far.
#[derive(Default)]
pub(crate) struct Names {
    rows: BTreeMap<(u32, Timestamp), Named>,
    /// The number of rows that were left out, because there are too many.
    pub left_out: u64,
}

impl Names {
    pub fn add(&mut self, row: &Thread) {
        if self.rows.len() >= ROWS_MAX {
            self.left_out += 1;
            return;
        }
        let comm = row.comm.as_deref().map(|comm| shortened(comm, NAME_BYTES_MAX).into());
        self.rows.insert((row.tid, row.from), Named { pid: row.pid, comm });
    }

    /// Returns the thread's row that applies at `at`, or its first row if `at` is earlier.
    pub fn at(&self, tid: u32, at: Timestamp) -> Option<&Named> {
        let before = self.rows.range((tid, Timestamp(0))..=(tid, at)).next_back();
        let found = before.or_else(|| self.rows.range((tid, at)..=(tid, Timestamp::MAX)).next());
        found.map(|(_, row)| row)
    }

    /// Returns the thread's name at `at`.
    pub fn comm(&self, tid: u32, at: Timestamp) -> Option<&str> {
        self.at(tid, at)?.comm.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_row_before_a_time_applies() {
        let mut names = Names::default();
        for (tid, from, comm) in [(7, 20, "late"), (7, 10, "early"), (7, 20, "later"), (8, 0, "other")] {
            let comm = Some(comm.to_owned());
            names.add(&Thread { tid, from: Timestamp(from), comm, ..Thread::default() });
        }
        for (tid, at, expected) in [
            (7, 0, Some("early")),
            (7, 10, Some("early")),
            (7, 19, Some("early")),
            (7, 20, Some("later")),
            (7, u64::MAX, Some("later")),
            (8, 5, Some("other")),
            (6, 5, None),
            (9, 5, None),
        ] {
            assert_eq!(names.comm(tid, Timestamp(at)), expected, "{tid} {at}");
        }
    }

    #[test]
    fn many_long_names_are_cut_and_counted() {
        let mut names = Names::default();
        for tid in 0..ROWS_MAX as u32 + 3 {
            names.add(&Thread { tid, comm: Some("ä".repeat(200)), ..Thread::default() });
        }
        assert_eq!((names.rows.len(), names.left_out), (ROWS_MAX, 3));
        assert_eq!(names.comm(5, Timestamp(0)), Some(&*"ä".repeat(NAME_BYTES_MAX / 2)));
    }
}
