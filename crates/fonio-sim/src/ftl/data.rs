//! The data blocks and free erase blocks of the translation layers with log blocks.
//!
//! The map has only one entry for each logical block, because each unit is at its own offset in the data
//! block. Flash pages are programmed in order, so overwrites go to log blocks. A merge combines a log block
//! and a data block into one data block:
//!
//! - *switch*: the log block has all units in order and becomes the data block; one erase.
//! - *partial*: the log block has the first units in order, and the rest is copied after them; one erase.
//! - *full*: the newest copy of every unit is copied to a fresh erase block; two erases.

use std::collections::VecDeque;

use super::address::Table;
use super::bits::{BlockBits, count_from, end_of};
use super::{Census, EraseBlock, Geometry, LogicalBlock, Offset, PhysicalUnit, Watch, Work, shuffled_blocks};

#[derive(Debug)]
pub(super) struct DataBlocks<W> {
    pub(super) geometry: Geometry,
    /// The data block of each logical block; `None` before the first write.
    blocks: Table<LogicalBlock, Option<EraseBlock>>,
    /// The units that have a copy at their own offset in the data block. A newer copy may be in a log
    /// block.
    in_place: BlockBits<LogicalBlock>,
    /// The first programmable offset of each data block.
    next: Table<LogicalBlock, Offset>,
    free: VecDeque<EraseBlock>,
    total_blocks: u32,
    pub(super) watch: W,
}

impl<W: Watch> DataBlocks<W> {
    /// Makes an unwritten device with erase blocks for `log_blocks` logs. The seed determines the order in
    /// which erase blocks are used.
    pub(super) fn new(geometry: Geometry, log_blocks: u32, seed: u64, watch: W) -> DataBlocks<W> {
        let logical = geometry.logical_blocks();
        // A full merge needs one more block than the data and log blocks, because the merge erases blocks
        // only at its end.
        let total_blocks = logical + log_blocks + 1;
        DataBlocks {
            geometry,
            blocks: Table::zeroed(logical),
            in_place: BlockBits::new(logical, geometry.units_per_block),
            next: Table::zeroed(logical),
            free: shuffled_blocks(total_blocks, seed),
            total_blocks,
            watch,
        }
    }

    pub(super) fn take_free(&mut self) -> EraseBlock {
        self.free.pop_front().expect("only data, log and one spare block are in use")
    }

    pub(super) fn erase(&mut self, block: EraseBlock, work: &mut Work) {
        self.watch.erase(block);
        self.free.push_back(block);
        assert!(self.free.len() < self.total_blocks as usize, "an erase block is freed only once");
        work.erase(self.geometry.die_of_block(block));
    }

    /// Programs a unit at its own offset in the data block, if this offset can still be programmed.
    pub(super) fn write_in_place(&mut self, owner: LogicalBlock, offset: Offset) -> Option<PhysicalUnit> {
        let data = self.blocks.get(owner).unwrap_or_else(|| {
            let block = self.take_free();
            self.blocks.set(owner, Some(block));
            block
        });
        if offset < self.next.get(owner) {
            return None;
        }
        self.next.set(owner, offset.plus(1));
        self.in_place.insert(owner, offset);
        Some(self.geometry.physical_unit(data, offset))
    }

    /// Returns the address of a unit in its data block.
    pub(super) fn locate(&self, owner: LogicalBlock, offset: Offset) -> Option<PhysicalUnit> {
        let data = self.blocks.get(owner).filter(|_| self.in_place.contains(owner, offset))?;
        Some(self.geometry.physical_unit(data, offset))
    }

    /// Executes a switch or partial merge. `log` has the units before `next` in order; the units from `next`
    /// on are copied from the data block, and `log` becomes the data block.
    pub(super) fn append_rest(
        &mut self,
        owner: LogicalBlock,
        log: EraseBlock,
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
                if let Some(from) = self.locate(owner, offset) {
                    self.watch.copy(from, self.geometry.physical_unit(log, offset));
                }
            }
        }
        self.copy(count_from(self.in_place.of_block(owner), next), log, work);
        self.insert_up_to(owner, next);
        self.replace(owner, log, work);
    }

    /// Completes a full merge into `fresh`, after the caller has reported every copy to [`Watch`]. `in_log`
    /// holds the units whose newest copy is in a log block; `log` is erased.
    pub(super) fn merge_full(
        &mut self,
        owner: LogicalBlock,
        fresh: EraseBlock,
        in_log: &[u64],
        log: Option<EraseBlock>,
        work: &mut Work,
    ) {
        work.totals.full_merges += 1;
        let mut copied = 0;
        for (in_place, in_log) in self.in_place.of_block_mut(owner).iter_mut().zip(in_log) {
            *in_place |= in_log;
            copied += in_place.count_ones();
        }
        self.copy(copied, fresh, work);
        if let Some(log) = log {
            self.erase(log, work);
        }
        self.replace(owner, fresh, work);
    }

    /// Records that the units before `end` are in the future data block.
    pub(super) fn insert_up_to(&mut self, owner: LogicalBlock, end: Offset) {
        for offset in Offset(0).up_to(end) {
            self.in_place.insert(owner, offset);
        }
    }

    fn replace(&mut self, owner: LogicalBlock, block: EraseBlock, work: &mut Work) {
        let old = self.blocks.get(owner).expect("the owner of a unit in a log block has a data block");
        self.blocks.set(owner, Some(block));
        self.next.set(owner, end_of(self.in_place.of_block(owner)));
        self.erase(old, work);
    }

    fn copy(&mut self, units: u32, to: EraseBlock, work: &mut Work) {
        work.copy(self.geometry.die_of_block(to), units.div_ceil(self.geometry.units_per_page));
    }

    /// Counts the erase blocks by use; `log` is the number of log blocks.
    pub(super) fn census(&self, log: u32) -> Census {
        let data = self.blocks.iter().filter(|(_, block)| block.is_some()).count() as u32;
        Census { total: self.total_blocks, free: self.free.len() as u32, data, log }
    }
}
