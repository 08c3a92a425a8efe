//! Which places are written and read again and again (the block-trace study's Figure 6 and section IV.C).

use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Re-written and re-read places. A place is 4 KiB of a device's address space; a request touches each place it covers
/// wholly or in part once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Locality {
    /// Share of the address space that was followed: 1 means every place. Below that, places were chosen in chunks of
    /// 256 KiB by a hash of their address, counts of places are scaled up by its reciprocal, and the ranking holds
    /// only the places followed.
    pub sampled_share: f64,
    /// Writes.
    pub written: PlaceCounts,
    /// Reads.
    pub read: PlaceCounts,
    /// The most written places, most written first, then by device and sector; at most 300, as in the study.
    pub most_written: Vec<Place>,
}

/// How often places are touched by one op.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlaceCounts {
    /// Distinct places.
    pub places: u64,
    /// Touches of places in all.
    pub touches: u64,
    /// Places touched more than once.
    pub again_places: u64,
    /// Share of touches that go to a place touched before.
    pub again_share: Option<f64>,
    /// Share of all touches that the 10 most touched places take.
    pub top_10_share: Option<f64>,
    /// The touches of the most touched place. For reads it stops at 255.
    pub most: u64,
    /// Fewest places that together take half of the touches.
    pub covering_50: u64,
    /// Fewest places that together take 90 percent of the touches.
    pub covering_90: u64,
    /// Fewest places that together take 99 percent of the touches.
    pub covering_99: u64,
}

/// One place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// Index into `devices` of the analysis.
    pub device: u32,
    /// Its first sector.
    pub sector: u64,
    /// How often it was written.
    pub writes: u64,
}

use crate::seen::Seen;

/// A place: the page size, and the smallest unit that flash file systems write.
const PLACE_SECTORS_SHIFT: u32 = 3;
/// Places in a chunk: 256 KiB, which keeps the places of a run of requests together.
const CHUNK_PLACES_SHIFT: u32 = 6;
const CHUNK_PLACES: usize = 1 << CHUNK_PLACES_SHIFT;
/// Chunks followed at most: 40 MiB of counts, 32 GiB of addresses when every chunk is touched.
const CHUNKS_MAX: usize = 1 << 17;
/// Chunks are allocated in slabs, so that growing copies nothing.
const SLAB_CHUNKS: usize = 256;
/// Bits of an address's hash that decide whether it is followed.
const HASH_BITS: u32 = 32;
/// Requests are taken in batches: a tight loop over them lets the processor wait for several chunks at once.
const BATCH: usize = 256;
/// Ranks that the study shows (Figure 6 ignores those after 300).
const RANKS: usize = 300;
/// The longest request that is followed in full, in places: 64 MiB. A damaged size must not take forever.
const PLACES_MAX: u64 = 1 << 14;

#[derive(Debug)]
struct Chunk {
    writes: [u32; CHUNK_PLACES],
    /// Reads saturate: the question is whether a place is read again.
    reads: [u8; CHUNK_PLACES],
}

/// Counts touches of places. Beyond [`CHUNKS_MAX`] chunks it keeps every second by the hash of its address, and again,
/// as SHARDS (Waldspurger et al., FAST 2015) does for cache simulation.
#[derive(Debug)]
pub(crate) struct PlaceTally {
    batch: Vec<Touch>,
    chunks_max: usize,
    /// Chunk address to number; the device is in the upper bits.
    index: FxHashMap<u64, u32>,
    slabs: Vec<Box<[Chunk]>>,
    /// Numbers of chunks that were given up and can be used again.
    free: Vec<u32>,
    used: u32,
    /// Chunks are followed whose hash has this many zeroes at its low end.
    thinned: u32,
}

#[derive(Clone, Copy, Debug)]
struct Touch {
    device: u32,
    write: bool,
    first: u64,
    last: u64,
}

/// Bits of a chunk's address below the device's.
const DEVICE_SHIFT: u32 = 48;

