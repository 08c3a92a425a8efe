//! Finds places on the device that are written or read repeatedly (the block-trace study's Figure 6 and
//! section IV.C).

use std::collections::BTreeMap;
use std::ops::Range;

use fonio_core::{ByteCount, Random, Request, Sector};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Places that are written or read repeatedly. A place is 4 KiB of a device's address space. A request counts
/// as one touch of each place that it overlaps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Locality {
    /// Share of the address space in which touches were counted: 1 means every place. If the share is below
    /// 1, chunks of 256 KiB were sampled by a hash of their address. In this case, counts of places are
    /// divided by the share, and the ranking contains only sampled places.
    pub sampled_share: f64,
    /// Writes.
    pub written: PlaceCounts,
    /// Reads.
    pub read: PlaceCounts,
    /// The most written places (at most 300, as in the study), by descending number of writes, then by device
    /// and sector.
    pub most_written: Vec<Place>,
}

/// Counts how often requests of one op touch places.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlaceCounts {
    /// Number of distinct places.
    pub places: u64,
    /// Total number of touches.
    pub touches: u64,
    /// Number of places touched more than once.
    pub again_places: u64,
    /// Share of touches that go to places touched before.
    pub again_share: Option<f64>,
    /// Share of all touches that go to the 10 most touched places.
    pub top_10_share: Option<f64>,
    /// Number of touches of the most touched place.
    pub most: u64,
    /// Minimum number of places that cover half of the touches.
    pub covering_50: u64,
    /// Minimum number of places that cover 90 percent of the touches.
    pub covering_90: u64,
    /// Minimum number of places that cover 99 percent of the touches.
    pub covering_99: u64,
}

/// One place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// Index into `devices` of the analysis.
    pub device: u32,
    /// The first sector of the place.
    pub sector: Sector,
    /// Number of writes to the place.
    pub writes: u64,
}

use crate::figures::facts::{Facts, Frame};
use crate::question::Question;
use crate::question::context::Ending;
use crate::question::seen::Seen;

use super::regions::{self, Regions};

/// Size of a place (4 KiB) in sectors. This is the page size, and also the smallest unit that flash file
/// systems write.
const PLACE_SECTORS_SHIFT: u32 = 3;
/// Number of 4 KiB places per chunk of counters. A chunk has 256 KiB, so the places of sequential requests
/// share a chunk.
const CHUNK_PLACES_SHIFT: u32 = 6;
const CHUNK_PLACES: usize = 1 << CHUNK_PLACES_SHIFT;
/// Maximum number of chunks whose accesses are counted. Their counters take 17 MiB and cover 32 GiB of
/// addresses.
const CHUNKS_MAX: usize = 1 << 17;
/// Binary logarithm of the number of chunks per region. A region has 16 MiB. Chunks are looked up by region.
/// Few regions are active at a time, so the index of the active regions stays in the CPU cache.
const REGION_CHUNKS_SHIFT: u32 = 6;
const REGION_CHUNKS: usize = 1 << REGION_CHUNKS_SHIFT;
/// Number of chunks of counters that are allocated together. Allocating the counters in slabs avoids copying
/// as they grow.
const SLAB_CHUNKS: usize = 256;
/// Number of bits of a chunk's hash that decide whether the chunk is followed.
const HASH_BITS: u32 = 32;
/// Largest number of places that are counted one by one, which is faster than with vectors.
const FEW_PLACES: usize = 8;
const BATCH: usize = 256;
/// Number of ranks in Figure 6 of the study, which ranks places by accesses.
const RANKS: usize = 300;
/// Maximum number of places counted per request (64 MiB), so that a request with a corrupt size does not take
/// forever.
const PLACES_MAX: u64 = 1 << 14;

/// Number of reads and number of writes of each place in a chunk, modulo 256. The two arrays fill two cache
/// lines. `carried` counts the overflows.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Chunk([[u8; CHUNK_PLACES]; 2]);

const UNTOUCHED: Chunk = Chunk([[0; CHUNK_PLACES]; 2]);

