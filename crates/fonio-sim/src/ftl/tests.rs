//! Compares every layer with simulated flash. Each operation is repeated on an array of pages. After each
//! host command, the newest version of every unit must be at the address that the layer reports.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::bast::{Bast, Victim};
use super::fast::Fast;
use super::page_map::{Collection, PageMap};
use super::*;
use fonio_core::Random;

/// Simulated flash that panics on an operation that real flash does not allow.
#[derive(Clone, Debug, Default)]
struct Chip {
    units_per_block: u32,
    content: BTreeMap<PhysicalUnit, (LogicalUnit, u64)>,
    /// The first unprogrammed unit of each erase block.
    next: BTreeMap<EraseBlock, Offset>,
    version: u64,
}

impl Chip {
    fn store(&mut self, physical: PhysicalUnit, content: (LogicalUnit, u64)) {
        let block = EraseBlock(physical.0 / self.units_per_block);
        let offset = Offset(physical.0 % self.units_per_block);
        let next = self.next.entry(block).or_default();
        assert!(offset >= *next, "{offset:?} of {block:?} is programmed out of order; next is {next:?}");
        *next = offset.plus(1);
        self.content.insert(physical, content);
    }
}

impl Watch for Chip {
    const ACTIVE: bool = true;
    fn program(&mut self, unit: LogicalUnit, to: PhysicalUnit) {
        self.version += 1;
        self.store(to, (unit, self.version));
    }
    fn copy(&mut self, from: PhysicalUnit, to: PhysicalUnit) {
        let content = *self.content.get(&from).unwrap_or_else(|| panic!("the copied {from:?} is empty"));
        self.store(to, content);
    }
    fn erase(&mut self, block: EraseBlock) {
        for offset in 0..self.units_per_block {
            self.content.remove(&PhysicalUnit(block.0 * self.units_per_block + offset));
        }
        self.next.remove(&block);
    }
}

#[derive(Clone, Copy, Debug)]
enum Host {
    Write(u32),
    Run(u32, u32),
    Discard(u32),
    Close,
}

/// Runs the host's commands and compares the layer with the chip after each command. `discards` is whether
/// the layer records discards.
fn check<F: Ftl>(mut ftl: F, chip: impl Fn(&F) -> &Chip, commands: &[Host], discards: bool) {
    let units = ftl.geometry().logical_units;
    let mut newest: BTreeMap<LogicalUnit, u64> = BTreeMap::new();
    let mut work = Work::default();
    let mut writes = 0;
    for command in commands {
        let mut write = |number: u32| {
            let unit = LogicalUnit(number % units);
            ftl.write(unit, &mut work);
            writes += 1;
            newest.insert(unit, writes);
        };
        match *command {
            Host::Write(unit) => write(unit),
            Host::Run(start, length) => (start..start + length).for_each(write),
            Host::Discard(unit) => {
                let unit = LogicalUnit(unit % units);
                ftl.discard(unit);
                if discards {
                    newest.remove(&unit);
                }
            }
            Host::Close => ftl.close_page(&mut work),
        }
        assert!(work.durable_after <= work.steps.len());
        work.clear();
        let mut located = BTreeMap::new();
        for unit in (0..units).map(LogicalUnit) {
            let physical = ftl.locate(unit);
            assert_eq!(
                physical.is_some(),
                newest.contains_key(&unit),
                "{unit:?} is written but not mapped, or mapped but not written"
            );
            let Some(physical) = physical else { continue };
            assert_eq!(
                chip(&ftl).content.get(&physical),
                Some(&(unit, newest[&unit])),
                "{unit:?} after {command:?}"
            );
            assert_eq!(located.insert(physical, unit), None, "two units at {physical:?}");
        }
        let census = ftl.census();
        assert_eq!(census.total, census.free + census.data + census.log, "{census:?} after {command:?}");
    }
    let totals = &work.totals;
    let pages = totals.host_programs * u64::from(ftl.geometry().units_per_page);
    assert!(pages + u64::from(ftl.geometry().units_per_page) > writes, "written data were lost");
}

