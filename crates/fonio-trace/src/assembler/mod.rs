//! The assembler: combines block events from any source into requests, bios and links.
//!
//! # The life of an entry
//!
//! Every open bio or request is an *entry* under a device and a sector (`open.rs`):
//!
//! ```text
//!            Q, A (a bio), G, io_start, I (a request)
//!                          │
//!     A to another      waiting ──── D ────▶ flying ── C ──▶ row
//!     device: passed ◀─────┘                 │    ▲
//!                                            R    D
//!                                            ▼    │
//!                                           returned
//! ```
//!
//! A request that was issued again without a recorded requeue is *held*: it is kept after its completion,
//! until its row is emitted.
//!
//! When a bio is issued, its entry becomes its request's entry. The other bios of a request are not merged at
//! M or F, but when the request is issued: the request then takes all waiting bios that tile its range. This
//! rule gives the same result for back, front and request merges, does not depend on the meaning of
//! blktrace's M, and works if merges are not recorded. A discard can have several separate ranges, and their
//! merges are never recorded. A discard takes the waiting discard bios that were queued after it began and
//! that have no separate request, if the sizes of these bios add up exactly to the size of the discard.
//!
//! # Pairing
//!
//! Events are never paired by device and sector alone. A candidate is on the same device, begins at the same
//! sector, has the same op, and has no event later than the event to pair. The order of preference is:
//!
//! - *Completion*: a request in flight whose remaining size equals the completed size; else a request in
//!   flight with a larger remaining size (a partial completion: the request continues at a higher sector with
//!   a smaller size); else a returned request of equal size; else a bio that moved on to a device below; else
//!   a waiting entry. The waiting entry is a bio if the device or the source shows no issues, else a request
//!   whose issue was not recorded. If there is no candidate, the completion is unpaired.
//! - *Issue*: a returned request of equal size; else a waiting entry of equal size, inserted entries first;
//!   else the newest smaller waiting entry, which grew by merges; else the newest larger waiting bio, which
//!   must have been split; else a smaller returned request; else a new request without earlier events.
//! - *Requeue*: a request in flight of equal size; else a request in flight of any size.
//! - *G, io_start, I*: the newest waiting entry without an event of this kind. An entry of equal size is
//!   preferred; for I, a smaller entry is next, then a larger bio, which must have been split.
//!
//! Of several equal candidates, the candidate that began first is taken, and the choice is counted. The
//! exception is a candidate that is probably stale: the time from this candidate to the event is more than
//! four times the time from the next candidate to the event, and the product of these two times exceeds the
//! square of the typical time. The typical time is the running median over the unambiguous pairs of the
//! device and op, or 0 until there is a pair. So requests that are in flight together are paired first in,
//! first out, and a request whose completion was lost does not shift all later pairs of its sector. A skipped
//! candidate may still be paired later, if it is then the only candidate. When another equal request begins,
//! the skipped candidate is emitted without completion.
//!
//! # One request issued several times
//!
//! A busy driver requeues a request, and the kernel issues it again from another thread, often a worker. If
//! the source does not record requeues (atrace), an equal issue belongs to the same request if
//!
//! - an equal request is in flight and was issued at most a second ago, and
//! - no waiting entry shows that the issue begins a new request: there is no waiting bio, G or
//!   `block_io_start`. A waiting entry with only an I does not show this, because a requeued request is
//!   inserted again.
//!
//! The issue time and the submitting thread are those of the first issue; the time of the last issue is
//! `reissued`. Completions decide: the request is held after its completion. Another equal completion within
//! one second shows that the first repeated issue was a separate request. The requests are paired first in,
//! first out, and both events are counted, because the pairing is ambiguous. If an equal issue comes before
//! such a completion, or if no such completion comes within the second, there was only one request. On a
//! device without recorded completions, each issue is a request.
//!
//! # Requests that are never issued
//!
//! Requests that are never issued are emitted when the trace ends, with their size at insertion and the bios
//! that were merged into them (M, F). Requests in flight have a separate counter. A third counter is for
//! requests that were in flight longer than any other request and longer than one second, because the
//! completion of such a request was not recorded.
//!
//! # Flushes
//!
//! The kernel turns a bio with preflush or FUA into up to three steps: flush, data, flush. A flush request
//! (`FF`, `FN`, in old kernels `FWS`, all without data) takes every waiting flush bio of its device. The
//! thread of the flush request is the thread that queued the first of these bios. The parents of a flush
//! request in `links` are data requests that wait for their preflush, or that completed and need a flush
//! because they were issued without the requested FUA. The `cause_tid` of the flush request is the thread of
//! these data requests. The completion without data that ends this sequence (`WS 0 + 0`) belongs to no
//! request and is only counted. Some kernels show only this completion and not the completion of the flush
//! request itself. The assembler then uses the shown completion for the flush request, and counts this case.
//!
//! # Queue time
//!
//! `queued` is the time of the Q of the first bio. If Q is not shown, `block_io_start` or G replaces it: the
//! submitting thread emits these events after it could not merge the first bio and got a request for it. So
//! the queue time lacks only the wait for a free request. The event I cannot replace Q, because a request can
//! wait in a plug list or for a flush before I.
//!
//! # Stacked devices
//!
//! A remapped bio stays open until it completes; its parts on the devices below are separate bios. Bios of a
//! partition have no Q, so the remap gives the queue time. A remapped request (multipath) keeps its identity
//! on the device below: only the lowest device has requests.
//!
//! # Gaps
//!
//! If events were lost, every entry opened before the end of the gap is emitted without its later events.

