//! Joins the waits of threads with the requests that ended them.
//!
//! A reader gives a wait at its end, with the processor whose completion ended it. This module looks up the request of
//! this completion, as for a live recording, and gives the waits in the order of their begins. The analysis
//! needs all waits before the first request, so requests are kept back (not settled) if a trace shows waits.

use std::io;

use fonio_core::{
    Batch, BlockedIn, Nanos, Op, Request, RowSink, SeenWait, Timestamp, Wait, WaitReason, forward_rows,
};
use fonio_tracefs::waits::Completions;

/// Maximum number of waits that are kept for sorting: 128 bytes each. If a trace has more, the earlier half is given.
const KEPT_MAX: usize = 1 << 18;

/// Number of batches of a trace after whose begin requests settle if there was no wait so far. A batch has up to 4096
/// block events.
const BATCHES_WITHOUT_WAITS: u64 = 64;

/// Maximum time from a wake-up to the run of the thread. A thread that waits longer for a processor gets no request.
const READY_MAX: Nanos = Nanos(1_000_000_000);

/// The waits that were not given yet.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    completions: Completions,
    kept: Vec<Wait>,
    latest: Timestamp,
    /// Number of batches so far; `None` if the format never shows waits.
    batches: Option<u64>,
    has_waits: bool,
}

impl Waits {
    /// `may_come` says whether the format can show waits.
    pub fn new(may_come: bool) -> Waits {
        Waits { batches: may_come.then_some(0), ..Waits::default() }
    }

    /// Takes the completions of a batch, before its requests.
    pub fn events(&mut self, batch: &Batch) {
        self.batches = self.batches.map(|batches| batches + 1);
        self.has_waits |= !batch.waits.is_empty();
        if !self.are_expected() {
            return;
        }
        for event in &batch.events {
            self.completions.event(event);
            self.latest = self.latest.max(event.time);
        }
    }

    /// Takes the waits of a batch, after its requests.
    pub fn batch(&mut self, batch: &mut Batch, sink: &mut dyn RowSink) -> io::Result<()> {
        for wait in batch.waits.drain(..) {
            self.latest = self.latest.max(wait.row.ended.unwrap_or_default());
            let row = self.joined(wait);
            self.kept.push(row);
        }
        self.completions.forget_before(self.latest - READY_MAX);
        if self.kept.len() >= KEPT_MAX {
            self.give(KEPT_MAX / 2, sink)?;
        }
        Ok(())
    }

    /// Gives the remaining waits.
    pub fn finish(&mut self, sink: &mut dyn RowSink) -> io::Result<()> {
        self.give(self.kept.len(), sink)
    }

    fn give(&mut self, count: usize, sink: &mut dyn RowSink) -> io::Result<()> {
        self.kept.sort_by_key(|row| (row.began, row.tid));
        self.kept.drain(..count).try_for_each(|row| sink.wait(&row))
    }

    /// Returns the wait with its request. The request shows that the thread waited for a read, if the trace does not
    /// show the operation otherwise.
    fn joined(&self, SeenWait { mut row, completed_on }: SeenWait) -> Wait {
        let end = completed_on.zip(row.ended);
        let completed = end.and_then(|(cpu, at)| self.completions.before_wake_up_of(row.tid, cpu, at.0));
        // A lock is never released by a completion.
        let Some(completed) = completed.filter(|_| row.reason == WaitReason::Storage) else { return row };
        row.request_id = Some(completed.request_id);
        if (row.blocked_in, completed.op) == (Some(BlockedIn::Unknown), Op::Read) {
            row.blocked_in = Some(BlockedIn::Read);
        }
        row
    }

    /// Returns whether waits have come or may come.
    fn are_expected(&self) -> bool {
        self.has_waits || self.batches.is_some_and(|batches| batches <= BATCHES_WITHOUT_WAITS)
    }
}

/// Passes rows on, and remembers the requests for waits.
pub(crate) struct Tap<'a> {
    pub waits: &'a mut Waits,
    pub next: &'a mut dyn RowSink,
}

impl RowSink for Tap<'_> {
    fn request(&mut self, row: &Request) -> io::Result<()> {
        if self.waits.are_expected() {
            self.waits.completions.request(row);
        }
        self.next.request(row)
    }

    fn settled(&mut self, before: Timestamp) -> io::Result<()> {
        if self.waits.are_expected() { Ok(()) } else { self.next.settled(before) }
    }

    fn wants_bios(&self) -> bool {
        self.next.wants_bios()
    }

    forward_rows!(next: began, bio, link, call, statement, wait, blocked_count, file, thread, sample, mark, diagnostic);
}