fn commands(units: u32) -> impl Strategy<Value = Vec<Host>> {
    let one = prop_oneof![
        6 => (0..units).prop_map(Host::Write),
        // A few units are overwritten often.
        4 => (0..units / 8).prop_map(Host::Write),
        3 => (0..units, 1..40u32).prop_map(|(start, length)| Host::Run(start, length)),
        2 => (0..units / 16, Just(16u32)).prop_map(|(block, length)| Host::Run(block * 16, length)),
        1 => (0..units).prop_map(Host::Discard),
        1 => Just(Host::Close),
    ];
    prop::collection::vec(one, 1..150)
}

fn geometry(units_per_page: u32, dies: u32) -> Geometry {
    Geometry { logical_units: 150, units_per_block: 16, units_per_page, dies }
}

fn chip() -> Chip {
    Chip { units_per_block: 16, ..Chip::default() }
}

proptest! {
    #[test]
    fn bast_loses_nothing(commands in commands(150), logs in 1u32..5, fifo: bool, dies in 1u32..3, seed: u64) {
        let victim = if fifo { Victim::Fifo } else { Victim::Lru };
        check(Bast::new(geometry(1, dies), logs, victim, seed, chip()), |ftl| &ftl.data.watch, &commands, false);
    }

    #[test]
    fn fast_loses_nothing(commands in commands(150), logs in 1u32..5, dies in 1u32..3, seed: u64) {
        check(Fast::new(geometry(1, dies), logs, seed, chip()), |ftl| &ftl.data.watch, &commands, false);
    }

    #[test]
    fn the_page_map_loses_nothing(
        commands in commands(150), page in 0u32..3, dies in 1u32..3, spare in 7u32..10, greedy: bool, seed: u64,
    ) {
        let collection = if greedy { Collection::Greedy } else { Collection::CostBenefit };
        let ftl = PageMap::new(geometry(1 << page, dies), spare, collection, seed, chip());
        check(ftl, |ftl| &ftl.watch, &commands, true);
    }
}

/// Returns a geometry with erase blocks of 128 units, for the formulas.
fn large(logical_units: u32) -> Geometry {
    Geometry { logical_units, units_per_block: 128, units_per_page: 1, dies: 1 }
}

/// Writes all units sequentially, and then random units below `range`: first `settle` writes, then
/// `counted` writes. Returns the totals of the counted writes.
fn uniform(ftl: &mut impl Ftl, range: u32, settle: u64, counted: u64) -> Totals {
    let mut work = Work::default();
    let mut random = Random::new(5);
    for unit in 0..ftl.geometry().logical_units {
        ftl.write(LogicalUnit(unit), &mut work);
        work.clear();
    }
    for _ in 0..settle {
        ftl.write(LogicalUnit::new(random.below(u64::from(range))), &mut work);
        work.clear();
    }
    work.totals = Totals::default();
    for _ in 0..counted {
        ftl.write(LogicalUnit::new(random.below(u64::from(range))), &mut work);
        work.clear();
    }
    work.totals
}

#[test]
fn greedy_write_amplification_is_the_formula() {
    // For large blocks and uniform random writes, the valid share `x` of a victim solves `u = (x - 1) / ln
    // x`, where `u` is the used share of the flash. Write amplification is 1 / (1 - x) (Menon 1995; Desnoyers
    // 2012).
    for spare_percent in [7, 15, 28, 50] {
        let geometry = Geometry { logical_units: 1 << 18, units_per_block: 512, units_per_page: 1, dies: 1 };
        let spare = geometry.logical_blocks() * spare_percent / 100;
        let mut ftl = PageMap::new(geometry, spare, Collection::Greedy, 1, Unwatched);
        let totals = uniform(&mut ftl, 1 << 18, 3 << 18, 1 << 19);
        let given = 1.0 + totals.copy_programs as f64 / totals.host_programs as f64;
        // Three superblocks are free and two are half full, so the space of four superblocks contains no
        // data.
        let usable = f64::from(geometry.logical_blocks() + spare) - 4.0;
        let u = f64::from(geometry.logical_blocks()) / usable;
        let (mut low, mut high) = (1e-9, 1.0 - 1e-9);
        for _ in 0..100 {
            let x: f64 = (low + high) / 2.0;
            if (x - 1.0) / x.ln() < u { low = x } else { high = x }
        }
        let wanted = 1.0 / (1.0 - low);
        let off = given / wanted - 1.0;
        assert!(off.abs() < 0.03, "{spare_percent} % spare: {given:.3}, the formula gives {wanted:.3}");
    }
}

