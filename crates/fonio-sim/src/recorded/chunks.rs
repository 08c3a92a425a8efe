//! Sets of chunks of accessed data.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The size of the chunks of accessed data in the files of a replay.
pub const CHUNK: u64 = 1 << 20;

/// A set of chunk numbers, stored as ranges, because one access can use thousands of chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunks(
    /// The end of each range, by its start. The ranges neither overlap nor touch.
    BTreeMap<u64, u64>,
);

impl Chunks {
    /// Returns the chunks of the bytes from `from` to `end`.
    pub fn of_bytes(from: u64, end: u64) -> Chunks {
        let mut chunks = Chunks::default();
        chunks.add_bytes(from, end);
        chunks
    }

    /// Adds the chunks of the bytes from `from` to `end`.
    pub fn add_bytes(&mut self, from: u64, end: u64) {
        if from >= end {
            return;
        }
        let (mut start, mut end) = (from / CHUNK, end.div_ceil(CHUNK));
        if let Some((before, before_end)) = self.0.range(..=start).next_back()
            && *before_end >= start
        {
            start = *before;
        }
        while let Some((next, next_end)) = self.0.range(start..=end).next().map(|(next, end)| (*next, *end)) {
            self.0.remove(&next);
            end = end.max(next_end);
        }
        self.0.insert(start, end);
    }

    /// Returns the ranges of chunk numbers, in order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().map(|(start, end)| *start..*end)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fonio_core::Random;

    use super::*;

    #[test]
    fn ranges_contain_the_same_chunks_as_a_set() {
        let mut random = Random::new(1);
        for _ in 0..300 {
            let (mut chunks, mut set) = (Chunks::default(), BTreeSet::new());
            for _ in 0..random.below(12) {
                let from = random.below(40 * CHUNK);
                let end = from + random.below(6 * CHUNK);
                chunks.add_bytes(from, end);
                if from < end {
                    set.extend(from / CHUNK..end.div_ceil(CHUNK));
                }
            }
            let ranges: Vec<Range<u64>> = chunks.ranges().collect();
            assert!(ranges.is_sorted_by(|one, next| one.end < next.start), "{ranges:?}");
            assert_eq!(ranges.into_iter().flatten().collect::<BTreeSet<_>>(), set);
        }
        let mut all = Chunks::default();
        all.add_bytes(0, u64::MAX);
        all.add_bytes(u64::MAX - 1, u64::MAX);
        assert_eq!(all.ranges().count(), 1);
    }
}
