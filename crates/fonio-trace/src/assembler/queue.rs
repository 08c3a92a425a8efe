//! Handles the events before the issue, by which bios are queued, remapped and split, and requests are
//! allocated and inserted.

use std::io;

use fonio_core::{
    ByteCount, DeviceId, EventKind, Flags, LinkEnd, LinkKind, Op, RowSink, SECTOR_BYTES, Sector,
};

use super::give::Cut;
use super::open::{Entry, FLUSH_SECTOR, Key, NIL, State, seen};
use super::tally::Counter;
use super::{Assembler, Step};

/// If this many bios of a device moved on to a device below and did not complete, the source probably shows
/// no bio completions, because no stacked device has this many bios in flight.
const PASSED_MAX: u64 = 1024;
/// Maximum number per device of stored bios that moved on to the device below only partly.
const PARTLY_PASSED_MAX: usize = 64;

/// Maximum number of stored front merges. They are needed for requests that are never issued.
const FRONTS_MAX: usize = 4096;

/// Maximum number of waiting discards stored per device. A command has at most 256 ranges (NVMe).
const DISCARDS_MAX: usize = 256;

/// A bio that moved on to the device below only partly, without a recorded split.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartlyPassed {
    index: u32,
    serial: u64,
    next_sector: Sector,
    op: Op,
    bytes_left: ByteCount,
}

/// The properties that a bio inherits from the remapped bio on the device above.
struct Upper {
    bio_id: u64,
    tid: Option<u32>,
    flags: Flags,
    flags_known: Flags,
}

impl Upper {
    fn of(entry: &Entry) -> Upper {
        Upper {
            bio_id: entry.bio_id,
            tid: entry.root_tid.or(entry.tid),
            flags: entry.flags,
            flags_known: entry.flags_known,
        }
    }
}

/// Adds to an entry the properties that every event has.
pub(super) fn absorb(entry: &mut Entry, step: &Step<'_>) {
    entry.flags |= step.event.flags;
    entry.flags_known |= step.event.flags_known;
    entry.ioprio = entry.ioprio.or(step.event.ioprio);
    entry.latest = entry.latest.max(step.time);
}

impl Assembler {
    /// Opens a waiting entry for an event.
    fn wait(&mut self, step: &Step<'_>, bits: u16, sink: &mut dyn RowSink) -> io::Result<u32> {
        let mut entry = Entry::new(step.key, step.event.device, step.op, step.bytes, step.time);
        entry.flags = step.event.flags;
        entry.flags_known = step.event.flags_known;
        entry.ioprio = step.event.ioprio;
        entry.tid = step.event.tid;
        entry.cpu = step.event.cpu;
        entry.seen = bits;
        if bits & seen::BIO != 0 {
            entry.bio_id = self.new_bio_id();
        }
        // Emit entries under the same key before opening the new entry, because emitted entries can absorb
        // open entries.
        if self.open.first(step.key) != NIL {
            self.retire(step.key, false, sink)?;
        }
        let index = self.open_entry(&entry, sink)?;
        if entry.flags.contains(Flags::PREFLUSH) && step.key.sector != FLUSH_SECTOR {
            let serial = self.open.at(index).serial;
            self.devices[step.key.device as usize].flush.expect_preflush(index, serial);
        }
        if bits & seen::BIO != 0 && step.op == Op::Discard {
            let serial = self.open.at(index).serial;
            let discards = &mut self.devices[step.key.device as usize].discards;
            if discards.len() == DISCARDS_MAX {
                discards.remove(0);
            }
            discards.push((index, serial));
        }
        Ok(index)
    }

    /// Emits the skipped entries under `key`, because an equal request begins.
    pub(super) fn retire(&mut self, key: Key, issued: bool, sink: &mut dyn RowSink) -> io::Result<()> {
        loop {
            let stale = self
                .open
                .chain(key)
                .find(|(_, entry)| entry.has(seen::PASSED_OVER) && (entry.state == State::Flying) == issued);
            let Some((index, _)) = stale else { return Ok(()) };
            self.cut(index, Cut::Superseded, sink)?;
        }
    }

