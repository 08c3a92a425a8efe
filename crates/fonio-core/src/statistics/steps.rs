//! A histogram for quantiles of measurements. Its steps become wider for larger values.
//!
//! A general histogram such as HdrHistogram also updates totals and extremes, and needs four times the
//! memory. With HdrHistograms, updates took a fifth of the time of a report, because each request is counted
//! in a dozen histograms.

/// The range from each power of two to the next is divided into `1 << BITS` steps. Each value below `2 <<
/// BITS` has a separate step. For larger values, the middle of the step differs from the value by at most
/// half a step, which is at most `1 / (2 << BITS)` of the value.
#[derive(Clone, Debug, Default)]
pub struct Steps<const BITS: u32> {
    counts: Vec<u32>,
}

impl<const BITS: u32> Steps<BITS> {
    /// Each value below this limit has a separate step.
    pub const EXACT_BELOW: u64 = 2 << BITS;
    /// Maximum relative distance between the middle of a step and a value in this step.
    pub const RELATIVE_ERROR: f64 = 1.0 / Self::EXACT_BELOW as f64;

    #[inline]
    fn of(value: u64) -> usize {
        let shift = (u64::BITS - 1 - (value | 1 << BITS).leading_zeros()) - BITS;
        ((shift as usize) << BITS) + (value >> shift) as usize
    }

    /// Returns the middle of a step. If the step has only one value, its middle is this value.
    fn middle(step: usize) -> u64 {
        let (low, width) = Self::range(step);
        low + (width >> 1)
    }

    fn end(step: usize) -> u64 {
        let (low, width) = Self::range(step);
        low + (width - 1)
    }

    /// Returns the smallest value of a step, and the number of values that the step spans.
    fn range(step: usize) -> (u64, u64) {
        if (step as u64) < Self::EXACT_BELOW {
            return (step as u64, 1);
        }
        let shift = (step >> BITS) - 1;
        (((step & ((1 << BITS) - 1)) as u64 + (1 << BITS)) << shift, 1 << shift)
    }

    /// Adds a value to the histogram.
    #[inline]
    pub fn add(&mut self, value: u64) {
        let step = Self::of(value);
        match self.counts.get_mut(step) {
            Some(count) => *count = count.saturating_add(1),
            None => self.grow(step),
        }
    }

    #[cold]
    fn grow(&mut self, step: usize) {
        // The memory grows by a few powers of two at a time, because measured values usually span several
        // powers of two.
        self.counts.resize((step + 1).next_multiple_of(4 << BITS), 0);
        self.counts[step] = 1;
    }

    /// Adds all values of another histogram.
    pub fn fold(&mut self, other: &Steps<BITS>) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
    }

    /// Returns, for each step with values, the middle of the step and the number of its values.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.filled().map(|(step, count)| (Self::middle(step), count))
    }

    /// Returns, for each step with values, the largest value of the step and the number of its values.
    pub fn ends(&self) -> impl Iterator<Item = (u64, u64)> {
        self.filled().map(|(step, count)| (Self::end(step), count))
    }

    fn filled(&self) -> impl Iterator<Item = (usize, u64)> {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(step, count)| (step, u64::from(*count)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const BITS: u32>() {
        let around =
            (3..64).flat_map(|bits| [(1u64 << bits) - 1, 1 << bits, (1 << bits) + (1 << (bits - 2))]);
        let mut values: Vec<u64> = (0..5000).chain(around).chain([u64::MAX]).collect();
        values.sort_unstable();
        let mut last = 0;
        for value in values {
            let step = Steps::<BITS>::of(value);
            assert!(step >= last, "{value}");
            last = step;
            let middle = Steps::<BITS>::middle(step);
            if value < Steps::<BITS>::EXACT_BELOW {
                assert_eq!(middle, value);
            }
            let (low, end) = (Steps::<BITS>::range(step).0, Steps::<BITS>::end(step));
            assert!(low <= value && value <= end, "{value}");
            let error = Steps::<BITS>::RELATIVE_ERROR * value as f64;
            assert!(middle.abs_diff(value) as f64 <= error, "{value} {middle}");
        }
    }

    #[test]
    fn steps_are_in_order_and_near() {
        check::<5>();
        check::<8>();
        check::<10>();
    }

    proptest::proptest! {
        /// Compares quantiles with a naive oracle: the sorted values.
        #[test]
        fn values_are_counted_in_order(mut values in proptest::collection::vec(0..1_u64 << 40, 0..200)) {
            let mut steps = Steps::<4>::default();
            values.iter().for_each(|value| steps.add(*value));
            values.sort_unstable();
            let of = |value: u64| Steps::<4>::end(Steps::<4>::of(value));
            let counted: Vec<u64> =
                steps.ends().flat_map(|(end, count)| std::iter::repeat_n(end, count as usize)).collect();
            proptest::prop_assert_eq!(counted, values.into_iter().map(of).collect::<Vec<_>>());
        }
    }

    #[test]
    fn counts_together() {
        let (mut a, mut b) = (Steps::<5>::default(), Steps::<5>::default());
        [3, 3, 1 << 20].iter().for_each(|value| a.add(*value));
        [3, u64::MAX].iter().for_each(|value| b.add(*value));
        a.fold(&b);
        let greatest = (u64::MAX >> 6 << 6 | 1) >> 5;
        assert_eq!(a.iter().map(|(_, count)| count).collect::<Vec<_>>(), [3, 1, 1]);
        assert!(a.iter().last().is_some_and(|(value, _)| value > greatest));
    }
}
