//! BAST: block-associative log blocks (Kim, Kim, Noh, Min, Cho 2002).
//!
//! The map has one entry for each logical block: a unit stands in the data block at its own offset. An overwrite cannot
//! go there; it is appended to a log block that belongs to this one data block. There are few log blocks. When all are
//! in use, one of them is merged with its data block to make room:
//!
//! - *switch*: the log block holds all units in order and becomes the data block; one erase.
//! - *partial*: the log block holds the beginning in order; the rest is copied behind it; one erase.
//! - *full*: the newest copy of every unit is copied to a fresh erase block; two erases.
//!
//! Random writes over more data blocks than there are log blocks merge log blocks that are nearly empty, and throughput
//! drops sharply.

use std::collections::VecDeque;

use super::address::{Number, Table};
use super::bits::{BlockBits, count_from, end_of};
use super::{
    Census, Die, EraseBlock, Ftl, Geometry, LogicalBlock, LogicalUnit, Offset, PhysicalUnit, Unwatched,
    Watch, Work, shuffled_blocks,
};

/// How the log block that makes room for another is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The log block that was not written for the longest time.
    Lru,
    /// The log block that has been in use for the longest time.
    Fifo,
}

/// The BAST layer.
#[derive(Debug)]
pub struct Bast<W = Unwatched> {
    geometry: Geometry,
    victim: Victim,
    /// The data block of each logical block; none before the first write.
    data: Table<LogicalBlock, Option<EraseBlock>>,
    /// Units that are in the data block at their own offset, though a newer copy may be in a log block.
    in_place: BlockBits<LogicalBlock>,
    /// First offset of each data block that can still be programmed: flash pages are programmed in order.
    next: Table<LogicalBlock, Offset>,
    /// The log block of each logical block.
    log_of: Table<LogicalBlock, Option<LogNumber>>,
    /// The log blocks in use. Once all are, a log block that is merged is used again at once.
    logs: Vec<Log>,
    logs_max: usize,
    /// Units of the owner that are in the log block, by log block.
    in_log: BlockBits<LogNumber>,
    free: VecDeque<EraseBlock>,
    total_blocks: u32,
    writes: u64,
    pub(crate) watch: W,
}

/// Names one of the log blocks in use.
#[derive(Clone, Copy, Debug)]
struct LogNumber(u32);

impl Number for LogNumber {
    fn to_raw(self) -> u32 {
        self.0
    }
    fn from_raw(raw: u32) -> LogNumber {
        LogNumber(raw)
    }
}

impl LogNumber {
    fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug)]
struct Log {
    block: EraseBlock,
    owner: LogicalBlock,
    /// First offset not yet programmed.
    next: Offset,
    /// Unit `n` of the owner is at offset `n`, for all units written so far.
    in_order: bool,
    /// The place of the newest copy of each unit of the owner; meaningful if [`Bast::in_log`] has the unit.
    newest: Table<Offset, Offset>,
    /// The count of writes when this log block was last written (or taken into use, for FIFO).
    used_at: u64,
}

impl<W: Watch> Bast<W> {
    /// A device never written, with `log_blocks` log blocks. The seed decides the order in which erase blocks are used.
    ///
    /// # Panics
    ///
    /// If there is no log block.
    pub fn new(geometry: Geometry, log_blocks: u32, victim: Victim, seed: u64, watch: W) -> Bast<W> {
        assert!(log_blocks > 0, "a log-block layer has a log block");
        let logical = geometry.logical_blocks();
        // One block more than data and logs together: a full merge needs a free block before it can erase.
        let total_blocks = logical + log_blocks + 1;
        Bast {
            geometry,
            victim,
            data: Table::zeroed(logical),
            in_place: BlockBits::new(logical, geometry.units_per_block),
            next: Table::zeroed(logical),
            log_of: Table::zeroed(logical),
            logs: Vec::new(),
            logs_max: log_blocks as usize,
            in_log: BlockBits::new(log_blocks, geometry.units_per_block),
            free: shuffled_blocks(total_blocks, seed),
            total_blocks,
            writes: 0,
            watch,
        }
    }

    fn take_free(&mut self) -> EraseBlock {
        self.free.pop_front().expect("data, logs and one spare block are all that is ever in use")
    }

    fn erase(&mut self, block: EraseBlock, work: &mut Work) {
        self.watch.erase(block);
        self.free.push_back(block);
        work.erase(self.geometry.die_of_block(block));
    }

    fn copy(&mut self, units: u32, to: EraseBlock, work: &mut Work) {
        work.copy(self.geometry.die_of_block(to), units.div_ceil(self.geometry.units_per_page));
    }

    /// The log block of `owner`, with room for one more unit.
    fn log_with_room(&mut self, owner: LogicalBlock, work: &mut Work) -> LogNumber {
        let log = match self.log_of.get(owner) {
            Some(log) if self.logs[log.index()].next < self.geometry.block_end() => return log,
            Some(full) => {
                self.merge(full, work);
                full
            }
            None if self.logs.len() < self.logs_max => return self.add_log(owner),
            None => {
                let oldest = self.oldest_log();
                self.merge(oldest, work);
                oldest
            }
        };
        let block = self.take_free();
        self.in_log.of_block_mut(log).fill(0);
        let reused = &mut self.logs[log.index()];
        (reused.block, reused.owner, reused.next, reused.in_order) = (block, owner, Offset(0), true);
        reused.used_at = self.writes;
        self.log_of.set(owner, Some(log));
        log
    }

