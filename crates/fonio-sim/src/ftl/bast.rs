//! BAST: block-associative log blocks (Kim, Kim, Noh, Min, Cho 2002).
//!
//! Data blocks are mapped block by block: a unit stands at its own offset. An overwrite cannot go there and is appended
//! to a log block that belongs to this one data block. There are few log blocks; when all are owned, one is merged with
//! its data block to make room:
//!
//! - *switch*: the log holds the whole block in order and becomes the data block; one erase.
//! - *partial*: the log holds the beginning in order; the rest is copied behind it; one erase.
//! - *full*: everything is gathered in a fresh block; two erases.
//!
//! Random writes over more data blocks than there are log blocks merge logs that are nearly empty: the cliff.

use std::collections::VecDeque;

use super::bits::{BlockBits, count_from, end_of};
use super::{Census, Ftl, Geometry, NONE, Step, Unwatched, Watch, Work};
use crate::random::Random;

/// Which log block makes room for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The one written longest ago.
    Lru,
    /// The one taken longest ago.
    Fifo,
}

/// The BAST layer. Every data block is `NONE` or an erase block of its own.
#[derive(Debug)]
pub struct Bast<W = Unwatched> {
    geometry: Geometry,
    victim: Victim,
    /// Erase block of each logical block.
    data: Vec<u32>,
    /// Units that were written in place, or brought there by a merge.
    in_place: BlockBits,
    /// First place of each data block that can still be programmed: flash pages are programmed in order.
    next: Vec<u32>,
    /// Index of each logical block's log.
    log_of: Vec<u32>,
    logs: Vec<Log>,
    free: VecDeque<u32>,
    total_blocks: u32,
    writes: u64,
    pub(crate) watch: W,
}

#[derive(Debug)]
struct Log {
    /// The erase block; `NONE` while the log is not in use.
    block: u32,
    owner: u32,
    used: u32,
    /// Unit `n` of the owner stands at place `n`, as far as it is written.
    in_order: bool,
    /// Where the newest copy of each offset stands; meaningful where `present` says so.
    places: Vec<u32>,
    present: Vec<u64>,
    used_at: u64,
}