/// Counts how often requests touch each place. If there are more than [`CHUNKS_MAX`] chunks, the tally drops
/// half of the chunks, chosen by the hash of their addresses, and repeats this when needed. SHARDS
/// (Waldspurger et al., FAST 2015) does the same for cache simulation.
#[derive(Debug)]
pub(crate) struct PlaceTally {
    batch: Vec<Touch>,
    /// For each touch in the batch: the number of its chunk, or [`NOT_FOLLOWED`].
    numbers: Vec<u32>,
    chunks_max: usize,
    /// For each region: the index of its table in `tables`. The upper bits of a region's key contain the
    /// device index.
    regions: Regions,
    /// For each region: the numbers of its chunks, or [`NOT_FOLLOWED`].
    tables: Vec<[u32; REGION_CHUNKS]>,
    followed: usize,
    slabs: Vec<Box<[Chunk]>>,
    /// For each chunk number: the number of reads and of writes that cover the complete chunk. Counting
    /// complete chunks separately makes large requests cheap.
    whole: Vec<[u64; 2]>,
    /// Touches of a place, in multiples of 256. The key consists of the chunk number, a flag for writes, and
    /// the place.
    carried: FxHashMap<(u32, bool, u8), u64>,
    /// Numbers of dropped chunks, which are reused.
    free: Vec<u32>,
    used: u32,
    /// Number of low bits of a chunk's hash that must be zero for the chunk to be followed.
    thinned: u32,
}

/// The places of one chunk that a request touches.
#[derive(Clone, Copy, Debug)]
struct Touch {
    key: u64,
    from: u8,
    until: u8,
    write: bool,
}

const NOT_FOLLOWED: u32 = u32::MAX;

/// Shift of the device index in a chunk's key; the bits below it are the chunk's address.
const DEVICE_SHIFT: u32 = regions::DEVICE_SHIFT + REGION_CHUNKS_SHIFT;

impl Default for PlaceTally {
    fn default() -> PlaceTally {
        PlaceTally::with_chunks_max(CHUNKS_MAX)
    }
}

impl PlaceTally {
    fn with_chunks_max(chunks_max: usize) -> PlaceTally {
        PlaceTally {
            batch: Vec::with_capacity(BATCH),
            numbers: Vec::with_capacity(BATCH),
            chunks_max,
            regions: Regions::default(),
            tables: Vec::new(),
            followed: 0,
            slabs: Vec::new(),
            whole: Vec::new(),
            carried: FxHashMap::default(),
            free: Vec::new(),
            used: 0,
            thinned: 0,
        }
    }

    /// Handles the batch in tight loops, so the processor loads several chunks in parallel.
    fn work_off(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let mut numbers = std::mem::take(&mut self.numbers);
        let mut thinned = u32::MAX;
        while thinned != self.thinned {
            // Thinning may have dropped chunks that this batch has already looked up, so look up all of them
            // again.
            thinned = self.thinned;
            numbers.clear();
            numbers.extend(batch.iter().map(|touch| {
                self.number(touch.key).or_else(|| self.follow(touch.key)).unwrap_or(NOT_FOLLOWED)
            }));
        }
        // Read each chunk once before it is used, so that the CPU loads several chunks in parallel.
        let mut first_counts = 0;
        for (touch, number) in batch.iter().zip(&numbers) {
            if let Some(slab) = self.slabs.get(*number as usize / SLAB_CHUNKS) {
                first_counts |= slab[*number as usize % SLAB_CHUNKS].0[usize::from(touch.write)][0];
            }
        }
        std::hint::black_box(first_counts);
        for (touch, number) in batch.iter().zip(&numbers) {
            if *number == NOT_FOLLOWED {
                continue;
            }
            let range = usize::from(touch.from)..usize::from(touch.until);
            if range.len() == CHUNK_PLACES {
                self.whole[*number as usize][usize::from(touch.write)] += 1;
                continue;
            }
            let chunk = &mut self.slabs[*number as usize / SLAB_CHUNKS][*number as usize % SLAB_CHUNKS];
            let counts = &mut chunk.0[usize::from(touch.write)];
            let has_wrapped = if range.len() <= FEW_PLACES {
                counts[range.clone()].iter_mut().fold(false, |has_wrapped, count| {
                    *count = count.wrapping_add(1);
                    has_wrapped | (*count == 0)
                })
            } else {
                add(counts, &ones(range.clone()))
            };
            if has_wrapped {
                for place in range.filter(|place| counts[*place] == 0) {
                    *self.carried.entry((*number, touch.write, place as u8)).or_default() += 256;
                }
            }
        }
        (self.batch, self.numbers) = (batch, numbers);
        self.batch.clear();
    }

