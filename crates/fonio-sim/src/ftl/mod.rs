//! Flash translation layers: they map each unit of the host's data to flash, and report the flash operations
//! of a write.
//!
//! A layer keeps the map and has no clock: it reports as [`Work`] the reads, programs, copies and erases of
//! each die, and [`crate::device::flash`] turns them into time. A merge of two blocks is one step with a
//! count, so that its cost in the simulator does not grow with the size of an erase block.
//!
//! Addresses are in *units*, the piece that the layer maps: 4 KiB in a modern device, a page of all planes in a card.
//! [`LogicalUnit`] is the host's number of a unit, [`PhysicalUnit`] its position in flash.

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

/// The properties of the flash under a layer that the layer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Units that the host sees.
    pub logical_units: u32,
    /// Units in an erase block. In a page map these are the erase blocks of all dies together (a superblock).
    pub units_per_block: u32,
    /// Units that are programmed together: one page of all planes.
    pub units_per_page: u32,
    /// Dies that work at the same time.
    pub dies: u32,
}

impl Geometry {
    /// Erase blocks that the host's units fill.
    pub fn logical_blocks(&self) -> u32 {
        self.logical_units.div_ceil(self.units_per_block)
    }

    /// The flash page that holds `unit`.
    pub fn page(&self, unit: PhysicalUnit) -> PhysicalPage {
        PhysicalPage(unit.0 / self.units_per_page)
    }

    /// The logical block of a unit, and the unit's offset in it.
    fn logical_block(&self, unit: LogicalUnit) -> (LogicalBlock, Offset) {
        (LogicalBlock(unit.0 / self.units_per_block), Offset(unit.0 % self.units_per_block))
    }

    /// The erase block of a unit, and the unit's offset in it.
    fn erase_block(&self, unit: PhysicalUnit) -> (EraseBlock, Offset) {
        (EraseBlock(unit.0 / self.units_per_block), Offset(unit.0 % self.units_per_block))
    }

    fn logical_unit(&self, block: LogicalBlock, offset: Offset) -> LogicalUnit {
        LogicalUnit(block.0 * self.units_per_block + offset.0)
    }

    fn physical_unit(&self, block: EraseBlock, offset: Offset) -> PhysicalUnit {
        PhysicalUnit(block.0 * self.units_per_block + offset.0)
    }

    /// One past the last offset of a block.
    fn block_end(&self) -> Offset {
        Offset(self.units_per_block)
    }

    /// The die of an erase block, in a layer whose erase blocks each lie on one die.
    fn die_of_block(&self, block: EraseBlock) -> Die {
        Die(block.0 % self.dies)
    }

    /// All dies.
    fn each_die(&self) -> impl Iterator<Item = Die> + use<> {
        (0..self.dies).map(Die)
    }
}

/// Erase blocks in an order that the seed decides.
fn shuffled_blocks(blocks: u32, seed: u64) -> VecDeque<EraseBlock> {
    let mut blocks: Vec<EraseBlock> = (0..blocks).map(EraseBlock).collect();
    Random::new(seed).shuffle(&mut blocks);
    blocks.into()
}

/// The cost of a host write in flash: steps in the order in which the firmware does them.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// Steps not yet turned into time.
    pub steps: Vec<Step>,
    /// The number of steps that bring the host's data into flash. The steps after them are the layer's own
    /// housekeeping.
    pub durable_after: usize,
    /// Sums since the device was made or its counters were reset.
    pub totals: Totals,
}

/// Operations on one die, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The die.
    pub die: Die,
    /// Pages read in order to be copied.
    pub reads: u32,
    /// Pages programmed with data that came from the host.
    pub host_programs: u32,
    /// Pages programmed with data that came from flash.
    pub copy_programs: u32,
    /// Erase blocks erased.
    pub erases: u32,
}

/// Sums over all steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Pages programmed with data from the host.
    pub host_programs: u64,
    /// Pages programmed with data from flash.
    pub copy_programs: u64,
    /// Erase blocks erased, each die's own counted.
    pub erases: u64,
    /// Log blocks that became data blocks without a copy.
    pub switch_merges: u64,
    /// Merges that copied the rest of a block behind the beginning in its log block.
    pub partial_merges: u64,
    /// Merges that copied all of a block.
    pub full_merges: u64,
}

impl Work {
    /// Adds a step. It is joined to the last one if both are on one die.
    pub(crate) fn push(&mut self, step: Step) {
        self.totals.host_programs += u64::from(step.host_programs);
        self.totals.copy_programs += u64::from(step.copy_programs);
        self.totals.erases += u64::from(step.erases);
        // Steps after the host's data must not delay them.
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

    /// Adds the erasing of one erase block.
    pub(crate) fn erase(&mut self, die: Die) {
        self.push(Step { die, erases: 1, ..Step::default() });
    }

    /// Adds the copying of `pages` pages within a die.
    pub(crate) fn copy(&mut self, die: Die, pages: u32) {
        self.push(Step { die, reads: pages, copy_programs: pages, ..Step::default() });
    }

    /// Adds the programming of one page of the host's data, which are in flash after this step.
    pub(crate) fn program_host_page(&mut self, die: Die) {
        self.push(Step { die, host_programs: 1, ..Step::default() });
        self.durable_after = self.steps.len();
    }

    /// Empties the steps; the totals stay.
    pub(crate) fn clear(&mut self) {
        self.steps.clear();
        self.durable_after = 0;
    }
}

/// A flash translation layer.
pub trait Ftl: Send {
    /// The flash that it maps.
    fn geometry(&self) -> &Geometry;

    /// Writes `unit` to another place in flash and adds the cost to `work`.
    ///
    /// # Panics
    ///
    /// If `unit` is not below [`Geometry::logical_units`].
    fn write(&mut self, unit: LogicalUnit, work: &mut Work);

    /// Programs a page that is not yet full, padded, because the host wants its data durable. Without this function, every
    /// unit is a page.
    fn close_page(&mut self, _work: &mut Work) {}

    /// Forgets the data of `unit`, which the host no longer needs. Without this function, the layer does not record
    /// discarded units, as in cards, and a merge copies them.
    fn discard(&mut self, _unit: LogicalUnit) {}

    /// The position of `unit` in flash; `None` if it was never written or was discarded.
    fn locate(&self, unit: LogicalUnit) -> Option<PhysicalUnit>;

    /// The die that holds a unit. Without this function, each erase block lies on one die.
    fn die_of(&self, unit: PhysicalUnit) -> Die {
        self.geometry().die_of_block(self.geometry().erase_block(unit).0)
    }

    /// Counts the erase blocks by their use.
    fn census(&self) -> Census;
}

/// The number of erase blocks of a device by their use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Census {
    /// All erase blocks.
    pub total: u32,
    /// Erased and unused.
    pub free: u32,
    /// Data blocks; in a page map, superblocks that are full.
    pub data: u32,
    /// Log blocks; in a page map, the superblocks being written or collected.
    pub log: u32,
}

/// Observes every flash operation of a layer, so that a test can repeat it on simulated flash and compare.
pub trait Watch: Send {
    /// False if the calls may be left out altogether.
    const ACTIVE: bool;
    /// The host's `unit` is programmed at `to`.
    fn program(&mut self, unit: LogicalUnit, to: PhysicalUnit);
    /// The unit at `from` is copied to `to`.
    fn copy(&mut self, from: PhysicalUnit, to: PhysicalUnit);
    /// Erase block `block` is erased.
    fn erase(&mut self, block: EraseBlock);
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
