//! BAST: block-associative log blocks (Kim, Kim, Noh, Min, Cho 2002).
//!
//! Overwrites are appended to log blocks. Each log block belongs to one data block (`super::data`). When all
//! log blocks are in use, one of them is merged with its data block to make room.
//!
//! If random writes cover more data blocks than there are log blocks, nearly empty log blocks are merged, and
//! throughput drops sharply.

use super::address::{Number, Table};
use super::bits::BlockBits;
use super::data::DataBlocks;
use super::{
    Census, EraseBlock, Ftl, Geometry, LogicalBlock, LogicalUnit, Offset, PhysicalUnit, Unwatched, Watch,
    Work,
};

/// The rule that chooses the log block to merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// Merges the least recently written log block.
    Lru,
    /// Merges the log block that has been in use longest.
    Fifo,
}

/// The BAST translation layer.
#[derive(Debug)]
pub struct Bast<W = Unwatched> {
    victim: Victim,
    pub(super) data: DataBlocks<W>,
    /// The log block of each logical block.
    log_of: Table<LogicalBlock, Option<LogNumber>>,
    /// The log blocks in use. When all log blocks are in use, a merged log block is reused at once.
    logs: Vec<Log>,
    logs_max: usize,
    /// The units of the owning logical block that each log block contains.
    in_log: BlockBits<LogNumber>,
    writes: u64,
}

/// The index of a log block in use.
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
    /// Whether every unit written so far is in order: unit `n` of the owner at offset `n`.
    in_order: bool,
    /// The offset of the newest copy of each of the owner's units; valid if [`Bast::in_log`] has the unit.
    newest: Table<Offset, Offset>,
    /// The number of writes that the layer had executed when this log block was last written or, for FIFO,
    /// first used.
    used_at: u64,
}

impl<W: Watch> Bast<W> {
    /// Makes an unwritten device with `log_blocks` log blocks. The seed determines the order in which erase
    /// blocks are used. Panics if `log_blocks` is 0.
    pub fn new(geometry: Geometry, log_blocks: u32, victim: Victim, seed: u64, watch: W) -> Bast<W> {
        assert!(log_blocks > 0, "BAST needs at least one log block");
        Bast {
            victim,
            data: DataBlocks::new(geometry, log_blocks, seed, watch),
            log_of: Table::zeroed(geometry.logical_blocks()),
            logs: Vec::new(),
            logs_max: log_blocks as usize,
            in_log: BlockBits::new(log_blocks, geometry.units_per_block),
            writes: 0,
        }
    }

    /// Returns the log block of `owner`, with room for one more unit.
    fn log_with_room(&mut self, owner: LogicalBlock, work: &mut Work) -> LogNumber {
        let log = match self.log_of.get(owner) {
            Some(log) if self.logs[log.index()].next < self.geometry().block_end() => return log,
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
        let block = self.data.take_free();
        self.in_log.of_block_mut(log).fill(0);
        let reused = &mut self.logs[log.index()];
        (reused.block, reused.owner, reused.next, reused.in_order) = (block, owner, Offset(0), true);
        reused.used_at = self.writes;
        self.log_of.set(owner, Some(log));
        log
    }

    fn add_log(&mut self, owner: LogicalBlock) -> LogNumber {
        let log = LogNumber(self.logs.len() as u32);
        self.logs.push(Log {
            block: self.data.take_free(),
            owner,
            next: Offset(0),
            in_order: true,
            newest: Table::zeroed(self.geometry().units_per_block),
            used_at: self.writes,
        });
        self.log_of.set(owner, Some(log));
        log
    }

    fn oldest_log(&self) -> LogNumber {
        let logs = self.logs.iter().enumerate();
        let (oldest, _) = logs.min_by_key(|(_, log)| log.used_at).expect("there is at least one log block");
        LogNumber(oldest as u32)
    }

    /// Merges a log block with its owner's data block. The log number is free afterwards.
    fn merge(&mut self, number: LogNumber, work: &mut Work) {
        let Log { block, owner, next, in_order, .. } = self.logs[number.index()];
        if in_order {
            self.data.append_rest(owner, block, next, work);
        } else {
            let fresh = self.data.take_free();
            if W::ACTIVE {
                let geometry = self.data.geometry;
                for offset in Offset(0).up_to(geometry.block_end()) {
                    if let Some(from) = self.locate(geometry.logical_unit(owner, offset)) {
                        self.data.watch.copy(from, geometry.physical_unit(fresh, offset));
                    }
                }
            }
            self.data.merge_full(owner, fresh, self.in_log.of_block(number), Some(block), work);
        }
        self.log_of.set(owner, None);
    }
}

impl<W: Watch> Ftl for Bast<W> {
    fn geometry(&self) -> &Geometry {
        &self.data.geometry
    }

    fn write(&mut self, unit: LogicalUnit, work: &mut Work) {
        assert!(unit.0 < self.geometry().logical_units, "unit {} is not on the device", unit.0);
        let (logical, offset) = self.geometry().logical_block(unit);
        self.writes += 1;
        let physical = self.data.write_in_place(logical, offset).unwrap_or_else(|| {
            let number = self.log_with_room(logical, work);
            self.in_log.insert(number, offset);
            let log = &mut self.logs[number.index()];
            let at = log.next;
            assert!(at < self.data.geometry.block_end() && log.owner == logical, "the block's log has room");
            log.next = at.plus(1);
            log.in_order &= at == offset;
            log.newest.set(offset, at);
            if self.victim == Victim::Lru {
                log.used_at = self.writes;
            }
            self.data.geometry.physical_unit(log.block, at)
        });
        self.data.watch.program(unit, physical);
        work.program_host_page(self.die_of(physical));
    }

    fn locate(&self, unit: LogicalUnit) -> Option<PhysicalUnit> {
        let (logical, offset) = self.geometry().logical_block(unit);
        if let Some(number) = self.log_of.get(logical)
            && self.in_log.contains(number, offset)
        {
            let log = &self.logs[number.index()];
            return Some(self.geometry().physical_unit(log.block, log.newest.get(offset)));
        }
        self.data.locate(logical, offset)
    }

    fn census(&self) -> Census {
        self.data.census(self.logs.len() as u32)
    }

    fn erase_counts(&self) -> &[u32] {
        self.data.watch.erase_counts()
    }
}
