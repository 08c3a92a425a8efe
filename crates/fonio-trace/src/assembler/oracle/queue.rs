//! The oracle's rules for events before the issue.

use std::io;

use fonio_core::{ByteCount, DeviceId, EventKind, Flags, Link, LinkEnd, LinkKind, Timestamp};

use super::{FLUSH, Item, Naive, Now, Stage, Upper, after, earlier, splittable};

impl Naive<'_> {
    pub(super) fn queue(&mut self, now: &Now<'_>) -> io::Result<()> {
        self.shown(now.device).queue = true;
        let made = self.newest(now, |item| {
            item.stage == Stage::Waiting
                && item.left == now.bytes
                && item.is_bio
                && (!item.was_queued || item.is_rest)
        });
        let Some(place) = made else {
            let place = self.wait(now, true)?;
            self.items[place].was_queued = true;
            self.items[place].row.queued = Some(Timestamp(now.time));
            return Ok(());
        };
        self.touch(place, now);
        let item = &mut self.items[place];
        if !item.is_rest {
            item.row.queued = Some(Timestamp(now.time));
        }
        item.was_queued = true;
        item.is_rest = false;
        item.row.tid = now.event.tid.or(item.row.tid);
        item.row.cpu = now.event.cpu.or(item.row.cpu);
        Ok(())
    }

    /// Handles G, `block_io_start` and I.
    pub(super) fn allocate(&mut self, now: &Now<'_>) -> io::Result<()> {
        let kind = now.event.kind;
        let is_insert = kind == EventKind::Insert;
        let returned = |item: &Item| item.stage == Stage::Returned && item.left == now.bytes;
        let same = |item: &&Item| item.row.device == now.device && item.at == now.at && item.row.op == now.op;
        if is_insert && self.items.iter().filter(same).any(returned) {
            return Ok(());
        }
        let free = |item: &Item| {
            item.stage == Stage::Waiting
                && !match kind {
                    EventKind::GetRequest => item.got,
                    EventKind::IoStart => item.started,
                    _ => item.inserted_seen,
                }
        };
        let mut found = self.newest(now, |item| free(item) && item.left == now.bytes);
        if found.is_none() && is_insert {
            found = self.newest(now, |item| free(item) && item.left < now.bytes);
        }
        if found.is_none() {
            found = self.newest(now, |item| free(item) && splittable(item, now.bytes));
            if let Some(place) = found {
                self.count("splits_inferred");
                found = Some(self.cleave(place, now.bytes)?);
            }
        }
        let place = match found {
            Some(place) => {
                self.touch(place, now);
                place
            }
            None => {
                let place = self.wait(now, false)?;
                if !is_insert {
                    self.items[place].row.queued = Some(Timestamp(now.time));
                    self.count("queued_from_allocation");
                }
                place
            }
        };
        let item = &mut self.items[place];
        match kind {
            EventKind::GetRequest => item.got = true,
            EventKind::IoStart => item.started = true,
            _ => {
                item.inserted_seen = true;
                item.row.inserted = earlier(item.row.inserted, Some(Timestamp(now.time)));
                item.row.bytes = ByteCount(now.bytes);
            }
        }
        Ok(())
    }

    /// Shortens a bio to `front` bytes, and creates another bio for the remainder. Returns the index of the
    /// shortened bio.
    pub(super) fn cleave(&mut self, place: usize, front: u64) -> io::Result<usize> {
        self.bio_id += 1;
        let mut rest = self.items[place].clone();
        let parent = &mut self.items[place];
        parent.left = front;
        parent.row.bytes = ByteCount(front);
        let (parent_id, number) = (parent.bio_id, parent.number);
        rest.at = after(rest.at, front);
        rest.left -= front;
        rest.row.bytes = ByteCount(rest.left);
        rest.bio_id = self.bio_id;
        rest.row.request_id = 0;
        rest.row.inserted = None;
        rest.got = false;
        rest.started = false;
        rest.inserted_seen = false;
        rest.passed_over = false;
        rest.merged = false;
        rest.is_rest = true;
        self.link(LinkKind::Split, (LinkEnd::Bio, parent_id), (LinkEnd::Bio, self.bio_id))?;
        self.push(rest);
        Ok(self.place(number))
    }

    pub(super) fn link(
        &mut self,
        kind: LinkKind,
        (parent_table, parent): (LinkEnd, u64),
        (child_table, child): (LinkEnd, u64),
    ) -> io::Result<()> {
        if self.sink.wants_bios() {
            self.sink.link(&Link { kind, parent_table, parent, child_table, child })?;
        }
        Ok(())
    }

    pub(super) fn remap(&mut self, now: &Now<'_>, from_device: DeviceId, from_sector: u64) -> io::Result<()> {
        self.shown(from_device);
        let at = if now.at == FLUSH { FLUSH } else { from_sector };
        let from = Now { device: from_device, at, ..now.clone() };
        let (parent, root, flags, known) = match self.pass_on(&from)? {
            Some(parent) => parent,
            None if self.shown(from_device).queue => {
                self.count("remaps_without_bio");
                (0, None, Flags::NONE, Flags::NONE)
            }
            None => {
                let mut item = self.fresh(&from);
                item.is_bio = true;
                self.bio_id += 1;
                item.bio_id = self.bio_id;
                item.row.queued = Some(Timestamp(now.time));
                item.row.tid = now.event.tid;
                item.row.flags = now.event.flags;
                item.row.flags_known = now.event.flags_known;
                self.give_bio(&item, None, None)?;
                (self.bio_id, now.event.tid, now.event.flags, now.event.flags_known)
            }
        };
        let place = self.wait(now, true)?;
        let child = &mut self.items[place];
        child.row.queued = Some(Timestamp(now.time));
        child.root = root;
        child.row.flags |= flags;
        child.row.flags_known |= known;
        let child = child.bio_id;
        if parent != 0 {
            self.link(LinkKind::Remap, (LinkEnd::Bio, parent), (LinkEnd::Bio, child))?;
        }
        Ok(())
    }

    pub(super) fn pass_on(&mut self, from: &Now<'_>) -> io::Result<Option<Upper>> {
        let waiting = |item: &Item| item.is_bio && item.stage == Stage::Waiting;
        let found = self
            .newest(from, |item| waiting(item) && item.left == from.bytes)
            .or_else(|| {
                self.newest(from, |item| {
                    item.is_bio && item.stage == Stage::Passed && item.left == from.bytes
                })
            })
            .or_else(|| self.newest(from, |item| waiting(item) && item.left > from.bytes))
            .or_else(|| self.part(from));
        let Some(place) = found else { return Ok(None) };
        self.items[place].latest = from.time;
        let parent = self.items[place].clone();
        let facts = (parent.bio_id, parent.root.or(parent.row.tid), parent.row.flags, parent.row.flags_known);
        if parent.stage == Stage::Passed {
            return Ok(Some(facts));
        }
        self.items[place].stage = Stage::Passed;
        let shown = self.shown(from.device);
        if parent.left > from.bytes {
            if shown.parts.len() == 64 {
                shown.parts.remove(0);
            }
            let next = after(from.at, from.bytes);
            shown.parts.push((parent.number, next, from.op, parent.left - from.bytes));
        }
        shown.passed += 1;
        let hopeless = !shown.bio_completion && shown.passed > 1024;
        if !parent.was_queued && parent.left == from.bytes {
            self.bio(place, None, None)?;
            self.items.remove(place);
        } else if hopeless {
            let mut all: Vec<_> = self
                .items
                .iter()
                .filter(|item| item.stage == Stage::Passed && item.is_bio && item.row.device == from.device)
                .map(|item| (item.order, item.aged, item.number))
                .collect();
            all.sort_unstable();
            for (.., number) in all {
                self.cut(self.place(number), "")?;
            }
        }
        Ok(Some(facts))
    }

    pub(super) fn part(&mut self, from: &Now<'_>) -> Option<usize> {
        let items = &self.items;
        let parts = &mut self.devices.get_mut(&from.device)?.parts;
        parts.retain(|part| items.iter().any(|item| item.number == part.0 && item.stage == Stage::Passed));
        let part = parts
            .iter_mut()
            .rev()
            .find(|part| part.1 == from.at && part.2 == from.op && part.3 >= from.bytes)?;
        part.1 = after(from.at, from.bytes);
        part.3 -= from.bytes;
        let number = part.0;
        let empty = parts.iter().rposition(|part| part.0 == number && part.3 == 0);
        if let Some(empty) = empty {
            parts.remove(empty);
        }
        Some(self.place(number))
    }

    pub(super) fn remap_request(
        &mut self,
        now: &Now<'_>,
        from_device: DeviceId,
        from_sector: u64,
    ) -> io::Result<()> {
        self.shown(from_device);
        let at = if now.at == FLUSH { FLUSH } else { from_sector };
        let from = Now { device: from_device, at, ..now.clone() };
        let found = self.newest(&from, |item| item.stage == Stage::Flying && item.left == now.bytes);
        let Some(place) = found else {
            self.count("request_remaps_without_request");
            return Ok(());
        };
        self.unite(place);
        let parent = &mut self.items[place];
        parent.stage = Stage::Passed;
        parent.is_bio = false;
        parent.was_queued = false;
        parent.is_rest = false;
        parent.got = false;
        parent.started = false;
        parent.inserted_seen = false;
        parent.passed_over = false;
        parent.flush_after = false;
        let parent = parent.clone();
        let mut child = self.fresh(now);
        child.order = parent.row.queued.map_or(now.time, |queued| queued.0.min(now.time));
        child.row.request_id = parent.row.request_id;
        child.row.queued = parent.row.queued;
        child.row.inserted = parent.row.inserted;
        child.row.flags = parent.row.flags | now.event.flags;
        child.row.flags_known = parent.row.flags_known | now.event.flags_known;
        child.row.ioprio = parent.row.ioprio.or(now.event.ioprio);
        child.row.tid = parent.row.tid;
        child.row.cpu = parent.row.cpu;
        child.root = parent.root;
        child.got = true;
        self.add(child)?;
        Ok(())
    }
}
