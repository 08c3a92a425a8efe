//! A flash device: an interface, a controller, dies behind channels, and a translation layer that chooses the
//! operations of the dies.
//!
//! The model keeps, for every resource, the time until which it is busy. A command uses, in this order: a
//! queue slot, the controller, the interface, and the dies with its data. Delays that keep no resource busy
//! (an interrupt, a map fetch in the background) are added to the completion time as latency.
//!
//! All times are nanoseconds of virtual time.

use fonio_core::{ByteCount, Nanos, Op, SECTOR_BYTES, Timestamp};

use super::dies::Dies;
use super::gather::Gather;
use super::parameters::nanos_for;
pub use super::parameters::{Buffer, Direction, Flash, Interface, MapReach, Slc};
use super::slots::Slots;
use super::streams::{ReadAhead, Streams};
use super::{Command, Counters, Device, Limits};
use crate::ftl::map_cache::{MapLevel, Piece};
use crate::ftl::{Census, Ftl, LogicalUnit, PhysicalPage, Work};

/// A flash device with translation layer `F`.
#[derive(Debug)]
pub struct FlashDevice<F> {
    flash: Flash,
    limits: Limits,
    ftl: F,
    work: Work,
    slots: Slots,
    controller_free: u64,
    bus_to_host_free: u64,
    bus_from_host_free: u64,
    dies: Dies,
    /// For each page in the write buffer, the time at which the page will be in flash, as a ring buffer.
    in_buffer: Vec<u64>,
    oldest_in_buffer: usize,
    gather: Gather,
    slc_used: u64,
    readers: Streams,
    writers: Streams,
    map: Vec<CachedMap>,
    /// The first unit that is not completely within the device's capacity.
    whole_units_end: LogicalUnit,
    /// The time at which all acknowledged data will be in flash.
    durable_at: u64,
    /// The end of the last flush that blocks all other commands.
    blocked_until: u64,
    last_submit: u64,
    busy_until: u64,
    counters: Counters,
    folded_pages: u64,
}

/// A level of the map that is partly in RAM.
#[derive(Debug)]
struct CachedMap {
    piece_bytes: u64,
    miss: Nanos,
    level: MapLevel,
}

#[derive(Clone, Copy, Debug)]
struct Finish {
    /// The time at which the command's slot and all other resources are free.
    at: u64,
    /// Delay from a command's completion until the host sees the completion.
    latency: u64,
}

/// The byte range of a command.
#[derive(Clone, Copy, Debug)]
struct Bytes {
    start: u64,
    end: u64,
}

impl Bytes {
    fn of(command: &Command) -> Bytes {
        let start = command.sector.0 * SECTOR_BYTES;
        Bytes { start, end: start + command.bytes.0 }
    }

    /// Returns the first covered unit and the first unit after the range.
    fn units(self, unit_bytes: u64) -> (LogicalUnit, LogicalUnit) {
        let first = LogicalUnit::new(self.start / unit_bytes);
        (first, LogicalUnit::new(self.end.div_ceil(unit_bytes)))
    }

    /// Returns the covered part of `unit`, relative to the unit's beginning.
    fn within(self, unit: LogicalUnit, unit_bytes: u64) -> Bytes {
        let unit_start = u64::from(unit.0) * unit_bytes;
        Bytes {
            start: self.start.max(unit_start) - unit_start,
            end: self.end.min(unit_start + unit_bytes) - unit_start,
        }
    }

    fn length(self) -> u64 {
        self.end - self.start
    }
}

