//! Handles events from the issue to the completion of a request.

use std::io;

use fonio_core::{ByteCount, Flags, LinkEnd, LinkKind, Op, RowSink};

use super::open::{Entry, FLUSH_SECTOR, Key, NEVER, State, seen};
use super::pick::move_median;
use super::queue::{absorb, is_larger_bio};
use super::repeat::REPEAT_WITHIN;
use super::tally::Counter;
use super::{Assembler, ORPHANS_MAX, Orphan, Step};

/// The entries that [`Assembler::complete`] found under the key of a completion: for each kind, the first
/// entry found and the number of entries found.
#[derive(Default)]
struct Found {
    exact: Ranked,
    held: Ranked,
    part: Ranked,
    returned: Ranked,
    passed: Ranked,
    any: Ranked,
}

/// The first candidate and the number of candidates.
#[derive(Clone, Copy, Default)]
struct Ranked {
    first: u32,
    count: u32,
}

impl Ranked {
    #[inline]
    fn add(&mut self, index: u32) {
        if self.count == 0 {
            self.first = index;
        }
        self.count += 1;
    }
}

impl Assembler {
    /// Handles D: a request is issued to the driver.
    pub(super) fn issue(&mut self, step: &Step<'_>, sink: &mut dyn RowSink) -> io::Result<()> {
        self.devices[step.key.device as usize].shows_issue = true;
        let is_flush = step.key.sector == FLUSH_SECTOR && step.op == Op::Flush;
        let (mut returned, mut inserted, mut exact) =
            (Ranked::default(), Ranked::default(), Ranked::default());
        let (mut equal_in_flight, mut held, mut others) = (None, false, false);
        for (index, entry) in self.open.chain(step.key) {
            if entry.op != step.op || entry.latest > step.time {
                continue;
            }
            match entry.state {
                State::Returned if entry.bytes == step.bytes => returned.add(index),
                State::Waiting if entry.bytes == step.bytes && entry.has(seen::INSERT) => inserted.add(index),
                State::Waiting if entry.bytes == step.bytes => exact.add(index),
                State::Flying if entry.bytes == step.bytes => {
                    let newest = equal_in_flight.is_none_or(|(_, serial)| serial < entry.serial);
                    equal_in_flight = if newest { Some((index, entry.serial)) } else { equal_in_flight };
                }
                State::Flying => {}
                State::Held => held |= entry.bytes == step.bytes,
                _ => others = true,
            }
        }
        if returned.count > 0 {
            if returned.count > 1 {
                self.tally.note(Counter::AmbiguousIssues, step.event, sink)?;
            }
            return self.reissue(returned.first, step);
        }
        if held {
            self.give_held(step, sink)?;
        }
        if let Some((index, _)) = equal_in_flight
            && exact.count == 0
            && self.is_repeat(index, step)
        {
            // If the issue were a separate request, this request would have been allocated. An insertion
            // proves nothing, because it is repeated after each requeue.
            let again = |entry: &Entry| {
                !entry.has(seen::BIO | seen::REQUEST & !seen::INSERT) && entry.request_id == 0
            };
            if inserted.count == 0 && !(others && self.finds_grown_or_split(step)) {
                return self.repeat(index, NEVER, step, sink);
            }
            if !is_flush && inserted.count == 1 && again(self.open.at(inserted.first)) {
                let time = self.open.at(inserted.first).inserted;
                self.open.remove(inserted.first);
                return self.repeat(index, time, step, sink);
            }
        }
        if is_flush {
            return self.issue_flush(step, sink);
        }
        if equal_in_flight.is_some() {
            self.tally.note(Counter::DuplicateIssues, step.event, sink)?;
            self.retire(step.key, true, sink)?;
        }
        let best = if inserted.count > 0 { inserted } else { exact };
        let head = match best.count {
            0 if others => match self.find_grown_or_split(step, sink)? {
                Some(head) if self.open.at(head).state == State::Returned => return self.reissue(head, step),
                head => head,
            },
            0 => None,
            1 => Some(best.first),
            _ => Some(self.pick_waiting(step, inserted.count > 0, sink)?),
        };
        let index = match head {
            Some(head) => {
                if best.count == 1 {
                    self.learn_queue(head, step);
                }
                self.gather(head, step, sink)?;
                head
            }
            None => {
                let mut entry = Entry::new(step.key, step.event.device, step.op, step.bytes, step.time);
                entry.tid = step.event.tid;
                self.open_entry(&entry, sink)?
            }
        };
        self.launch(index, step);
        if step.time < self.latest {
            self.complete_late(index, step, sink)?;
        }
        Ok(())
    }