fn hash(chunk: u64) -> u64 {
    // The finaliser of splitmix64: a bijection, so that no two addresses share a hash.
    let mut hash = chunk.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

impl Default for PlaceTally {
    fn default() -> PlaceTally {
        PlaceTally::with_chunks_max(CHUNKS_MAX)
    }
}

impl PlaceTally {
    fn with_chunks_max(chunks_max: usize) -> PlaceTally {
        PlaceTally {
            batch: Vec::with_capacity(BATCH),
            chunks_max,
            index: FxHashMap::default(),
            slabs: Vec::new(),
            free: Vec::new(),
            used: 0,
            thinned: 0,
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, seen: &Seen) {
        let Some(sector) = seen.sector else { return };
        if !seen.has_data() || seen.bytes == 0 {
            return;
        }
        let end = sector.saturating_add(seen.bytes.div_ceil(fonio_core::SECTOR_BYTES));
        let first = sector >> PLACE_SECTORS_SHIFT;
        let last = (end - 1) >> PLACE_SECTORS_SHIFT;
        self.batch.push(Touch {
            device: seen.device as u32,
            write: seen.class.is_write(),
            first,
            last: last.min(first + (PLACES_MAX - 1)),
        });
        if self.batch.len() == BATCH {
            self.work_off();
        }
    }

    fn work_off(&mut self) {
        let mut batch = std::mem::take(&mut self.batch);
        for touch in &batch {
            let mut place = touch.first;
            while place <= touch.last {
                let chunk = place >> CHUNK_PLACES_SHIFT;
                let until = ((chunk + 1) << CHUNK_PLACES_SHIFT).min(touch.last + 1);
                let key = u64::from(touch.device) << DEVICE_SHIFT | chunk;
                if let Some(number) = self.number(key) {
                    let from = place as usize % CHUNK_PLACES;
                    let range = from..from + (until - place) as usize;
                    let chunk = &mut self.slabs[number as usize / SLAB_CHUNKS][number as usize % SLAB_CHUNKS];
                    if touch.write {
                        chunk.writes[range].iter_mut().for_each(|count| *count = count.saturating_add(1));
                    } else {
                        chunk.reads[range].iter_mut().for_each(|count| *count = count.saturating_add(1));
                    }
                }
                place = until;
            }
        }
        batch.clear();
        self.batch = batch;
    }

    #[inline]
    fn followed(&self, key: u64) -> bool {
        hash(key) & ((1 << self.thinned) - 1) == 0
    }

    #[inline]
    fn number(&mut self, key: u64) -> Option<u32> {
        if self.thinned > 0 && !self.followed(key) {
            return None;
        }
        if let Some(number) = self.index.get(&key) {
            return Some(*number);
        }
        while self.index.len() >= self.chunks_max && self.thinned < HASH_BITS {
            self.thin();
        }
        if !self.followed(key) {
            return None;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.used += 1;
            self.used - 1
        });
        if number as usize / SLAB_CHUNKS >= self.slabs.len() {
            let slab =
                (0..SLAB_CHUNKS).map(|_| Chunk { writes: [0; CHUNK_PLACES], reads: [0; CHUNK_PLACES] });
            self.slabs.push(slab.collect());
        }
        self.index.insert(key, number);
        Some(number)
    }

    /// Follows every second of the chunks followed so far.
    fn thin(&mut self) {
        self.thinned += 1;
        let mask = (1 << self.thinned) - 1;
        let mut given_up = Vec::new();
        self.index.retain(|key, number| {
            let keep = hash(*key) & mask == 0;
            if !keep {
                given_up.push(*number);
            }
            keep
        });
        // The map's order must not decide which chunk goes where, though nothing that is written shows it.
        given_up.sort_unstable();
        for number in &given_up {
            let chunk = &mut self.slabs[*number as usize / SLAB_CHUNKS][*number as usize % SLAB_CHUNKS];
            *chunk = Chunk { writes: [0; CHUNK_PLACES], reads: [0; CHUNK_PLACES] };
        }
        self.free.extend(given_up);
    }

    pub(crate) fn finish(mut self) -> Locality {
        self.work_off();
        let mut chunks: Vec<(u64, u32)> = self.index.iter().map(|(key, number)| (*key, *number)).collect();
        chunks.sort_unstable();
        let mut written = Ranking::default();
        let mut read = Ranking::default();
        let mut most_written: Vec<Place> = Vec::new();
        for (key, number) in chunks {
            let chunk = &self.slabs[number as usize / SLAB_CHUNKS][number as usize % SLAB_CHUNKS];
            for (place, (writes, reads)) in chunk.writes.iter().zip(&chunk.reads).enumerate() {
                read.add(u64::from(*reads));
                written.add(u64::from(*writes));
                let least = most_written.last().map_or(0, |place| place.writes);
                if *writes > 0 && (u64::from(*writes) > least || most_written.len() < RANKS) {
                    let place = Place {
                        device: (key >> DEVICE_SHIFT) as u32,
                        sector: ((key & ((1 << DEVICE_SHIFT) - 1)) << CHUNK_PLACES_SHIFT | place as u64)
                            << PLACE_SECTORS_SHIFT,
                        writes: u64::from(*writes),
                    };
                    // Places come in the order of their addresses, so equal counts stay in that order.
                    let rank = most_written.partition_point(|other| other.writes >= place.writes);
                    most_written.insert(rank, place);
                    most_written.truncate(RANKS);
                }
            }
        }
        Locality {
            sampled_share: 1.0 / (1u64 << self.thinned) as f64,
            written: written.finish(self.thinned),
            read: read.finish(self.thinned),
            most_written,
        }
    }
}

/// How many places have each count.
#[derive(Debug, Default)]
struct Ranking {
    /// Most places have small counts; these are kept apart from the map.
    small: [u64; 32],
    large: std::collections::BTreeMap<u64, u64>,
}

impl Ranking {
    fn add(&mut self, touches: u64) {
        match self.small.get_mut(touches as usize) {
            Some(places) => *places += 1,
            None => *self.large.entry(touches).or_default() += 1,
        }
    }

    fn finish(&self, thinned: u32) -> PlaceCounts {
        // From the most touched; a place without touches is none.
        let small = self.small.iter().enumerate().skip(1).map(|(touches, places)| (touches as u64, *places));
        let small: Vec<(u64, u64)> = small.filter(|(_, places)| *places > 0).collect();
        let ranked = || {
            let large = self.large.iter().rev().map(|(touches, places)| (*touches, *places));
            large.chain(small.iter().rev().copied())
        };
        let places: u64 = ranked().map(|(_, places)| places).sum();
        let touches: u64 = ranked().map(|(touches, places)| touches * places).sum();
        let covering = |percent: u64| {
            let mut wanted = (u128::from(touches) * u128::from(percent)).div_ceil(100) as u64;
            let mut covering = 0;
            for (touches, places) in ranked() {
                let take = wanted.div_ceil(touches).min(places);
                covering += take;
                wanted = wanted.saturating_sub(take * touches);
            }
            covering << thinned
        };
        let mut top = 10;
        let mut top_touches = 0;
        for (touches, places) in ranked() {
            let take = places.min(top);
            top_touches += take * touches;
            top -= take;
        }
        PlaceCounts {
            places: places << thinned,
            touches: touches << thinned,
            again_places: (places - self.small[1]) << thinned,
            again_share: crate::seen::ratio(touches - places, touches),
            top_10_share: crate::seen::ratio(top_touches, touches),
            most: ranked().next().map_or(0, |(touches, _)| touches),
            covering_50: covering(50),
            covering_90: covering(90),
            covering_99: covering(99),
        }
    }
}
