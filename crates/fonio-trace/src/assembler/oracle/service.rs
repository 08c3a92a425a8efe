//! The oracle's rules for events from the issue to the completion.

use std::io;

use fonio_core::{ByteCount, Flags, LinkEnd, LinkKind, Op, Sector, Timestamp};

use super::super::repeat::REPEAT_WITHIN;
use super::{FLUSH, Item, Naive, Now, Stage, after, earlier, joined, move_median, splittable};

impl Naive<'_> {
    pub(super) fn issue(&mut self, now: &Now<'_>) -> io::Result<()> {
        self.shown(now.device).issue = true;
        let is_flush = now.at == FLUSH && now.op == Op::Flush;
        let exact = |item: &Item| item.left == now.bytes;
        let waiting = |item: &Item| item.stage == Stage::Waiting;
        let returned = self.all(now, |item| item.stage == Stage::Returned && exact(item));
        if let Some(&place) = returned.first() {
            if returned.len() > 1 {
                self.count("ambiguous_issues");
            }
            self.reissue(place, now);
            return Ok(());
        }
        while let Some(&place) = self.all(now, |item| item.stage == Stage::Held && exact(item)).first() {
            let completed = self.items[place].latest;
            self.request(place, Some((completed, None)))?;
        }
        if self.is_repeat(now, is_flush)? {
            return Ok(());
        }
        if is_flush {
            return self.issue_flush(now);
        }
        let mut equal = self.all(now, |item| waiting(item) && exact(item));
        if equal.iter().any(|&place| self.items[place].inserted_seen) {
            equal.retain(|&place| self.items[place].inserted_seen);
        }
        let numbers: Vec<u64> = equal.iter().map(|&place| self.items[place].number).collect();
        if !self.all(now, |item| item.stage == Stage::Flying && exact(item)).is_empty() {
            self.count("duplicate_issues");
            self.retire(now, true)?;
        }
        let equal: Vec<usize> = numbers.into_iter().map(|number| self.place(number)).collect();
        let head = match equal.len() {
            0 => {
                if let Some(place) = self.newest(now, |item| waiting(item) && item.left < now.bytes) {
                    Some(place)
                } else if let Some(place) =
                    self.newest(now, |item| waiting(item) && splittable(item, now.bytes))
                {
                    self.count("splits_inferred");
                    Some(self.cleave(place, now.bytes)?)
                } else if let Some(place) =
                    self.newest(now, |item| item.stage == Stage::Returned && item.left < now.bytes)
                {
                    self.reissue(place, now);
                    return Ok(());
                } else {
                    None
                }
            }
            1 => {
                if let Some(queued) = self.items[equal[0]].row.queued {
                    move_median(&mut self.shown(now.device).wait, now.time - queued.0);
                }
                Some(equal[0])
            }
            _ => {
                self.count("ambiguous_issues");
                let typical = self.shown(now.device).wait;
                Some(self.pick(equal, now.time, typical))
            }
        };
        let place = match head {
            Some(place) => self.gather(place, now)?,
            None => {
                let mut item = self.fresh(now);
                item.row.tid = now.event.tid;
                let number = self.add(item)?;
                self.place(number)
            }
        };
        let number = self.launch(place, now);
        if now.time < self.latest {
            let found = self.orphans.iter().position(|orphan| {
                (orphan.0, orphan.1, orphan.2, orphan.3) == (now.device, now.at, now.op, now.bytes)
                    && orphan.4 >= now.time
            });
            if let Some(found) = found {
                let orphan = self.orphans.remove(found);
                if let Some(count) = self.counts.get_mut("completions_without_issue") {
                    *count = count.saturating_sub(1);
                }
                let place = self.place(number);
                self.request(place, Some((orphan.4, orphan.5)))?;
            }
        }
        Ok(())
    }

    pub(super) fn gather(&mut self, head: usize, now: &Now<'_>) -> io::Result<usize> {
        let number = self.items[head].number;
        if self.sink.wants_bios() && self.items[head].is_bio || self.items[head].left < now.bytes {
            let request_id = self.request_id(head);
            self.bio(head, Some(request_id), None)?;
        }
        let mut left = now.bytes - self.items[head].left;
        let mut at = after(now.at, self.items[head].left);
        let mut first = self.items[head].bio_id;
        while left > 0 {
            let tile = Now { at, ..now.clone() };
            let Some(place) = self.newest(&tile, |item| {
                let fits = item.left > 0 && item.left <= left && item.at != FLUSH;
                item.stage == Stage::Waiting && fits && item.row.request_id == 0
            }) else {
                break;
            };
            left -= self.items[place].left;
            at = after(at, self.items[place].left);
            self.take_in(number, self.items[place].number, &mut first)?;
        }
        if left == 0 {
            return Ok(self.place(number));
        }
        let mut ranges = Vec::new();
        if let (Op::Discard, Some(began)) = (now.op, self.items[self.place(number)].row.queued) {
            for &range in &self.devices[&now.device].discards {
                let Some(item) = self.items.iter().find(|item| item.number == range) else { continue };
                let in_time = item.row.queued >= Some(began) && item.latest <= now.time;
                let free = item.stage == Stage::Waiting && !item.is_request() && item.row.request_id == 0;
                if range != number && in_time && free && item.left > 0 && item.left <= left {
                    ranges.push(range);
                    left -= item.left;
                }
            }
        }
        if left == 0 {
            self.count("discard_merges_inferred");
            for range in ranges {
                self.take_in(number, range, &mut first)?;
            }
        } else if self.shown(now.device).queue {
            self.count("merges_missing");
        }
        Ok(self.place(number))
    }

    /// Makes an item part of a request.
    pub(super) fn take_in(&mut self, head: u64, part: u64, first: &mut u64) -> io::Result<()> {
        let request_id = self.items[self.place(head)].row.request_id;
        let place = self.place(part);
        self.bio(place, Some(request_id), None)?;
        let part = self.items.remove(place);
        let head = self.place(head);
        let item = &mut self.items[head];
        let is_first = part.row.queued.is_some_and(|part| item.row.queued.is_none_or(|own| part < own));
        let mut merged = part.bio_id;
        if is_first {
            item.row.queued = part.row.queued;
            item.row.tid = part.row.tid.or(item.row.tid);
            item.row.cpu = part.row.cpu.or(item.row.cpu);
            item.root = part.root;
            std::mem::swap(&mut merged, first);
        }
        item.row.inserted = earlier(item.row.inserted, part.row.inserted);
        item.row.flags |= part.row.flags;
        item.row.flags_known |= part.row.flags_known;
        item.row.ioprio = item.row.ioprio.or(part.row.ioprio);
        if merged != 0 {
            self.link(LinkKind::Merge, (LinkEnd::Bio, merged), (LinkEnd::Request, request_id))?;
        }
        Ok(())
    }

    pub(super) fn launch(&mut self, place: usize, now: &Now<'_>) -> u64 {
        self.request_id(place);
        self.number += 1;
        let (number, fua) = (self.number, Flags::FUA);
        let item = &mut self.items[place];
        if item.row.flags.contains(fua)
            && now.event.flags_known.contains(fua)
            && !now.event.flags.contains(fua)
        {
            item.flush_after = true;
        }
        item.stage = Stage::Flying;
        item.passed_over = false;
        item.number = number;
        item.aged = number;
        item.order = now.time;
        item.left = now.bytes;
        item.row.issued = Some(Timestamp(now.time));
        item.row.bytes = ByteCount(now.bytes);
        item.row.sector = Some(Sector(now.at));
        item.row.cpu = now.event.cpu.or(item.row.cpu);
        item.row.tid = item.row.tid.or(now.event.tid);
        self.touch(place, now);
        number
    }

    pub(super) fn reissue(&mut self, place: usize, now: &Now<'_>) {
        self.number += 1;
        let number = self.number;
        self.touch(place, now);
        let item = &mut self.items[place];
        item.stage = Stage::Flying;
        item.number = number;
        item.row.reissued = Some(Timestamp(now.time));
        item.row.bytes = ByteCount(item.row.bytes.0 + now.bytes - item.left);
        item.left = now.bytes;
    }

    pub(super) fn requeue(&mut self, now: &Now<'_>) {
        self.requeues_shown = true;
        let mut places = self.all(now, |item| item.stage == Stage::Flying && item.left == now.bytes);
        if places.is_empty() {
            places = self.all(now, |item| item.stage == Stage::Flying);
        }
        let Some(place) = self.oldest_of(&places) else {
            return self.count("requeues_without_issue");
        };
        if places.len() > 1 {
            self.count("ambiguous_requeues");
        }
        self.unite(place);
        let item = &mut self.items[place];
        item.stage = Stage::Returned;
        item.requeues += 1;
        item.latest = now.time;
    }

    pub(super) fn complete(&mut self, now: &Now<'_>) -> io::Result<()> {
        let shown = self.shown(now.device);
        shown.completion = true;
        if now.at == FLUSH && now.event.op == Op::Flush {
            shown.flush_completion = true;
        }
        let typical = shown.service.get(&now.op).copied().unwrap_or(0);
        let exact = |item: &Item| item.left == now.bytes;
        let flying = |item: &Item| item.stage == Stage::Flying;
        let equal = self.all(now, |item| flying(item) && exact(item));
        if !equal.is_empty() {
            let place = if equal.len() == 1 {
                let service = now.time - self.items[equal[0]].began();
                let shown = self.shown(now.device);
                move_median(shown.service.entry(now.op).or_default(), service);
                shown.longest = shown.longest.max(service);
                equal[0]
            } else {
                self.count("ambiguous_completions");
                self.pick(equal, now.time, typical)
            };
            return self.end(place, now);
        }
        let held = self.all(now, |item| {
            let whole = exact(item) && item.row.bytes.0 == now.bytes;
            item.stage == Stage::Held && whole && now.time - item.latest <= REPEAT_WITHIN.0
        });
        if let Some(&place) = held.first() {
            return self.end_repeat(place, now);
        }
        let larger = self.all(now, |item| flying(item) && now.bytes > 0 && item.left > now.bytes);
        if !larger.is_empty() {
            let place = if larger.len() == 1 {
                larger[0]
            } else {
                self.count("ambiguous_completions");
                self.pick(larger, now.time, typical)
            };
            // The item becomes the last item at its new sector.
            let mut item = self.items.remove(place);
            item.error = joined(item.error, now.event.error);
            item.left -= now.bytes;
            item.latest = now.time;
            item.at = after(item.at, now.bytes);
            self.moved.push((item.row.device, item.at));
            self.items.push(item);
            return Ok(());
        }
        let returned = self.all(now, |item| item.stage == Stage::Returned && exact(item));
        if let Some(&place) = returned.first() {
            self.count("completions_of_requeued");
            return self.end(place, now);
        }
        let passed = self.all(now, |item| item.stage == Stage::Passed && exact(item));
        if !passed.is_empty() {
            return self.end_passed(&passed, now);
        }
        if self.end_waiting(now, false)? {
            return Ok(());
        }
        if let (Op::Other, Some(&place)) = (now.op, self.all(now, flying).first()) {
            return self.end(place, now);
        }
        if now.event.bytes.0 == 0 && now.event.op == Op::Write {
            return self.end_flush_sequence(now);
        }
        if self.orphans.len() == 64 {
            self.orphans.remove(0);
        }
        self.orphans.push((now.device, now.at, now.op, now.bytes, now.time, now.event.error));
        self.count(if now.time <= self.gap_echo {
            "completions_after_lost_events"
        } else {
            "completions_without_issue"
        });
        Ok(())
    }

    pub(super) fn end(&mut self, place: usize, now: &Now<'_>) -> io::Result<()> {
        if self.items[place].flush_after {
            let id = self.request_id(place);
            let item = &self.items[place];
            let after = (id, item.at, item.root.or(item.row.tid));
            let waiting = &mut self.shown(now.device).after_data;
            waiting.push(after);
            let excess = waiting.len().saturating_sub(256);
            waiting.drain(..excess);
        }
        let item = &mut self.items[place];
        if !item.repeats.is_empty() {
            item.error = joined(item.error, now.event.error);
            item.stage = Stage::Held;
            item.passed_over = false;
            item.latest = now.time;
            self.held.push((now.time, item.number));
            return Ok(());
        }
        self.request(place, Some((now.time, now.event.error)))
    }

    pub(super) fn end_passed(&mut self, passed: &[usize], now: &Now<'_>) -> io::Result<()> {
        if passed.len() > 1 {
            self.count("ambiguous_completions");
        }
        self.end_bio(passed[0], now)
    }

    pub(super) fn end_bio(&mut self, place: usize, now: &Now<'_>) -> io::Result<()> {
        if self.items[place].is_bio {
            self.shown(now.device).bio_completion = true;
        }
        self.bio(place, None, Some(now.time))?;
        self.items.remove(place);
        Ok(())
    }

    pub(super) fn end_waiting(&mut self, now: &Now<'_>, is_bio: bool) -> io::Result<bool> {
        let found = self.newest(now, |item| {
            item.stage == Stage::Waiting && item.left == now.bytes && !(is_bio && item.is_request())
        });
        let Some(place) = found else { return Ok(false) };
        if is_bio || !self.items[place].is_request() && !self.shown(now.device).issue {
            self.end_bio(place, now)?;
        } else {
            self.count("completions_of_unissued");
            self.end_unissued(place, now)?;
        }
        Ok(true)
    }

    pub(super) fn end_unissued(&mut self, place: usize, now: &Now<'_>) -> io::Result<()> {
        let request_id = self.request_id(place);
        self.bio(place, Some(request_id), None)?;
        self.items[place].row.bytes = ByteCount(self.items[place].left);
        self.end(place, now)
    }

    pub(super) fn complete_bio(&mut self, now: &Now<'_>) -> io::Result<()> {
        self.shown(now.device).bio_completion = true;
        let passed = self.all(now, |item| item.stage == Stage::Passed && item.left == now.bytes);
        if !passed.is_empty() {
            return self.end_passed(&passed, now);
        }
        if !self.end_waiting(now, true)? {
            self.count("bio_completions_without_bio");
        }
        Ok(())
    }

    pub(super) fn io_done(&mut self, now: &Now<'_>) -> io::Result<()> {
        let shown = self.shown(now.device);
        shown.done = true;
        if shown.completion {
            return Ok(());
        }
        let flying = self.all(now, |item| item.stage == Stage::Flying);
        if let Some(place) = self.oldest_of(&flying) {
            return self.end(place, now);
        }
        let held = |item: &Item| item.stage == Stage::Held && now.time - item.latest <= REPEAT_WITHIN.0;
        let held = self.all(now, held);
        if let Some(place) = self.oldest_of(&held) {
            return self.end_repeat(place, now);
        }
        let waiting = |item: &Item| item.stage == Stage::Waiting && item.is_request();
        let mut places = self.all(now, waiting);
        if places.is_empty() && now.op == Op::Write && matches!(now.event.sector.0, 0 | u64::MAX) {
            places = self.all(&Now { at: FLUSH, op: Op::Flush, ..now.clone() }, waiting);
        }
        if let Some(place) = self.oldest_of(&places) {
            self.count("completions_of_unissued");
            return self.end_unissued(place, now);
        }
        Ok(())
    }
}
