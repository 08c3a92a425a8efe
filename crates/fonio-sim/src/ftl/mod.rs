//! Flash translation layers: where a page of the host lies in flash, and which flash operations a write costs.
//!
//! A layer keeps books and knows no time: it says as [`Work`] what has to be read, programmed, copied and erased on
//! which die, and [`crate::device::flash`] turns that into time. Whole merges are one step with a count, so that their
//! cost in the simulator does not grow with the size of an erase block.
//!
//! Addresses are in *units*, the piece that the layer maps (4 KiB in a modern device, a whole page of all planes in a
//! card). A logical unit is the host's, a physical unit is `erase block × units per erase block + place in it`.

pub mod bast;
mod bits;
pub mod fast;
pub mod map_cache;
pub mod page_map;

/// No unit, no erase block.
pub(crate) const NONE: u32 = u32::MAX;

/// The flash under a layer, as far as the layer has to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Units that the host sees.
    pub logical_units: u32,
    /// Units in an erase block. For a page map these are the blocks of all dies together (a superblock).
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
}

/// What a host write costs in flash: steps in the order in which the firmware does them.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// Steps not yet turned into time.
    pub steps: Vec<Step>,
    /// The host's data are in flash after so many of the steps; what follows is the layer's own house-keeping.
    pub durable_after: usize,
    /// Sums since the device was made or its counters were reset.
    pub totals: Totals,
}

/// Operations on one die, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The die.
    pub die: u32,
    /// Pages read, in order to be programmed elsewhere.
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
    /// Log blocks that became data blocks as they were.
    pub switch_merges: u64,
    /// Merges that copied the rest of a block behind what stood there in order.
    pub partial_merges: u64,
    /// Merges that copied a whole block.
    pub full_merges: u64,
}

impl Work {
    /// Takes over one more step, joined to the last where both are on one die.
    pub(crate) fn push(&mut self, step: Step) {
        self.totals.host_programs += u64::from(step.host_programs);
        self.totals.copy_programs += u64::from(step.copy_programs);
        self.totals.erases += u64::from(step.erases);
        // What comes after the host's data must not delay them.
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

    /// One page of the host's data, which are in flash thereafter.
    pub(crate) fn program_host_page(&mut self, die: u32) {
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
    /// What it maps.
    fn geometry(&self) -> &Geometry;

    /// Maps logical `unit` to a new place and adds the cost to `work`.
    ///
    /// # Panics
    ///
    /// Where `unit` is not below [`Geometry::logical_units`].
    fn write(&mut self, unit: u32, work: &mut Work);

    /// Programs a page that is not yet full, padded: the host wants its data durable.
    fn close_page(&mut self, work: &mut Work);

    /// The host no longer needs `unit`.
    fn discard(&mut self, unit: u32);

    /// Where `unit` lies; `None` where it was never written or was discarded.
    fn locate(&self, unit: u32) -> Option<u32>;

    /// The die that holds a physical unit.
    fn die_of(&self, physical: u32) -> u32;

    /// Where the erase blocks are.
    fn census(&self) -> Census;
}

/// What the erase blocks of a device are used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Census {
    /// All there are.
    pub total: u32,
    /// Erased and unused.
    pub free: u32,
    /// Holding data in their final place; for a page map, written to the end.
    pub data: u32,
    /// Log blocks; for a page map, the blocks being written.
    pub log: u32,
}

/// Sees every flash operation of a layer one by one, so that a test can hold the books against simulated flash.
pub trait Watch: Send {
    /// False where the calls may be left out altogether.
    const ACTIVE: bool;
    /// The host's `unit` is programmed at `physical`.
    fn program(&mut self, unit: u32, physical: u32);
    /// `from` is copied to `to`.
    fn copy(&mut self, from: u32, to: u32);
    /// Erase block `block` is erased.
    fn erase(&mut self, block: u32);
}

/// Nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    const ACTIVE: bool = false;
    fn program(&mut self, _: u32, _: u32) {}
    fn copy(&mut self, _: u32, _: u32) {}
    fn erase(&mut self, _: u32) {}
}

#[cfg(test)]
mod tests;
