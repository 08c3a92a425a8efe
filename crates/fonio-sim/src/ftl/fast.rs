//! FAST: fully associative log blocks.
//!
//! Data blocks are mapped as in BAST (`super::data`), but a log block does not belong to a data block. The
//! sequential log block (SW) stores the units of one logical block in order, from the first unit on. The
//! random log blocks (RW) store all other overwrites in the order of arrival. When all random log blocks are
//! full, the oldest random log block is reclaimed: every logical block with the newest copy of a unit in this
//! log block is fully merged. Random writes cost more as their range grows, but throughput does not drop
//! sharply.
//!
//! A write to the first unit of a logical block closes the sequential log block. A full sequential log block
//! is closed with a switch merge, any other with a partial merge.

use std::collections::VecDeque;

use super::address::Table;
use super::bits::BlockBits;
use super::data::DataBlocks;
use super::{
    Census, EraseBlock, Ftl, Geometry, LogicalBlock, LogicalUnit, Offset, PhysicalUnit, Unwatched, Watch,
    Work,
};

/// The FAST translation layer.
#[derive(Debug)]
pub struct Fast<W = Unwatched> {
    pub(super) data: DataBlocks<W>,
    random_logs_max: usize,
    sequential: Option<SequentialLog>,
    /// Random log blocks, oldest first.
    random: VecDeque<RandomLog>,
    /// The newest copy of a unit in the random log blocks; valid if `in_random` has the unit.
    random_copy: Table<LogicalUnit, PhysicalUnit>,
    in_random: BlockBits<LogicalBlock>,
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
    /// Makes a layer without data, with `random_logs` random log blocks and one sequential log block. The
    /// seed determines the order in which erase blocks are used. Panics if `random_logs` is 0.
    pub fn new(geometry: Geometry, random_logs: u32, seed: u64, watch: W) -> Fast<W> {
        assert!(random_logs > 0, "FAST needs at least one random log block");
        let logical = geometry.logical_blocks();
        Fast {
            data: DataBlocks::new(geometry, random_logs + 1, seed, watch),
            random_logs_max: random_logs as usize,
            sequential: None,
            random: VecDeque::new(),
            random_copy: Table::zeroed(logical * geometry.units_per_block),
            in_random: BlockBits::new(logical, geometry.units_per_block),
        }
    }

    /// Makes the sequential log block the data block of its owner.
    fn close_sequential(&mut self, work: &mut Work) {
        if let Some(SequentialLog { block, owner, next }) = self.sequential.take() {
            self.data.append_rest(owner, block, next, work);
        }
    }

    /// Copies the newest copy of every unit of a logical block to a fresh erase block. If the sequential
    /// log block belongs to this logical block, its units are included.
    fn merge_full(&mut self, owner: LogicalBlock, work: &mut Work) {
        let fresh = self.data.take_free();
        if W::ACTIVE {
            let geometry = self.data.geometry;
            for offset in Offset(0).up_to(geometry.block_end()) {
                if let Some(from) = self.locate(geometry.logical_unit(owner, offset)) {
                    self.data.watch.copy(from, geometry.physical_unit(fresh, offset));
                }
            }
        }
        let sequential = self.sequential.take_if(|log| log.owner == owner);
        self.data.insert_up_to(owner, sequential.map_or(Offset(0), |log| log.next));
        let log = sequential.map(|log| log.block);
        self.data.merge_full(owner, fresh, self.in_random.of_block(owner), log, work);
        self.in_random.of_block_mut(owner).fill(0);
    }

    /// Ensures that the last random log block has room for one more unit.
    fn make_random_room(&mut self, work: &mut Work) {
        if self.random.back().is_some_and(|log| log.units.len() < self.data.geometry.units_per_block as usize)
        {
            return;
        }
        let mut units = Vec::new();
        if self.random.len() == self.random_logs_max {
            let oldest = self.random.pop_front().expect("there is at least one random log block");
            let mut here = self.data.geometry.physical_unit(oldest.block, Offset(0));
            for unit in &oldest.units {
                let (owner, offset) = self.data.geometry.logical_block(*unit);
                if self.in_random.contains(owner, offset) && self.random_copy.get(*unit) == here {
                    self.merge_full(owner, work);
                }
                here = here.plus(1);
            }
            self.data.erase(oldest.block, work);
            units = oldest.units;
            units.clear();
        }
        units.reserve_exact(self.data.geometry.units_per_block as usize);
        let block = self.data.take_free();
        self.random.push_back(RandomLog { block, units });
    }

    /// Chooses the flash address of a unit written by the host, and maps the unit to it.
    fn allocate(&mut self, unit: LogicalUnit, work: &mut Work) -> PhysicalUnit {
        let (logical, offset) = self.data.geometry.logical_block(unit);
        if let Some(physical) = self.data.write_in_place(logical, offset) {
            return physical;
        }
        if offset == Offset(0) {
            self.close_sequential(work);
            let block = self.data.take_free();
            self.sequential = Some(SequentialLog { block, owner: logical, next: Offset(1) });
            self.in_random.remove(logical, offset);
            return self.data.geometry.physical_unit(block, offset);
        }
        if let Some(log) = &mut self.sequential
            && log.owner == logical
            && log.next == offset
        {
            log.next = offset.plus(1);
            let block = log.block;
            self.in_random.remove(logical, offset);
            return self.data.geometry.physical_unit(block, offset);
        }
        self.make_random_room(work);
        let log = self.random.back_mut().expect("the last log has room");
        let physical = self.data.geometry.physical_unit(log.block, Offset(log.units.len() as u32));
        log.units.push(unit);
        self.random_copy.set(unit, physical);
        self.in_random.insert(logical, offset);
        physical
    }
}

impl<W: Watch> Ftl for Fast<W> {
    fn geometry(&self) -> &Geometry {
        &self.data.geometry
    }

    fn write(&mut self, unit: LogicalUnit, work: &mut Work) {
        assert!(unit.0 < self.data.geometry.logical_units, "unit {} is not on the device", unit.0);
        let physical = self.allocate(unit, work);
        self.data.watch.program(unit, physical);
        work.program_host_page(self.die_of(physical));
    }

    fn locate(&self, unit: LogicalUnit) -> Option<PhysicalUnit> {
        let (logical, offset) = self.data.geometry.logical_block(unit);
        if self.in_random.contains(logical, offset) {
            return Some(self.random_copy.get(unit));
        }
        if let Some(log) = &self.sequential
            && log.owner == logical
            && offset < log.next
        {
            return Some(self.data.geometry.physical_unit(log.block, offset));
        }
        self.data.locate(logical, offset)
    }

    fn census(&self) -> Census {
        self.data.census(self.random.len() as u32 + u32::from(self.sequential.is_some()))
    }

    fn erase_counts(&self) -> &[u32] {
        self.data.watch.erase_counts()
    }
}
