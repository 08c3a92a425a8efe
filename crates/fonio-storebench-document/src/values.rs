//! Computes values with their 95 % confidence intervals from repeated runs.

use fonio_core::Unit;
use fonio_core::statistics::sample::{Spread, is_known};
use fonio_core::statistics::student;
use fonio_core::statistics::welch::KnownMean;

use crate::document::{Measure, Value};

/// A value is stable if its relative standard error is at most this limit. The other benchmarks use this
/// limit too.
pub const ERROR_MAX: f64 = 0.02;

/// Share of measurements whose interval does not contain the true value.
const INTERVAL_LEVEL: f64 = 0.05;

/// Returns the critical value of Student's t for a two-sided 95 % interval.
fn student(freedom: usize) -> f64 {
    student::two_sided(INTERVAL_LEVEL, freedom as f64)
}

/// Computes the variance of a value's mean from the value's interval.
///
/// A sum or ratio gets the degrees of freedom of its part with the fewest runs. This choice is conservative,
/// because it makes claims of differences rarer.
fn known(value: &Value) -> KnownMean {
    let freedom = f64::from(value.runs.saturating_sub(1).max(1));
    // The lower end of an interval is cut off at 0, so the standard error is computed from the upper half.
    let error = (value.high - value.value) / student::two_sided(INTERVAL_LEVEL, freedom);
    KnownMean { mean: value.value, variance: error * error, freedom }
}

/// Returns whether the means of two values differ at a significance level, by Welch's t-test.
pub fn differ(first: &Value, second: &Value, level: f64) -> bool {
    known(first).differs(&known(second), level)
}

/// Returns the mean of `values`. If there are no values, the figure counts as not measured, with the reason
/// `or`.
pub fn mean(values: &[f64], unit: Unit, or: &str) -> Measure {
    let Some(spread) = Spread::of(values) else { return Measure::NotMeasured(or.to_owned()) };
    let half = match values.len() {
        1 => 0.0,
        count => student(count - 1) * spread.error(),
    };
    Measure::Measured(Value {
        value: spread.mean,
        unit,
        runs: values.len() as u32,
        // The interval ends at 0, because no figure is negative.
        low: (spread.mean - half).max(0.0),
        high: spread.mean + half,
        stable: is_known(values, ERROR_MAX),
    })
}

/// Returns the mean of `above` divided by the mean of `below`, assuming independent runs.
pub fn ratio(above: &[f64], below: &[f64], or: &str) -> Measure {
    let not_measured = || Measure::NotMeasured(or.to_owned());
    let (Some(up), Some(down)) = (Spread::of(above), Spread::of(below)) else {
        return not_measured();
    };
    if down.mean <= 0.0 {
        return not_measured();
    }
    let value = up.mean / down.mean;
    let runs = above.len().min(below.len());
    let error = |spread: Spread| spread.error() / spread.mean;
    let relative = (error(up).powi(2) + error(down).powi(2)).sqrt();
    let half = if runs > 1 { student(runs - 1) * relative * value } else { 0.0 };
    Measure::Measured(Value {
        value,
        unit: Unit::Ratio,
        runs: runs as u32,
        low: (value - half).max(0.0),
        high: value + half,
        // A ratio has the errors of both means.
        stable: runs > 1 && relative <= ERROR_MAX * std::f64::consts::SQRT_2,
    })
}

/// Returns the sum of the values; if a value is missing, the sum counts as not measured.
pub fn sum<'a>(values: impl Iterator<Item = Option<&'a Value>>, or: &str) -> Measure {
    let values: Option<Vec<&Value>> = values.collect();
    let Some(values) = values.filter(|values| !values.is_empty()) else {
        return Measure::NotMeasured(or.to_owned());
    };
    let value: f64 = values.iter().map(|value| value.value).sum();
    let half = |end: fn(&Value) -> f64| values.iter().map(|value| end(value).powi(2)).sum::<f64>().sqrt();
    Measure::Measured(Value {
        value,
        unit: values[0].unit,
        runs: values.iter().map(|value| value.runs).min().unwrap_or(1),
        low: (value - half(|value| value.value - value.low)).max(0.0),
        high: value + half(|value| value.high - value.value),
        stable: values.iter().all(|value| value.stable),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fonio_core::Random;

    fn measured(measure: &Measure) -> Value {
        *measure.value().expect("it was measured")
    }

    #[test]
    fn one_run_has_no_interval_and_none_has_a_reason() {
        let one = measured(&mean(&[4.0], Unit::Ms, ""));
        assert_eq!((one.low, one.value, one.high, one.stable), (4.0, 4.0, 4.0, false));
        assert_eq!(mean(&[], Unit::Ms, "no time left"), Measure::NotMeasured("no time left".to_owned()));
        assert_eq!(ratio(&[1.0], &[0.0], "never"), Measure::NotMeasured("never".to_owned()));
        let known = measured(&mean(&[10.0, 10.1, 9.9], Unit::Ms, ""));
        assert!(known.stable && (known.high - 10.0 - 4.303 * 0.1 / 3f64.sqrt()).abs() < 1e-4, "{known:?}");
    }

    /// If errors are normally distributed, the intervals contain the true value in about 95 of 100
    /// measurements.
    #[test]
    fn intervals_hold_the_truth() {
        const MEASUREMENTS: u64 = 2000;
        let normal = |random: &mut Random| (0..12).map(|_| random.uniform()).sum::<f64>() - 6.0;
        for runs in [3, 5, 10] {
            let (mut means, mut ratios) = (0, 0);
            for seed in 0..MEASUREMENTS {
                let mut random = Random::new(seed);
                let mut draw = |level: f64| -> Vec<f64> {
                    (0..runs).map(|_| level * (1.0 + 0.05 * normal(&mut random))).collect()
                };
                let (above, below) = (draw(30.0), draw(10.0));
                let one = measured(&mean(&above, Unit::Ms, ""));
                means += u64::from(one.low <= 30.0 && 30.0 <= one.high);
                let both = measured(&ratio(&above, &below, ""));
                ratios += u64::from(both.low <= 3.0 && 3.0 <= both.high);
            }
            // The expected count is 95 % of 2000, or 1900, with a standard deviation of 10; the interval of a
            // ratio is slightly too wide.
            assert!((1860..=1940).contains(&means), "{runs} runs: {means}");
            assert!((1860..=1995).contains(&ratios), "{runs} runs: {ratios}");
        }
    }
}