    /// Marks an entry as issued.
    #[inline]
    pub(super) fn launch(&mut self, index: u32, step: &Step<'_>) {
        self.request_id_of(index);
        let serial = self.open.next_serial();
        let entry = self.open.at_mut(index);
        assert!(entry.state == State::Waiting, "only a waiting request can be issued");
        let wanted = entry.flags;
        absorb(entry, step);
        let shown = step.event.flags_known.contains(Flags::FUA);
        if wanted.contains(Flags::FUA) && shown && !step.event.flags.contains(Flags::FUA) {
            entry.seen |= seen::FUA_BY_FLUSH;
        }
        entry.state = State::Flying;
        entry.seen &= !seen::PASSED_OVER;
        entry.serial = serial;
        entry.issued = step.time;
        entry.issued_bytes = step.bytes;
        entry.bytes = step.bytes;
        entry.first_sector = step.key.sector;
        entry.cpu = step.event.cpu.or(entry.cpu);
        entry.tid = entry.tid.or(step.event.tid);
        self.open.reorder(index, step.time);
    }

    /// Handles D after R, which issues the same request again.
    fn reissue(&mut self, index: u32, step: &Step<'_>) -> io::Result<()> {
        let serial = self.open.next_serial();
        let entry = self.open.at_mut(index);
        assert!(entry.state == State::Returned, "only a returned request can be issued again");
        absorb(entry, step);
        entry.state = State::Flying;
        entry.serial = serial;
        entry.reissued = step.time;
        // Merges in the scheduler may have enlarged the request since its first issue.
        entry.issued_bytes += step.bytes - entry.bytes;
        entry.bytes = step.bytes;
        Ok(())
    }

    /// Returns whether [`find_grown_or_split`](Assembler::find_grown_or_split) would find a bio or request
    /// for an issue.
    fn finds_grown_or_split(&self, step: &Step<'_>) -> bool {
        let smaller_or_larger = |entry: &Entry| entry.bytes < step.bytes || is_larger_bio(entry, step.bytes);
        self.newest(step, |entry| entry.state == State::Waiting && smaller_or_larger(entry)).is_some()
    }

    /// Finds the entry for an issue if no waiting entry has the size of the issue. It is the newest smaller
    /// entry, which then grew by merges; else the newest larger bio, which then was split; else a returned
    /// request, which then changed its size.
    #[cold]
    fn find_grown_or_split(&mut self, step: &Step<'_>, sink: &mut dyn RowSink) -> io::Result<Option<u32>> {
        let waiting = |entry: &Entry| entry.state == State::Waiting;
        let smaller = self.newest(step, |entry| waiting(entry) && entry.bytes < step.bytes);
        if smaller.is_some() {
            return Ok(smaller);
        }
        let larger = self.newest(step, |entry| waiting(entry) && is_larger_bio(entry, step.bytes));
        if let Some(index) = larger {
            self.tally.note(Counter::SplitsInferred, step.event, sink)?;
            self.split_entry(index, step.bytes, sink)?;
            return Ok(larger);
        }
        Ok(self.newest(step, |entry| entry.state == State::Returned && entry.bytes < step.bytes))
    }

    #[inline]
    fn learn_queue(&mut self, head: u32, step: &Step<'_>) {
        let queued = self.open.at(head).queued;
        if queued != NEVER {
            move_median(&mut self.devices[step.key.device as usize].queue, step.time - queued);
        }
    }

    /// Makes a request from a waiting entry and the entries that tile the rest of its range.
    #[inline]
    fn gather(&mut self, head: u32, step: &Step<'_>, sink: &mut dyn RowSink) -> io::Result<()> {
        if self.open.at(head).has(seen::BIO) && self.wants_bios {
            let request_id = self.request_id_of(head);
            self.give_bio(head, Some(request_id), None, sink)?;
        }
        if self.open.at(head).bytes < step.bytes {
            self.gather_rest(head, step, sink)?;
        }
        Ok(())
    }