    #[inline]
    fn is_followed(&self, key: u64) -> bool {
        Random::new(key).next_u64() & ((1 << self.thinned) - 1) == 0
    }

    #[inline]
    fn number(&mut self, key: u64) -> Option<u32> {
        if self.thinned > 0 && !self.is_followed(key) {
            return None;
        }
        let table = self.regions.get(key >> REGION_CHUNKS_SHIFT)?;
        let number = self.tables[table as usize][key as usize % REGION_CHUNKS];
        (number != NOT_FOLLOWED).then_some(number)
    }

    /// Assigns a number to a new chunk, unless sampling excludes it.
    #[cold]
    fn follow(&mut self, key: u64) -> Option<u32> {
        while self.followed >= self.chunks_max && self.thinned < HASH_BITS {
            self.thin();
        }
        if !self.is_followed(key) {
            return None;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.used += 1;
            self.used - 1
        });
        if number as usize / SLAB_CHUNKS >= self.slabs.len() {
            self.slabs.push(vec![UNTOUCHED; SLAB_CHUNKS].into_boxed_slice());
            self.whole.resize(self.slabs.len() * SLAB_CHUNKS, [0; 2]);
        }
        self.set(key, number);
        Some(number)
    }

    fn set(&mut self, key: u64, number: u32) {
        let region = key >> REGION_CHUNKS_SHIFT;
        let table = self.regions.get(region).unwrap_or_else(|| {
            self.tables.push([NOT_FOLLOWED; REGION_CHUNKS]);
            let table = self.tables.len() as u32 - 1;
            self.regions.insert(region, table);
            table
        });
        let slot = &mut self.tables[table as usize][key as usize % REGION_CHUNKS];
        assert!(*slot == NOT_FOLLOWED, "each chunk is numbered only once");
        *slot = number;
        self.followed += 1;
    }

    /// Returns the key and the number of each followed chunk, in order of addresses.
    fn chunks(&self) -> Vec<(u64, u32)> {
        let regions = self.regions.sorted();
        let chunks = regions.iter().flat_map(|(region, table)| {
            let keys = (0..).map(move |chunk| region << REGION_CHUNKS_SHIFT | chunk);
            keys.zip(self.tables[*table as usize])
        });
        let mut followed = Vec::with_capacity(self.followed);
        followed.extend(chunks.filter(|(_, number)| *number != NOT_FOLLOWED));
        followed
    }

    fn thin(&mut self) {
        self.thinned += 1;
        let chunks = self.chunks();
        self.regions.clear();
        self.tables.clear();
        self.followed = 0;
        let mut given_up = vec![false; self.used as usize];
        for (key, number) in chunks {
            if self.is_followed(key) {
                self.set(key, number);
                continue;
            }
            given_up[number as usize] = true;
            self.slabs[number as usize / SLAB_CHUNKS][number as usize % SLAB_CHUNKS] = UNTOUCHED;
            self.whole[number as usize] = [0; 2];
            self.free.push(number);
        }
        self.carried.retain(|(number, ..), _| !given_up[*number as usize]);
    }

    /// Returns how often a place was written (if `write` is true) or read.
    fn touches(&self, number: u32, write: bool, place: usize) -> u64 {
        let chunk = &self.slabs[number as usize / SLAB_CHUNKS][number as usize % SLAB_CHUNKS];
        let carried = if self.carried.is_empty() {
            0
        } else {
            self.carried.get(&(number, write, place as u8)).copied().unwrap_or(0)
        };
        u64::from(chunk.0[usize::from(write)][place])
            + self.whole[number as usize][usize::from(write)]
            + carried
    }
}

impl Question for PlaceTally {
    type Answer = Locality;

