//! A flash device: an interface, a controller, dies behind channels, and a translation layer that says what to do on them.
//!
//! Every resource is a point in time until which it is taken. A command takes, in this order: a place among the commands
//! that the device accepts, the controller, the interface, and the dies that its data are on. What a command must wait
//! for without keeping others from working (an interrupt, a table fetched meanwhile) is latency behind all of these.

use fonio_core::{ByteCount, Nanos, Op, SECTOR_BYTES, Timestamp};

use super::dies::{Dies, ReadsWaitFor};
use super::gather::Gather;
use super::slots::Slots;
use super::streams::Streams;
use super::{Command, Counters, Device, Limits};
use crate::ftl::map_cache::MapLevel;
use crate::ftl::{Ftl, Work};

/// Times, rates and sizes of a flash device. All of them come from a profile (`crate::profile`).
#[derive(Clone, Debug)]
pub struct Flash {
    /// What the translation layer maps.
    pub unit_bytes: u64,
    /// What is programmed at once: one page of all planes.
    pub page_bytes: u64,
    /// Dies in all.
    pub dies: u32,
    /// Channels; die `n` hangs on channel `n mod channels`.
    pub channels: u32,
    /// A channel's rate in bytes a second; `None` where it is never what one waits for.
    pub channel_rate: Option<u64>,
    /// Time to read a page into its register.
    pub t_read: Nanos,
    /// Time to program a page.
    pub t_program: Nanos,
    /// Time to erase an erase block.
    pub t_erase: Nanos,
    /// What a read waits for on a busy die.
    pub reads_wait_for: ReadsWaitFor,
    /// The interface and the controller.
    pub interface: Interface,
    /// A write-back buffer in the controller's RAM.
    pub buffer: Option<Buffer>,
    /// Part of the flash used with one bit a cell, to take writes quickly.
    pub slc: Option<Slc>,
    /// How much is read ahead of a sequential reader.
    pub read_ahead_bytes: u64,
    /// Parts of the map that fit into RAM, nearest first.
    pub map_levels: Vec<MapReach>,
}

/// The interface and the controller.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Bytes a second to the host.
    pub read_rate: u64,
    /// Bytes a second from the host.
    pub write_rate: u64,
    /// Both directions at once.
    pub full_duplex: bool,
    /// The controller's time for a read.
    pub read_command: Nanos,
    /// The controller's time for a write.
    pub write_command: Nanos,
    /// The controller's time for a flush, beside what has to be programmed.
    pub flush_command: Nanos,
    /// What a write with forced unit access costs beside being programmed.
    pub fua: Nanos,
    /// More of the controller's time where a read continues no stream.
    pub random_read: Nanos,
    /// More of the controller's time where a write continues no stream.
    pub random_write: Nanos,
    /// What a read waits while others proceed.
    pub read_latency: Nanos,
    /// What a write waits while others proceed.
    pub write_latency: Nanos,
    /// More of that where a read continues no stream.
    pub random_read_latency: Nanos,
    /// More of that where a write continues no stream.
    pub random_write_latency: Nanos,
    /// Sequential readers that the controller can follow at once.
    pub read_streams: u32,
    /// Sequential writers that the controller can follow at once.
    pub write_streams: u32,
    /// Programming begins with the first page that has arrived, not with the last.
    pub programs_while_receiving: bool,
}

/// A write-back buffer.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    /// Pages on their way to flash that it can hold.
    pub pages: u32,
    /// Units that wait for the rest of their data. With none, a part of a unit is filled up from flash at once.
    pub gathered_units: u32,
}

/// A cache in SLC mode.
#[derive(Clone, Copy, Debug)]
pub struct Slc {
    /// Pages that it can hold.
    pub pages: u64,
    /// Time to program one of them.
    pub t_program: Nanos,
}