    #[cold]
    fn gather_rest(&mut self, head: u32, step: &Step<'_>, sink: &mut dyn RowSink) -> io::Result<()> {
        self.request_id_of(head);
        let mut left = step.bytes - self.open.at(head).bytes;
        let mut sector = step.key.sector.after(self.open.at(head).bytes);
        // The bio that began the request needs no link here, because it was queued first.
        let mut first_bio = self.open.at(head).bio_id;
        // Stop at the largest sector number, which is the key of flushes.
        while left > ByteCount(0) && sector != FLUSH_SECTOR {
            let tile = Step { key: Key { sector, ..step.key }, ..*step };
            let found = self.newest(&tile, |entry| {
                let fits = entry.bytes > ByteCount(0) && entry.bytes <= left;
                // An entry with an id is a request to which other rows refer, so it is issued separately.
                entry.state == State::Waiting && fits && entry.request_id == 0
            });
            let Some(index) = found else { break };
            let bytes = self.open.at(index).bytes;
            left -= bytes;
            sector = sector.after(bytes);
            self.take_in(head, index, &mut first_bio, sink)?;
        }
        if left > ByteCount(0) && step.op == Op::Discard && self.find_ranges(head, left, step) {
            self.tally.note(Counter::DiscardMergesInferred, step.event, sink)?;
            let ranges = std::mem::take(&mut self.candidates);
            for &index in &ranges {
                self.take_in(head, index, &mut first_bio, sink)?;
            }
            self.candidates = ranges;
            return Ok(());
        }
        if left > ByteCount(0) && self.devices[step.key.device as usize].shows_queue {
            self.tally.add(Counter::MergesMissing, 1);
        }
        Ok(())
    }

    /// Collects in `self.candidates` the bios that may be the other ranges of a discard; returns whether
    /// their sizes add up to the size of the discard.
    fn find_ranges(&mut self, head: u32, mut left: ByteCount, step: &Step<'_>) -> bool {
        self.candidates.clear();
        let began = self.open.at(head).queued;
        let device = &mut self.devices[step.key.device as usize];
        device.discards.retain(|&(index, serial)| self.open.get(index, serial).is_some());
        for &(index, serial) in &device.discards {
            let Some(entry) = self.open.get(index, serial).filter(|_| index != head) else { continue };
            let is_range =
                entry.state == State::Waiting && !entry.has(seen::REQUEST) && entry.request_id == 0;
            let in_time = began != NEVER && entry.queued >= began && entry.latest <= step.time;
            if is_range && in_time && entry.bytes > ByteCount(0) && entry.bytes <= left {
                self.candidates.push(index);
                left -= entry.bytes;
            }
        }
        left == ByteCount(0)
    }

    /// Makes a waiting entry part of the request at `head`.
    pub(super) fn take_in(
        &mut self,
        head: u32,
        index: u32,
        first_bio: &mut u64,
        sink: &mut dyn RowSink,
    ) -> io::Result<()> {
        let request_id = self.request_id_of(head);
        self.give_bio(index, Some(request_id), None, sink)?;
        let part = *self.open.at(index);
        self.open.remove(index);
        let request = self.open.at_mut(head);
        let merged_bio = if part.queued < request.queued {
            request.queued = part.queued;
            request.tid = part.tid.or(request.tid);
            request.root_tid = part.root_tid;
            request.cpu = part.cpu.or(request.cpu);
            std::mem::replace(first_bio, part.bio_id)
        } else {
            part.bio_id
        };
        request.inserted = request.inserted.min(part.inserted);
        request.flags |= part.flags;
        request.flags_known |= part.flags_known;
        request.ioprio = request.ioprio.or(part.ioprio);
        if merged_bio == 0 {
            return Ok(());
        }
        let ends = ((LinkEnd::Bio, merged_bio), (LinkEnd::Request, request_id));
        self.link(LinkKind::Merge, ends.0, ends.1, sink)
    }

