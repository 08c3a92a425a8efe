//! A small persistent memory in front of a slow device. All writes go to the memory first. In section 5.2,
//! Kim et al. propose PCM for this memory.
//!
//! A write completes when its data are in the memory. When three quarters of the memory are in use, the
//! oldest pages are written to the slow device, together with adjacent pages. A page that was overwritten
//! several times is written once. A write waits only while the memory is full.

use std::collections::{BTreeMap, VecDeque};

use fonio_core::{ByteCount, Nanos, Op, SECTOR_BYTES, Sector, Timestamp};

use super::{Command, Counters, Device, Limits};

const PAGE: u64 = 4096;

/// Percentage of the memory in use at which eviction begins. A burst of writes therefore finds free pages.
const HIGH_PERCENT: u64 = 75;

/// A fast, persistent memory in front of a slow device.
pub struct Buffered {
    fast: Box<dyn Device>,
    slow: Box<dyn Device>,
    /// Pages of the slow device that are in the memory, with their positions in the eviction order.
    held: BTreeMap<u64, u64>,
    turns: VecDeque<(u64, u64)>,
    next_turn: u64,
    /// Completion times and page counts of the running writes to the slow device.
    leaving: VecDeque<(u64, u64)>,
    leaving_pages: u64,
    pages_max: u64,
    limits: Limits,
    last_submit: u64,
    busy_until: u64,
    busy: Nanos,
    host: (ByteCount, ByteCount),
}

impl Buffered {
    /// Puts `fast` in front of `slow`. The complete capacity of the fast device is used. Panics if the fast
    /// device has room for fewer than four pages of 4 KiB, or loses data in a power cut.
    pub fn new(fast: Box<dyn Device>, slow: Box<dyn Device>) -> Buffered {
        assert!(!fast.limits().volatile_cache, "the fast memory must be persistent");
        let pages_max = fast.limits().capacity.0 / PAGE;
        assert!(pages_max >= 4, "the fast memory must hold at least four pages");
        let limits = Limits { fua: true, volatile_cache: false, flush_blocks_all: false, ..*slow.limits() };
        Buffered {
            fast,
            slow,
            held: BTreeMap::new(),
            turns: VecDeque::new(),
            next_turn: 0,
            leaving: VecDeque::new(),
            leaving_pages: 0,
            pages_max,
            limits,
            last_submit: 0,
            busy_until: 0,
            busy: Nanos(0),
            host: (ByteCount(0), ByteCount(0)),
        }
    }

    /// Frees the pages whose writes to the slow device have completed by `now`.
    fn settle(&mut self, now: u64) {
        while let Some((done, pages)) = self.leaving.front().copied()
            && done <= now
        {
            self.leaving.pop_front();
            self.leaving_pages -= pages;
        }
    }

    /// Writes the oldest page and the pages adjacent to it to the slow device.
    fn evict(&mut self, now: Timestamp) {
        let first = loop {
            let Some((page, turn)) = self.turns.pop_front() else { return };
            if self.held.get(&page) == Some(&turn) {
                break page;
            }
        };
        let run_max = (self.slow.limits().command_max.0 / PAGE).max(1);
        let mut pages = 0;
        while pages < run_max && self.held.remove(&(first + pages)).is_some() {
            pages += 1;
        }
        let sector = Sector(first * PAGE / SECTOR_BYTES);
        let end = (self.limits.capacity.0 / SECTOR_BYTES).min(sector.0 + pages * PAGE / SECTOR_BYTES);
        let bytes = ByteCount::from_sectors(end - sector.0);
        let command = Command { op: Op::Write, sector, bytes, fua: false };
        let done = self.slow.submit(&command, now);
        // Writes to the slow device end in the order of eviction.
        let done = done.0.max(self.leaving.back().map_or(0, |(done, _)| *done));
        self.leaving.push_back((done, pages));
        self.leaving_pages += pages;
    }

    fn taken(&self) -> u64 {
        self.held.len() as u64 + self.leaving_pages
    }

