//! Page mapping: every unit can stand anywhere, and garbage collection gathers what is still valid.
//!
//! The erase blocks of all dies with the same number form a superblock, filled page by page across the dies. The host's
//! data and the collector's copies go to superblocks of their own, so that what survived once is kept apart from what
//! was just written. Collection is paced: with few superblocks left, each page of the host is followed by as many copies
//! as it takes to have emptied the victim when its gain is used up.
//!
//! Which superblock is collected: *greedy* takes the one with the fewest valid units; *cost-benefit* (Rosenblum,
//! Ousterhout 1992) weighs what is gained against the cost by age, `(1 - u) × age / 2u`.

use std::collections::VecDeque;

use super::bits::BlockBits;
use super::{Census, Ftl, Geometry, NONE, Step, Unwatched, Watch, Work};
use crate::random::Random;

/// How the victim of garbage collection is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collection {
    /// Fewest valid units first.
    Greedy,
    /// Space gained times age over cost.
    CostBenefit,
}

/// Superblocks beyond the logical ones that the layer needs in order to work at all: two being written, those held back
/// for the collector, and one so that a closed one always has room to gain.
pub const SPARE_BLOCKS_MIN: u32 = 7;

/// Collection begins when so few are free: one for each stream and one in hand.
const FREE_LOW: usize = 3;

/// Marks a superblock that is not to be collected, above any count of valid units.
const NOT_CLOSED: u32 = 1 << 31;

/// The page-mapping layer.
#[derive(Debug)]
pub struct PageMap<W = Unwatched> {
    geometry: Geometry,
    collection: Collection,
    /// Each logical unit's place and one more, 0 where it has none: zeroed memory is not touched before it is used.
    to_physical: Vec<u32>,
    /// The logical unit at each place; meaningful where `valid` says so.
    to_logical: Vec<u32>,
    valid: BlockBits,
    /// Valid units of each superblock, with [`NOT_CLOSED`].
    valid_count: Vec<u32>,
    /// The write at which each superblock was closed.
    closed_at: Vec<u64>,
    free: VecDeque<u32>,
    host: Stream,
    copies: Stream,
    victim: Option<Collecting>,
    /// Pages read and programmed on each die by the collection under way.
    copied: Vec<(u32, u32)>,
    /// A page's number is its first unit's, shifted by this.
    page_shift: u32,
    /// A page's die is its number under this mask.
    die_mask: u32,
    writes: u64,
    pub(crate) watch: W,
}

/// A superblock being written.
#[derive(Clone, Copy, Debug)]
struct Stream {
    block: u32,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Collecting {
    block: u32,
    /// Where to look for the next valid unit.
    next: u32,
    /// Copies for each page of the host.
    copies_per_page: u32,
    /// The page read last, whose other units are at hand.
    page_read: u32,
}

impl<W: Watch> PageMap<W> {
    /// A device never written, with `spare_blocks` superblocks beyond the logical ones. The seed puts the superblocks
    /// in order.
    ///
    /// # Panics
    ///
    /// Where there are fewer spare superblocks than [`SPARE_BLOCKS_MIN`], more units than 2³¹, or a number of dies or of
    /// units in a page that is no power of two.
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
        assert!(units < u64::from(NOT_CLOSED), "{units} units are too many");
        assert!(
            geometry.units_per_page.is_power_of_two() && geometry.dies.is_power_of_two(),
            "dies and units in a page are powers of two"
        );
        let mut free: Vec<u32> = (0..total).collect();
        Random::new(seed).shuffle(&mut free);
        let mut free = VecDeque::from(free);
        let mut open = || Stream { block: free.pop_front().expect("spare superblocks are many"), next: 0 };
        let (host, copies) = (open(), open());
        PageMap {
            geometry,
            collection,
            to_physical: vec![0; geometry.logical_units as usize],
            to_logical: vec![0; units as usize],
            valid: BlockBits::new(total, geometry.units_per_block),
            valid_count: vec![NOT_CLOSED; total as usize],
            closed_at: vec![0; total as usize],
            free,
            host,
            copies,
            victim: None,
            copied: vec![(0, 0); geometry.dies as usize],
            page_shift: geometry.units_per_page.trailing_zeros(),
            die_mask: geometry.dies - 1,
            writes: 0,
            watch,
        }
    }