    /// Handles R: a driver requeues a request.
    pub(super) fn requeue(&mut self, step: &Step<'_>, sink: &mut dyn RowSink) -> io::Result<()> {
        self.requeues_shown = true;
        let flying = |entry: &Entry| entry.state == State::Flying;
        self.collect(step, |entry| flying(entry) && entry.bytes == step.bytes);
        if self.candidates.is_empty() {
            self.collect(step, flying);
        }
        if self.candidates.is_empty() {
            return self.tally.note(Counter::RequeuesWithoutIssue, step.event, sink);
        }
        if self.candidates.len() > 1 {
            self.tally.note(Counter::AmbiguousRequeues, step.event, sink)?;
        }
        let open = &self.open;
        let first = self.candidates.iter().min_by_key(|&&i| (open.at(i).began(), open.at(i).serial));
        let first = *first.expect("there is a candidate");
        if self.open.at(first).has(seen::REPEATED) {
            self.unite(first);
        }
        let entry = self.open.at_mut(first);
        entry.state = State::Returned;
        entry.requeues = entry.requeues.saturating_add(1);
        entry.latest = step.time;
        Ok(())
    }

    /// Handles C: a request, or a part of one, completes.
    pub(super) fn complete(&mut self, step: &Step<'_>, sink: &mut dyn RowSink) -> io::Result<()> {
        let device = &mut self.devices[step.key.device as usize];
        device.shows_completion = true;
        if step.key.sector == FLUSH_SECTOR && step.event.op == Op::Flush {
            device.shows_flush_completion = true;
        }
        let only = self.open.unchain_only(step.key, |entry| {
            let fits = entry.op == step.op && entry.latest <= step.time;
            fits && entry.state == State::Flying && entry.bytes == step.bytes && !entry.has(seen::REPEATED)
        });
        if let Some(index) = only {
            return self.end_only(index, step, sink);
        }
        let mut found = Found::default();
        for (index, entry) in self.open.chain(step.key) {
            if entry.op != step.op || entry.latest > step.time {
                continue;
            }
            match entry.state {
                State::Flying if entry.bytes == step.bytes => found.exact.add(index),
                State::Held if is_held_for(entry, step) => found.held.add(index),
                State::Flying if step.bytes > ByteCount(0) && entry.bytes > step.bytes => {
                    found.part.add(index)
                }
                State::Flying => found.any.add(index),
                State::Returned if entry.bytes == step.bytes => found.returned.add(index),
                State::Passed if entry.bytes == step.bytes => found.passed.add(index),
                _ => {}
            }
        }
        if found.exact.count > 0 {
            let index = match found.exact.count {
                1 => {
                    self.learn_service(found.exact.first, step);
                    found.exact.first
                }
                _ => self.pick_flying(step, sink)?,
            };
            return self.end_request(index, step, sink);
        }
        if found.held.count > 0 {
            return self.end_repeat(found.held.first, step, sink);
        }
        if found.part.count > 0 {
            let index = match found.part.count {
                1 => found.part.first,
                _ => self.pick_partial(step, sink)?,
            };
            self.end_part(index, step);
            return Ok(());
        }
        if found.returned.count > 0 {
            self.tally.note(Counter::CompletionsOfRequeued, step.event, sink)?;
            return self.end_request(found.returned.first, step, sink);
        }
        if found.passed.count > 0 {
            return self.end_passed(found.passed, step, sink);
        }
        if self.end_waiting(step, false, sink)? {
            return Ok(());
        }
        // The issue of a passthrough command has size 0.
        if found.any.count > 0 && step.op == Op::Other {
            return self.end_request(found.any.first, step, sink);
        }
        self.end_nothing(step, sink)
    }

    #[inline]
    fn learn_service(&mut self, index: u32, step: &Step<'_>) {
        let service = step.time - self.open.at(index).began();
        let device = &mut self.devices[step.key.device as usize];
        move_median(&mut device.service[step.op as usize], service);
        device.service_max = device.service_max.max(service);
    }

    /// Ends a request in flight if it is the only open entry at its sector.
    #[inline]
    fn end_only(&mut self, index: u32, step: &Step<'_>, sink: &mut dyn RowSink) -> io::Result<()> {
        self.learn_service(index, step);
        self.note_end(index, step);
        let given = self.give_request_row(index, Some(step.time), sink);
        self.open.release(index);
        given
    }

    /// Ends a request whose last part has completed.
    #[inline]
    pub(super) fn end_request(
        &mut self,
        index: u32,
        step: &Step<'_>,
        sink: &mut dyn RowSink,
    ) -> io::Result<()> {
        self.note_end(index, step);
        if self.open.at(index).has(seen::REPEATED) {
            self.hold(index, step);
            return Ok(());
        }
        self.give_request(index, Some(step.time), sink)
    }