mod flush;
mod give;
mod open;
#[cfg(any(test, feature = "oracle"))]
#[doc(hidden)]
pub mod oracle;
mod pick;
mod queue;
mod repeat;
mod service;
mod tally;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::io;

use fonio_core::event::LostEvents;
use fonio_core::{
    Batch, BlockEvent, ByteCount, DeviceId, EventKind, Flags, Nanos, Op, Request, RowSink, Sector, Timestamp,
};
use rustc_hash::FxHashMap;

use give::Cut;
use open::{FLUSH_SECTOR, Key, NEVER, NIL, Open};
use tally::{Counter, Tally};

/// Maximum number of stored completions without an issue. The issue can come later in the input although its
/// time is before the completion.
const ORPHANS_MAX: usize = 64;

/// The options of the assembler.
#[derive(Clone, Debug)]
pub struct AssemblerOptions {
    /// Time since its start after which an open request is emitted without a completion.
    pub horizon: Nanos,
    /// Maximum number of open requests and bios; if there are more, the oldest of them are emitted
    /// incomplete.
    pub open_max: usize,
    /// Maximum time by which an event can be late without breaking the order of the rows. The time passed to
    /// [`RowSink::settled`] stays this far behind the latest event.
    pub disorder: Nanos,
}

impl Default for AssemblerOptions {
    /// The horizon is ten minutes, longer than any driver's timeout with retries. The maximum number of open
    /// entries is a million. A fast device that completes nothing reaches this number in 10 s. The disorder
    /// is 100 ms. This is ten times the disorder observed in traces that were merged from per-processor
    /// buffers.
    fn default() -> AssemblerOptions {
        AssemblerOptions { horizon: Nanos(600_000_000_000), open_max: 1 << 20, disorder: Nanos(100_000_000) }
    }
}

/// Combines block events from any source into requests, bios and links.
///
/// Rows are emitted when they are complete, and therefore not in the order of the tables. Calls of
/// [`RowSink::settled`] inform the sink which rows are final.
#[derive(Debug)]
pub struct Assembler {
    options: AssemblerOptions,
    open: Open,
    devices: Vec<Device>,
    device_index: FxHashMap<DeviceId, u32>,
    /// The device of the previous event. It is nearly always also the device of the next event.
    last_device: (DeviceId, u32),
    tally: Tally,
    /// The last ids assigned to a request and a bio.
    request_id: u64,
    bio_id: u64,
    /// The time of the latest event.
    latest: Timestamp,
    /// The latest sort time among the requests that the source lists as complete requests.
    latest_whole: Option<Timestamp>,
    settled: Timestamp,
    gaps_passed: u64,
    /// Gaps that no event has reached yet, by end time.
    gaps: VecDeque<LostEvents>,
    next_gap: Timestamp,
    /// Until this time, a completion without issue is attributed to the last gap.
    gap_echo: Timestamp,
    orphans: VecDeque<Orphan>,
    /// Repeated issues, by the slot of the request's entry.
    repeats: FxHashMap<u32, repeat::Repeats>,
    /// Complete requests with repeats: completion time, slot and serial number.
    held: VecDeque<(Timestamp, u32, u64)>,
    /// Slots and serial numbers of front-merged bios, by end sector.
    fronts: FxHashMap<Key, (u32, u64)>,
    /// Keys that have too many entries; these entries are emitted after the current event has been handled.
    crowded: Vec<Key>,
    requeues_shown: bool,
    wants_bios: bool,
    /// Reused memory for sorting a batch.
    sorted: Vec<BlockEvent>,
    /// Reused memory for choosing among equal candidates.
    candidates: Vec<u32>,
}

