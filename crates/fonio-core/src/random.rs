//! Generates random numbers from a seed. The same seed gives the same numbers on every platform.

/// The difference between one state of SplitMix64 and the next state.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014). Each step is
/// an addition and [`mix`].
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

/// Mixes the bits of a number: if two inputs differ in a few bits, their outputs differ in about half of the
/// bits. Different inputs always give different outputs.
#[inline]
pub fn mix(number: u64) -> u64 {
    let mut mixed = number;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Derives a seed for `number` from `seed`.
#[inline]
pub fn seed_for(seed: u64, number: u64) -> u64 {
    seed ^ number.wrapping_mul(STEP)
}

impl Random {
    /// Starts the sequence of random numbers of a seed.
    #[inline]
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// Starts the sequence of a seed and a label. The sequences of different labels are independent: drawing
    /// numbers from one sequence does not change the other sequences.
    pub fn labelled(seed: u64, label: &str) -> Random {
        // Hash the label with FNV-1a.
        let hash = label.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        let mut random = Random::new(seed ^ hash);
        random.next_u64();
        random
    }

    /// Returns the sequence without its next `count` numbers. The skipped numbers are not computed.
    #[inline]
    pub fn skip(self, count: u64) -> Random {
        Random { state: self.state.wrapping_add(count.wrapping_mul(STEP)) }
    }

    /// Returns a random 64-bit number.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// Returns a random number below `end`. All values are equally likely, with a relative error of at most
    /// `end` / 2⁶⁴. Panics if `end` is 0.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "no number is below 0");
        ((u128::from(self.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// Returns a random number from `low` to `high`, both included. Panics if `low` is greater than `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "an empty range");
        match (high - low).checked_add(1) {
            Some(count) => low + self.below(count),
            None => self.next_u64(),
        }
    }

    /// Returns a random number from 0 (included) to 1 (excluded).
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Shuffles `items`; all orders are equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_published_generator() {
        let first = |seed| {
            let mut random = Random::new(seed);
            [random.next_u64(), random.next_u64(), random.next_u64()]
        };
        assert_eq!(first(0)[..2], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
        let published = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(first(1_234_567), published);
        assert_eq!(Random::new(1_234_567).skip(2).next_u64(), published[2]);
    }

    #[test]
    fn numbers_spread_evenly() {
        let mut random = Random::new(7);
        let mut seen = [0u32; 10];
        for _ in 0..100_000 {
            seen[random.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|count| (9_500..10_500).contains(count)), "{seen:?}");
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
