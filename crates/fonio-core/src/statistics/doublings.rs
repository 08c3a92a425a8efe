//! A histogram in which each class is twice as wide as the previous class. It is small, merging does not make
//! it less exact, and it is precise enough to show slow values.

use serde::{Deserialize, Serialize};

/// Returns the class of a value: 0 for the value 0, else one more than the integer part of its binary
/// logarithm. Class *k* contains the values from 2ᵏ⁻¹ to 2ᵏ - 1.
pub fn class_of(value: u64) -> usize {
    (u64::BITS - value.leading_zeros()) as usize
}

/// Returns the first value above a class; `u64::MAX` for the last class.
pub fn end_of(class: usize) -> u64 {
    u32::try_from(class).ok().and_then(|class| 1_u64.checked_shl(class)).unwrap_or(u64::MAX)
}

/// The number of values in each class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Doublings {
    counts: Vec<u64>,
}

impl Doublings {
    /// Adds `count` values to a class.
    pub fn add(&mut self, class: usize, count: u64) {
        if self.counts.len() <= class {
            self.counts.resize(class + 1, 0);
        }
        self.counts[class] = self.counts[class].saturating_add(count);
    }

    /// Adds all values of another histogram.
    pub fn merge(&mut self, other: &Doublings) {
        for (class, count) in other.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            self.add(class, *count);
        }
    }

    /// Returns the number of values in the histogram.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Returns the number of values in each class, up to the highest class with values.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Returns the class of the quantile `thousandths` / 1000: the lowest class whose cumulative share is at
    /// least this quantile. `None` if the histogram is empty.
    pub fn class_of_quantile(&self, thousandths: u64) -> Option<usize> {
        let rank = u128::from(self.count()) * u128::from(thousandths.min(1000));
        let mut seen = 0;
        self.counts.iter().position(|count| {
            seen += u128::from(*count);
            seen * 1000 >= rank && seen > 0
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[u64]) -> Doublings {
        let mut doublings = Doublings::default();
        values.iter().for_each(|value| doublings.add(class_of(*value), 1));
        doublings
    }

    #[test]
    fn classes_end_at_powers_of_two() {
        for (value, class, end) in
            [(0, 0, 1), (1, 1, 2), (2, 2, 4), (3, 2, 4), (4096, 13, 8192), (u64::MAX, 64, u64::MAX)]
        {
            assert_eq!((class_of(value), end_of(class)), (class, end), "{value}");
        }
        assert_eq!((of(&[]).class_of_quantile(500), of(&[]).count()), (None, 0));
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_values(
            mut values in prop::collection::vec(0..u64::MAX, 1..60),
            thousandths in 0_u64..=1000,
        ) {
            values.sort_unstable();
            let rank = (values.len() as u64 * thousandths).div_ceil(1000).max(1) as usize - 1;
            prop_assert_eq!(of(&values).class_of_quantile(thousandths), Some(class_of(values[rank])));
        }

        #[test]
        fn merging_is_the_same_as_adding_all(
            a in prop::collection::vec(0..u64::MAX, 0..50),
            b in prop::collection::vec(0..1_u64 << 40, 0..50),
        ) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let all: Vec<u64> = a.iter().chain(&b).copied().collect();
            prop_assert_eq!(merged, of(&all));
        }
    }
}
