//! Page mapping: every unit can be at any address, and garbage collection gathers the valid units.
//!
//! The erase blocks with the same number on all dies form a superblock, which is filled page by page across
//! the dies. Host data and the collector's copies go to different superblocks, which separates old data from
//! new data. Collection is paced: while few superblocks are free, each page from the host is followed by a
//! number of copies. This number is large enough to empty the victim before the gained space is used up.
//!
//! Two rules can choose the victim. *Greedy* takes the superblock with the fewest valid units. *Cost-benefit*
//! (Rosenblum, Ousterhout 1992) takes the superblock with the largest `(1 - u) × age / 2u`, where `u` is the
//! share of valid units.

use std::collections::VecDeque;

use super::address::{Number, Table};
use super::bits::BlockBits;
use super::{
    Census, Die, EraseBlock, Ftl, Geometry, LogicalUnit, Offset, PhysicalUnit, Step, Unwatched, Watch, Work,
    shuffled_blocks,
};

/// The rule that chooses the victim of garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collection {
    /// Takes the superblock with the fewest valid units.
    Greedy,
    /// Takes the superblock with the largest value of space gained × age / cost.
    CostBenefit,
}

/// Minimum number of spare superblocks: two that are open for writing, three that are reserved for the
/// collector, and two that ensure that at least one closed superblock has invalid units.
pub const SPARE_BLOCKS_MIN: u32 = 7;

/// Collection begins when only this number of superblocks is free: one for each of the two streams, and one
/// spare.
const FREE_LOW: usize = 3;

/// The page-mapping translation layer.
#[derive(Debug)]
pub struct PageMap<W = Unwatched> {
    geometry: Geometry,
    collection: Collection,
    to_physical: Table<LogicalUnit, Option<PhysicalUnit>>,
    /// The unit at each address in flash; valid if `valid` has the address.
    to_logical: Table<PhysicalUnit, LogicalUnit>,
    valid: BlockBits<EraseBlock>,
    valid_units: Table<EraseBlock, ValidUnits>,
    /// For each superblock, the number of writes that the layer had executed when the superblock was closed.
    closed_at: Vec<u64>,
    free: VecDeque<EraseBlock>,
    host: Stream,
    copies: Stream,
    victim: Option<Collecting>,
    /// The number of pages that the current collection step reads and programs on each die.
    copied: Vec<CopiedPages>,
    /// Right shift that turns the offset of a page's first unit into the page's number in its superblock.
    page_shift: u32,
    /// Bit mask that turns a page's number into the number of its die.
    die_mask: u32,
    writes: u64,
    pub(crate) watch: W,
}

/// The number of valid units of a superblock, and whether it may be chosen as a victim. The values of
/// superblocks that may be chosen compare as less than all other values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ValidUnits(u32);

impl Number for ValidUnits {
    fn to_raw(self) -> u32 {
        self.0
    }
    fn from_raw(raw: u32) -> ValidUnits {
        ValidUnits(raw)
    }
}

impl ValidUnits {
    /// A bit above all bits of a number of units, set while a superblock is free, open or being collected.
    const IN_USE: u32 = 1 << 31;

    /// The value of a superblock that has no valid units and may not be chosen.
    const NONE_IN_USE: ValidUnits = ValidUnits(ValidUnits::IN_USE);

    fn plus(self, units: u32) -> ValidUnits {
        ValidUnits(self.0 + units)
    }

    fn minus(self, units: u32) -> ValidUnits {
        ValidUnits(self.0 - units)
    }

    /// Marks the value as selectable, because the superblock is full.
    fn closed(self) -> ValidUnits {
        assert!(self.of_closed().is_none(), "a superblock is closed only once");
        ValidUnits(self.0 - ValidUnits::IN_USE)
    }

    /// Marks the value as in use, because the superblock has been chosen as a victim.
    fn chosen(self) -> ValidUnits {
        assert!(self.of_closed().is_some(), "only a closed superblock is collected");
        ValidUnits(self.0 + ValidUnits::IN_USE)
    }

