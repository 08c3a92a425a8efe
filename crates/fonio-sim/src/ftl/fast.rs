//! FAST: fully associative log blocks.
//!
//! Data blocks are mapped block by block, as in [`super::bast`], but the log blocks belong to nobody. One log block takes
//! what is written in order from the beginning of a block (SW), the others take everything else as it comes (RW). When
//! they are full, the oldest is reclaimed: every data block that still has a newest copy in it is merged in full. Random
//! writes cost more the further they spread, without a cliff.
//!
//! A write at the beginning of a block closes the SW log, by a switch merge where it is full and a partial merge else.

use std::collections::VecDeque;

use super::bits::{BlockBits, count_from, end_of};
use super::{Census, Ftl, Geometry, NONE, Step, Unwatched, Watch, Work};
use crate::random::Random;

/// The FAST layer.
#[derive(Debug)]
pub struct Fast<W = Unwatched> {
    geometry: Geometry,
    random_logs: usize,
    /// Erase block of each logical block.
    data: Vec<u32>,
    /// Units that stand at their own offset in the data block, though a newer copy may be in a log.
    in_place: BlockBits,
    /// First place of each data block that can still be programmed.
    next: Vec<u32>,
    sequential: Option<SequentialLog>,
    /// RW logs, oldest first.
    random: VecDeque<RandomLog>,
    /// Where in the RW logs the newest copy of a unit stands; meaningful where `in_random` says so.
    random_place: Vec<u32>,
    in_random: BlockBits,
    free: VecDeque<u32>,
    total_blocks: u32,
    pub(crate) watch: W,
}

#[derive(Clone, Copy, Debug)]
struct SequentialLog {
    block: u32,
    owner: u32,
    used: u32,
}

#[derive(Debug)]
struct RandomLog {
    block: u32,
    /// The logical unit at each place.
    units: Vec<u32>,
}

impl<W: Watch> Fast<W> {
    /// A device never written, with `random_logs` RW log blocks beside the SW log block. The seed puts the erase blocks
    /// in order.
    ///
    /// # Panics
    ///
    /// Where there is no RW log block.
    pub fn new(geometry: Geometry, random_logs: u32, seed: u64, watch: W) -> Fast<W> {
        assert!(random_logs > 0, "FAST has an RW log block");
        let logical = geometry.logical_blocks();
        // Beside data and RW logs: the SW log, and the place that a merge needs before it can erase.
        let total_blocks = logical + random_logs + 2;
        let mut free: Vec<u32> = (0..total_blocks).collect();
        Random::new(seed).shuffle(&mut free);
        Fast {
            geometry,
            random_logs: random_logs as usize,
            data: vec![NONE; logical as usize],
            in_place: BlockBits::new(logical, geometry.units_per_block),
            next: vec![0; logical as usize],
            sequential: None,
            random: VecDeque::new(),
            random_place: vec![0; (logical * geometry.units_per_block) as usize],
            in_random: BlockBits::new(logical, geometry.units_per_block),
            free: free.into(),
            total_blocks,
            watch,
        }
    }

    fn take_free(&mut self) -> u32 {
        self.free.pop_front().expect("data, logs and one spare block are all that is ever in use")
    }

    fn erase(&mut self, block: u32, work: &mut Work) {
        self.watch.erase(block);
        self.free.push_back(block);
        work.push(Step { die: block % self.geometry.dies, erases: 1, ..Step::default() });
    }

    fn physical(&self, block: u32, place: u32) -> u32 {
        block * self.geometry.units_per_block + place
    }

    fn copy(&mut self, pages: u32, to: u32, work: &mut Work) {
        work.push(Step {
            die: to % self.geometry.dies,
            reads: pages,
            copy_programs: pages,
            ..Step::default()
        });
    }

    /// Makes the SW log the data block of its owner.
    fn close_sequential(&mut self, work: &mut Work) {
        let Some(SequentialLog { block, owner, used }) = self.sequential.take() else { return };
        let old = self.data[owner as usize];
        let units = self.geometry.units_per_block;
        if used == units {
            work.totals.switch_merges += 1;
        } else {
            work.totals.partial_merges += 1;
        }
        if W::ACTIVE {
            for place in used..units {
                if self.in_place.contains(owner, place) {
                    self.watch.copy(self.physical(old, place), self.physical(block, place));
                }
            }
        }
        self.copy(count_from(self.in_place.of_block(owner), used), block, work);
        for place in 0..used {
            self.in_place.insert(owner, place);
        }
        self.data[owner as usize] = block;
        self.next[owner as usize] = end_of(self.in_place.of_block(owner));
        if old != NONE {
            self.erase(old, work);
        }
    }