    #[inline]
    fn request(&mut self, _: &Request, seen: &Seen) {
        let Some(sector) = seen.sector else { return };
        if !seen.has_data() || seen.bytes == ByteCount(0) {
            return;
        }
        let end = sector.after(seen.bytes);
        let mut place = sector.0 >> PLACE_SECTORS_SHIFT;
        let last = ((end.0 - 1) >> PLACE_SECTORS_SHIFT).min(place + (PLACES_MAX - 1));
        // Ignore a request beyond the end of any real device, because the upper bits of the key contain the
        // device's number.
        if last >> CHUNK_PLACES_SHIFT >> DEVICE_SHIFT != 0 {
            return;
        }
        while place <= last {
            let chunk = place >> CHUNK_PLACES_SHIFT;
            let begin = chunk << CHUNK_PLACES_SHIFT;
            let until = (begin + CHUNK_PLACES as u64).min(last + 1);
            if self.batch.len() == BATCH {
                self.work_off();
            }
            self.batch.push(Touch {
                key: (seen.device as u64) << DEVICE_SHIFT | chunk,
                from: (place - begin) as u8,
                until: (until - begin) as u8,
                write: seen.class.is_write(),
            });
            place = until;
        }
    }

    fn finish(mut self, _: &mut Ending) -> Locality {
        self.work_off();
        let mut written = Ranking::default();
        let mut read = Ranking::default();
        let mut most_written: Vec<Place> = Vec::new();
        let mut has_carried = vec![false; self.used as usize];
        self.carried.keys().for_each(|(number, ..)| has_carried[*number as usize] = true);
        for (key, number) in self.chunks() {
            let Chunk([reads, writes]) =
                &self.slabs[number as usize / SLAB_CHUNKS][number as usize % SLAB_CHUNKS];
            let [whole_reads, whole_writes] = self.whole[number as usize];
            let has_carried = has_carried[number as usize];
            if has_carried {
                for place in 0..CHUNK_PLACES {
                    read.add(self.touches(number, false, place));
                    written.add(self.touches(number, true, place));
                }
            } else {
                read.add_all(reads, whole_reads);
                written.add_all(writes, whole_writes);
            }
            let least = most_written.last().map_or(0, |place| place.writes);
            let most = whole_writes + u64::from(writes.iter().copied().fold(0, u8::max));
            if most <= least && most_written.len() == RANKS && !has_carried {
                continue;
            }
            for place in 0..CHUNK_PLACES {
                let writes = self.touches(number, true, place);
                let least = most_written.last().map_or(0, |place| place.writes);
                if writes > 0 && (writes > least || most_written.len() < RANKS) {
                    let place = Place {
                        device: (key >> DEVICE_SHIFT) as u32,
                        sector: Sector(
                            ((key & ((1 << DEVICE_SHIFT) - 1)) << CHUNK_PLACES_SHIFT | place as u64)
                                << PLACE_SECTORS_SHIFT,
                        ),
                        writes,
                    };
                    // Places come in the order of their addresses, so places with equal counts stay in that order.
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

    fn figures(locality: &Locality, _: &Frame, facts: &mut Facts) {
        for (op, requests, places) in
            [("read", "reads", &locality.read), ("written", "writes", &locality.written)]
        {
            let name = |figure: &str| format!("locality.{op}.{figure}");
            facts.count(name("places"), format!("{requests}, distinct 4 KiB pages"), places.places);
            facts.count(name("most"), format!("{requests} to the most accessed page"), places.most);
            let again = format!("{requests} more than once, share of pages");
            facts.share(name("again_share"), again, places.again_share);
            let top = format!("{requests} to the ten most accessed pages, share");
            facts.share(name("top_10_share"), top, places.top_10_share);
        }
    }
}

/// Adds to all places of a chunk, also to those that get zero: this compiles to a few vector instructions. Returns
/// whether a count overflowed.
fn add(counts: &mut [u8; CHUNK_PLACES], ones: &[u8; CHUNK_PLACES]) -> bool {
    let mut has_wrapped = 0;
    for place in 0..CHUNK_PLACES {
        let sum = counts[place].wrapping_add(ones[place]);
        has_wrapped |= u8::from(sum < ones[place]);
        counts[place] = sum;
    }
    has_wrapped != 0
}

/// Returns 1 for each place of the range, and 0 for the other places.
fn ones(range: Range<usize>) -> [u8; CHUNK_PLACES] {
    /// `CHUNK_PLACES` ones followed by `CHUNK_PLACES` zeroes. The slice that starts at `CHUNK_PLACES - n`
    /// begins with `n` ones.
    const ONES: [u8; 2 * CHUNK_PLACES] = {
        let mut ones = [0; 2 * CHUNK_PLACES];
        let mut place = 0;
        while place < CHUNK_PLACES {
            ones[place] = 1;
            place += 1;
        }
        ones
    };
    let before = |until: usize| ONES[CHUNK_PLACES - until..].first_chunk::<CHUNK_PLACES>();
    let (Some(until), Some(from)) = (before(range.end), before(range.start)) else {
        return [0; CHUNK_PLACES];
    };
    std::array::from_fn(|place| until[place] - from[place])
}

/// For each number of touches: the number of places that were touched this many times.
#[derive(Debug)]
struct Ranking {
    /// Small counts, which most places have, are kept outside the map.
    small: [u64; SMALL],
    large: BTreeMap<u64, u64>,
}

/// Number of small counts: enough for any chunk that no request has covered completely.
const SMALL: usize = 512;

impl Default for Ranking {
    fn default() -> Ranking {
        Ranking { small: [0; SMALL], large: BTreeMap::new() }
    }
}

impl Ranking {
    /// Adds the places of a chunk. The number of touches of a place is `whole` plus the place's value in
    /// `counts`.
    fn add_all(&mut self, counts: &[u8; CHUNK_PLACES], whole: u64) {
        let small = usize::try_from(whole).ok().and_then(|whole| self.small.get_mut(whole..));
        let Some(small) = small.and_then(|small| small.first_chunk_mut::<256>()) else {
            return counts.iter().for_each(|count| self.add(whole + u64::from(*count)));
        };
        // A request touches neighbouring places, so these often have equal counts.
        let (eights, _) = counts.as_chunks::<8>();
        for eight in eights {
            if *eight == [eight[0]; 8] {
                small[usize::from(eight[0])] += 8;
            } else {
                eight.iter().for_each(|count| small[usize::from(*count)] += 1);
            }
        }
    }

    fn add(&mut self, touches: u64) {
        match self.small.get_mut(touches as usize) {
            Some(places) => *places += 1,
            None => *self.large.entry(touches).or_default() += 1,
        }
    }

    fn finish(&self, thinned: u32) -> PlaceCounts {
        // Returns the most touched places first, and skips places without touches.
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
            again_share: crate::question::ratio::ratio(touches - places, touches),
            top_10_share: crate::question::ratio::ratio(top_touches, touches),
            most: ranked().next().map_or(0, |(touches, _)| touches),
            covering_50: covering(50),
            covering_90: covering(90),
            covering_99: covering(99),
        }
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::Meta;
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::analyser::tests::{analyse, request};
    use crate::question::context::Context;
    use crate::question::options::AnalysisOptions;

    #[test]
    fn a_journal_block_written_three_times() {
        let lines = [
            "WS 0+8 d0 c1",
            "WS 0+8 d1 c2",
            "WS 0+16 d2 c3",
            "W 800+8 d3 c4",
            "R 0+8 d4 c5",
            "R 4+8 d5 c6",
            "R 0+8 dev1 d6 c7",
        ];
        let locality = analyse(&lines).locality;
        let written = locality.written;
        assert_eq!((written.places, written.touches, written.again_places, written.most), (3, 5, 1, 3));
        assert_eq!((written.again_share, written.top_10_share), (Some(0.4), Some(1.0)));
        assert_eq!((written.covering_50, written.covering_90, written.covering_99), (1, 3, 3));
        // The second read begins in the middle of one place and ends in the next place.
        assert_eq!((locality.read.places, locality.read.touches, locality.read.again_places), (3, 4, 1));
        let ranks: Vec<_> =
            locality.most_written.iter().map(|place| (place.sector.0, place.writes)).collect();
        assert_eq!(ranks, [(0, 3), (8, 1), (800, 1)]);
        assert_eq!(locality.sampled_share, 1.0);
    }

    fn touch(tally: &mut PlaceTally, device: usize, sector: u64, sectors: u64, write: bool) {
        let row = request(0, &format!("{} {sector}+{sectors} d0 c1", if write { "W" } else { "R" }));
        let seen = Context::new(&AnalysisOptions::default()).see(&row);
        tally.request(&row, &Seen { device, ..seen });
    }

    #[test]
    fn a_place_touched_a_thousand_times() {
        let mut tally = PlaceTally::default();
        for number in 0..1000 {
            touch(&mut tally, 0, 8, 8, true);
            touch(&mut tally, 0, 0, if number % 2 == 0 { 512 } else { 16 }, false);
        }
        let locality = tally.finish(&mut Ending::without_requests(&Meta::default()));
        assert_eq!((locality.written.places, locality.written.most), (1, 1000));
        assert_eq!((locality.read.places, locality.read.touches, locality.read.most), (64, 33_000, 1000));
    }

    proptest! {
        #[test]
        fn as_if_counted_in_a_map(
            touches in prop::collection::vec((0usize..2, 0u64..4000, 1u64..1200, any::<bool>()), 1..400)
        ) {
            let mut tally = PlaceTally::default();
            let mut written = BTreeMap::<(usize, u64), u64>::new();
            let mut read = BTreeMap::<(usize, u64), u64>::new();
            for (device, sector, sectors, write) in touches {
                touch(&mut tally, device, sector, sectors, write);
                for place in sector / 8..=(sector + sectors - 1) / 8 {
                    *(if write { &mut written } else { &mut read }).entry((device, place)).or_default() += 1;
                }
            }
            let locality = tally.finish(&mut Ending::without_requests(&Meta::default()));
            for (found, oracle) in [(&locality.written, &written), (&locality.read, &read)] {
                let mut counts: Vec<u64> = oracle.values().copied().collect();
                counts.sort_unstable_by(|a, b| b.cmp(a));
                let sum: u64 = counts.iter().sum();
                prop_assert_eq!(found.places, counts.len() as u64);
                prop_assert_eq!(found.touches, sum);
                prop_assert_eq!(found.again_places, counts.iter().filter(|count| **count > 1).count() as u64);
                prop_assert_eq!(found.top_10_share, crate::question::ratio::ratio(counts.iter().take(10).sum(), sum));
                for (percent, covering) in [(50, found.covering_50), (90, found.covering_90), (99, found.covering_99)] {
                    let mut taken = 0;
                    let needed = counts.iter().take_while(|count| {
                        let more = taken * 100 < sum * percent;
                        taken += **count;
                        more
                    });
                    prop_assert_eq!(covering, needed.count() as u64);
                }
            }
            let mut ranks: Vec<(u64, usize, u64)> =
                written.into_iter().map(|((device, place), writes)| (writes, device, place * 8)).collect();
            ranks.sort_by_key(|(writes, device, sector)| (std::cmp::Reverse(*writes), *device, *sector));
            ranks.truncate(RANKS);
            let found = locality.most_written.iter().map(|place| (place.writes, place.device as usize, place.sector.0));
            prop_assert_eq!(found.collect::<Vec<_>>(), ranks);
        }
    }

    #[test]
    fn thinned_counts_are_exact_for_what_is_followed_and_near_in_all() {
        let chunks = 5000u64;
        let mut tally = PlaceTally::with_chunks_max(512);
        // Touches every chunk twice, in two passes, so that the tally must drop chunks that already have
        // counts.
        for pass in 0..2 {
            for chunk in 0..chunks {
                touch(&mut tally, 0, chunk * 512, if pass == 0 { 8 } else { 16 }, true);
            }
        }
        let locality = tally.finish(&mut Ending::without_requests(&Meta::default()));
        assert!(locality.sampled_share <= 512.0 / chunks as f64 * 2.0);
        let near = |found: u64, exact: u64| found.abs_diff(exact) < exact / 5;
        assert!(near(locality.written.places, 2 * chunks), "{}", locality.written.places);
        // A chunk that is still followed was never dropped, so both writes to it were counted.
        assert_eq!(locality.written.again_places * 2, locality.written.places);
        assert_eq!(locality.written.most, 2);
    }
}