    /// Handles Q: a bio is queued.
    pub(super) fn queue(&mut self, step: &Step<'_>, sink: &mut dyn RowSink) -> io::Result<()> {
        self.devices[step.key.device as usize].shows_queue = true;
        // A remap or split may already have created this bio. A bio from a split has the queue time of its
        // parent.
        let made = self.newest(step, |entry| {
            entry.state == State::Waiting
                && entry.bytes == step.bytes
                && entry.has(seen::BIO)
                && (!entry.has(seen::QUEUE) || entry.has(seen::REST))
        });
        if let Some(index) = made {
            let entry = self.open.at_mut(index);
            absorb(entry, step);
            if !entry.has(seen::REST) {
                entry.queued = step.time;
            }
            entry.seen = (entry.seen | seen::QUEUE) & !seen::REST;
            entry.tid = step.event.tid.or(entry.tid);
            entry.cpu = step.event.cpu.or(entry.cpu);
            return Ok(());
        }
        let index = self.wait(step, seen::BIO | seen::QUEUE, sink)?;
        self.open.at_mut(index).queued = step.time;
        Ok(())
    }

    /// Handles G or `block_io_start`: the first bio gets its request.
    pub(super) fn allocate(&mut self, step: &Step<'_>, bit: u16, sink: &mut dyn RowSink) -> io::Result<()> {
        if let Some(index) = self.find_waiting(step, bit, false, sink)? {
            let entry = self.open.at_mut(index);
            absorb(entry, step);
            entry.seen |= bit;
            return Ok(());
        }
        let index = self.wait(step, bit, sink)?;
        self.open.at_mut(index).queued = step.time;
        self.tally.add(Counter::QueuedFromAllocation, 1);
        Ok(())
    }

    /// Handles I: a request is inserted into the scheduler.
    pub(super) fn insert(&mut self, step: &Step<'_>, sink: &mut dyn RowSink) -> io::Result<()> {
        let returned = self.open.chain(step.key).any(|(_, entry)| {
            entry.state == State::Returned && entry.op == step.op && entry.bytes == step.bytes
        });
        if returned {
            return Ok(());
        }
        let index = match self.find_waiting(step, seen::INSERT, true, sink)? {
            Some(index) => {
                absorb(self.open.at_mut(index), step);
                index
            }
            None => self.wait(step, 0, sink)?,
        };
        let entry = self.open.at_mut(index);
        entry.seen |= seen::INSERT;
        entry.inserted = entry.inserted.min(step.time);
        entry.issued_bytes = step.bytes;
        Ok(())
    }

    /// Handles M, F, or a request merge. A recorded merge is used only if the request is never issued.
    pub(super) fn merge(&mut self, step: &Step<'_>) {
        let merged = self.newest(step, |entry| {
            let part = entry.bytes > ByteCount(0) && entry.bytes <= step.bytes;
            entry.state == State::Waiting && part && !entry.has(seen::MERGED)
        });
        let Some(index) = merged else { return };
        let entry = self.open.at_mut(index);
        entry.seen |= seen::MERGED;
        if step.event.kind == EventKind::FrontMerge {
            let key = Key { sector: step.key.sector.after(entry.bytes), ..step.key };
            let merged = (index, entry.serial);
            if self.fronts.len() == FRONTS_MAX {
                let open = &self.open;
                self.fronts.retain(|_, (index, serial)| open.get(*index, *serial).is_some());
                if self.fronts.len() == FRONTS_MAX {
                    self.fronts.clear();
                }
            }
            self.fronts.insert(key, merged);
        }
    }

