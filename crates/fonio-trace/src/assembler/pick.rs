//! Chooses among equal candidates.

use std::io;

use fonio_core::{Nanos, RowSink, Timestamp};

use super::open::{Entry, State, seen};
use super::tally::Counter;
use super::{Assembler, Step};

/// If the older of two candidates began at least this many times as long ago as the newer, the older can be
/// stale. The ages of requests that are in flight together seldom differ this much. Below this ratio,
/// candidates are paired first in, first out.
const STALE_RATIO: u64 = 4;

/// Returns whether the older of two equal candidates is probably stale, given the time from each candidate to
/// the event, and the typical time. See the rules in [`super`].
pub(super) fn is_stale(older: Nanos, newer: Nanos, typical: Nanos) -> bool {
    older.0 / STALE_RATIO > newer.0
        && u128::from(older.0) * u128::from(newer.0) > u128::from(typical.0).pow(2)
}

/// Moves a running median up or down towards `value`, by a sixteenth of the median. The first value sets the
/// median.
pub(super) fn move_median(median: &mut Nanos, value: Nanos) {
    *median = match *median {
        Nanos(0) => value,
        now if value > now => now + Nanos((now.0 / 16).max(1)),
        now if value < now => now - Nanos((now.0 / 16).max(1)),
        now => now,
    };
}

impl Assembler {
    /// Returns the first of `self.candidates` that is not stale, and marks the candidates before it as
    /// skipped. There must be at least one candidate.
    pub(super) fn pick(&mut self, now: Timestamp, typical: Nanos) -> u32 {
        let open = &mut self.open;
        self.candidates.sort_unstable_by_key(|&index| (open.at(index).began(), open.at(index).serial));
        let mut chosen = self.candidates[0];
        for &next in &self.candidates[1..] {
            let (older, newer) = (now - open.at(chosen).began(), now - open.at(next).began());
            if !is_stale(older, newer, typical) {
                break;
            }
            open.at_mut(chosen).seen |= seen::PASSED_OVER;
            chosen = next;
        }
        chosen
    }

    /// Chooses among several waiting entries of equal size.
    #[cold]
    pub(super) fn pick_waiting(
        &mut self,
        step: &Step<'_>,
        inserted: bool,
        sink: &mut dyn RowSink,
    ) -> io::Result<u32> {
        self.tally.note(Counter::AmbiguousIssues, step.event, sink)?;
        let typical = self.devices[step.key.device as usize].queue;
        self.collect(step, |entry| {
            entry.state == State::Waiting
                && entry.bytes == step.bytes
                && (!inserted || entry.has(seen::INSERT))
        });
        Ok(self.pick(step.time, typical))
    }

    /// Collects in `self.candidates` the entries to which the event may belong and that satisfy `fits`.
    pub(super) fn collect(&mut self, step: &Step<'_>, fits: impl Fn(&Entry) -> bool) {
        self.candidates.clear();
        let may = |entry: &Entry| entry.op == step.op && entry.latest <= step.time && fits(entry);
        let chosen = self.open.chain(step.key).filter(|(_, entry)| may(entry)).map(|(index, _)| index);
        self.candidates.extend(chosen);
    }

    /// Chooses among several requests in flight with the completed size.
    #[cold]
    pub(super) fn pick_flying(&mut self, step: &Step<'_>, sink: &mut dyn RowSink) -> io::Result<u32> {
        self.tally.note(Counter::AmbiguousCompletions, step.event, sink)?;
        self.collect(step, |entry| entry.state == State::Flying && entry.bytes == step.bytes);
        Ok(self.pick(step.time, self.devices[step.key.device as usize].service[step.op as usize]))
    }

    /// Chooses among several requests in flight that may have partially completed.
    #[cold]
    pub(super) fn pick_partial(&mut self, step: &Step<'_>, sink: &mut dyn RowSink) -> io::Result<u32> {
        self.tally.note(Counter::AmbiguousCompletions, step.event, sink)?;
        self.collect(step, |entry| entry.state == State::Flying && entry.bytes > step.bytes);
        Ok(self.pick(step.time, self.devices[step.key.device as usize].service[step.op as usize]))
    }
}
