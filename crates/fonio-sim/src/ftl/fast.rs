//! FAST: fully associative log blocks.
//!
//! Data blocks are mapped as in [`super::bast`], but a log block belongs to no data block. One log block, the sequential
//! one (SW), takes the units of one logical block in order from its first unit on; the random ones (RW) take all other
//! overwrites in the order of arrival. When all random log blocks are full, the oldest is reclaimed: a full merge of every
//! logical block that still has a newest copy in it. Random writes cost more the larger their range is, but throughput
//! does not drop sharply.
//!
//! A write to the first unit of a logical block ends the sequential log block: with a switch merge where it is full, else
//! with a partial merge.

use std::collections::VecDeque;

use super::address::Table;
use super::bits::{BlockBits, count_from, end_of};
use super::{
    Census, Die, EraseBlock, Ftl, Geometry, LogicalBlock, LogicalUnit, Offset, PhysicalUnit, Unwatched,
    Watch, Work, shuffled_blocks,
};

/// The FAST layer.
#[derive(Debug)]
pub struct Fast<W = Unwatched> {
    geometry: Geometry,
    random_logs_max: usize,
    /// The data block of each logical block; none before the first write.
    data: Table<LogicalBlock, Option<EraseBlock>>,
    /// Units that are in the data block at their own offset, though a newer copy may be in a log block.
    in_place: BlockBits<LogicalBlock>,
    /// First offset of each data block that can still be programmed.
    next: Table<LogicalBlock, Offset>,
    sequential: Option<SequentialLog>,
    /// Random log blocks, oldest first.
    random: VecDeque<RandomLog>,
    /// The newest copy of a unit in the random log blocks; meaningful where `in_random` has the unit.
    random_copy: Table<LogicalUnit, PhysicalUnit>,
    in_random: BlockBits<LogicalBlock>,
    free: VecDeque<EraseBlock>,
    total_blocks: u32,
    pub(crate) watch: W,
}

#[derive(Clone, Copy, Debug)]
struct SequentialLog {
    block: EraseBlock,
    owner: LogicalBlock,
    /// First offset not yet programmed.
    next: Offset,
}

#[derive(Debug)]
struct RandomLog {
    block: EraseBlock,
    /// The unit at each offset programmed so far.
    units: Vec<LogicalUnit>,
}