    /// Makes a request from a waiting entry that was never issued, and from the bios that were merged into
    /// this entry.
    pub(super) fn gather_unissued(&mut self, head: u32, sink: &mut dyn RowSink) -> io::Result<()> {
        let Entry { key, op, latest: _, bytes: own, issued_bytes: inserted, .. } = *self.open.at(head);
        let mut first_bio = self.open.at(head).bio_id;
        let mut bytes = own;
        let mut sector = key.sector.after(own);
        while key.sector != FLUSH_SECTOR && sector != FLUSH_SECTOR {
            let next = self.open.chain(Key { sector, ..key }).filter(|&(index, entry)| {
                let free = entry.state == State::Waiting && entry.request_id == 0 && index != head;
                let grown = entry.has(seen::MERGED) || entry.bytes <= inserted - bytes;
                free && grown && entry.op == op && entry.bytes > ByteCount(0)
            });
            let Some((index, part)) = next.max_by_key(|(_, entry)| entry.serial) else { break };
            bytes += part.bytes;
            sector = sector.after(part.bytes);
            self.take_in(head, index, &mut first_bio, sink)?;
        }
        bytes = bytes.max(inserted);
        let mut first = key.sector;
        while let Some((index, serial)) = self.fronts.remove(&Key { sector: first, ..key }) {
            let Some(front) = self.open.get(index, serial) else { break };
            if front.state != State::Waiting || front.op != op || front.request_id != 0 || index == head {
                break;
            }
            bytes += front.bytes;
            first = front.key.sector;
            self.take_in(head, index, &mut first_bio, sink)?;
        }
        let entry = self.open.at_mut(head);
        entry.issued_bytes = bytes;
        entry.first_sector = first;
        Ok(())
    }

    /// Returns the newest entry to which an event may belong and that satisfies `fits`.
    pub(super) fn newest(&self, step: &Step<'_>, fits: impl Fn(&Entry) -> bool) -> Option<u32> {
        let mut newest: Option<(u32, u64)> = None;
        for (index, entry) in self.open.chain(step.key) {
            let may = entry.op == step.op && entry.latest <= step.time && fits(entry);
            if may && newest.is_none_or(|(_, serial)| serial < entry.serial) {
                newest = Some((index, entry.serial));
            }
        }
        newest.map(|(index, _)| index)
    }

    /// Returns the waiting entry to which a G, `block_io_start` or I belongs: an entry without an event of
    /// this kind.
    fn find_waiting(
        &mut self,
        step: &Step<'_>,
        bit: u16,
        may_have_grown: bool,
        sink: &mut dyn RowSink,
    ) -> io::Result<Option<u32>> {
        let open = |entry: &Entry| entry.state == State::Waiting && !entry.has(bit);
        let found = self.newest(step, |entry| open(entry) && entry.bytes == step.bytes);
        if found.is_some() {
            return Ok(found);
        }
        if may_have_grown {
            let smaller = self.newest(step, |entry| open(entry) && entry.bytes < step.bytes);
            if smaller.is_some() {
                return Ok(smaller);
            }
        }
        let larger = self.newest(step, |entry| open(entry) && is_larger_bio(entry, step.bytes));
        if let Some(index) = larger {
            self.tally.note(Counter::SplitsInferred, step.event, sink)?;
            self.split_entry(index, step.bytes, sink)?;
        }
        Ok(larger)
    }

    /// Handles X, which splits a bio: the front part ends where the remainder begins.
    pub(super) fn split(
        &mut self,
        step: &Step<'_>,
        new_sector: Sector,
        sink: &mut dyn RowSink,
    ) -> io::Result<()> {
        let front = ByteCount::from_sectors(new_sector.0.saturating_sub(step.key.sector.0));
        let parent = self.newest(step, |entry| entry.state == State::Waiting && is_larger_bio(entry, front));
        match parent {
            Some(index) if front > ByteCount(0) => {
                absorb(self.open.at_mut(index), step);
                self.split_entry(index, front, sink)
            }
            _ => self.tally.note(Counter::SplitsWithoutBio, step.event, sink),
        }
    }