    /// Returns the number of valid units if the superblock may be chosen.
    fn of_closed(self) -> Option<u32> {
        (self.0 < ValidUnits::IN_USE).then_some(self.0)
    }
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    block: EraseBlock,
    /// First offset not yet written.
    next: Offset,
}

#[derive(Clone, Copy, Debug)]
struct Collecting {
    block: EraseBlock,
    /// The offset at which the search for the next valid unit continues.
    next: Offset,
    copies_per_page: u32,
    /// Pages with lower numbers have been read, if their units were needed.
    pages_read: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct CopiedPages {
    reads: u32,
    programs: u32,
}

impl<W: Watch> PageMap<W> {
    /// Makes an unwritten device with `spare_blocks` spare superblocks. The seed determines the order in
    /// which superblocks are used. Panics if there are fewer spare superblocks than [`SPARE_BLOCKS_MIN`], or
    /// if there are 2³¹ units or more, or if the number of dies or the number of units per page is not a
    /// power of two.
    pub fn new(
        geometry: Geometry,
        spare_blocks: u32,
        collection: Collection,
        seed: u64,
        watch: W,
    ) -> PageMap<W> {
        assert!(spare_blocks >= SPARE_BLOCKS_MIN, "{spare_blocks} spare superblocks are too few");
        let total = geometry.logical_blocks() + spare_blocks;
        let units = u64::from(total) * u64::from(geometry.units_per_block);
        assert!(units < u64::from(ValidUnits::IN_USE), "the model cannot address {units} units");
        assert!(
            geometry.units_per_page.is_power_of_two() && geometry.dies.is_power_of_two(),
            "the numbers of dies and of units per page are powers of two"
        );
        let mut free = shuffled_blocks(total, seed);
        let mut open =
            || Stream { block: free.pop_front().expect("there are spare superblocks"), next: Offset(0) };
        let (host, copies) = (open(), open());
        PageMap {
            geometry,
            collection,
            to_physical: Table::zeroed(geometry.logical_units),
            to_logical: Table::zeroed(units as u32),
            valid: BlockBits::new(total, geometry.units_per_block),
            valid_units: Table::filled(total, ValidUnits::NONE_IN_USE),
            closed_at: vec![0; total as usize],
            free,
            host,
            copies,
            victim: None,
            copied: vec![CopiedPages::default(); geometry.dies as usize],
            page_shift: geometry.units_per_page.trailing_zeros(),
            die_mask: geometry.dies - 1,
            writes: 0,
            watch,
        }
    }

    /// Returns the number of the page in its superblock.
    fn page_at(&self, offset: Offset) -> u32 {
        offset.0 >> self.page_shift
    }

    fn die_of_page(&self, page: u32) -> Die {
        Die(page & self.die_mask)
    }

    fn invalidate(&mut self, unit: PhysicalUnit) {
        let (block, offset) = self.geometry.erase_block(unit);
        self.valid.remove(block, offset);
        self.valid_units.update(block, |valid| valid.minus(1));
    }

    fn map(&mut self, unit: LogicalUnit, block: EraseBlock, offset: Offset) -> PhysicalUnit {
        let physical = self.geometry.physical_unit(block, offset);
        self.to_physical.set(unit, Some(physical));
        self.to_logical.set(physical, unit);
        self.valid.insert(block, offset);
        self.valid_units.update(block, |valid| valid.plus(1));
        physical
    }

    /// Returns the stream with room for one more unit. If the stream's superblock is full, the stream
    /// continues in a new superblock.
    fn with_room(&mut self, stream: Stream, work: &mut Work) -> Stream {
        if stream.next < self.geometry.block_end() {
            return stream;
        }
        self.valid_units.update(stream.block, ValidUnits::closed);
        self.closed_at[stream.block.0 as usize] = self.writes;
        // With paced collection, this loop is necessary only if nearly all units are valid.
        while self.free.len() < 2 && self.victim.is_some() {
            self.collect(self.geometry.units_per_block, work);
        }
        Stream { block: self.free.pop_front().expect("collection keeps a superblock free"), next: Offset(0) }
    }