/// The state of a device, except its open entries.
#[derive(Debug)]
struct Device {
    shows_queue: bool,
    shows_issue: bool,
    shows_completion: bool,
    /// Whether the device shows `block_io_done`.
    shows_done: bool,
    shows_bio_completion: bool,
    shows_flush_completion: bool,
    /// Number of gaps that had been found in the trace when the flushes, partly remapped bios and discards of
    /// this device were last cleared.
    gaps: u64,
    /// Number of bios that moved on to a device below.
    passed: u64,
    /// The running median of the service time for each op, and the running median of the time from queue to
    /// issue; 0 while a median is unknown.
    service: [Nanos; Op::ALL.len()],
    queue: Nanos,
    /// The longest service time of a request.
    service_max: Nanos,
    flush: flush::FlushState,
    /// Bios with a front part that moved on to the device below, while the remainder did not. Each is stored
    /// with the start of its remainder.
    partly_passed: Vec<queue::PartlyPassed>,
    /// Slots and serial numbers of waiting discard bios.
    discards: Vec<(u32, u64)>,
}

/// A completion for which no issue was recorded.
#[derive(Clone, Copy, Debug)]
struct Orphan {
    key: Key,
    op: Op,
    bytes: ByteCount,
    time: Timestamp,
    error: Option<i32>,
}

/// An event with the key under which it is paired.
#[derive(Clone, Copy, Debug)]
struct Step<'a> {
    event: &'a BlockEvent,
    key: Key,
    op: Op,
    bytes: ByteCount,
    time: Timestamp,
}

/// Returns the sector and op by which an event is paired.
fn canonical(event: &BlockEvent) -> (Sector, Op) {
    let flush = event.op == Op::Flush || event.op == Op::Write && event.flags.contains(Flags::PREFLUSH);
    if event.bytes.0 == 0 && flush {
        return (FLUSH_SECTOR, Op::Flush);
    }
    // A passthrough command has no sector: its issue shows sector 0, and its completion shows the largest
    // number.
    let is_hidden = event.op == Op::Other && event.sector.0 == u64::MAX;
    let sector = if is_hidden { Sector(0) } else { event.sector };
    (sector, event.op)
}

impl Assembler {
    /// Creates an assembler for a new trace.
    pub fn new(options: AssemblerOptions) -> Assembler {
        Assembler {
            options,
            open: Open::new(),
            devices: Vec::new(),
            device_index: FxHashMap::default(),
            last_device: (DeviceId::default(), NIL),
            tally: Tally::new(),
            request_id: 0,
            bio_id: 0,
            latest: Timestamp(0),
            latest_whole: None,
            settled: Timestamp(0),
            gaps_passed: 0,
            gaps: VecDeque::new(),
            next_gap: NEVER,
            gap_echo: Timestamp(0),
            orphans: VecDeque::new(),
            repeats: FxHashMap::default(),
            held: VecDeque::new(),
            fronts: FxHashMap::default(),
            crowded: Vec::new(),
            requeues_shown: false,
            wants_bios: true,
            sorted: Vec::new(),
            candidates: Vec::new(),
        }
    }