    /// Shortens a waiting bio to its first `front` bytes and creates another bio for the remainder.
    pub(super) fn split_entry(
        &mut self,
        index: u32,
        front: ByteCount,
        sink: &mut dyn RowSink,
    ) -> io::Result<()> {
        let parent = *self.open.at(index);
        self.open.at_mut(index).bytes = front;
        self.open.at_mut(index).issued_bytes = front;
        let mut rest = parent;
        rest.key.sector = parent.key.sector.after(front);
        rest.first_sector = rest.key.sector;
        rest.bytes = parent.bytes - front;
        rest.issued_bytes = rest.bytes;
        rest.bio_id = self.new_bio_id();
        rest.request_id = 0;
        rest.inserted = super::NEVER;
        rest.seen = seen::BIO | seen::REST | parent.seen & seen::QUEUE;
        let link = ((LinkEnd::Bio, parent.bio_id), (LinkEnd::Bio, rest.bio_id));
        self.link(LinkKind::Split, link.0, link.1, sink)?;
        self.insert_entry(&rest);
        Ok(())
    }

    /// Handles A: the bio moves to this device from another.
    pub(super) fn remap(
        &mut self,
        step: &Step<'_>,
        from_device: DeviceId,
        from_sector: Sector,
        sink: &mut dyn RowSink,
    ) -> io::Result<()> {
        let upper = self.device(from_device);
        let sector = if step.key.sector == FLUSH_SECTOR { FLUSH_SECTOR } else { from_sector };
        let from = Step { key: Key { sector, device: upper }, ..*step };
        let above = match self.pass_on(&from, sink)? {
            Some(above) => Some(above),
            None if self.devices[upper as usize].shows_queue => {
                self.tally.note(Counter::RemapsWithoutBio, step.event, sink)?;
                None
            }
            None => Some(self.pass_through(&from, from_device, sink)?),
        };
        let index = self.wait(step, seen::BIO, sink)?;
        let child = self.open.at_mut(index);
        child.queued = step.time;
        let Some(above) = above else { return Ok(()) };
        child.root_tid = above.tid;
        child.flags |= above.flags;
        child.flags_known |= above.flags_known;
        let child = (LinkEnd::Bio, child.bio_id);
        self.link(LinkKind::Remap, (LinkEnd::Bio, above.bio_id), child, sink)
    }

    /// Handles a remap from a partition. Bios of a partition have no Q and move on immediately, so the
    /// remap creates their rows.
    fn pass_through(
        &mut self,
        from: &Step<'_>,
        device: DeviceId,
        sink: &mut dyn RowSink,
    ) -> io::Result<Upper> {
        let mut entry = Entry::new(from.key, device, from.op, from.bytes, from.time);
        absorb(&mut entry, from);
        entry.seen = seen::BIO;
        entry.bio_id = self.new_bio_id();
        entry.queued = from.time;
        entry.tid = from.event.tid;
        self.give_bio_row(&entry, None, None, sink)?;
        Ok(Upper::of(&entry))
    }

    /// Finds and marks the bio that moves on. Returns the bio's id, topmost thread and flags.
    fn pass_on(&mut self, from: &Step<'_>, sink: &mut dyn RowSink) -> io::Result<Option<Upper>> {
        let bio = |entry: &Entry, state| entry.has(seen::BIO) && entry.state == state;
        let found = self
            .newest(from, |entry| bio(entry, State::Waiting) && entry.bytes == from.bytes)
            .or_else(|| self.newest(from, |entry| bio(entry, State::Passed) && entry.bytes == from.bytes))
            .or_else(|| self.newest(from, |entry| bio(entry, State::Waiting) && entry.bytes > from.bytes))
            .or_else(|| self.partly_passed(from));
        let Some(index) = found else { return Ok(None) };
        let entry = self.open.at_mut(index);
        entry.latest = from.time;
        let parent = *entry;
        let above = Upper::of(&parent);
        if parent.state == State::Passed {
            return Ok(Some(above));
        }
        entry.state = State::Passed;
        let device = &mut self.devices[from.key.device as usize];
        if parent.bytes > from.bytes {
            if device.partly_passed.len() == PARTLY_PASSED_MAX {
                device.partly_passed.remove(0);
            }
            device.partly_passed.push(PartlyPassed {
                index,
                serial: parent.serial,
                next_sector: from.key.sector.after(from.bytes),
                op: from.op,
                bytes_left: parent.bytes - from.bytes,
            });
        }
        device.passed += 1;
        let no_completions = !device.shows_bio_completion;
        // A device that only remaps bios has no completions.
        if !parent.has(seen::QUEUE) && parent.bytes == from.bytes {
            self.give_bio(index, None, None, sink)?;
            self.open.remove(index);
        } else if no_completions && self.devices[from.key.device as usize].passed > PASSED_MAX {
            self.give_passed(from.key.device, sink)?;
        }
        Ok(Some(above))
    }

