//! Computes the mean, variance and median of a sample.

/// Mean, variance and limits of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The number of values in the sample.
    pub count: usize,
    /// The arithmetic mean of the values.
    pub mean: f64,
    /// The sample variance (n - 1 in the denominator); 0 for a single value.
    pub variance: f64,
    /// The smallest value of the sample.
    pub min: f64,
    /// The largest value of the sample.
    pub max: f64,
}

impl Spread {
    /// Returns the spread of `values`; `None` if there are no values.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let mean = mean(values)?;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let variance = if values.len() > 1 { squares / (values.len() as f64 - 1.0) } else { 0.0 };
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Spread { count: values.len(), mean, variance, min, max })
    }

    /// Returns the standard deviation of the values.
    pub fn sigma(&self) -> f64 {
        self.variance.sqrt()
    }

    /// Returns the standard error of the mean.
    pub fn error(&self) -> f64 {
        self.sigma() / (self.count as f64).sqrt()
    }

    /// Returns the variance of the mean: the square of its standard error.
    pub fn variance_of_mean(&self) -> f64 {
        self.variance / self.count as f64
    }
}

/// Whether the standard error of the mean is at most the share `relative` of the mean. Returns false for a
/// single value.
pub fn is_known(values: &[f64], relative: f64) -> bool {
    Spread::of(values)
        .is_some_and(|spread| spread.count > 1 && spread.error() <= relative * spread.mean.abs())
}

/// Returns the arithmetic mean of the values; `None` if there are no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the median; for an even number of values, the mean of the middle two. `None` if there are no
/// values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { (sorted[middle - 1] + upper) / 2.0 })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_values_have_no_middle() {
        assert_eq!((mean(&[]), median(&[]), Spread::of(&[])), (None, None, None));
        assert_eq!(
            Spread::of(&[5.0]),
            Some(Spread { count: 1, mean: 5.0, variance: 0.0, min: 5.0, max: 5.0 })
        );
        assert!(is_known(&[5.0, 5.0], 0.01) && !is_known(&[5.0], 0.5) && !is_known(&[1.0, 9.0], 0.1));
        assert_eq!((median(&[3.0, 1.0]), median(&[3.0, 1.0, 9.0])), (Some(2.0), Some(3.0)));
    }

    proptest! {
        /// Compares the variance with the naive variance: half the mean square of the differences of all
        /// pairs.
        #[test]
        fn the_spread_is_that_of_all_pairs(values in prop::collection::vec(-1000i32..1000, 2..40)) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let spread = Spread::of(&values).expect("there are values");
            let pairs = (values.len() * (values.len() - 1)) as f64;
            let squares: f64 = values.iter().flat_map(|a| values.iter().map(move |b| (a - b) * (a - b))).sum();
            let naive = squares / 2.0 / pairs;
            prop_assert!((spread.variance - naive).abs() <= 1e-9 * naive.max(1.0));
            prop_assert!((values.iter().map(|value| value - spread.mean).sum::<f64>()).abs() < 1e-6);
        }

        #[test]
        fn half_lies_on_each_side_of_the_median(values in prop::collection::vec(-50i32..50, 1..40)) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let middle = median(&values).expect("there are values");
            let below = values.iter().filter(|value| **value < middle).count();
            let above = values.iter().filter(|value| **value > middle).count();
            prop_assert!(below <= values.len() / 2 && above <= values.len() / 2);
        }
    }
}