    fn write(&mut self, first: u64, last: u64, command: &Command, now: Timestamp) -> u64 {
        let mut room_at = now.0;
        for page in first..=last {
            if let Some(turn) = self.held.get_mut(&page) {
                *turn = self.next_turn;
            } else {
                while self.held.len() as u64 * 100 >= self.pages_max * HIGH_PERCENT {
                    self.evict(now);
                }
                if self.taken() >= self.pages_max
                    && let Some((done, pages)) = self.leaving.pop_front()
                {
                    self.leaving_pages -= pages;
                    room_at = room_at.max(done);
                }
                self.held.insert(page, self.next_turn);
            }
            self.turns.push_back((page, self.next_turn));
            self.next_turn += 1;
        }
        // Overwritten pages leave stale entries in the eviction order.
        if self.turns.len() as u64 > 4 * self.pages_max {
            let held = &self.held;
            self.turns.retain(|(page, turn)| held.get(page) == Some(turn));
        }
        self.in_memory(Op::Write, command.bytes, now) + (room_at - now.0)
    }

    /// Executes a command in the memory and returns its completion time, which the address does not affect.
    fn in_memory(&mut self, op: Op, bytes: ByteCount, now: Timestamp) -> u64 {
        let bytes = ByteCount(bytes.0.min(self.fast.limits().capacity.0));
        self.fast.submit(&Command { op, sector: Sector(0), bytes, fua: false }, now).0
    }
}

impl Device for Buffered {
    fn submit(&mut self, command: &Command, now: Timestamp) -> Timestamp {
        super::assert_fits(command, now, self.last_submit, &self.limits);
        self.last_submit = now.0;
        self.settle(now.0);
        let start = command.sector.0 * SECTOR_BYTES;
        let (first, last) = (start / PAGE, (start + command.bytes.0.max(1) - 1) / PAGE);
        let done = match command.op {
            Op::Write | Op::ZoneAppend => {
                self.host.0 += command.bytes;
                self.write(first, last, command, now)
            }
            Op::Read => {
                self.host.1 += command.bytes;
                let held = self.held.range(first..=last).count() as u64;
                if held == last - first + 1 {
                    self.in_memory(Op::Read, command.bytes, now)
                } else {
                    self.slow.submit(command, now).0
                }
            }
            Op::Flush => self.in_memory(Op::Flush, ByteCount(0), now),
            _ => {
                for page in start.div_ceil(PAGE)..(start + command.bytes.0) / PAGE {
                    self.held.remove(&page);
                }
                self.slow.submit(command, now).0
            }
        };
        self.busy += Nanos(done.saturating_sub(now.0.max(self.busy_until)));
        self.busy_until = self.busy_until.max(done);
        Timestamp(done)
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn counters(&self) -> Counters {
        let (host_written, host_read) = self.host;
        Counters { host_written, host_read, busy: self.busy, ..self.slow.counters() }
    }

    fn reset_counters(&mut self) {
        self.slow.reset_counters();
        self.fast.reset_counters();
        self.host = (ByteCount(0), ByteCount(0));
        self.busy = Nanos(0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::profile::Profile;

    fn buffered(pages: u64) -> Buffered {
        let fast = Profile::shipped("pcm").unwrap().device(Some(ByteCount(pages * PAGE)), 1).unwrap();
        let slow = Profile::shipped("kingston").unwrap().device(Some(ByteCount(64 << 20)), 1).unwrap();
        Buffered::new(fast, slow)
    }

    fn write(page: u64) -> Command {
        Command { op: Op::Write, sector: Sector(page * 8), bytes: ByteCount(PAGE), fua: false }
    }

    #[test]
    fn writes_that_fit_take_the_time_of_the_memory() {
        let mut device = buffered(64);
        let mut now = Timestamp(0);
        for _ in 0..1000 {
            let page = 977 * (now.0 % 40);
            now = device.submit(&write(page % 40 * 100), now);
        }
        // Each write takes 64 lines of 64 bytes at 1 µs each, plus 1 µs for the command.
        assert_eq!(now.0, 1000 * 65_000);
        assert_eq!(device.slow.counters().host_written, ByteCount(0));
    }

    proptest! {
        #[test]
        fn pages_are_held_or_have_left(pages in prop::collection::vec(0u64..300, 1..400), size in 4u64..40) {
            let mut device = buffered(size);
            let mut now = Timestamp(0);
            for page in &pages {
                now = device.submit(&write(*page), now);
                prop_assert!(device.taken() <= size + device.slow.limits().command_max.0 / PAGE);
                prop_assert!(device.held.contains_key(page));
            }
            let distinct: std::collections::BTreeSet<_> = pages.iter().collect();
            let gone = device.slow.counters().host_written.0 / PAGE;
            prop_assert!(gone + device.held.len() as u64 >= distinct.len() as u64);
            prop_assert!(gone + device.held.len() as u64 <= pages.len() as u64);
        }
    }
}
