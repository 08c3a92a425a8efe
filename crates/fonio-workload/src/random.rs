//! Numbers from a seed: SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
//! It is small, has no state worth saving, and gives the same numbers on every platform.

/// A stream of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// A stream of its own for each label, so that one more step in one thread changes nothing in another.
    pub(crate) fn labelled(seed: u64, label: &str) -> Self {
        // FNV-1a.
        let hash = label.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        let mut random = Random(seed ^ hash);
        random.next();
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of `0..bound`; `bound` is at least 1. The bias, at most `bound` / 2⁶⁴, is of no matter here.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "nothing to choose from");
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// One of `low..=high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "an empty range");
        match (high - low).checked_add(1) {
            Some(count) => low + self.below(count),
            None => self.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_are_those_of_the_published_generator() {
        let mut random = Random::new(1_234_567);
        let got: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(got, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn a_range_is_kept_and_filled() {
        let mut random = Random::labelled(7, "range");
        let mut seen = [0_u32; 5];
        for _ in 0..1000 {
            seen[random.between(3, 7) as usize - 3] += 1;
        }
        assert!(seen.iter().all(|&count| count > 100), "{seen:?}");
        assert_eq!(random.between(9, 9), 9);
        random.between(0, u64::MAX);
    }
}