    #[inline]
    fn note_end(&mut self, index: u32, step: &Step<'_>) {
        let entry = self.open.at_mut(index);
        join_error(&mut entry.error, step.event.error);
        if entry.has(seen::FUA_BY_FLUSH) {
            self.await_flush(index);
        }
    }

    /// Completes a part of a request; the remaining part begins at the next sector.
    #[cold]
    fn end_part(&mut self, index: u32, step: &Step<'_>) {
        let entry = self.open.at_mut(index);
        assert!(step.bytes < entry.bytes, "a part must be smaller than the rest of its request");
        join_error(&mut entry.error, step.event.error);
        entry.bytes -= step.bytes;
        entry.latest = step.time;
        let sector = entry.key.sector.after(step.bytes);
        if self.open.rekey(index, sector) {
            self.crowded.push(self.open.at(index).key);
        }
    }

    /// Ends a bio of a stacked device.
    fn end_passed(&mut self, passed: Ranked, step: &Step<'_>, sink: &mut dyn RowSink) -> io::Result<()> {
        if passed.count > 1 {
            self.tally.note(Counter::AmbiguousCompletions, step.event, sink)?;
        }
        self.end_bio(passed.first, step, sink)
    }

    fn end_bio(&mut self, index: u32, step: &Step<'_>, sink: &mut dyn RowSink) -> io::Result<()> {
        if self.open.at(index).has(seen::BIO) {
            self.devices[step.key.device as usize].shows_bio_completion = true;
        }
        self.give_bio(index, None, Some(step.time), sink)?;
        self.open.remove(index);
        Ok(())
    }

    /// Completes a waiting entry that was never issued: a bio, or a request whose issue was not recorded.
    #[cold]
    fn end_waiting(&mut self, step: &Step<'_>, is_bio: bool, sink: &mut dyn RowSink) -> io::Result<bool> {
        let found = self.newest(step, |entry| {
            let fits = entry.state == State::Waiting && entry.bytes == step.bytes;
            fits && !(is_bio && entry.has(seen::REQUEST))
        });
        let Some(index) = found else { return Ok(false) };
        let entry = self.open.at(index);
        let issues = self.devices[step.key.device as usize].shows_issue;
        if is_bio || !entry.has(seen::REQUEST) && !issues {
            self.end_bio(index, step, sink)?;
            return Ok(true);
        }
        self.tally.note(Counter::CompletionsOfUnissued, step.event, sink)?;
        self.end_unissued(index, step, sink)?;
        Ok(true)
    }

    /// Completes a waiting request whose issue was not recorded.
    pub(super) fn end_unissued(
        &mut self,
        index: u32,
        step: &Step<'_>,
        sink: &mut dyn RowSink,
    ) -> io::Result<()> {
        let request_id = self.request_id_of(index);
        self.give_bio(index, Some(request_id), None, sink)?;
        let entry = self.open.at_mut(index);
        entry.issued_bytes = entry.bytes;
        self.end_request(index, step, sink)
    }

    /// Handles a completion that fits no entry.
    #[cold]
    fn end_nothing(&mut self, step: &Step<'_>, sink: &mut dyn RowSink) -> io::Result<()> {
        if step.event.bytes.0 == 0 && matches!(step.op, Op::Write | Op::Flush) {
            let of_a_flush = step.event.op == Op::Write;
            if of_a_flush {
                return self.end_flush_sequence(step, sink);
            }
        }
        let counter = if step.time <= self.gap_echo {
            Counter::CompletionsAfterLostEvents
        } else {
            Counter::CompletionsWithoutIssue
        };
        if self.orphans.len() == ORPHANS_MAX {
            self.orphans.pop_front();
        }
        self.orphans.push_back(Orphan {
            key: step.key,
            op: step.op,
            bytes: step.bytes,
            time: step.time,
            error: step.event.error,
        });
        self.tally.note(counter, step.event, sink)
    }

