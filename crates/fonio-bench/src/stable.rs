//! Decides when a number has been measured often enough, and which runs are outliers.

/// Mean and standard deviation of some runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The arithmetic mean.
    pub mean: f64,
    /// Standard deviation (n - 1 in the denominator); 0 for a single run.
    pub sigma: f64,
}

/// Mean and standard deviation of `values`; `None` without values.
pub fn spread(values: &[f64]) -> Option<Spread> {
    let count = values.len() as f64;
    if values.is_empty() {
        return None;
    }
    let mean = mean(values.iter().copied());
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    let sigma = if values.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
    Some(Spread { mean, sigma })
}

/// The arithmetic mean of at least one value.
pub(crate) fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

/// Whether the mean is known precisely enough: its standard error is at most the share `relative` of it.
pub fn is_stable(values: &[f64], relative: f64) -> bool {
    values.len() > 1
        && spread(values)
            .is_some_and(|found| found.sigma / (values.len() as f64).sqrt() <= relative * found.mean.abs())
}

/// Modified z-score from which a value is an outlier (Iglewicz and Hoaglin 1993; hyperfine warns from 14.826, with many
/// more runs than a slow card allows).
const OUTLIER_SCORE: f64 = 3.5;

/// Ratio of the median absolute deviation to the standard deviation for normal values.
const MAD_OF_NORMAL: f64 = 0.6745;

/// A value that differs from the median by a smaller share than this is not an outlier, even if the others hardly differ.
const DIFFERENCE_MIN: f64 = 0.02;

/// For each value, whether it is an outlier by its modified z-score.
pub fn outliers(values: &[f64]) -> Vec<bool> {
    let middle = median(values);
    let deviations: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    let mad = median(&deviations);
    let apart = |deviation: &f64| {
        MAD_OF_NORMAL * deviation > OUTLIER_SCORE * mad && *deviation > DIFFERENCE_MIN * middle.abs()
    };
    deviations.iter().map(apart).collect()
}

/// The median; 0 without values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[count / 2],
        count => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_run_is_never_stable() {
        assert!(!is_stable(&[5.0], 0.5));
        assert!(is_stable(&[5.0, 5.0], 0.01));
        assert!(!is_stable(&[1.0, 9.0], 0.1));
        assert!(spread(&[]).is_none());
    }

    #[test]
    fn the_one_apart_is_found() {
        assert_eq!(outliers(&[10.0, 10.1, 9.9, 10.0, 4.0]), [false, false, false, false, true]);
        assert_eq!(outliers(&[10.0, 10.0, 10.01]), [false, false, false]);
    }

    proptest! {
        #[test]
        fn scaling_changes_nothing(values in prop::collection::vec(1.0f64..100.0, 3..20), factor in 1u32..6) {
            let factor = f64::from(1 << factor);
            let scaled: Vec<f64> = values.iter().map(|value| value * factor).collect();
            prop_assert_eq!(outliers(&values), outliers(&scaled));
            prop_assert_eq!(is_stable(&values, 0.05), is_stable(&scaled, 0.05));
        }

        #[test]
        fn half_lies_on_each_side_of_the_median(values in prop::collection::vec(-50i32..50, 1..40)) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let middle = median(&values);
            let below = values.iter().filter(|value| **value < middle).count();
            let above = values.iter().filter(|value| **value > middle).count();
            prop_assert!(below <= values.len() / 2 && above <= values.len() / 2);
        }
    }
}