    fn die_of_page(&self, place: u32) -> u32 {
        place >> self.page_shift & self.die_mask
    }

    fn invalidate(&mut self, physical: u32) {
        let (block, place) =
            (physical / self.geometry.units_per_block, physical % self.geometry.units_per_block);
        self.valid.remove(block, place);
        self.valid_count[block as usize] -= 1;
    }

    fn map(&mut self, unit: u32, block: u32, place: u32) -> u32 {
        let physical = block * self.geometry.units_per_block + place;
        self.to_physical[unit as usize] = physical + 1;
        self.to_logical[physical as usize] = unit;
        self.valid.insert(block, place);
        self.valid_count[block as usize] += 1;
        physical
    }

    /// A stream whose superblock has room.
    fn with_room(&mut self, stream: Stream, work: &mut Work) -> Stream {
        if stream.next < self.geometry.units_per_block {
            return stream;
        }
        self.valid_count[stream.block as usize] -= NOT_CLOSED;
        self.closed_at[stream.block as usize] = self.writes;
        // Pacing keeps this from ever being needed but where nearly all units are valid.
        while self.free.len() < 2 && self.victim.is_some() {
            self.collect(u32::MAX, work);
        }
        Stream { block: self.free.pop_front().expect("collection keeps a superblock free"), next: 0 }
    }

    fn choose_victim(&self) -> u32 {
        let block = match self.collection {
            Collection::Greedy => {
                let (mut best, mut fewest) = (0, u32::MAX);
                for (block, count) in self.valid_count.iter().enumerate() {
                    if *count < fewest {
                        (best, fewest) = (block, *count);
                    }
                }
                best
            }
            Collection::CostBenefit => {
                let units = f64::from(self.geometry.units_per_block);
                let (mut best, mut most) = (0, -1.0);
                for (block, count) in self.valid_count.iter().enumerate() {
                    if *count >= self.geometry.units_per_block {
                        continue;
                    }
                    let used = f64::from(*count) / units;
                    let age = (self.writes - self.closed_at[block] + 1) as f64;
                    let benefit = if *count == 0 { f64::MAX } else { (1.0 - used) * age / (2.0 * used) };
                    if benefit > most {
                        (best, most) = (block, benefit);
                    }
                }
                best
            }
        };
        assert!(
            self.valid_count[block] < self.geometry.units_per_block,
            "spare superblocks leave something to gain"
        );
        block as u32
    }

    /// Copies up to `copies` valid units out of the victim, and erases it once it is empty.
    fn collect(&mut self, copies: u32, work: &mut Work) {
        let Some(mut victim) = self.victim.take() else { return };
        let mut left = copies;
        while left > 0 && victim.next < self.geometry.units_per_block {
            self.copies = self.with_room(self.copies, work);
            let room = self.geometry.units_per_block - self.copies.next;
            left -= self.copy_from_word(&mut victim, left.min(room));
        }
        for die in 0..self.geometry.dies {
            let (reads, copy_programs) = std::mem::take(&mut self.copied[die as usize]);
            if reads + copy_programs > 0 {
                work.push(Step { die, reads, copy_programs, ..Step::default() });
            }
        }
        if self.valid_count[victim.block as usize] == NOT_CLOSED {
            return self.finish(victim.block, work);
        }
        self.victim = Some(victim);
    }