/// How much data the part of the map in RAM covers.
#[derive(Clone, Copy, Debug)]
pub struct MapReach {
    /// Data that one piece of the map covers.
    pub piece_bytes: u64,
    /// Data that all pieces in RAM cover.
    pub reach_bytes: u64,
    /// What a command pays for a piece that is not there.
    pub miss: Nanos,
}

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
    /// When each page in the write buffer will be in flash, as a ring.
    in_buffer: Vec<u64>,
    oldest_in_buffer: usize,
    gather: Gather,
    slc_used: u64,
    readers: Streams,
    writers: Streams,
    map: Vec<(u64, u64, MapLevel)>,
    /// All that was acknowledged is in flash from here on.
    durable_at: u64,
    /// A flush that blocks everything ends here.
    blocked_until: u64,
    last_submit: u64,
    busy_until: u64,
    counters: Counters,
    folded_pages: u64,
}

impl<F: Ftl> FlashDevice<F> {
    /// A device around a translation layer.
    ///
    /// # Panics
    ///
    /// Where the layer's geometry is not that of `flash`.
    pub fn new(flash: Flash, limits: Limits, ftl: F) -> FlashDevice<F> {
        let geometry = *ftl.geometry();
        assert_eq!(geometry.dies, flash.dies, "layer and flash have the same dies");
        assert_eq!(
            u64::from(geometry.units_per_page) * flash.unit_bytes,
            flash.page_bytes,
            "layer and flash have the same pages"
        );
        let buffer = flash.buffer.unwrap_or(Buffer { pages: 0, gathered_units: 0 });
        let map = flash
            .map_levels
            .iter()
            .map(|level| {
                let pieces = limits.capacity.0.div_ceil(level.piece_bytes);
                let held = (level.reach_bytes / level.piece_bytes).max(1);
                (level.piece_bytes, level.miss.0, MapLevel::new(pieces as usize, held as usize))
            })
            .collect();
        FlashDevice {
            slots: Slots::new(limits.depth),
            dies: Dies::new(&flash),
            in_buffer: vec![0; buffer.pages as usize],
            oldest_in_buffer: 0,
            gather: Gather::new(buffer.gathered_units, flash.unit_bytes),
            readers: Streams::new(flash.interface.read_streams),
            writers: Streams::new(flash.interface.write_streams),
            map,
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

    /// The translation layer, for tests and for figures about it.
    pub fn ftl(&self) -> &F {
        &self.ftl
    }

    /// What a command's pieces of the map cost where they are not in RAM.
    fn map_misses(&mut self, command: &Command) -> u64 {
        let mut cost = 0;
        let first = command.sector.0 * SECTOR_BYTES;
        let last = first + command.bytes.0.max(1) - 1;
        for (piece_bytes, miss, level) in &mut self.map {
            for piece in first / *piece_bytes..=last / *piece_bytes {
                if !level.touch(piece as usize) {
                    cost += *miss;
                }
            }
        }
        cost
    }

    fn read(&mut self, command: &Command, begin: u64) -> (u64, u64) {
        self.counters.host_read += command.bytes;
        let follows = self.readers.follow(command.sector.0, command.sector.after(command.bytes).0);
        let interface = &self.flash.interface;
        let (more, latency) = match follows {
            Some(_) => (0, interface.read_latency.0),
            None => (interface.random_read.0, interface.read_latency.0 + interface.random_read_latency.0),
        };
        let own = interface.read_command.0 + more;
        let misses = self.map_misses(command);
        let ready = self.take_controller(begin, own + misses);
        let unit_bytes = self.flash.unit_bytes;
        let start = command.sector.0 * SECTOR_BYTES;
        let end = start + command.bytes.0;
        let units_end =
            (self.limits.capacity.0 / unit_bytes).min(u64::from(self.ftl.geometry().logical_units));
        // What was read ahead is at hand once its read is over.
        let (mut at_hand_to, mut at_hand_at, mut page_read) = match follows {
            Some(stream) => self.readers.read_ahead(stream),
            None => (0, 0, u64::MAX),
        };
        let mut finish = ready;
        for unit in start / unit_bytes..end.div_ceil(unit_bytes) {
            let arrived = if unit < at_hand_to {
                at_hand_at
            } else {
                at_hand_at = self.fetch(unit, ready, &mut page_read).max(at_hand_at);
                at_hand_at
            };
            let bytes = end.min((unit + 1) * unit_bytes) - start.max(unit * unit_bytes);
            finish = self.send(bytes, arrived.max(ready));
        }
        let stream = self.readers.newest();
        if self.flash.read_ahead_bytes > 0
            && let Some(stream) = stream
        {
            let ahead_to = end.div_ceil(unit_bytes) + self.flash.read_ahead_bytes / unit_bytes;
            at_hand_to = at_hand_to.max(end.div_ceil(unit_bytes));
            // Nothing is read ahead for a reader that has only just begun.
            if follows.is_some() {
                while at_hand_to < ahead_to.min(units_end) {
                    at_hand_at = self.fetch(at_hand_to, ready, &mut page_read).max(at_hand_at);
                    at_hand_to += 1;
                }
            }
            self.readers.set_read_ahead(stream, (at_hand_to, at_hand_at, page_read));
        }
        (finish, latency)
    }

    /// When a unit is in the controller; a page that was just read need not be read again.
    fn fetch(&mut self, unit: u64, at: u64, page_read: &mut u64) -> u64 {
        if self.gather.holds(unit) {
            return at;
        }
        let Some(physical) = self.ftl.locate(unit as u32) else { return at };
        let page = u64::from(physical / self.ftl.geometry().units_per_page);
        if page == *page_read {
            return at;
        }
        *page_read = page;
        self.dies.read(self.ftl.die_of(physical), at)
    }

    fn send(&mut self, bytes: u64, at: u64) -> u64 {
        let end = at.max(self.bus_to_host_free) + nanos_for(bytes, self.flash.interface.read_rate);
        self.bus_to_host_free = end;
        if !self.flash.interface.full_duplex {
            self.bus_from_host_free = end;
        }
        end
    }

    fn receive(&mut self, bytes: u64, at: u64) -> u64 {
        let end = at.max(self.bus_from_host_free) + nanos_for(bytes, self.flash.interface.write_rate);
        self.bus_from_host_free = end;
        if !self.flash.interface.full_duplex {
            self.bus_to_host_free = end;
        }
        end
    }

    fn write(&mut self, command: &Command, begin: u64) -> (u64, u64) {
        self.counters.host_written += command.bytes;
        let follows = self.writers.follow(command.sector.0, command.sector.after(command.bytes).0);
        let interface = &self.flash.interface;
        let (more, latency) = match follows {
            Some(_) => (0, interface.write_latency.0),
            None => (interface.random_write.0, interface.write_latency.0 + interface.random_write_latency.0),
        };
        let own = interface.write_command.0 + more;
        let fua_cost = interface.fua.0;
        let cut_through = interface.programs_while_receiving;
        let misses = self.map_misses(command);
        let ready = self.take_controller(begin, own + misses);
        let unit_bytes = self.flash.unit_bytes;
        let start = command.sector.0 * SECTOR_BYTES;
        let end = start + command.bytes.0;
        let mut arrived = if cut_through { ready } else { self.receive(command.bytes.0, ready) };
        let mut accepted = arrived;
        let mut durable = arrived;
        for unit in start / unit_bytes..end.div_ceil(unit_bytes) {
            let from = start.max(unit * unit_bytes);
            let to = end.min((unit + 1) * unit_bytes);
            if cut_through {
                arrived = self.receive(to - from, arrived);
            }
            accepted = accepted.max(arrived);
            let complete = if to - from == unit_bytes {
                self.gather.forget(unit);
                true
            } else if self.gather.takes() {
                if let Some(evicted) = self.gather.make_room(unit) {
                    let done = self.fill_and_program(evicted, arrived, &mut accepted);
                    durable = durable.max(done);
                }
                self.gather.add(unit, from - unit * unit_bytes, to - unit * unit_bytes)
            } else {
                false
            };
            if complete {
                let done = self.program(unit, arrived, &mut accepted);
                durable = durable.max(done);
            } else if !self.gather.holds(unit) {
                let done = self.fill_and_program(unit, arrived, &mut accepted);
                durable = durable.max(done);
            }
        }
        if self.in_buffer.is_empty() || command.fua {
            if command.fua {
                // Its own data must be in flash; what else is gathered may go with it.
                durable = durable.max(self.program_gathered(arrived, &mut accepted));
            }
            durable = durable.max(self.close_page(arrived, &mut accepted));
            let finish = accepted.max(durable) + if command.fua { fua_cost } else { 0 };
            return (finish, latency);
        }
        (accepted, latency)
    }

    /// Reads what the host did not send of a unit, and programs it.
    fn fill_and_program(&mut self, unit: u64, at: u64, accepted: &mut u64) -> u64 {
        let filled = match self.ftl.locate(unit as u32) {
            Some(physical) => self.dies.read_for_program(self.ftl.die_of(physical), at),
            None => at,
        };
        self.program(unit, filled, accepted)
    }

    fn program(&mut self, unit: u64, at: u64, accepted: &mut u64) -> u64 {
        self.ftl.write(unit as u32, &mut self.work);
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

    /// Turns the layer's work into time, from `at` on. Moves `accepted` to when the write buffer had room.
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
                // The page needs a place in the buffer before it can be sent on.
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
        let unit_bytes = self.flash.unit_bytes;
        let start = (command.sector.0 * SECTOR_BYTES).div_ceil(unit_bytes);
        let end = (command.sector.0 * SECTOR_BYTES + command.bytes.0) / unit_bytes;
        for unit in start..end {
            self.gather.forget(unit);
            self.ftl.discard(unit as u32);
        }
        self.take_controller(begin, self.flash.interface.write_command.0)
    }

    fn take_controller(&mut self, at: u64, span: u64) -> u64 {
        self.controller_free = at.max(self.controller_free) + span;
        self.controller_free
    }

    /// While nothing was asked for, the SLC cache was emptied into the main part.
    fn fold_slc(&mut self, now: u64) {
        let Some(slc) = &self.flash.slc else { return };
        let idle = now.saturating_sub(self.busy_until.max(self.dies.free_at()));
        if self.slc_used == 0 || idle == 0 {
            return;
        }
        let a_page = (self.flash.t_read.0 + self.flash.t_program.0) / u64::from(self.flash.dies);
        let folded = (idle / a_page.max(1)).min(self.slc_used).min(slc.pages);
        self.slc_used -= folded;
        self.folded_pages += folded;
    }
}

/// The time that `bytes` take at `rate` bytes a second.
pub(super) fn nanos_for(bytes: u64, rate: u64) -> u64 {
    bytes * 1_000_000_000 / rate
}

impl<F: Ftl> Device for FlashDevice<F> {
    fn submit(&mut self, command: &Command, now: Timestamp) -> Timestamp {
        super::assert_fits(command, now, self.last_submit, &self.limits);
        self.last_submit = now.0;
        self.fold_slc(now.0);
        let (slot, free) = self.slots.first_free();
        let begin = now.0.max(free).max(self.blocked_until);
        let (finish, latency) = match command.op {
            Op::Read => self.read(command, begin),
            Op::Write | Op::ZoneAppend => self.write(command, begin),
            Op::Flush => (self.flush(begin), 0),
            Op::Discard | Op::SecureErase | Op::WriteZeroes => (self.discard(command, begin), 0),
            Op::ZoneManagement | Op::Other => (begin, 0),
        };
        self.slots.take(slot, finish);
        let completion = finish + latency;
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
}