#[test]
fn the_miss_rate_of_bast_is_the_formula() {
    // Uniform random writes over R units with N logs of B units: m = 1 - N B / R.
    for (logs, blocks) in [(1u32, 8u32), (2, 16), (4, 16), (8, 64)] {
        let geometry = large(128 * 64);
        let mut ftl = Bast::new(geometry, logs, Victim::Lru, 1, Unwatched);
        let totals = uniform(&mut ftl, blocks * 128, 10_000, 200_000);
        let merges = totals.full_merges + totals.partial_merges + totals.switch_merges;
        let given = merges as f64 / totals.host_programs as f64;
        let wanted = 1.0 - f64::from(logs) / f64::from(blocks);
        assert!((given / wanted - 1.0).abs() < 0.01, "{logs} logs, {blocks} blocks: {given}, not {wanted}");
        // Merges copy a complete block, except merges of log blocks that begin with the first unit.
        assert!(totals.full_merges as f64 > 0.95 * merges as f64);
        let copies = totals.copy_programs as f64 / merges as f64;
        assert!((copies / 128.0 - 1.0).abs() < 0.02, "{copies} copies per merge");
    }
}

#[test]
fn the_merges_of_fast_are_the_formula() {
    // P writes fill a log block; they include a write to a given data block with probability p = 1 - (1 -
    // 1/D)^P. After a merge, the data block is written again after 1/p log blocks. After N - 1 more log
    // blocks, the log block with this write is reclaimed and the data block is merged again. Therefore, there
    // are D / (1/p + N - 1) merges per log block.
    for (logs, blocks) in [(1u32, 64u32), (2, 256), (4, 512), (8, 16)] {
        let geometry = large(128 * 512);
        let mut ftl = Fast::new(geometry, logs, 1, Unwatched);
        let totals = uniform(&mut ftl, blocks * 128, 20_000, 200_000);
        // One of P written units is the first unit of its block and goes to the sequential log block.
        let log_blocks = totals.host_programs as f64 * 127.0 / 128.0 / 128.0;
        let given = totals.full_merges as f64 / log_blocks;
        let d = f64::from(blocks);
        let p = 1.0 - (1.0 - 1.0 / d).powi(128);
        let wanted = d / (1.0 / p + f64::from(logs) - 1.0);
        assert!((given / wanted - 1.0).abs() < 0.02, "{logs} logs, {blocks} blocks: {given}, not {wanted}");
    }
}

#[test]
fn writing_in_order_costs_switch_merges_only() {
    let geometry = large(128 * 16);
    let mut work = Work::default();
    let mut bast = Bast::new(geometry, 2, Victim::Lru, 1, Unwatched);
    let mut fast = Fast::new(geometry, 2, 1, Unwatched);
    for ftl in [&mut bast as &mut dyn Ftl, &mut fast] {
        work.totals = Totals::default();
        for unit in (0..5).flat_map(|_| 0..128 * 16) {
            ftl.write(LogicalUnit(unit), &mut work);
            work.clear();
        }
        assert_eq!(
            (work.totals.full_merges, work.totals.partial_merges, work.totals.copy_programs),
            (0, 0, 0)
        );
        assert!(work.totals.switch_merges >= 4 * 16 - 2, "{:?}", work.totals);
    }
}
