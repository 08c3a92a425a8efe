//! Keeps the sums and the longest waits of one thread.

use fonio_core::{BlockedIn, Nanos, Timestamp};
use rustc_hash::FxHashMap;

use super::chain::{Place, add_place};
use super::is_felt;
use crate::waits::outstanding::LONG;

/// Maximum number of files for which a thread's waits are counted separately.
const FILES_OF_THREAD: usize = 16;
/// Number of longest waits per thread for which the owners of outstanding requests are computed.
const KEPT: usize = 16;

/// A thread, identified by its id and the number of its program's name, because ids are reused.
pub(super) type Key = (u32, u32);

#[derive(Clone, Debug, Default)]
pub(super) struct Count {
    /// Number that stands for the thread's name, if the thread itself was blocked.
    pub(super) thread: u32,
    pub(super) unit: Option<u32>,
    pub(super) is_kernel: bool,
    pub(super) waits: u64,
    /// Number of waits that have their own rows in the recording.
    pub(super) rows: u64,
    pub(super) time: Nanos,
    /// When the first wait with a row began, and when the last one ended.
    pub(super) span: Option<(Timestamp, Timestamp)>,
    /// Waits for a server that did not wait for storage; they are no part of `time`.
    pub(super) server: Nanos,
    pub(super) longest: Nanos,
    pub(super) long: u64,
    pub(super) operations: FxHashMap<BlockedIn, (u64, Nanos)>,
    /// Waits, time and longest wait by file.
    pub(super) files: Vec<(u32, FileCount)>,
    pub(super) kept: Vec<Kept>,
    /// For waits for other threads: where those threads were blocked, and for how long.
    pub(super) through: Vec<(Place, Nanos)>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FileCount {
    pub(super) waits: u64,
    pub(super) time: Nanos,
    pub(super) longest: Nanos,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) began: Timestamp,
    pub(super) ended: Timestamp,
    pub(super) operation: BlockedIn,
    pub(super) file: Option<u32>,
    /// The thread that ended the wait, if it is known.
    pub(super) waker: Option<u32>,
    /// If the thread waited for another thread: for how long and where that other thread was blocked.
    pub(super) through: Option<(Nanos, Place)>,
    /// If the thread waited for another thread: the part of the blocked time that is treated as one wait.
    pub(super) felt: Nanos,
}

impl Kept {
    #[cfg(test)]
    pub(super) fn new(began: u64, ended: u64) -> Kept {
        let (began, ended) = (Timestamp(began), Timestamp(ended));
        Kept {
            began,
            ended,
            operation: BlockedIn::Read,
            file: None,
            waker: None,
            through: None,
            felt: Nanos(0),
        }
    }

    pub(super) fn time(&self) -> Nanos {
        self.through.map_or(self.ended - self.began, |(time, _)| time)
    }

    /// Returns the part of the blocked time that is treated as one wait.
    pub(super) fn felt(&self) -> Nanos {
        if self.through.is_some() { self.felt } else { self.time() }
    }
}

impl Count {
    pub(super) fn add(&mut self, operation: BlockedIn, waits: u64, time: Nanos) {
        self.is_kernel |= operation == BlockedIn::KernelThread;
        self.waits += waits;
        self.time += time;
        let (count, sum) = self.operations.entry(operation).or_default();
        *count += waits;
        *sum += time;
    }

    pub(super) fn add_wait(&mut self, wait: &Kept) {
        let time = wait.time();
        self.add(wait.operation, 1, time);
        self.rows += 1;
        let (first, last) = self.span.unwrap_or((wait.began, wait.ended));
        self.span = Some((first.min(wait.began), last.max(wait.ended)));
        self.longest = self.longest.max(wait.felt());
        self.long += u64::from(wait.felt() >= LONG && is_felt(wait.operation));
        if let Some(file) = wait.file {
            self.add_file(file, time);
        }
        if let Some((time, place)) = wait.through {
            add_place(&mut self.through, place, time);
        }
    }

    /// Ends the waits that are still open at `at`.
    pub(super) fn end_open(&mut self, at: Timestamp) {
        let mut kept = std::mem::take(&mut self.kept);
        let is_open = |wait: &&mut Kept| wait.ended == Timestamp::MAX && wait.through.is_none();
        for wait in kept.iter_mut().filter(is_open) {
            wait.ended = at.max(wait.began);
            self.add_wait(wait);
        }
        self.kept = kept;
    }

    fn add_file(&mut self, file: u32, time: Nanos) {
        let known = self.files.iter().position(|(known, _)| *known == file);
        let place = known.or_else(|| {
            (self.files.len() < FILES_OF_THREAD).then(|| {
                self.files.push((file, FileCount::default()));
                self.files.len() - 1
            })
        });
        let Some(place) = place else { return };
        let count = &mut self.files[place].1;
        count.waits += 1;
        count.time += time;
        count.longest = count.longest.max(time);
    }

    pub(super) fn keep(&mut self, wait: Kept) {
        if self.kept.len() < KEPT {
            self.kept.push(wait);
        } else if let Some(shortest) = self.kept.iter_mut().min_by_key(|kept| kept.felt())
            && shortest.felt() < wait.felt()
        {
            *shortest = wait;
        }
    }
}