    /// Handles the events, complete requests and gaps of one batch; the caller must pass on the batch's other
    /// rows. Fails if the sink fails.
    pub fn batch(&mut self, batch: &Batch, sink: &mut dyn RowSink) -> io::Result<()> {
        self.wants_bios = sink.wants_bios();
        for gap in &batch.lost {
            self.announce_gap(*gap, sink)?;
        }
        for request in &batch.requests {
            self.whole(request, sink)?;
        }
        if batch.events.is_sorted_by_key(|event| event.time) {
            for event in &batch.events {
                self.event(event, sink)?;
            }
        } else {
            let mut sorted = std::mem::take(&mut self.sorted);
            sorted.clone_from(&batch.events);
            let descents = sorted.windows(2).filter(|pair| pair[0].time > pair[1].time).count();
            self.tally.add(Counter::EventsOutOfOrder, descents as u64);
            sorted.sort_by_key(|event| event.time);
            for event in &sorted {
                self.event(event, sink)?;
            }
            self.sorted = sorted;
        }
        self.expire(sink)?;
        self.settle(sink)
    }

    /// Ends the trace: emits the open entries and returns the counters by name. Fails if the sink fails.
    pub fn finish(mut self, sink: &mut dyn RowSink) -> io::Result<BTreeMap<String, u64>> {
        self.wants_bios = sink.wants_bios();
        while let Some(gap) = self.gaps.pop_front() {
            self.gap(&gap, sink)?;
        }
        while self.open.oldest() != NIL {
            self.cut(self.open.oldest(), Cut::End, sink)?;
        }
        assert!(self.open.len() == 0, "an open entry is not in the age list");
        self.tally.finish(sink)
    }

    /// Handles a request that the source lists as a complete request.
    fn whole(&mut self, request: &Request, sink: &mut dyn RowSink) -> io::Result<()> {
        let order = request.order_time();
        if order < self.settled {
            self.tally.add(Counter::EventsBeforeSettled, 1);
            return Ok(());
        }
        self.latest_whole = Some(self.latest_whole.map_or(order, |latest| latest.max(order)));
        let request_id = self.new_request_id();
        sink.request(&Request { request_id, ..request.clone() })
    }

    fn event(&mut self, event: &BlockEvent, sink: &mut dyn RowSink) -> io::Result<()> {
        let time = event.time.min(NEVER - Nanos(1));
        if time >= self.next_gap {
            self.reach_gaps(time, sink)?;
        }
        if time < self.latest {
            self.tally.note(Counter::EventsOutOfOrder, event, sink)?;
            if time < self.settled {
                return self.tally.note(Counter::EventsBeforeSettled, event, sink);
            }
        } else {
            self.latest = time;
        }
        let kind = event.kind;
        if matches!(
            kind,
            EventKind::Bounce | EventKind::SleepRequest | EventKind::Plug | EventKind::Unplug { .. }
        ) {
            return Ok(());
        }
        let device = self.device(event.device);
        let (sector, op) = canonical(event);
        let step = Step { event, key: Key { sector, device }, op, bytes: event.bytes, time };
        match kind {
            EventKind::BioQueue => self.queue(&step, sink),
            EventKind::GetRequest => self.allocate(&step, open::seen::GET, sink),
            EventKind::IoStart => self.allocate(&step, open::seen::START, sink),
            EventKind::BackMerge | EventKind::FrontMerge | EventKind::RequestMerge => {
                self.merge(&step);
                Ok(())
            }
            EventKind::Insert => self.insert(&step, sink),
            EventKind::Issue => self.issue(&step, sink),
            EventKind::Requeue => self.requeue(&step, sink),
            EventKind::Complete => self.complete(&step, sink),
            EventKind::BioComplete => self.complete_bio(&step, sink),
            EventKind::IoDone => self.io_done(&step, sink),
            EventKind::Split { new_sector } => self.split(&step, new_sector, sink),
            EventKind::Remap { from_device, from_sector } => {
                self.remap(&step, from_device, from_sector, sink)
            }
            EventKind::RequestRemap { from_device, from_sector } => {
                self.remap_request(&step, from_device, from_sector, sink)
            }
            _ => Ok(()),
        }?;
        if !self.crowded.is_empty() {
            self.thin_out(sink)?;
        }
        Ok(())
    }

    /// Returns the index of a device.
    #[inline(always)]
    fn device(&mut self, id: DeviceId) -> u32 {
        let (last, index) = self.last_device;
        if last == id && index != NIL { index } else { self.find_device(id) }
    }

