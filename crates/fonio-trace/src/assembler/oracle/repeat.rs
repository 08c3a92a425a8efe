//! The oracle's rules for repeated issues, and for requests that are never issued.

use std::io;

use fonio_core::{ByteCount, EventKind, Op, Sector, Timestamp};

use super::super::repeat::{REPEAT_WITHIN, REPEATS_MAX};
use super::{FLUSH, Naive, Now, Stage, after, splittable};

impl Naive<'_> {
    /// Records an issue if it is a repeat.
    pub(super) fn is_repeat(&mut self, now: &Now<'_>, is_flush: bool) -> io::Result<bool> {
        let Some(place) = self.newest(now, |item| item.stage == Stage::Flying && item.left == now.bytes)
        else {
            return Ok(false);
        };
        let recent = now.time - self.items[place].began() <= REPEAT_WITHIN.0;
        if !recent || now.bytes == 0 && !is_flush {
            return Ok(false);
        }
        let equal = self.all(now, |item| item.stage == Stage::Waiting && item.left == now.bytes);
        let mut inserted = None;
        match equal.as_slice() {
            [] => {
                let found = self.newest(now, |item| {
                    let other = item.left < now.bytes || splittable(item, now.bytes);
                    item.stage == Stage::Waiting && other
                });
                if found.is_some() {
                    return Ok(false);
                }
            }
            &[again] => {
                let item = &self.items[again];
                let own = item.is_bio || item.got || item.started || item.row.request_id != 0;
                if own || is_flush {
                    return Ok(false);
                }
                inserted = item.row.inserted;
            }
            _ => return Ok(false),
        }
        let number = self.items[place].number;
        if let &[again] = equal.as_slice() {
            self.items.remove(again);
        }
        let mut place = self.place(number);
        if self.items[place].repeats.len() == REPEATS_MAX {
            let shown = self.shown(now.device);
            if shown.completion || shown.done {
                self.items[place].repeats.remove(0);
            } else {
                place = self.give_first(place, None)?;
            }
        }
        self.touch(place, now);
        let item = &mut self.items[place];
        if item.repeats.is_empty() {
            item.reissued_before = item.row.reissued;
        }
        item.row.reissued = Some(Timestamp(now.time));
        item.repeats.push((now.time, inserted, now.event.tid, now.event.cpu));
        Ok(true)
    }

    /// Handles a second completion, which shows that the first repeated issue was a separate request.
    pub(super) fn end_repeat(&mut self, place: usize, now: &Now<'_>) -> io::Result<()> {
        self.count("duplicate_issues");
        self.count("ambiguous_completions");
        let completed = self.items[place].latest;
        let place = self.give_first(place, Some(completed))?;
        self.end(place, now)
    }

    /// Emits a request without its repeats. The first repeat replaces the request. Returns the index of this
    /// repeat.
    pub(super) fn give_first(&mut self, place: usize, completed: Option<u64>) -> io::Result<usize> {
        let mut next = self.items[place].clone();
        let item = &mut self.items[place];
        item.repeats.clear();
        item.row.reissued = item.reissued_before;
        self.request(place, completed.map(|time| (time, None)))?;
        let (time, inserted, tid, cpu) = next.repeats.remove(0);
        self.request_id += 1;
        self.number += 1;
        next.number = self.number;
        next.order = time;
        next.aged = self.number;
        next.row.request_id = self.request_id;
        next.row.queued = None;
        next.row.inserted = inserted;
        next.row.issued = Some(Timestamp(time));
        next.row.reissued = next.repeats.last().map(|repeat| Timestamp(repeat.0));
        next.row.tid = tid;
        next.row.cpu = cpu;
        next.reissued_before = None;
        next.root = None;
        next.error = None;
        next.bio_id = 0;
        next.requeues = 0;
        next.waiters = 0;
        next.passed_over = false;
        (next.is_bio, next.was_queued, next.is_rest, next.merged) = (false, false, false, false);
        (next.got, next.started, next.inserted_seen) = (false, false, false);
        self.items.insert(place, next);
        Ok(place)
    }

    /// Assigns the repeats to the request itself.
    pub(super) fn unite(&mut self, place: usize) {
        for _ in std::mem::take(&mut self.items[place].repeats) {
            self.count("repeated_issues");
        }
    }

    pub(super) fn give_held_long(&mut self) -> io::Result<()> {
        while let Some(&(completed, number)) = self.held.first() {
            if self.latest.saturating_sub(completed) <= REPEAT_WITHIN.0 {
                break;
            }
            self.held.remove(0);
            let held = |item: &super::Item| item.number == number && item.stage == Stage::Held;
            if let Some(place) = self.items.iter().position(held) {
                self.request(place, Some((completed, None)))?;
            }
        }
        Ok(())
    }

    pub(super) fn merge(&mut self, now: &Now<'_>) {
        let found = self.newest(now, |item| {
            item.stage == Stage::Waiting && !item.merged && item.left > 0 && item.left <= now.bytes
        });
        let Some(place) = found else { return };
        let item = &mut self.items[place];
        item.merged = true;
        if now.event.kind == EventKind::FrontMerge {
            let front = (now.device, after(now.at, item.left), item.number);
            self.fronts.retain(|other| (other.0, other.1) != (front.0, front.1));
            self.fronts.push(front);
        }
    }

    /// Adds the bios merged into a request that was never issued.
    pub(super) fn gather_unissued(&mut self, head: u64) -> io::Result<()> {
        let item = self.items[self.place(head)].clone();
        let (device, op): (_, Op) = (item.row.device, item.row.op);
        let inserted = item.row.bytes.0;
        let mut first_bio = item.bio_id;
        let mut bytes = item.left;
        let mut at = after(item.at, bytes);
        while item.at != FLUSH && at != FLUSH {
            let next = self.items.iter().filter(|part| {
                let same = part.row.device == device && part.row.op == op && part.at == at;
                let free = part.stage == Stage::Waiting && part.row.request_id == 0 && part.number != head;
                let grown = part.merged || part.left <= inserted.saturating_sub(bytes);
                same && free && grown && part.left > 0
            });
            let Some(part) = next.max_by_key(|part| part.number) else { break };
            let (number, left) = (part.number, part.left);
            bytes = bytes.saturating_add(left);
            at = after(at, left);
            self.take_in(head, number, &mut first_bio)?;
        }
        bytes = bytes.max(inserted);
        let mut first = item.at;
        while let Some(found) = self.fronts.iter().position(|front| (front.0, front.1) == (device, first)) {
            let number = self.fronts.remove(found).2;
            let Some(front) = self.items.iter().find(|front| front.number == number) else { break };
            let free = front.stage == Stage::Waiting && front.row.op == op && front.row.request_id == 0;
            if !free || number == head {
                break;
            }
            bytes = bytes.saturating_add(front.left);
            first = front.at;
            self.take_in(head, number, &mut first_bio)?;
        }
        let place = self.place(head);
        let row = &mut self.items[place].row;
        row.bytes = ByteCount(bytes);
        row.sector = Some(Sector(first));
        Ok(())
    }
}