impl<F: Ftl> FlashDevice<F> {
    /// Makes a device from a translation layer. Panics if the layer's geometry does not agree with `flash`
    /// and `limits`.
    pub fn new(flash: Flash, limits: Limits, ftl: F) -> FlashDevice<F> {
        let geometry = *ftl.geometry();
        assert_eq!(geometry.dies, flash.dies, "the translation layer and flash differ in dies");
        assert_eq!(
            u64::from(geometry.units_per_page) * flash.unit_bytes,
            flash.page_bytes,
            "the translation layer and flash differ in pages"
        );
        assert_eq!(
            limits.capacity.0.div_ceil(flash.unit_bytes),
            u64::from(geometry.logical_units),
            "the translation layer and flash differ in capacity"
        );
        let buffer = flash.buffer.unwrap_or(Buffer { pages: 0, gathered_units: 0 });
        let map = flash
            .map_levels
            .iter()
            .map(|reach| {
                let count = |pieces: u64| u32::try_from(pieces).expect("a map has fewer than 2³² segments");
                let pieces = count(limits.capacity.0.div_ceil(reach.piece_bytes));
                let held_max = count(reach.reach_bytes / reach.piece_bytes).max(1);
                let level = MapLevel::new(pieces, held_max);
                CachedMap { piece_bytes: reach.piece_bytes, miss: reach.miss, level }
            })
            .collect();
        FlashDevice {
            slots: Slots::new(limits.depth),
            dies: Dies::new(&flash),
            in_buffer: vec![0; buffer.pages as usize],
            oldest_in_buffer: 0,
            gather: Gather::new(buffer.gathered_units, flash.unit_bytes),
            readers: Streams::new(flash.interface.read.streams),
            writers: Streams::new(flash.interface.write.streams),
            map,
            whole_units_end: LogicalUnit::new(limits.capacity.0 / flash.unit_bytes),
            work: Work::default(),
            controller_free: 0,
            bus_to_host_free: 0,
            bus_from_host_free: 0,
            slc_used: 0,
            durable_at: 0,
            blocked_until: 0,
            last_submit: 0,
            busy_until: 0,
            counters: Counters::default(),
            folded_pages: 0,
            flash,
            limits,
            ftl,
        }
    }

    /// Returns the translation layer, for tests and statistics.
    pub fn ftl(&self) -> &F {
        &self.ftl
    }

    /// Returns the time to fetch the command's map segments that are not in RAM.
    fn map_misses(&mut self, command: &Command) -> u64 {
        let mut cost = 0;
        let Bytes { start, end } = Bytes::of(command);
        let last = end.max(start + 1) - 1;
        for map in &mut self.map {
            for piece in start / map.piece_bytes..=last / map.piece_bytes {
                if !map.level.touch(Piece::new(piece)) {
                    cost += map.miss.0;
                }
            }
        }
        cost
    }

    /// Occupies the controller for a read or a write. Returns the time at which the controller's work ends,
    /// the command's latency, and the stream that the command continues.
    fn control(&mut self, command: &Command, begin: u64) -> (u64, u64, Option<usize>) {
        let (direction, streams) = match command.op {
            Op::Read => (self.flash.interface.read, &mut self.readers),
            _ => (self.flash.interface.write, &mut self.writers),
        };
        let follows = streams.follow(command.sector.0, command.sector.after(command.bytes).0);
        let (mut controller, mut latency) = (direction.command, direction.latency);
        if follows.is_none() {
            controller += direction.random;
            latency += direction.random_latency;
        }
        let misses = self.map_misses(command);
        (self.take_controller(begin, controller.0 + misses), latency.0, follows)
    }

    fn read(&mut self, command: &Command, begin: u64) -> Finish {
        self.counters.host_read += command.bytes;
        let (ready, latency, follows) = self.control(command, begin);
        let unit_bytes = self.flash.unit_bytes;
        let bytes = Bytes::of(command);
        let (first, units_end) = bytes.units(unit_bytes);
        let mut ahead = follows.map_or_else(ReadAhead::default, |stream| self.readers.read_ahead(stream));
        let mut finish = ready;
        for unit in first.up_to(units_end) {
            if unit >= ahead.end {
                ahead.ready = self.fetch(unit, ready, &mut ahead.page).max(ahead.ready);
            }
            finish = self.send(bytes.within(unit, unit_bytes).length(), ahead.ready.max(ready));
        }
        if self.flash.read_ahead_bytes > 0
            && let Some(stream) = self.readers.newest()
        {
            ahead.end = ahead.end.max(units_end);
            // A new stream gets no read-ahead.
            if follows.is_some() {
                self.read_ahead(&mut ahead, units_end, ready);
            }
            self.readers.set_read_ahead(stream, ahead);
        }
        Finish { at: finish, latency }
    }

    /// Reads ahead for a reader whose next unit is `reader`.
    fn read_ahead(&mut self, ahead: &mut ReadAhead, reader: LogicalUnit, at: u64) {
        let distance = self.flash.read_ahead_bytes / self.flash.unit_bytes;
        let wanted = u64::from(reader.0) + distance;
        let end = LogicalUnit::new(wanted.min(u64::from(self.whole_units_end.0)));
        for unit in ahead.end.up_to(end) {
            ahead.ready = self.fetch(unit, at, &mut ahead.page).max(ahead.ready);
        }
        ahead.end = ahead.end.max(end);
    }

