//! Finds outliers among runs.

use fonio_core::statistics::sample::median;

/// A value with at least this modified z-score is an outlier (Iglewicz and Hoaglin 1993). Hyperfine warns
/// from a score of 14.826, but makes many more runs than a slow card allows.
const OUTLIER_SCORE: f64 = 3.5;

/// Ratio of the median absolute deviation to the standard deviation for normally distributed values.
const MAD_OF_NORMAL: f64 = 0.6745;

/// Minimum relative difference of an outlier from the median, even if the other values hardly differ.
const DIFFERENCE_MIN: f64 = 0.02;

/// Returns, for each value, whether its modified z-score makes the value an outlier.
pub(crate) fn outliers(values: &[f64]) -> Vec<bool> {
    let Some(middle) = median(values) else { return Vec::new() };
    let deviations: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    let mad = median(&deviations).unwrap_or(0.0);
    let apart = |deviation: &f64| {
        MAD_OF_NORMAL * deviation > OUTLIER_SCORE * mad && *deviation > DIFFERENCE_MIN * middle.abs()
    };
    deviations.iter().map(apart).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        }
    }
}
