//! A histogram of durations in power-of-two classes. The histogram is small, can be merged exactly, and is
//! precise enough to show slow operations.

use fonio_core::Nanos;
use fonio_core::statistics::doublings::{Doublings, class_of};
use serde::{Deserialize, Serialize};

/// Number of duration classes. The last class starts at 2³⁰ µs (18 minutes).
const CLASSES: usize = 32;

/// Number of durations in each class, their sum, and the longest duration.
///
/// Class 0 contains durations below 1 µs; class *k* contains durations from 2ᵏ⁻¹ to 2ᵏ µs. The last class has
/// no upper limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    counts: Doublings,
    total_us: u64,
    longest_us: u64,
}

impl Histogram {
    /// Adds one duration.
    pub fn add(&mut self, duration: Nanos) {
        let us = duration.0 / 1000;
        self.add_to(class_of(us), 1);
        self.total_us = self.total_us.saturating_add(us);
        self.longest_us = self.longest_us.max(us);
    }

    /// Adds `count` durations of one class. Each duration is shorter than `below` and at least half of it;
    /// `below` is a power of two in microseconds.
    pub fn add_counted(&mut self, below: Nanos, count: u64, total: Nanos) {
        let us = (below.0 / 1000).max(1);
        self.add_to(us.ilog2() as usize, count);
        self.total_us = self.total_us.saturating_add(total.0 / 1000);
        // The longest duration is at least the mean.
        self.longest_us = self.longest_us.max(total.0 / 1000 / count.max(1));
    }

    fn add_to(&mut self, class: usize, count: u64) {
        self.counts.add(class.min(CLASSES - 1), count);
    }

    /// Adds all durations of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        self.counts.merge(&other.counts);
        self.total_us = self.total_us.saturating_add(other.total_us);
        self.longest_us = self.longest_us.max(other.longest_us);
    }

    /// Returns the number of durations in the histogram.
    pub fn count(&self) -> u64 {
        self.counts.count()
    }

    /// Returns the sum of all durations in the histogram.
    pub fn total(&self) -> Nanos {
        Nanos(self.total_us.saturating_mul(1000))
    }

    /// Returns the longest duration, to the microsecond. For durations added only as counts, their mean is
    /// used, which is a lower bound of the longest duration.
    pub fn longest(&self) -> Nanos {
        Nanos(self.longest_us.saturating_mul(1000))
    }

    /// Returns the mean duration; `None` if there are no durations.
    pub fn mean(&self) -> Option<Nanos> {
        self.total().0.checked_div(self.count()).map(Nanos)
    }

    /// Returns an upper bound of the quantile `thousandths` / 1000: the upper end of the quantile's class, or
    /// the longest duration if it is shorter than this end. `None` if there are no durations.
    pub fn quantile_at_most(&self, thousandths: u64) -> Option<Nanos> {
        let class = self.counts.class_of_quantile(thousandths)?;
        Some(end_of(class).min(self.longest().max(Nanos(1000))))
    }

    /// Returns the upper end of each duration class, with the number of durations in the class.
    pub fn upper_bounds(&self) -> impl Iterator<Item = (Nanos, u64)> {
        self.counts.counts().iter().enumerate().map(|(class, count)| (end_of(class), *count))
    }
}

fn end_of(class: usize) -> Nanos {
    Nanos(1000_u64 << class.min(CLASSES - 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(durations: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        durations.iter().for_each(|ns| histogram.add(Nanos(*ns)));
        histogram
    }

    #[test]
    fn durations_are_in_their_classes() {
        let histogram = of(&[0, 999, 1000, 1999, 2000, 5_000_000]);
        let filled: Vec<_> = histogram.upper_bounds().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(Nanos(1000), 2), (Nanos(2000), 2), (Nanos(4000), 1), (Nanos(8_192_000), 1)]);
        assert_eq!(histogram.longest(), Nanos(5_000_000));
        assert_eq!(histogram.quantile_at_most(500), Some(Nanos(2000)));
        assert_eq!(histogram.quantile_at_most(1000), Some(Nanos(5_000_000)));
        assert_eq!((of(&[]).quantile_at_most(500), of(&[]).mean()), (None, None));
        let mut counted = Histogram::default();
        counted.add_counted(Nanos(2000), 3, Nanos(4500));
        assert_eq!(counted.upper_bounds().last(), Some((Nanos(2000), 3)));
        counted.add(Nanos(u64::MAX));
        assert_eq!(counted.count(), 4);
    }

    #[test]
    fn the_stored_form_stays() {
        let bytes = postcard::to_stdvec(&of(&[0, 999, 1000, 1999, 2000, 5_000_000])).unwrap();
        let counts = [2, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        assert_eq!(bytes, [&[14], &counts[..], &[0x8c, 0x27, 0x88, 0x27]].concat());
    }

    proptest! {
        #[test]
        fn merging_is_the_same_as_adding_all(a in prop::collection::vec(0..u64::MAX / 4, 0..50), b in prop::collection::vec(0..1u64 << 40, 0..50)) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let all: Vec<u64> = a.iter().chain(&b).copied().collect();
            prop_assert_eq!(&merged, &of(&all));
            // The returned bound must not be below the exact quantile.
            let mut sorted: Vec<u64> = all.iter().map(|ns| ns / 1000 * 1000).collect();
            sorted.sort_unstable();
            if let Some(bound) = merged.quantile_at_most(900) {
                let rank = (sorted.len() * 900).div_ceil(1000).max(1) - 1;
                prop_assert!(bound.0 >= sorted[rank].min(1 << 50) || sorted[rank] >= 1 << 40, "{} {}", bound.0, sorted[rank]);
            }
        }
    }
}