    /// Returns the time at which the unit's data have arrived in the controller. The page that was read
    /// last is already in the controller.
    fn fetch(&mut self, unit: LogicalUnit, at: u64, page_read: &mut Option<PhysicalPage>) -> u64 {
        if self.gather.holds(unit) {
            return at;
        }
        let Some(physical) = self.ftl.locate(unit) else { return at };
        let page = self.ftl.geometry().page(physical);
        if *page_read == Some(page) {
            return at;
        }
        *page_read = Some(page);
        self.dies.read(self.ftl.die_of(physical), at)
    }

    fn send(&mut self, bytes: u64, at: u64) -> u64 {
        let end = at.max(self.bus_to_host_free) + nanos_for(bytes, self.flash.interface.read.rate);
        self.bus_to_host_free = end;
        if !self.flash.interface.full_duplex {
            self.bus_from_host_free = end;
        }
        end
    }

    fn receive(&mut self, bytes: u64, at: u64) -> u64 {
        let end = at.max(self.bus_from_host_free) + nanos_for(bytes, self.flash.interface.write.rate);
        self.bus_from_host_free = end;
        if !self.flash.interface.full_duplex {
            self.bus_to_host_free = end;
        }
        end
    }

    fn write(&mut self, command: &Command, begin: u64) -> Finish {
        self.counters.host_written += command.bytes;
        let (ready, latency, _) = self.control(command, begin);
        let Interface { fua: fua_cost, programs_while_receiving, .. } = self.flash.interface;
        let unit_bytes = self.flash.unit_bytes;
        let bytes = Bytes::of(command);
        let mut arrived = if programs_while_receiving { ready } else { self.receive(command.bytes.0, ready) };
        let mut accepted = arrived;
        let mut durable = arrived;
        let (first, units_end) = bytes.units(unit_bytes);
        for unit in first.up_to(units_end) {
            let part = bytes.within(unit, unit_bytes);
            if programs_while_receiving {
                arrived = self.receive(part.length(), arrived);
            }
            accepted = accepted.max(arrived);
            durable = durable.max(self.write_unit(unit, part, arrived, &mut accepted));
        }
        if self.in_buffer.is_empty() || command.fua {
            if command.fua {
                // The write's data must reach flash before the write completes, so all gathered units are
                // programmed too.
                durable = durable.max(self.program_gathered(arrived, &mut accepted));
            }
            durable = durable.max(self.close_page(arrived, &mut accepted));
            let at = accepted.max(durable) + if command.fua { fua_cost.0 } else { 0 };
            return Finish { at, latency };
        }
        Finish { at: accepted, latency }
    }

    /// Gathers or programs a part of a unit that has arrived from the host. Returns the time at which the
    /// programmed data are in flash.
    fn write_unit(&mut self, unit: LogicalUnit, part: Bytes, arrived: u64, accepted: &mut u64) -> u64 {
        if part.length() == self.flash.unit_bytes {
            self.gather.forget(unit);
            return self.program(unit, arrived, accepted);
        }
        if !self.gather.is_used() {
            return self.fill_and_program(unit, arrived, accepted);
        }
        let mut durable = arrived;
        if let Some(evicted) = self.gather.make_room(unit) {
            durable = durable.max(self.fill_and_program(evicted, arrived, accepted));
        }
        if self.gather.add(unit, part.start, part.end) {
            durable = durable.max(self.program(unit, arrived, accepted));
        }
        durable
    }

    /// Reads the missing part of a unit from flash and programs the unit.
    fn fill_and_program(&mut self, unit: LogicalUnit, at: u64, accepted: &mut u64) -> u64 {
        let filled = match self.ftl.locate(unit) {
            Some(physical) => self.dies.read_for_program(self.ftl.die_of(physical), at),
            None => at,
        };
        self.program(unit, filled, accepted)
    }

    fn program(&mut self, unit: LogicalUnit, at: u64, accepted: &mut u64) -> u64 {
        self.ftl.write(unit, &mut self.work);
        self.do_work(at, accepted)
    }

    fn close_page(&mut self, at: u64, accepted: &mut u64) -> u64 {
        self.ftl.close_page(&mut self.work);
        self.do_work(at, accepted).max(self.durable_at)
    }

    fn program_gathered(&mut self, at: u64, accepted: &mut u64) -> u64 {
        let mut durable = at;
        while let Some(unit) = self.gather.take_oldest() {
            durable = durable.max(self.fill_and_program(unit, at, accepted));
        }
        durable
    }

