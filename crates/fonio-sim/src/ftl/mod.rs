//! Flash translation layers: they map the host's data to flash and report the flash operations of each write.
//!
//! A layer keeps the map and has no clock. The layer reports the reads, programs, copies and erases of each
//! die as [`Work`]; [`crate::device::flash`] computes their time. A merge of two blocks is one step with a
//! count, so the cost of simulating it does not depend on the erase block size.
//!
//! Addresses are in *units*, the mapping unit of the layer: 4 KiB in a modern device, a page of all planes in
//! a card. A [`LogicalUnit`] is the host's number of a unit, a [`PhysicalUnit`] its address in flash.

mod address;
pub mod bast;
mod bits;
mod data;
pub mod fast;
pub mod map_cache;
pub mod page_map;

use std::collections::VecDeque;

use fonio_core::Random;

pub use address::{Die, EraseBlock, LogicalBlock, LogicalUnit, Offset, PhysicalPage, PhysicalUnit};

/// The geometry of the flash below a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Number of units that the host sees.
    pub logical_units: u32,
    /// Number of units in an erase block. For a page map, number of units in a superblock (the erase blocks
    /// with the same number on all dies).
    pub units_per_block: u32,
    /// Number of units that are programmed together: one page of all planes.
    pub units_per_page: u32,
    /// Number of dies that work at the same time.
    pub dies: u32,
}

impl Geometry {
    /// Returns the number of erase blocks that the host's units fill.
    pub fn logical_blocks(&self) -> u32 {
        self.logical_units.div_ceil(self.units_per_block)
    }

    /// Returns the flash page of `unit`.
    pub fn page(&self, unit: PhysicalUnit) -> PhysicalPage {
        PhysicalPage(unit.0 / self.units_per_page)
    }

    /// Returns a unit's logical block and its offset in the block.
    fn logical_block(&self, unit: LogicalUnit) -> (LogicalBlock, Offset) {
        (LogicalBlock(unit.0 / self.units_per_block), Offset(unit.0 % self.units_per_block))
    }

    /// Returns a unit's erase block and its offset in the block.
    fn erase_block(&self, unit: PhysicalUnit) -> (EraseBlock, Offset) {
        (EraseBlock(unit.0 / self.units_per_block), Offset(unit.0 % self.units_per_block))
    }

    fn logical_unit(&self, block: LogicalBlock, offset: Offset) -> LogicalUnit {
        LogicalUnit(block.0 * self.units_per_block + offset.0)
    }

    fn physical_unit(&self, block: EraseBlock, offset: Offset) -> PhysicalUnit {
        PhysicalUnit(block.0 * self.units_per_block + offset.0)
    }

    /// Returns the last offset of a block plus one.
    fn block_end(&self) -> Offset {
        Offset(self.units_per_block)
    }

    /// Returns the die of an erase block, if each erase block is on one die.
    fn die_of_block(&self, block: EraseBlock) -> Die {
        Die(block.0 % self.dies)
    }

    fn each_die(&self) -> impl Iterator<Item = Die> + use<> {
        (0..self.dies).map(Die)
    }
}

/// Returns erase blocks in an order determined by the seed.
pub fn shuffled_blocks(blocks: u32, seed: u64) -> VecDeque<EraseBlock> {
    let mut blocks: Vec<EraseBlock> = (0..blocks).map(EraseBlock).collect();
    Random::new(seed).shuffle(&mut blocks);
    blocks.into()
}

/// The flash operations of a host write: steps in the order of execution.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// Steps whose duration has not yet been computed.
    pub steps: Vec<Step>,
    /// The number of steps until the host's data are in flash. Later steps are the layer's own housekeeping.
    pub durable_after: usize,
    /// Totals since the layer was created or its counters were last reset.
    pub totals: Totals,
}

/// Consecutive operations on one die.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The die that executes the operations.
    pub die: Die,
    /// Number of pages read for copies.
    pub reads: u32,
    /// Number of pages programmed with data from the host.
    pub host_programs: u32,
    /// Number of pages programmed with data copied from flash.
    pub copy_programs: u32,
    /// Number of erased blocks.
    pub erases: u32,
}

/// Numbers of operations and merges, summed over all steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of pages programmed with data from the host.
    pub host_programs: u64,
    /// Number of pages programmed with data copied from flash.
    pub copy_programs: u64,
    /// Number of erased blocks, counted per die.
    pub erases: u64,
    /// Number of log blocks that became data blocks without a copy.
    pub switch_merges: u64,
    /// Number of merges that kept the beginning of a block in its log block and copied the rest of the block
    /// there.
    pub partial_merges: u64,
    /// Number of merges that copied a complete block.
    pub full_merges: u64,
}