    /// Copies up to `copies` units out of the 64 that the victim's next one is among, and says how many there were. Nearly
    /// all of the simulator's time goes by here: what can be is done for all of them at once.
    fn copy_from_word(&mut self, victim: &mut Collecting, copies: u32) -> u32 {
        let units = self.geometry.units_per_block;
        let valid = self.valid.word_from(victim.block, victim.next);
        let word_start = victim.next / 64 * 64;
        let (mut rest, mut taken) = (valid, 0);
        let from_base = victim.block * units + word_start;
        let to_base = self.copies.block * units + self.copies.next;
        while rest != 0 && taken < copies {
            let bit = rest.trailing_zeros();
            rest &= rest - 1;
            let page = (word_start + bit) >> self.page_shift;
            if page != victim.page_read {
                victim.page_read = page;
                self.copied[(page & self.die_mask) as usize].0 += 1;
            }
            let unit = self.to_logical[(from_base + bit) as usize];
            let to = to_base + taken;
            self.watch.copy(from_base + bit, to);
            self.to_logical[to as usize] = unit;
            self.to_physical[unit as usize] = to + 1;
            taken += 1;
        }
        victim.next = if rest == 0 { word_start + 64 } else { word_start + rest.trailing_zeros() };
        self.valid.clear_bits(victim.block, word_start, valid & !rest);
        self.valid.insert_range(self.copies.block, self.copies.next, taken);
        self.valid_count[victim.block as usize] -= taken;
        self.valid_count[self.copies.block as usize] += taken;
        let full_before = self.copies.next >> self.page_shift;
        self.copies.next += taken;
        for page in full_before..self.copies.next >> self.page_shift {
            self.copied[(page & self.die_mask) as usize].1 += 1;
        }
        taken
    }

    fn finish(&mut self, block: u32, work: &mut Work) {
        assert_eq!(self.valid_count[block as usize], NOT_CLOSED, "an erased superblock holds nothing");
        // A power cut must not find a copy in RAM only once its original is erased.
        let filled = self.copies.next % self.geometry.units_per_page;
        if filled != 0 {
            let die = self.die_of_page(self.copies.next);
            self.copies.next += self.geometry.units_per_page - filled;
            work.push(Step { die, copy_programs: 1, ..Step::default() });
        }
        self.watch.erase(block);
        for die in 0..self.geometry.dies {
            work.push(Step { die, erases: 1, ..Step::default() });
        }
        self.free.push_back(block);
    }

    fn keep_house(&mut self, work: &mut Work) {
        if self.victim.is_none() {
            if self.free.len() > FREE_LOW {
                return;
            }
            let block = self.choose_victim();
            let units = self.geometry.units_per_block;
            let valid = self.valid_count[block as usize];
            let pages_gained = (units - valid).div_euclid(self.geometry.units_per_page).max(1);
            self.valid_count[block as usize] += NOT_CLOSED;
            self.victim = Some(Collecting {
                block,
                next: 0,
                copies_per_page: valid.div_ceil(pages_gained).max(1),
                page_read: NONE,
            });
        }
        if let Some(victim) = self.victim {
            self.collect(victim.copies_per_page, work);
        }
    }

    fn program_open_page(&mut self, work: &mut Work) {
        work.program_host_page(self.die_of_page(self.host.next - 1));
        self.keep_house(work);
    }
}

impl<W: Watch> Ftl for PageMap<W> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn write(&mut self, unit: u32, work: &mut Work) {
        if let Some(old) = self.locate(unit) {
            self.invalidate(old);
        }
        self.writes += 1;
        self.host = self.with_room(self.host, work);
        let physical = self.map(unit, self.host.block, self.host.next);
        self.watch.program(unit, physical);
        self.host.next += 1;
        if self.host.next.trailing_zeros() >= self.page_shift {
            self.program_open_page(work);
        }
    }

    fn close_page(&mut self, work: &mut Work) {
        let filled = self.host.next % self.geometry.units_per_page;
        if filled != 0 {
            self.host.next += self.geometry.units_per_page - filled;
            self.program_open_page(work);
        }
    }

    fn discard(&mut self, unit: u32) {
        if let Some(old) = self.locate(unit) {
            self.to_physical[unit as usize] = 0;
            self.invalidate(old);
        }
    }

    fn locate(&self, unit: u32) -> Option<u32> {
        self.to_physical[unit as usize].checked_sub(1)
    }

    fn die_of(&self, physical: u32) -> u32 {
        self.die_of_page(physical % self.geometry.units_per_block)
    }

    fn census(&self) -> Census {
        let total = self.valid_count.len() as u32;
        let free = self.free.len() as u32;
        let open = 2 + u32::from(self.victim.is_some());
        Census { total, free, data: total - free - open, log: open }
    }
}