    /// Handles an issue that comes after events with later times. The completion of its request may be among
    /// these events.
    #[cold]
    fn complete_late(&mut self, index: u32, step: &Step<'_>, sink: &mut dyn RowSink) -> io::Result<()> {
        let fits = |orphan: &Orphan| {
            orphan.key == step.key
                && orphan.op == step.op
                && orphan.bytes == step.bytes
                && orphan.time >= step.time
        };
        let Some(place) = self.orphans.iter().position(fits) else { return Ok(()) };
        let orphan = self.orphans.remove(place).expect("its place was found");
        self.tally.take_back(Counter::CompletionsWithoutIssue);
        join_error(&mut self.open.at_mut(index).error, orphan.error);
        self.give_request(index, Some(orphan.time), sink)
    }

    /// Handles `block_bio_complete`.
    pub(super) fn complete_bio(&mut self, step: &Step<'_>, sink: &mut dyn RowSink) -> io::Result<()> {
        self.devices[step.key.device as usize].shows_bio_completion = true;
        let mut passed = Ranked::default();
        for (index, entry) in self.open.chain(step.key) {
            let may = entry.op == step.op && entry.latest <= step.time && entry.bytes == step.bytes;
            if may && entry.state == State::Passed {
                passed.add(index);
            }
        }
        if passed.count > 0 {
            return self.end_passed(passed, step, sink);
        }
        if self.end_waiting(step, true, sink)? {
            return Ok(());
        }
        self.tally.note(Counter::BioCompletionsWithoutBio, step.event, sink)
    }

    /// Handles `block_io_done`, which is a completion only if the source shows no completions. This event has
    /// no size.
    pub(super) fn io_done(&mut self, step: &Step<'_>, sink: &mut dyn RowSink) -> io::Result<()> {
        let device = &mut self.devices[step.key.device as usize];
        device.shows_done = true;
        if device.shows_completion {
            return Ok(());
        }
        let oldest = |entries: &mut dyn Iterator<Item = (u32, &Entry)>| {
            entries.min_by_key(|(_, entry)| (entry.began(), entry.serial)).map(|(index, _)| index)
        };
        let may =
            |entry: &Entry, op, state| entry.op == op && entry.latest <= step.time && entry.state == state;
        let flying = |entry: &Entry| may(entry, step.op, State::Flying);
        let waiting = |entry: &Entry| may(entry, step.op, State::Waiting) && entry.has(seen::REQUEST);
        let index = oldest(&mut self.open.chain(step.key).filter(|(_, entry)| flying(entry)));
        if let Some(index) = index {
            return self.end_request(index, step, sink);
        }
        let held = |entry: &Entry| may(entry, step.op, State::Held) && is_recent(entry, step);
        let index = oldest(&mut self.open.chain(step.key).filter(|(_, entry)| held(entry)));
        if let Some(index) = index {
            return self.end_repeat(index, step, sink);
        }
        let index = oldest(&mut self.open.chain(step.key).filter(|(_, entry)| waiting(entry)));
        if let Some(index) = index {
            self.tally.add(Counter::CompletionsOfUnissued, 1);
            return self.end_unissued(index, step, sink);
        }
        // This completion ends the request of a flush bio. It looks like the completion of a write, because
        // the request no longer has its preflush flag.
        if step.op != Op::Write || !matches!(step.event.sector.0, 0 | u64::MAX) {
            return Ok(());
        }
        let key = Key { sector: FLUSH_SECTOR, ..step.key };
        let flush = |entry: &Entry| may(entry, Op::Flush, State::Waiting) && entry.has(seen::REQUEST);
        let index = oldest(&mut self.open.chain(key).filter(|(_, entry)| flush(entry)));
        match index {
            Some(index) => {
                self.tally.add(Counter::CompletionsOfUnissued, 1);
                self.end_unissued(index, step, sink)
            }
            None => Ok(()),
        }
    }
}

/// Returns whether a completion may belong to a repeat of a held request. The held request must have
/// completed in one part.
fn is_held_for(entry: &Entry, step: &Step<'_>) -> bool {
    entry.bytes == step.bytes && entry.issued_bytes == step.bytes && is_recent(entry, step)
}

/// Returns whether a held request ended so recently that its repeats may still complete.
fn is_recent(entry: &Entry, step: &Step<'_>) -> bool {
    step.time - entry.latest <= REPEAT_WITHIN
}

/// Keeps the first error among the errors of a request's parts; 0 means no error.
fn join_error(error: &mut Option<i32>, other: Option<i32>) {
    if error.is_none_or(|error| error == 0) {
        *error = other.or(*error);
    }
}