    /// Returns the superblock to collect next, and its number of valid units.
    fn choose_victim(&self) -> (EraseBlock, u32) {
        let victim = match self.collection {
            Collection::Greedy => self.valid_units.least(),
            Collection::CostBenefit => self.most_beneficial(),
        };
        let (block, valid) = victim.expect("there are superblocks");
        let valid = valid.of_closed().filter(|valid| *valid < self.geometry.units_per_block);
        (block, valid.expect("spare superblocks leave invalid units in some superblock"))
    }

    /// Returns the closed superblock with the greatest benefit; if several have the same benefit, returns the
    /// first of them.
    fn most_beneficial(&self) -> Option<(EraseBlock, ValidUnits)> {
        let mut best = None;
        let mut most = f64::NEG_INFINITY;
        for (block, valid) in self.valid_units.iter() {
            let Some(units) = valid.of_closed() else { continue };
            let benefit = self.benefit(block, units);
            if benefit > most {
                (best, most) = (Some((block, valid)), benefit);
            }
        }
        best
    }

    /// Returns the space gained × age / cost of collecting a superblock.
    fn benefit(&self, block: EraseBlock, valid: u32) -> f64 {
        let used = f64::from(valid) / f64::from(self.geometry.units_per_block);
        let age = (self.writes - self.closed_at[block.0 as usize] + 1) as f64;
        if valid == 0 { f64::INFINITY } else { (1.0 - used) * age / (2.0 * used) }
    }

    /// Copies up to `copies` valid units from the victim, and erases the victim when it is empty.
    fn collect(&mut self, copies: u32, work: &mut Work) {
        let Some(mut victim) = self.victim.take() else { return };
        let mut left = copies;
        while left > 0 && victim.next < self.geometry.block_end() {
            self.copies = self.with_room(self.copies, work);
            let room = self.geometry.units_per_block - self.copies.next.0;
            left -= self.copy_from_word(&mut victim, left.min(room));
        }
        for die in self.geometry.each_die() {
            let CopiedPages { reads, programs } = std::mem::take(&mut self.copied[die.index()]);
            if reads + programs > 0 {
                work.push(Step { die, reads, copy_programs: programs, ..Step::default() });
            }
        }
        if self.valid_units.get(victim.block) == ValidUnits::NONE_IN_USE {
            return self.finish(victim.block, work);
        }
        self.victim = Some(victim);
    }

    /// Copies up to `copies` units of the victim's next 64-unit word, and returns the number of copies. The
    /// simulator spends most of its time in this method, so bits and counts are updated once per word.
    fn copy_from_word(&mut self, victim: &mut Collecting, copies: u32) -> u32 {
        let valid = self.valid.word_from(victim.block, victim.next);
        let word_start = Offset(victim.next.0 / 64 * 64);
        let (mut rest, mut taken) = (valid, 0);
        let mut pages_read = victim.pages_read;
        let (page_shift, die_mask) = (self.page_shift, self.die_mask);
        let (mut to_logical, mut to_physical) = (self.to_logical.values(), self.to_physical.values());
        let copied = &mut self.copied[..];
        let from_base = self.geometry.physical_unit(victim.block, word_start);
        let to_base = self.geometry.physical_unit(self.copies.block, self.copies.next);
        while rest != 0 && taken < copies {
            let bit = rest.trailing_zeros();
            rest &= rest - 1;
            let page = (word_start.0 + bit) >> page_shift;
            // Units are copied in the order of their pages.
            if page >= pages_read {
                pages_read = page + 1;
                copied[(page & die_mask) as usize].reads += 1;
            }
            let (from, to) = (from_base.plus(bit), to_base.plus(taken));
            let unit = to_logical.get(from);
            self.watch.copy(from, to);
            to_logical.set(to, unit);
            to_physical.set(unit, Some(to));
            taken += 1;
        }
        victim.pages_read = pages_read;
        victim.next = word_start.plus(if rest == 0 { 64 } else { rest.trailing_zeros() });
        self.valid.clear_bits(victim.block, word_start, valid & !rest);
        self.valid.insert_range(self.copies.block, self.copies.next, taken);
        self.valid_units.update(victim.block, |valid| valid.minus(taken));
        self.valid_units.update(self.copies.block, |valid| valid.plus(taken));
        let full_before = self.page_at(self.copies.next);
        self.copies.next = self.copies.next.plus(taken);
        for page in full_before..self.page_at(self.copies.next) {
            let die = self.die_of_page(page);
            self.copied[die.index()].programs += 1;
        }
        taken
    }

