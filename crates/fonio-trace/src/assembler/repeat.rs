//! Handles requests that are issued several times.
//!
//! A busy driver requeues a request, and the kernel issues it again, mostly from kblockd or another worker.
//! Sources without requeues (atrace records only issues and completions) show only another, equal issue. The
//! equal issue is stored as a *repeat* of the request in flight until completions show whether it was a
//! separate request. If only one completion comes, the repeats belong to the same request. Each further
//! completion shows that the first remaining repeat was a separate request.

use std::collections::VecDeque;
use std::io;

use fonio_core::{ByteCount, Nanos, Op, RowSink, Timestamp};

use super::open::{FLUSH_SECTOR, NEVER, State, seen};
use super::tally::Counter;
use super::{Assembler, Step};

/// Maximum time between equal issues of one request, and maximum time between a completion and the next
/// completion that shows a separate request. The kernel retries within milliseconds, or when another request
/// completes. If an issue is open for longer, its completion was probably lost.
pub(super) const REPEAT_WITHIN: Nanos = Nanos(1_000_000_000);
/// The maximum number of repeats kept for a request.
pub(super) const REPEATS_MAX: usize = 256;

/// The issues of a request after its first issue.
#[derive(Debug)]
pub(super) struct Repeats {
    issues: VecDeque<Repeat>,
    /// The time of the last issue before these repeats, if that issue followed a recorded requeue.
    reissued_before: Timestamp,
}

/// A repeated issue of a request.
#[derive(Clone, Copy, Debug)]
struct Repeat {
    time: Timestamp,
    inserted: Timestamp,
    tid: Option<u32>,
    cpu: Option<u32>,
}

impl Assembler {
    /// Returns whether an issue without a waiting entry can be a repeat of the equal request in flight at
    /// `index`.
    pub(super) fn is_repeat(&self, index: u32, step: &Step<'_>) -> bool {
        // Issues of passthrough commands have neither sector nor size.
        let has_place = step.bytes > ByteCount(0) || step.key.sector == FLUSH_SECTOR && step.op == Op::Flush;
        has_place && step.time - self.open.at(index).began() <= REPEAT_WITHIN
    }

    /// Handles a repeated D of the request in flight at `index`. This request was inserted again at time
    /// `inserted`.
    #[cold]
    pub(super) fn repeat(
        &mut self,
        index: u32,
        inserted: Timestamp,
        step: &Step<'_>,
        sink: &mut dyn RowSink,
    ) -> io::Result<()> {
        let device = &self.devices[step.key.device as usize];
        if self.repeats.get(&index).is_some_and(|repeats| repeats.issues.len() == REPEATS_MAX) {
            if device.shows_end() {
                self.repeats.get_mut(&index).expect("it has repeats").issues.pop_front();
            } else {
                self.give_first(index, None, sink)?;
            }
        }
        let entry = self.open.at_mut(index);
        super::queue::absorb(entry, step);
        entry.seen |= seen::REPEATED;
        let reissued_before = std::mem::replace(&mut entry.reissued, step.time);
        let repeats = self.repeats.entry(index);
        let repeats = repeats.or_insert_with(|| Repeats { issues: VecDeque::new(), reissued_before });
        let (tid, cpu) = (step.event.tid, step.event.cpu);
        repeats.issues.push_back(Repeat { time: step.time, inserted, tid, cpu });
        Ok(())
    }

    /// Holds a complete request, because only another completion can show whether its repeats were separate
    /// requests.
    #[cold]
    pub(super) fn hold(&mut self, index: u32, step: &Step<'_>) {
        let entry = self.open.at_mut(index);
        entry.state = State::Held;
        entry.seen &= !seen::PASSED_OVER;
        entry.latest = step.time;
        self.held.push_back((step.time, index, entry.serial));
    }

    /// Handles a completion that is equal to the completion of a held request. The completion shows that the
    /// first repeat was a separate request.
    #[cold]
    pub(super) fn end_repeat(
        &mut self,
        index: u32,
        step: &Step<'_>,
        sink: &mut dyn RowSink,
    ) -> io::Result<()> {
        self.tally.note(Counter::DuplicateIssues, step.event, sink)?;
        self.tally.note(Counter::AmbiguousCompletions, step.event, sink)?;
        let completed = self.open.at(index).latest;
        self.give_first(index, Some(completed), sink)?;
        self.end_request(index, step, sink)
    }

    /// Emits a request without its repeats; the first repeat then replaces the request.
    pub(super) fn give_first(
        &mut self,
        index: u32,
        completed: Option<Timestamp>,
        sink: &mut dyn RowSink,
    ) -> io::Result<()> {
        let repeats = self.repeats.get_mut(&index).expect("a repeated request has an entry in `repeats`");
        let next = repeats.issues.pop_front().expect("a repeated request has at least one more issue");
        let reissued = std::mem::replace(&mut repeats.reissued_before, NEVER);
        let last = repeats.issues.back().map(|repeat| repeat.time);
        if last.is_none() {
            self.repeats.remove(&index);
        }
        self.open.at_mut(index).reissued = reissued;
        self.give_request_row(index, completed, sink)?;
        let (request_id, serial) = (self.new_request_id(), self.open.next_serial());
        let entry = self.open.at_mut(index);
        entry.request_id = request_id;
        entry.serial = serial;
        entry.bio_id = 0;
        entry.queued = NEVER;
        entry.inserted = next.inserted;
        entry.issued = next.time;
        entry.reissued = last.unwrap_or(NEVER);
        entry.tid = next.tid;
        entry.root_tid = None;
        entry.cpu = next.cpu;
        entry.error = None;
        entry.requeues = 0;
        entry.waiters = 0;
        entry.seen &= seen::FUA_BY_FLUSH | if last.is_some() { seen::REPEATED } else { 0 };
        self.open.reorder(index, next.time);
        Ok(())
    }

    /// Assigns the repeats of a request to the request itself.
    #[cold]
    pub(super) fn unite(&mut self, index: u32) {
        let repeats = self.repeats.remove(&index).expect("a repeated request has an entry in `repeats`");
        self.tally.add(Counter::RepeatedIssues, repeats.issues.len() as u64);
        self.open.at_mut(index).seen &= !seen::REPEATED;
    }

    /// Emits held requests when an equal issue begins another request at their sector.
    #[cold]
    pub(super) fn give_held(&mut self, step: &Step<'_>, sink: &mut dyn RowSink) -> io::Result<()> {
        loop {
            let held = self.open.chain(step.key).find(|(_, entry)| {
                let fits = entry.op == step.op && entry.latest <= step.time && entry.bytes == step.bytes;
                fits && entry.state == State::Held
            });
            let Some((index, entry)) = held else { return Ok(()) };
            let completed = entry.latest;
            self.give_request(index, Some(completed), sink)?;
        }
    }

    /// Emits the requests that have been held long enough.
    pub(super) fn give_held_long(&mut self, sink: &mut dyn RowSink) -> io::Result<()> {
        while let Some(&(completed, index, serial)) = self.held.front()
            && self.latest - completed > REPEAT_WITHIN
        {
            self.held.pop_front();
            if self.open.get(index, serial).is_some_and(|entry| entry.state == State::Held) {
                self.give_request(index, Some(completed), sink)?;
            }
        }
        Ok(())
    }
}