    fn add_log(&mut self, owner: LogicalBlock) -> LogNumber {
        let log = LogNumber(self.logs.len() as u32);
        let block = self.take_free();
        self.logs.push(Log {
            block,
            owner,
            next: Offset(0),
            in_order: true,
            newest: Table::zeroed(self.geometry.units_per_block),
            used_at: self.writes,
        });
        self.log_of.set(owner, Some(log));
        log
    }

    fn oldest_log(&self) -> LogNumber {
        let (oldest, _) = self
            .logs
            .iter()
            .enumerate()
            .min_by_key(|(_, log)| log.used_at)
            .expect("all log blocks are in use, and there is at least one");
        LogNumber(oldest as u32)
    }

    /// Makes one data block of a log block and the data block of its owner. The log's number is then free to use.
    fn merge(&mut self, number: LogNumber, work: &mut Work) {
        let Log { block: log_block, owner, next, in_order, .. } = self.logs[number.index()];
        let old = self.data.get(owner).expect("the owner of a log block has a data block");
        if in_order {
            self.append_rest(owner, old, log_block, next, work);
        } else {
            self.copy_all(owner, number, work);
            self.erase(log_block, work);
        }
        self.erase(old, work);
        for (in_place, in_log) in
            self.in_place.of_block_mut(owner).iter_mut().zip(self.in_log.of_block(number))
        {
            *in_place |= in_log;
        }
        self.next.set(owner, end_of(self.in_place.of_block(owner)));
        self.log_of.set(owner, None);
    }

    /// A switch or partial merge: copies the units from `next` on from the old data block behind those in the log block.
    fn append_rest(
        &mut self,
        owner: LogicalBlock,
        old: EraseBlock,
        log_block: EraseBlock,
        next: Offset,
        work: &mut Work,
    ) {
        if next == self.geometry.block_end() {
            work.totals.switch_merges += 1;
        } else {
            work.totals.partial_merges += 1;
        }
        if W::ACTIVE {
            for offset in next.up_to(self.geometry.block_end()) {
                if self.in_place.contains(owner, offset) {
                    let from = self.geometry.physical_unit(old, offset);
                    self.watch.copy(from, self.geometry.physical_unit(log_block, offset));
                }
            }
        }
        let rest = count_from(self.in_place.of_block(owner), next);
        self.copy(rest, log_block, work);
        self.data.set(owner, Some(log_block));
    }

    /// A full merge: copies the newest copy of every unit to a fresh block.
    fn copy_all(&mut self, owner: LogicalBlock, log: LogNumber, work: &mut Work) {
        work.totals.full_merges += 1;
        let fresh = self.take_free();
        if W::ACTIVE {
            for offset in Offset(0).up_to(self.geometry.block_end()) {
                if let Some(from) = self.locate(self.geometry.logical_unit(owner, offset)) {
                    self.watch.copy(from, self.geometry.physical_unit(fresh, offset));
                }
            }
        }
        let (in_place, in_log) = (self.in_place.of_block(owner), self.in_log.of_block(log));
        let copied = in_place.iter().zip(in_log).map(|(place, log)| (place | log).count_ones()).sum();
        self.copy(copied, fresh, work);
        self.data.set(owner, Some(fresh));
    }
}

impl<W: Watch> Ftl for Bast<W> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn write(&mut self, unit: LogicalUnit, work: &mut Work) {
        assert!(unit.0 < self.geometry.logical_units, "unit {} is not on the device", unit.0);
        let (logical, offset) = self.geometry.logical_block(unit);
        self.writes += 1;
        let data = self.data.get(logical).unwrap_or_else(|| {
            let block = self.take_free();
            self.data.set(logical, Some(block));
            block
        });
        let (block, at) = if offset >= self.next.get(logical) {
            self.next.set(logical, offset.plus(1));
            self.in_place.insert(logical, offset);
            (data, offset)
        } else {
            let number = self.log_with_room(logical, work);
            self.in_log.insert(number, offset);
            let log = &mut self.logs[number.index()];
            let at = log.next;
            log.next = at.plus(1);
            log.in_order &= at == offset;
            log.newest.set(offset, at);
            if self.victim == Victim::Lru {
                log.used_at = self.writes;
            }
            (log.block, at)
        };
        self.watch.program(unit, self.geometry.physical_unit(block, at));
        work.program_host_page(self.geometry.die_of_block(block));
    }

    fn close_page(&mut self, _: &mut Work) {}

    /// Does nothing: cards of this kind do not record discarded units, and a merge copies them.
    fn discard(&mut self, _: LogicalUnit) {}

    fn locate(&self, unit: LogicalUnit) -> Option<PhysicalUnit> {
        let (logical, offset) = self.geometry.logical_block(unit);
        if let Some(number) = self.log_of.get(logical)
            && self.in_log.contains(number, offset)
        {
            let log = &self.logs[number.index()];
            return Some(self.geometry.physical_unit(log.block, log.newest.get(offset)));
        }
        let data = self.data.get(logical).filter(|_| self.in_place.contains(logical, offset))?;
        Some(self.geometry.physical_unit(data, offset))
    }

    fn die_of(&self, unit: PhysicalUnit) -> Die {
        let (block, _) = self.geometry.erase_block(unit);
        self.geometry.die_of_block(block)
    }

    fn census(&self) -> Census {
        Census {
            total: self.total_blocks,
            free: self.free.len() as u32,
            data: self.data.iter().filter(|(_, block)| block.is_some()).count() as u32,
            log: self.logs.len() as u32,
        }
    }
}