    fn finish(&mut self, block: EraseBlock, work: &mut Work) {
        assert_eq!(
            self.valid_units.get(block),
            ValidUnits::NONE_IN_USE,
            "an erased superblock holds no valid unit"
        );
        // A copy must be in flash before the original is erased, because a power cut would lose a copy that
        // is only in RAM.
        if let Some(padding) = self.padding(self.copies.next) {
            let die = self.die_of_page(self.page_at(self.copies.next));
            self.copies.next = self.copies.next.plus(padding);
            work.push(Step { die, copy_programs: 1, ..Step::default() });
        }
        self.watch.erase(block);
        for die in self.geometry.each_die() {
            work.erase(die);
        }
        self.free.push_back(block);
    }

    /// Returns the number of missing units in the page that is partly written up to `next`; `None` if there
    /// is no such page.
    fn padding(&self, next: Offset) -> Option<u32> {
        let filled = next.0 % self.geometry.units_per_page;
        (filled != 0).then(|| self.geometry.units_per_page - filled)
    }

    /// Copies the units that are due after a host page.
    fn collect_after_page(&mut self, work: &mut Work) {
        if self.victim.is_none() {
            if self.free.len() > FREE_LOW {
                return;
            }
            let (block, valid) = self.choose_victim();
            let gained = self.geometry.units_per_block - valid;
            let pages_gained = (gained / self.geometry.units_per_page).max(1);
            self.valid_units.update(block, ValidUnits::chosen);
            self.victim = Some(Collecting {
                block,
                next: Offset(0),
                copies_per_page: valid.div_ceil(pages_gained).max(1),
                pages_read: 0,
            });
        }
        if let Some(victim) = self.victim {
            self.collect(victim.copies_per_page, work);
        }
    }

    /// Programs the last page of the host's stream.
    fn program_host_page(&mut self, work: &mut Work) {
        work.program_host_page(self.die_of_page(self.page_at(self.host.next) - 1));
        self.collect_after_page(work);
    }
}

impl<W: Watch> Ftl for PageMap<W> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn write(&mut self, unit: LogicalUnit, work: &mut Work) {
        if let Some(old) = self.locate(unit) {
            self.invalidate(old);
        }
        self.writes += 1;
        self.host = self.with_room(self.host, work);
        let physical = self.map(unit, self.host.block, self.host.next);
        self.watch.program(unit, physical);
        self.host.next = self.host.next.plus(1);
        if self.host.next.0.trailing_zeros() >= self.page_shift {
            self.program_host_page(work);
        }
    }

    fn close_page(&mut self, work: &mut Work) {
        if let Some(padding) = self.padding(self.host.next) {
            self.host.next = self.host.next.plus(padding);
            self.program_host_page(work);
        }
    }

    fn discard(&mut self, unit: LogicalUnit) {
        if let Some(old) = self.locate(unit) {
            self.to_physical.set(unit, None);
            self.invalidate(old);
        }
    }

    fn locate(&self, unit: LogicalUnit) -> Option<PhysicalUnit> {
        self.to_physical.get(unit)
    }

    fn die_of(&self, unit: PhysicalUnit) -> Die {
        let (_, offset) = self.geometry.erase_block(unit);
        self.die_of_page(self.page_at(offset))
    }

    fn census(&self) -> Census {
        let total = self.valid_units.length();
        let free = self.free.len() as u32;
        let open = 2 + u32::from(self.victim.is_some());
        Census { total, free, data: total - free - open, log: open }
    }

    fn erase_counts(&self) -> &[u32] {
        self.watch.erase_counts()
    }
}
