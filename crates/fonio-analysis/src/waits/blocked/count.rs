//! Keeps the sums and the longest waits of one thread.

use fonio_core::{BlockedIn, Nanos, Timestamp};
use rustc_hash::FxHashMap;

use super::chain::{Place, add_place};
use super::is_felt;
use super::timeline::{TIMELINES_MAX, Timeline};
use crate::waits::outstanding::LONG;

/// Number of files for which every thread's waits can be counted separately.
const FILES_OF_THREAD: usize = 16;
/// Maximum number of further files, summed over all threads: a program that replaces a file by renaming has a
/// new file at each save. They need up to 12 MiB.
const FILES_MORE: usize = 1 << 18;
/// Number of longest waits per thread for which the owners of outstanding requests are computed.
const KEPT: usize = 16;

/// The memory that the threads share.
#[derive(Debug)]
pub(super) struct Shared {
    /// The beginning of all timelines; `None` before the first wait.
    pub(super) origin: Option<Timestamp>,
    /// Number of further files, and of further timelines.
    files_left: usize,
    timelines_left: usize,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared { origin: None, files_left: FILES_MORE, timelines_left: TIMELINES_MAX }
    }
}

/// A thread, identified by its id and the number of its program's name, because ids are reused.
pub(super) type Key = (u32, u32);

#[derive(Debug, Default)]
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
    pub(super) files: FxHashMap<u32, FileCount>,
    /// Number of waits for files that are not in `files`, because there are too many files.
    pub(super) of_files_beyond: u64,
    /// The longest waits.
    pub(super) kept: Vec<Kept>,
    /// All waits with rows, if there are more than `kept` can hold.
    pub(super) timeline: Option<Timeline>,
    /// Number of waits with rows that are neither in `kept` nor in `timeline`.
    pub(super) not_drawn: u64,
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

    /// Whether the wait did not end before the recording.
    fn is_open(&self) -> bool {
        self.ended == Timestamp::MAX && self.through.is_none()
    }

    /// Returns the part of the blocked time that is treated as one wait.
    pub(super) fn felt(&self) -> Nanos {
        if self.through.is_some() { self.felt } else { self.time() }
    }
}

/// The most waits that a row of a recording can count. A wait lasts at least a microsecond or so, so a real row has far
/// fewer; a damaged one must not make the sums overflow.
const WAITS_MAX: u64 = 1 << 32;

impl Count {
    pub(super) fn add(&mut self, operation: BlockedIn, waits: u64, time: Nanos) {
        let waits = waits.min(WAITS_MAX);
        self.is_kernel |= operation == BlockedIn::KernelThread;
        self.waits += waits;
        self.time += time;
        let (count, sum) = self.operations.entry(operation).or_default();
        *count += waits;
        *sum += time;
    }

    /// Adds and keeps a wait. A wait that is still open is added when its end is known.
    pub(super) fn take(&mut self, wait: Kept, shared: &mut Shared) {
        if !wait.is_open() {
            self.add_wait(&wait, shared);
        }
        self.keep(wait, shared);
    }

    fn add_wait(&mut self, wait: &Kept, shared: &mut Shared) {
        let time = wait.time();
        self.add(wait.operation, 1, time);
        self.rows += 1;
        let (first, last) = self.span.unwrap_or((wait.began, wait.ended));
        self.span = Some((first.min(wait.began), last.max(wait.ended)));
        self.longest = self.longest.max(wait.felt());
        self.long += u64::from(wait.felt() >= LONG && is_felt(wait.operation));
        if let Some(file) = wait.file {
            self.add_file(file, time, shared);
        }
        if let Some((time, place)) = wait.through {
            add_place(&mut self.through, place, time);
        }
    }

    /// Ends the waits that are still open at `at`.
    pub(super) fn end_open(&mut self, at: Timestamp, shared: &mut Shared) {
        let mut kept = std::mem::take(&mut self.kept);
        for wait in kept.iter_mut().filter(|wait| wait.is_open()) {
            wait.ended = at.max(wait.began);
            self.add_wait(wait, shared);
            if self.timeline.is_some() {
                self.draw(wait, shared);
            }
        }
        self.kept = kept;
    }

    fn add_file(&mut self, file: u32, time: Nanos, shared: &mut Shared) {
        if !self.files.contains_key(&file) && self.files.len() >= FILES_OF_THREAD {
            if shared.files_left == 0 {
                self.of_files_beyond += 1;
                return;
            }
            shared.files_left -= 1;
        }
        let count = self.files.entry(file).or_default();
        count.waits += 1;
        count.time += time;
        count.longest = count.longest.max(time);
    }

    fn keep(&mut self, wait: Kept, shared: &mut Shared) {
        if self.kept.len() < KEPT {
            self.kept.push(wait);
            return;
        }
        if self.timeline.is_none() && shared.timelines_left > 0 {
            self.timeline = Some(Timeline::default());
            let kept = self.kept.clone();
            kept.iter().filter(|wait| !wait.is_open()).for_each(|wait| self.draw(wait, shared));
        }
        if !wait.is_open() || self.timeline.is_none() {
            self.draw(&wait, shared);
        }
        if let Some(shortest) = self.kept.iter_mut().min_by_key(|kept| kept.felt())
            && shortest.felt() < wait.felt()
        {
            *shortest = wait;
        }
    }

    /// Adds a wait to the timeline, or counts it as one that is not drawn.
    fn draw(&mut self, wait: &Kept, shared: &mut Shared) {
        let origin = shared.origin.unwrap_or(wait.began);
        let timeline = self.timeline.as_mut();
        if !timeline.is_some_and(|timeline| {
            timeline.add(
                wait.operation,
                (wait.began, wait.ended),
                wait.time(),
                origin,
                &mut shared.timelines_left,
            )
        }) {
            self.not_drawn += 1;
        }
    }
}