    /// Gathers the newest copy of every unit of a logical block in a fresh erase block.
    fn merge_full(&mut self, owner: u32, work: &mut Work) {
        work.totals.full_merges += 1;
        let fresh = self.take_free();
        let old = self.data[owner as usize];
        let units = self.geometry.units_per_block;
        if W::ACTIVE {
            for place in 0..units {
                if let Some(from) = self.locate(owner * units + place) {
                    self.watch.copy(from, self.physical(fresh, place));
                }
            }
        }
        // The SW log of this block is taken in with it.
        let absorbed = self.sequential.take_if(|log| log.owner == owner);
        if let Some(log) = absorbed {
            for place in 0..log.used {
                self.in_place.insert(owner, place);
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
        self.data[owner as usize] = fresh;
        self.next[owner as usize] = end_of(self.in_place.of_block(owner));
        if let Some(log) = absorbed {
            self.erase(log.block, work);
        }
        if old != NONE {
            self.erase(old, work);
        }
    }

    /// An RW log with room for one more unit is the last.
    fn make_random_room(&mut self, work: &mut Work) {
        if self.random.back().is_some_and(|log| log.units.len() < self.geometry.units_per_block as usize) {
            return;
        }
        let mut units = Vec::new();
        if self.random.len() == self.random_logs {
            let oldest = self.random.pop_front().expect("there is an RW log");
            for (place, unit) in oldest.units.iter().enumerate() {
                let (owner, at) =
                    (unit / self.geometry.units_per_block, unit % self.geometry.units_per_block);
                let here = self.physical(oldest.block, place as u32);
                if self.in_random.contains(owner, at) && self.random_place[*unit as usize] == here {
                    self.merge_full(owner, work);
                }
            }
            self.erase(oldest.block, work);
            units = oldest.units;
            units.clear();
        }
        units.reserve_exact(self.geometry.units_per_block as usize);
        let block = self.take_free();
        self.random.push_back(RandomLog { block, units });
    }

    /// Where a host write of this unit goes.
    fn place(&mut self, unit: u32, work: &mut Work) -> u32 {
        let units = self.geometry.units_per_block;
        let (logical, place) = (unit / units, unit % units);
        if self.data[logical as usize] == NONE {
            self.data[logical as usize] = self.take_free();
        }
        if place >= self.next[logical as usize] {
            self.next[logical as usize] = place + 1;
            self.in_place.insert(logical, place);
            return self.physical(self.data[logical as usize], place);
        }
        if place == 0 {
            self.close_sequential(work);
            let block = self.take_free();
            self.sequential = Some(SequentialLog { block, owner: logical, used: 1 });
            self.in_random.remove(logical, 0);
            return self.physical(block, 0);
        }
        if let Some(log) = &mut self.sequential
            && log.owner == logical
            && log.used == place
        {
            log.used += 1;
            let block = log.block;
            self.in_random.remove(logical, place);
            return self.physical(block, place);
        }
        self.make_random_room(work);
        let log = self.random.back_mut().expect("room was made");
        let physical = log.block * units + log.units.len() as u32;
        log.units.push(unit);
        self.random_place[unit as usize] = physical;
        self.in_random.insert(logical, place);
        physical
    }
}

impl<W: Watch> Ftl for Fast<W> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn write(&mut self, unit: u32, work: &mut Work) {
        assert!(unit < self.geometry.logical_units, "unit {unit} is not on the device");
        let physical = self.place(unit, work);
        self.watch.program(unit, physical);
        work.program_host_page(self.die_of(physical));
    }

    fn close_page(&mut self, _: &mut Work) {}

    /// Cards of this kind keep no record of single discarded units; a merge copies them on.
    fn discard(&mut self, _: u32) {}

    fn locate(&self, unit: u32) -> Option<u32> {
        let units = self.geometry.units_per_block;
        let (logical, place) = (unit / units, unit % units);
        if self.in_random.contains(logical, place) {
            return Some(self.random_place[unit as usize]);
        }
        if let Some(log) = &self.sequential
            && log.owner == logical
            && place < log.used
        {
            return Some(self.physical(log.block, place));
        }
        self.in_place.contains(logical, place).then(|| self.physical(self.data[logical as usize], place))
    }

    fn die_of(&self, physical: u32) -> u32 {
        physical / self.geometry.units_per_block % self.geometry.dies
    }

    fn census(&self) -> Census {
        Census {
            total: self.total_blocks,
            free: self.free.len() as u32,
            data: self.data.iter().filter(|block| **block != NONE).count() as u32,
            log: self.random.len() as u32 + u32::from(self.sequential.is_some()),
        }
    }
}