impl<W: Watch> Fast<W> {
    /// A device never written, with `random_logs` random log blocks and the sequential one. The seed decides
    /// the order in which erase blocks are used.
    ///
    /// # Panics
    ///
    /// If there is no random log block.
    pub fn new(geometry: Geometry, random_logs: u32, seed: u64, watch: W) -> Fast<W> {
        assert!(random_logs > 0, "FAST has a random log block");
        let logical = geometry.logical_blocks();
        // Blocks besides data and random logs: the sequential log, and the free block that a merge needs
        // before it can erase.
        let total_blocks = logical + random_logs + 2;
        Fast {
            geometry,
            random_logs_max: random_logs as usize,
            data: Table::zeroed(logical),
            in_place: BlockBits::new(logical, geometry.units_per_block),
            next: Table::zeroed(logical),
            sequential: None,
            random: VecDeque::new(),
            random_copy: Table::zeroed(logical * geometry.units_per_block),
            in_random: BlockBits::new(logical, geometry.units_per_block),
            free: shuffled_blocks(total_blocks, seed),
            total_blocks,
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

    /// The data block of a logical block that has a log.
    fn data_of(&self, owner: LogicalBlock) -> EraseBlock {
        self.data.get(owner).expect("the owner of a unit in a log block has a data block")
    }

    /// Makes the sequential log block the data block of its owner.
    fn close_sequential(&mut self, work: &mut Work) {
        let Some(SequentialLog { block, owner, next }) = self.sequential.take() else { return };
        let old = self.data_of(owner);
        if next == self.geometry.block_end() {
            work.totals.switch_merges += 1;
        } else {
            work.totals.partial_merges += 1;
        }
        if W::ACTIVE {
            for offset in next.up_to(self.geometry.block_end()) {
                if self.in_place.contains(owner, offset) {
                    let from = self.geometry.physical_unit(old, offset);
                    self.watch.copy(from, self.geometry.physical_unit(block, offset));
                }
            }
        }
        self.copy(count_from(self.in_place.of_block(owner), next), block, work);
        for offset in Offset(0).up_to(next) {
            self.in_place.insert(owner, offset);
        }
        self.data.set(owner, Some(block));
        self.next.set(owner, end_of(self.in_place.of_block(owner)));
        self.erase(old, work);
    }

    /// Copies the newest copy of every unit of a logical block to a fresh erase block.
    fn merge_full(&mut self, owner: LogicalBlock, work: &mut Work) {
        work.totals.full_merges += 1;
        let fresh = self.take_free();
        let old = self.data_of(owner);
        if W::ACTIVE {
            for offset in Offset(0).up_to(self.geometry.block_end()) {
                if let Some(from) = self.locate(self.geometry.logical_unit(owner, offset)) {
                    self.watch.copy(from, self.geometry.physical_unit(fresh, offset));
                }
            }
        }
        // The sequential log block of this logical block is merged with it.
        let sequential = self.sequential.take_if(|log| log.owner == owner);
        if let Some(log) = sequential {
            for offset in Offset(0).up_to(log.next) {
                self.in_place.insert(owner, offset);
            }
        }
        let mut copied = 0;
        for (in_place, in_random) in
            self.in_place.of_block_mut(owner).iter_mut().zip(self.in_random.of_block_mut(owner))
        {
            *in_place |= *in_random;
            *in_random = 0;
            copied += in_place.count_ones();
        }
        self.copy(copied, fresh, work);
        self.data.set(owner, Some(fresh));
        self.next.set(owner, end_of(self.in_place.of_block(owner)));
        if let Some(log) = sequential {
            self.erase(log.block, work);
        }
        self.erase(old, work);
    }

    /// Makes sure that the last random log block has room for one more unit.
    fn make_random_room(&mut self, work: &mut Work) {
        if self.random.back().is_some_and(|log| log.units.len() < self.geometry.units_per_block as usize) {
            return;
        }
        let mut units = Vec::new();
        if self.random.len() == self.random_logs_max {
            let oldest = self.random.pop_front().expect("there is a random log block");
            let mut here = self.geometry.physical_unit(oldest.block, Offset(0));
            for unit in &oldest.units {
                let (owner, offset) = self.geometry.logical_block(*unit);
                if self.in_random.contains(owner, offset) && self.random_copy.get(*unit) == here {
                    self.merge_full(owner, work);
                }
                here = here.plus(1);
            }
            self.erase(oldest.block, work);
            units = oldest.units;
            units.clear();
        }
        units.reserve_exact(self.geometry.units_per_block as usize);
        let block = self.take_free();
        self.random.push_back(RandomLog { block, units });
    }

    /// Chooses the place in flash of a unit that the host writes, and maps the unit there.
    fn allocate(&mut self, unit: LogicalUnit, work: &mut Work) -> PhysicalUnit {
        let (logical, offset) = self.geometry.logical_block(unit);
        let data = self.data.get(logical).unwrap_or_else(|| {
            let block = self.take_free();
            self.data.set(logical, Some(block));
            block
        });
        if offset >= self.next.get(logical) {
            self.next.set(logical, offset.plus(1));
            self.in_place.insert(logical, offset);
            return self.geometry.physical_unit(data, offset);
        }
        if offset == Offset(0) {
            self.close_sequential(work);
            let block = self.take_free();
            self.sequential = Some(SequentialLog { block, owner: logical, next: Offset(1) });
            self.in_random.remove(logical, offset);
            return self.geometry.physical_unit(block, offset);
        }
        if let Some(log) = &mut self.sequential
            && log.owner == logical
            && log.next == offset
        {
            log.next = offset.plus(1);
            let block = log.block;
            self.in_random.remove(logical, offset);
            return self.geometry.physical_unit(block, offset);
        }
        self.make_random_room(work);
        let log = self.random.back_mut().expect("room was made");
        let physical = self.geometry.physical_unit(log.block, Offset(log.units.len() as u32));
        log.units.push(unit);
        self.random_copy.set(unit, physical);
        self.in_random.insert(logical, offset);
        physical
    }
}

impl<W: Watch> Ftl for Fast<W> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn write(&mut self, unit: LogicalUnit, work: &mut Work) {
        assert!(unit.0 < self.geometry.logical_units, "unit {} is not on the device", unit.0);
        let physical = self.allocate(unit, work);
        self.watch.program(unit, physical);
        work.program_host_page(self.die_of(physical));
    }

    fn close_page(&mut self, _: &mut Work) {}

    /// Does nothing: cards of this kind do not record discarded units, and a merge copies them.
    fn discard(&mut self, _: LogicalUnit) {}

    fn locate(&self, unit: LogicalUnit) -> Option<PhysicalUnit> {
        let (logical, offset) = self.geometry.logical_block(unit);
        if self.in_random.contains(logical, offset) {
            return Some(self.random_copy.get(unit));
        }
        if let Some(log) = &self.sequential
            && log.owner == logical
            && offset < log.next
        {
            return Some(self.geometry.physical_unit(log.block, offset));
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
            log: self.random.len() as u32 + u32::from(self.sequential.is_some()),
        }
    }
}
