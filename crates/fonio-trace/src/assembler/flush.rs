//! The flush machinery: one device flush serves several waiters (`block/blk-flush.c`).

use std::io;

use fonio_core::{ByteCount, LinkEnd, LinkKind, Nanos, Op, RowSink, Sector};

use super::open::{Entry, FLUSH_SECTOR, Key, State, seen};
use super::pick::move_median;
use super::tally::Counter;
use super::{Assembler, Step};

/// Maximum number of data requests per device that are stored because they wait for a flush.
const PARENTS_MAX: usize = 256;

/// The data requests that wait for the next flush of a device, and the number of flush bios that have not
/// completed yet.
#[derive(Debug, Default)]
pub(super) struct FlushState {
    /// Slots and serial numbers of waiting data requests with preflush.
    before_data: Vec<(u32, u64)>,
    /// Completed data requests that needed FUA and were issued without FUA.
    after_data: Vec<AfterData>,
    /// Number of incomplete flush bios that are part of a flush request.
    ends_due: u64,
    /// Number of incomplete flush bios that are part of the flush whose completion was inferred last.
    ends_of_inferred: u64,
}

#[derive(Debug)]
struct AfterData {
    request_id: u64,
    sector: Sector,
    tid: Option<u32>,
}

impl FlushState {
    pub fn clear(&mut self) {
        *self = FlushState::default();
    }

    /// Records a data request that waits for its preflush.
    pub fn expect_preflush(&mut self, index: u32, serial: u64) {
        if self.before_data.len() == PARENTS_MAX {
            self.before_data.remove(0);
        }
        self.before_data.push((index, serial));
    }
}

impl Assembler {
    /// Handles D of a flush. The flush takes all waiting flush bios.
    pub(super) fn issue_flush(&mut self, step: &Step<'_>, sink: &mut dyn RowSink) -> io::Result<()> {
        self.collect(step, |entry| entry.state == State::Waiting);
        let mut waiters = std::mem::take(&mut self.candidates);
        // A flush request that came from the device above keeps its id.
        let open = &self.open;
        waiters.sort_unstable_by_key(|&index| {
            let entry = open.at(index);
            (entry.request_id == 0, entry.began(), entry.serial)
        });
        let head = waiters.first().copied();
        waiters.retain(|&index| Some(index) == head || open.at(index).request_id == 0);
        let in_flight = self.open.chain(step.key).any(|(_, entry)| entry.state == State::Flying);
        if in_flight {
            self.retire(step.key, true, sink)?;
        }
        let index = match waiters.first() {
            Some(&first) => first,
            None => self
                .open_entry(&Entry::new(step.key, step.event.device, step.op, step.bytes, step.time), sink)?,
        };
        let request_id = self.request_id_of(index);
        for &waiter in &waiters {
            let entry = *self.open.at(waiter);
            self.give_bio(waiter, Some(request_id), None, sink)?;
            if entry.has(seen::BIO) {
                let bio = (LinkEnd::Bio, entry.bio_id);
                self.link(LinkKind::Flush, bio, (LinkEnd::Request, request_id), sink)?;
            }
            if waiter != index {
                let request = self.open.at_mut(index);
                request.flags |= entry.flags;
                request.flags_known |= entry.flags_known;
                request.inserted = request.inserted.min(entry.inserted);
                self.open.remove(waiter);
            }
        }
        let flush = &mut self.devices[step.key.device as usize].flush;
        flush.ends_due += waiters.len() as u64;
        self.open.at_mut(index).waiters = waiters.len() as u32;
        self.candidates = waiters;
        self.adopt_parents(index, request_id, step, sink)?;
        self.launch(index, step);
        Ok(())
    }

    /// Links this flush to the data requests that need it.
    fn adopt_parents(
        &mut self,
        index: u32,
        request_id: u64,
        step: &Step<'_>,
        sink: &mut dyn RowSink,
    ) -> io::Result<()> {
        let device = step.key.device as usize;
        let mut cause = None;
        for (parent, serial) in std::mem::take(&mut self.devices[device].flush.before_data) {
            let waits = self.open.get(parent, serial).is_some_and(|entry| entry.state == State::Waiting);
            if !waits {
                continue;
            }
            let parent_id = self.request_id_of(parent);
            let entry = self.open.at(parent);
            cause = cause.or(entry.root_tid).or(entry.tid);
            let ends = ((LinkEnd::Request, parent_id), (LinkEnd::Request, request_id));
            self.link(LinkKind::Flush, ends.0, ends.1, sink)?;
        }
        for parent in std::mem::take(&mut self.devices[device].flush.after_data) {
            cause = cause.or(parent.tid);
            let ends = ((LinkEnd::Request, parent.request_id), (LinkEnd::Request, request_id));
            self.link(LinkKind::Flush, ends.0, ends.1, sink)?;
        }
        let flush = self.open.at_mut(index);
        flush.root_tid = flush.root_tid.or(flush.tid).or(cause);
        Ok(())
    }

    /// Handles the completion of a data request that is durable only after a flush.
    #[cold]
    pub(super) fn await_flush(&mut self, index: u32) {
        let request_id = self.request_id_of(index);
        let entry = self.open.at(index);
        let waiting = &mut self.devices[entry.key.device as usize].flush.after_data;
        if waiting.len() == PARENTS_MAX {
            waiting.remove(0);
        }
        let tid = entry.root_tid.or(entry.tid);
        waiting.push(AfterData { request_id, sector: entry.key.sector, tid });
    }

    /// Handles the C of a write without data. This event ends a flush sequence.
    pub(super) fn end_flush_sequence(&mut self, step: &Step<'_>, sink: &mut dyn RowSink) -> io::Result<()> {
        self.tally.add(Counter::FlushSequenceEnds, 1);
        let device = &mut self.devices[step.key.device as usize];
        // The sequence of the data request at this sector has ended. If no flush served this request, the
        // device has no volatile cache.
        device.flush.after_data.retain(|parent| parent.sector != step.event.sector);
        let of_a_waiter = device.flush.ends_due > 0;
        device.flush.ends_due = device.flush.ends_due.saturating_sub(1);
        let key = Key { sector: FLUSH_SECTOR, ..step.key };
        let flush = Step { key, op: Op::Flush, bytes: ByteCount(0), ..*step };
        if !device.shows_flush_completion {
            if device.flush.ends_of_inferred > 0 {
                device.flush.ends_of_inferred -= 1;
                return Ok(());
            }
            self.collect(&flush, |entry| entry.state == State::Flying);
            if !self.candidates.is_empty() {
                self.tally.add(Counter::FlushCompletionsInferred, 1);
                let index = self.pick(step.time, Nanos(0));
                let entry = self.open.at(index);
                let service = step.time - entry.began();
                let device = &mut self.devices[step.key.device as usize];
                device.flush.ends_of_inferred = u64::from(entry.waiters.saturating_sub(1));
                move_median(&mut device.service[Op::Flush as usize], service);
                return self.end_request(index, &flush, sink);
            }
        }
        // No flush request took this flush bio, so there was nothing to flush.
        if of_a_waiter || !matches!(step.event.sector.0, 0 | u64::MAX) {
            return Ok(());
        }
        self.collect(&flush, |entry| entry.state == State::Waiting);
        let Some(&index) = self.candidates.first() else { return Ok(()) };
        self.end_unissued(index, &flush, sink)
    }
}