    /// Executes the layer's work from `at` on. Returns the time at which the host's data are in flash. Sets
    /// `accepted` to the time at which the write buffer had room for these data.
    fn do_work(&mut self, at: u64, accepted: &mut u64) -> u64 {
        let mut durable = at;
        let mut from = at;
        for (index, step) in self.work.steps.iter().enumerate() {
            let mut slc_programs = 0;
            if let Some(slc) = &self.flash.slc
                && step.host_programs > 0
            {
                slc_programs = (slc.pages - self.slc_used).min(u64::from(step.host_programs));
                self.slc_used += slc_programs;
            }
            if step.host_programs > 0 && !self.in_buffer.is_empty() {
                // The new page waits until the oldest page has left the buffer.
                from = from.max(self.in_buffer[self.oldest_in_buffer]);
                *accepted = (*accepted).max(from);
            }
            let done = self.dies.work(step, slc_programs, from);
            if index < self.work.durable_after {
                durable = durable.max(done);
            }
            if step.host_programs > 0 && !self.in_buffer.is_empty() {
                self.in_buffer[self.oldest_in_buffer] = done;
                self.oldest_in_buffer = (self.oldest_in_buffer + 1) % self.in_buffer.len();
            }
        }
        self.work.clear();
        self.durable_at = self.durable_at.max(durable);
        durable
    }

    fn flush(&mut self, begin: u64) -> u64 {
        let ready = self.take_controller(begin, self.flash.interface.flush_command.0);
        let mut accepted = ready;
        let gathered = self.program_gathered(ready, &mut accepted);
        let closed = self.close_page(ready, &mut accepted);
        let finish = ready.max(gathered).max(closed);
        if self.limits.flush_blocks_all {
            self.blocked_until = self.blocked_until.max(finish);
        }
        finish
    }

    fn discard(&mut self, command: &Command, begin: u64) -> u64 {
        let Bytes { start, end } = Bytes::of(command);
        let first = LogicalUnit::new(start.div_ceil(self.flash.unit_bytes));
        // A unit that the discard covers only partly keeps its data.
        for unit in first.up_to(LogicalUnit::new(end / self.flash.unit_bytes)) {
            self.gather.forget(unit);
            self.ftl.discard(unit);
        }
        self.take_controller(begin, self.flash.interface.write.command.0)
    }

    fn take_controller(&mut self, at: u64, span: u64) -> u64 {
        self.controller_free = at.max(self.controller_free) + span;
        self.controller_free
    }

    /// Copies pages from the SLC cache to the rest of the flash during the idle time before `now`.
    fn fold_slc(&mut self, now: u64) {
        let Some(slc) = &self.flash.slc else { return };
        let idle = now.saturating_sub(self.busy_until.max(self.dies.free_at()));
        if self.slc_used == 0 || idle == 0 {
            return;
        }
        let page_time = (self.flash.t_read.0 + self.flash.t_program.0) / u64::from(self.flash.dies);
        let folded = (idle / page_time.max(1)).min(self.slc_used).min(slc.pages);
        self.slc_used -= folded;
        self.folded_pages += folded;
    }
}

impl<F: Ftl> Device for FlashDevice<F> {
    fn submit(&mut self, command: &Command, now: Timestamp) -> Timestamp {
        super::assert_fits(command, now, self.last_submit, &self.limits);
        self.last_submit = now.0;
        self.fold_slc(now.0);
        let begin = now.0.max(self.slots.first_free()).max(self.blocked_until);
        let at_once = |at| Finish { at, latency: 0 };
        let finish = match command.op {
            Op::Read => self.read(command, begin),
            Op::Write | Op::ZoneAppend => self.write(command, begin),
            Op::Flush => at_once(self.flush(begin)),
            Op::Discard | Op::SecureErase | Op::WriteZeroes => at_once(self.discard(command, begin)),
            Op::ZoneManagement | Op::Other => at_once(begin),
        };
        self.slots.take(finish.at);
        let completion = finish.at + finish.latency;
        self.counters.busy += Nanos(completion.saturating_sub(now.0.max(self.busy_until)));
        self.busy_until = self.busy_until.max(completion);
        Timestamp(completion)
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn counters(&self) -> Counters {
        let totals = &self.work.totals;
        let copied = totals.copy_programs + self.folded_pages;
        Counters {
            programmed: ByteCount((totals.host_programs + copied) * self.flash.page_bytes),
            erases: totals.erases,
            switch_merges: totals.switch_merges,
            partial_merges: totals.partial_merges,
            full_merges: totals.full_merges,
            pages_copied: copied,
            ..self.counters
        }
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
        self.work.totals = Default::default();
        self.folded_pages = 0;
    }

    fn census(&self) -> Option<Census> {
        Some(self.ftl.census())
    }

    fn erase_counts(&self) -> &[u32] {
        self.ftl.erase_counts()
    }
}