    #[inline(never)]
    fn find_device(&mut self, id: DeviceId) -> u32 {
        let devices = &mut self.devices;
        let index = *self.device_index.entry(id).or_insert_with(|| {
            devices.push(Device::new());
            (devices.len() - 1) as u32
        });
        self.last_device = (id, index);
        let device = &mut self.devices[index as usize];
        if device.gaps < self.gaps_passed {
            device.gaps = self.gaps_passed;
            device.flush.clear();
            device.partly_passed.clear();
            device.discards.clear();
        }
        index
    }

    fn new_request_id(&mut self) -> u64 {
        self.request_id += 1;
        self.request_id
    }

    fn new_bio_id(&mut self) -> u64 {
        self.bio_id += 1;
        self.bio_id
    }

    /// Emits entries that have been open for longer than the horizon.
    fn expire(&mut self, sink: &mut dyn RowSink) -> io::Result<()> {
        self.give_held_long(sink)?;
        let limit = self.latest - self.options.horizon;
        loop {
            let oldest = self.open.oldest();
            if oldest == NIL || self.open.at(oldest).order >= limit {
                return Ok(());
            }
            self.cut(oldest, Cut::Horizon, sink)?;
        }
    }

    /// Reports to the sink the time before which no more rows will follow.
    fn settle(&mut self, sink: &mut dyn RowSink) -> io::Result<()> {
        let mut before = self.latest - self.options.disorder;
        if let Some(whole) = self.latest_whole {
            // Sources that list complete requests order them by completion, so a request can be late by its
            // own duration.
            let whole = whole - self.options.horizon;
            before = if self.latest == Timestamp(0) { whole } else { before.min(whole) };
        }
        let oldest = self.open.oldest();
        if oldest != NIL {
            before = before.min(self.open.at(oldest).order);
        }
        if before > self.settled {
            self.settled = before;
            sink.settled(before)?;
        }
        Ok(())
    }

    fn announce_gap(&mut self, gap: LostEvents, sink: &mut dyn RowSink) -> io::Result<()> {
        if gap.before <= self.latest {
            return self.gap(&gap, sink);
        }
        let place = self.gaps.partition_point(|other| other.before <= gap.before);
        self.gaps.insert(place, gap);
        self.next_gap = self.gaps[0].before;
        Ok(())
    }

    #[cold]
    fn reach_gaps(&mut self, time: Timestamp, sink: &mut dyn RowSink) -> io::Result<()> {
        while self.gaps.front().is_some_and(|gap| gap.before <= time) {
            let Some(gap) = self.gaps.pop_front() else { break };
            self.gap(&gap, sink)?;
        }
        self.next_gap = self.gaps.front().map_or(NEVER, |gap| gap.before);
        Ok(())
    }

    /// Handles a gap: emits every entry that was opened before the gap's end.
    fn gap(&mut self, gap: &LostEvents, sink: &mut dyn RowSink) -> io::Result<()> {
        self.tally.note_place(Counter::GapsOfLostEvents, sink, || {
            let count = gap.count.map_or("an unknown number".to_owned(), |count| count.to_string());
            format!("{count}, between {} ns and {} ns", gap.after.0, gap.before.0)
        })?;
        self.gap_echo = self.gap_echo.max(gap.before + self.options.horizon);
        self.orphans.clear();
        // Each device clears its state only at its next event, because clearing all devices at every gap
        // would take long.
        self.gaps_passed += 1;
        self.last_device.1 = NIL;
        loop {
            let oldest = self.open.oldest();
            if oldest == NIL || self.open.at(oldest).order >= gap.before {
                return Ok(());
            }
            self.cut(oldest, Cut::LostEvents, sink)?;
        }
    }
}

impl Device {
    /// Returns whether the device shows the end of any request.
    fn shows_end(&self) -> bool {
        self.shows_completion || self.shows_done
    }

    fn new() -> Device {
        Device {
            shows_queue: false,
            shows_issue: false,
            shows_completion: false,
            shows_done: false,
            shows_bio_completion: false,
            shows_flush_completion: false,
            gaps: 0,
            passed: 0,
            service: [Nanos(0); Op::ALL.len()],
            queue: Nanos(0),
            service_max: Nanos(0),
            flush: flush::FlushState::default(),
            partly_passed: Vec::new(),
            discards: Vec::new(),
        }
    }
}