impl Work {
    /// Adds a step, or merges it into the last step if both are on the same die.
    pub fn push(&mut self, step: Step) {
        self.totals.host_programs += u64::from(step.host_programs);
        self.totals.copy_programs += u64::from(step.copy_programs);
        self.totals.erases += u64::from(step.erases);
        // Later steps must not delay the host's data.
        let may_join = self.durable_after < self.steps.len();
        match self.steps.last_mut() {
            Some(last) if may_join && last.die == step.die => {
                last.reads += step.reads;
                last.host_programs += step.host_programs;
                last.copy_programs += step.copy_programs;
                last.erases += step.erases;
            }
            _ => self.steps.push(step),
        }
    }

    /// Adds the erasure of an erase block of a die.
    pub fn erase(&mut self, die: Die) {
        self.push(Step { die, erases: 1, ..Step::default() });
    }

    /// Adds the copy of `pages` pages within a die.
    pub fn copy(&mut self, die: Die, pages: u32) {
        self.push(Step { die, reads: pages, copy_programs: pages, ..Step::default() });
    }

    /// Adds the program of one page of host data. The host's data are in flash after this step.
    pub fn program_host_page(&mut self, die: Die) {
        self.push(Step { die, host_programs: 1, ..Step::default() });
        self.durable_after = self.steps.len();
    }

    /// Removes all steps; keeps the totals.
    pub(crate) fn clear(&mut self) {
        self.steps.clear();
        self.durable_after = 0;
    }
}

/// A flash translation layer.
pub trait Ftl: Send {
    /// Returns the geometry of the flash.
    fn geometry(&self) -> &Geometry;

    /// Writes `unit` to a new address in flash and adds the operations to `work`. Panics if `unit` is at or
    /// above [`Geometry::logical_units`].
    fn write(&mut self, unit: LogicalUnit, work: &mut Work);

    /// If a page is partly filled, programs it with padding, because its data must become durable. The
    /// default suits layers in which every unit is a page.
    fn close_page(&mut self, _work: &mut Work) {}

    /// Discards `unit`. By default, as in cards, the layer does not record discards, so merges also copy
    /// discarded units.
    fn discard(&mut self, _unit: LogicalUnit) {}

    /// Returns the address of `unit` in flash; `None` if it was never written or was discarded.
    fn locate(&self, unit: LogicalUnit) -> Option<PhysicalUnit>;

    /// Returns the die of a unit. By default, each erase block is on one die.
    fn die_of(&self, unit: PhysicalUnit) -> Die {
        self.geometry().die_of_block(self.geometry().erase_block(unit).0)
    }

    /// Counts the erase blocks by their use.
    fn census(&self) -> Census;

    /// Returns how often each erase block was erased; empty if the layer does not count erasures.
    fn erase_counts(&self) -> &[u32] {
        &[]
    }
}

/// A device's erase blocks, counted by their use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Census {
    /// The number of all erase blocks.
    pub total: u32,
    /// The number of erased, unused blocks.
    pub free: u32,
    /// The number of data blocks; in a page map, of full superblocks.
    pub data: u32,
    /// The number of log blocks; in a page map, of superblocks that are being written or collected.
    pub log: u32,
}

/// Observes every flash operation of a layer, for tests that repeat the operations on simulated flash.
pub trait Watch: Send {
    /// Whether the watch needs the copies of merges. If false, layers may leave out [`Watch::copy`].
    const ACTIVE: bool;
    /// Called when the host's `unit` is programmed at `to`.
    fn program(&mut self, unit: LogicalUnit, to: PhysicalUnit);
    /// Called when the unit at `from` is copied to `to`.
    fn copy(&mut self, from: PhysicalUnit, to: PhysicalUnit);
    /// Called when `block` is erased.
    fn erase(&mut self, block: EraseBlock);
    /// Returns how often each erase block was erased; empty if the watch does not count erasures.
    fn erase_counts(&self) -> &[u32] {
        &[]
    }
}

/// A [`Watch`] that counts the erasures of each erase block.
#[derive(Clone, Debug, Default)]
pub struct Wear {
    erasures: Vec<u32>,
}

impl Watch for Wear {
    const ACTIVE: bool = false;
    fn program(&mut self, _: LogicalUnit, _: PhysicalUnit) {}
    fn copy(&mut self, _: PhysicalUnit, _: PhysicalUnit) {}
    fn erase(&mut self, block: EraseBlock) {
        let at = block.0 as usize;
        if self.erasures.len() <= at {
            self.erasures.resize(at + 1, 0);
        }
        self.erasures[at] += 1;
    }
    fn erase_counts(&self) -> &[u32] {
        &self.erasures
    }
}

/// A [`Watch`] that ignores all operations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    const ACTIVE: bool = false;
    fn program(&mut self, _: LogicalUnit, _: PhysicalUnit) {}
    fn copy(&mut self, _: PhysicalUnit, _: PhysicalUnit) {}
    fn erase(&mut self, _: EraseBlock) {}
}

#[cfg(test)]
mod tests;