impl<W: Watch> Bast<W> {
    /// A device never written, with `log_blocks` log blocks. The seed puts the erase blocks in order.
    ///
    /// # Panics
    ///
    /// Where there is no log block.
    pub fn new(geometry: Geometry, log_blocks: u32, victim: Victim, seed: u64, watch: W) -> Bast<W> {
        assert!(log_blocks > 0, "a log-block layer has a log block");
        let logical = geometry.logical_blocks();
        // One block more than data and logs together: a full merge needs a place before it can erase.
        let total_blocks = logical + log_blocks + 1;
        let mut free: Vec<u32> = (0..total_blocks).collect();
        Random::new(seed).shuffle(&mut free);
        let words = geometry.units_per_block.div_ceil(64) as usize;
        let log = || Log {
            block: NONE,
            owner: NONE,
            used: 0,
            in_order: true,
            places: vec![0; geometry.units_per_block as usize],
            present: vec![0; words],
            used_at: 0,
        };
        Bast {
            geometry,
            victim,
            data: vec![NONE; logical as usize],
            in_place: BlockBits::new(logical, geometry.units_per_block),
            next: vec![0; logical as usize],
            log_of: vec![NONE; logical as usize],
            logs: (0..log_blocks).map(|_| log()).collect(),
            free: free.into(),
            total_blocks,
            writes: 0,
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

    /// The log of `logical`, with room for one more unit.
    fn log_with_room(&mut self, logical: u32, work: &mut Work) -> usize {
        let owned = self.log_of[logical as usize];
        if owned != NONE {
            if self.logs[owned as usize].used < self.geometry.units_per_block {
                return owned as usize;
            }
            self.merge(owned as usize, work);
        }
        let index = self.logs.iter().position(|log| log.block == NONE).unwrap_or_else(|| {
            let (oldest, _) = self
                .logs
                .iter()
                .enumerate()
                .min_by_key(|(_, log)| log.used_at)
                .expect("there is a log block");
            self.merge(oldest, work);
            oldest
        });
        let block = self.take_free();
        let log = &mut self.logs[index];
        (log.block, log.owner, log.used, log.in_order) = (block, logical, 0, true);
        log.present.fill(0);
        log.used_at = self.writes;
        self.log_of[logical as usize] = index as u32;
        index
    }

    fn merge(&mut self, index: usize, work: &mut Work) {
        let log = &self.logs[index];
        let (log_block, owner, used, in_order) = (log.block, log.owner, log.used, log.in_order);
        let old = self.data[owner as usize];
        let units = self.geometry.units_per_block;
        if in_order {
            let rest = count_from(self.in_place.of_block(owner), used);
            if used == units {
                work.totals.switch_merges += 1;
            } else {
                work.totals.partial_merges += 1;
            }
            if W::ACTIVE {
                for place in used..units {
                    if self.in_place.contains(owner, place) {
                        self.watch.copy(self.physical(old, place), self.physical(log_block, place));
                    }
                }
            }
            self.copy(rest, log_block, work);
            self.data[owner as usize] = log_block;
        } else {
            work.totals.full_merges += 1;
            let fresh = self.take_free();
            let mut copied = 0;
            for (in_place, in_log) in self.in_place.of_block(owner).iter().zip(&self.logs[index].present) {
                copied += (in_place | in_log).count_ones();
            }
            if W::ACTIVE {
                for place in 0..units {
                    if let Some(from) = self.locate(owner * units + place) {
                        self.watch.copy(from, self.physical(fresh, place));
                    }
                }
            }
            self.copy(copied, fresh, work);
            self.data[owner as usize] = fresh;
            self.erase(log_block, work);
        }
        if old != NONE {
            self.erase(old, work);
        }
        for (word, in_log) in self.in_place.of_block_mut(owner).iter_mut().zip(&self.logs[index].present) {
            *word |= in_log;
        }
        self.next[owner as usize] = end_of(self.in_place.of_block(owner));
        self.log_of[owner as usize] = NONE;
        self.logs[index].block = NONE;
    }

    fn copy(&mut self, units: u32, to: u32, work: &mut Work) {
        let pages = units.div_ceil(self.geometry.units_per_page);
        work.push(Step {
            die: to % self.geometry.dies,
            reads: pages,
            copy_programs: pages,
            ..Step::default()
        });
    }
}

impl<W: Watch> Ftl for Bast<W> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn write(&mut self, unit: u32, work: &mut Work) {
        assert!(unit < self.geometry.logical_units, "unit {unit} is not on the device");
        let (logical, place) = (unit / self.geometry.units_per_block, unit % self.geometry.units_per_block);
        self.writes += 1;
        if self.data[logical as usize] == NONE && self.log_of[logical as usize] == NONE {
            self.data[logical as usize] = self.take_free();
        }
        let block = if self.data[logical as usize] != NONE && place >= self.next[logical as usize] {
            self.next[logical as usize] = place + 1;
            self.in_place.insert(logical, place);
            let block = self.data[logical as usize];
            self.watch.program(unit, self.physical(block, place));
            block
        } else {
            let index = self.log_with_room(logical, work);
            let log = &mut self.logs[index];
            let at = log.used;
            log.used += 1;
            log.in_order &= at == place;
            log.places[place as usize] = at;
            log.present[place as usize / 64] |= 1 << (place % 64);
            if self.victim == Victim::Lru {
                log.used_at = self.writes;
            }
            let block = log.block;
            self.watch.program(unit, self.physical(block, at));
            block
        };
        work.program_host_page(block % self.geometry.dies);
    }

    fn close_page(&mut self, _: &mut Work) {}

    /// Cards of this kind keep no record of single discarded units; a merge copies them on.
    fn discard(&mut self, _: u32) {}

    fn locate(&self, unit: u32) -> Option<u32> {
        let (logical, place) = (unit / self.geometry.units_per_block, unit % self.geometry.units_per_block);
        let index = self.log_of[logical as usize];
        if index != NONE {
            let log = &self.logs[index as usize];
            if log.present[place as usize / 64] >> (place % 64) & 1 == 1 {
                return Some(self.physical(log.block, log.places[place as usize]));
            }
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
            log: self.logs.iter().filter(|log| log.block != NONE).count() as u32,
        }
    }
}