    /// Returns the bio with a part that begins at `from` and has not moved on yet.
    fn partly_passed(&mut self, from: &Step<'_>) -> Option<u32> {
        let open = &self.open;
        let waiting = &mut self.devices[from.key.device as usize].partly_passed;
        waiting.retain(|part| {
            open.get(part.index, part.serial).is_some_and(|entry| entry.state == State::Passed)
        });
        let place = waiting.iter().rposition(|part| {
            part.next_sector == from.key.sector && part.op == from.op && part.bytes_left >= from.bytes
        })?;
        let part = &mut waiting[place];
        let index = part.index;
        part.next_sector = from.key.sector.after(from.bytes);
        part.bytes_left -= from.bytes;
        if part.bytes_left == ByteCount(0) {
            waiting.remove(place);
        }
        Some(index)
    }

    /// Emits the bios of a device that moved on to a device below, because the source shows no bio
    /// completions.
    fn give_passed(&mut self, device: u32, sink: &mut dyn RowSink) -> io::Result<()> {
        let mut index = self.open.oldest();
        while index != NIL {
            let newer = self.open.next_newer(index);
            let entry = self.open.at(index);
            if entry.state == State::Passed && entry.key.device == device && entry.has(seen::BIO) {
                self.cut(index, Cut::End, sink)?;
            }
            index = newer;
        }
        Ok(())
    }

    /// Handles `block_rq_remap`: a request in flight on the device above moves to this device and keeps its
    /// id.
    pub(super) fn remap_request(
        &mut self,
        step: &Step<'_>,
        from_device: DeviceId,
        from_sector: Sector,
        sink: &mut dyn RowSink,
    ) -> io::Result<()> {
        let upper = self.device(from_device);
        let sector = if step.key.sector == FLUSH_SECTOR { FLUSH_SECTOR } else { from_sector };
        let from = Step { key: Key { sector, device: upper }, ..*step };
        let Some(index) =
            self.newest(&from, |entry| entry.state == State::Flying && entry.bytes == step.bytes)
        else {
            return self.tally.note(Counter::RequestRemapsWithoutRequest, step.event, sink);
        };
        if self.open.at(index).has(seen::REPEATED) {
            self.unite(index);
        }
        let parent = *self.open.at(index);
        let entry = self.open.at_mut(index);
        entry.state = State::Passed;
        entry.seen = 0;
        // If the request is never issued on this device, its row is ordered by its queue time.
        let mut child =
            Entry::new(step.key, step.event.device, step.op, step.bytes, parent.queued.min(step.time));
        absorb(&mut child, step);
        child.request_id = parent.request_id;
        child.queued = parent.queued;
        child.inserted = parent.inserted;
        child.flags |= parent.flags;
        child.flags_known |= parent.flags_known;
        child.ioprio = parent.ioprio.or(child.ioprio);
        child.tid = parent.tid;
        child.root_tid = parent.root_tid;
        child.cpu = parent.cpu;
        child.seen = seen::GET;
        self.open_entry(&child, sink)?;
        Ok(())
    }
}

/// Returns whether an entry is a bio of more than `bytes` and can be split after `bytes`.
pub(super) fn is_larger_bio(entry: &Entry, bytes: ByteCount) -> bool {
    // A part must end at a sector boundary.
    entry.has(seen::BIO)
        && !entry.has(seen::REQUEST)
        && entry.bytes > bytes
        && bytes > ByteCount(0)
        && bytes.0.is_multiple_of(SECTOR_BYTES)
}
