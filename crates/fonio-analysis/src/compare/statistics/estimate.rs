//! Computes values with confidence intervals from time slices, and the interval of the ratio of two values.

use fonio_core::statistics::welch::Interval;

use super::dependence::{Spread, autocorrelation_time, spread};
use super::student;

/// A value of one recording, at least 0, with an interval at any level.
#[derive(Clone, Debug)]
pub(crate) enum Estimate {
    /// A ratio of two sums, such as latency divided by requests, or requests divided by time.
    Ratio {
        value: f64,
        /// The variance and degrees of freedom of `value`.
        spread: Spread,
    },
    /// A quantile of the values of all slices.
    Quantile {
        value: f64,
        /// The fraction that identifies the quantile, for example 0.99.
        at: f64,
        /// Number of independent values that would give the same variance.
        effective: f64,
        freedom: f64,
        /// For each histogram step: its middle, and the cumulative share of values including the step.
        cumulative: Vec<(f64, f64)>,
    },
}

/// Maximum relative distance between the middle of a histogram step and the values in this step, for
/// `Steps<5>`.
const STEP_ERROR: f64 = 1.0 / 64.0;

impl Estimate {
    /// Estimates the ratio of two sums over slices; `None` if there are too few independent segments.
    ///
    /// The residuals from the common ratio account for slices with different numbers of requests (Cochran, *Sampling
    /// Techniques*, ratio estimators).
    pub(crate) fn ratio(value: f64, parts: &[(f64, f64)], memory: f64) -> Option<Estimate> {
        let (sum, by) = parts.iter().fold((0.0, 0.0), |all, part| (all.0 + part.0, all.1 + part.1));
        if by <= 0.0 {
            return None;
        }
        let ratio = sum / by;
        let residuals: Vec<f64> = parts.iter().map(|(part, of)| (part - ratio * of) / by).collect();
        let weights: Vec<f64> = parts.iter().map(|(_, of)| *of).collect();
        Some(Estimate::Ratio { value, spread: spread(&residuals, &weights, memory)? })
    }

    /// Estimates a quantile from time slices. For each slice, `below` is the number of values below the
    /// quantile and `counts` the number of all values. `steps` is the histogram of all values. Returns `None`
    /// if there are too few independent segments.
    ///
    /// The share of values below the quantile varies between slices. Its variance is converted into an
    /// effective number of independent values. Wilson's interval for that number is then read off the
    /// histogram (Woodruff 1952; Korn and Graubard 1998).
    pub(crate) fn quantile(
        value: f64,
        at: f64,
        below: &[f64],
        counts: &[u64],
        steps: &[(u64, u64)],
        memory: f64,
    ) -> Option<Estimate> {
        let total: u64 = counts.iter().sum();
        if total == 0 {
            return None;
        }
        let all = total as f64;
        let counts: Vec<f64> = counts.iter().map(|count| *count as f64).collect();
        let residuals = below_residuals(at, below, &counts);
        let Spread { variance, freedom } = spread(&residuals, &counts, memory)?;
        // The effective number is at most the number of values. Slices that vary less than independent values
        // do so by coincidence.
        let effective = (at * (1.0 - at) / variance.max(f64::MIN_POSITIVE)).min(all);
        let mut seen = 0u64;
        let cumulative = steps
            .iter()
            .map(|(middle, count)| {
                seen += count;
                (*middle as f64, seen as f64 / all)
            })
            .collect();
        Some(Estimate::Quantile { value, at, effective, freedom, cumulative })
    }

    /// Returns the interval of the value; the true value lies outside this interval with a probability of at
    /// most `level`.
    pub(crate) fn bounds(&self, level: f64) -> Interval {
        match self {
            Estimate::Ratio { value, spread } => {
                let half = student::two_sided(level, spread.freedom) * spread.variance.sqrt();
                Interval { low: (value - half).max(0.0), value: *value, high: value + half }
            }
            Estimate::Quantile { value, at, effective, freedom, cumulative } => {
                let t = student::two_sided(level, *freedom);
                let (low, high) = wilson(*at, *effective, t);
                // No observation lies above the maximum or below the minimum of the independent values.
                let one = 1.0 / effective;
                let read = |share: f64| {
                    let step = cumulative.partition_point(|(_, up_to)| *up_to < share);
                    cumulative.get(step).or(cumulative.last()).map_or(*value, |(middle, _)| *middle)
                };
                let low = if low < one { 0.0 } else { read(low) * (1.0 - STEP_ERROR) };
                let high = if high > 1.0 - one { f64::INFINITY } else { read(high) * (1.0 + STEP_ERROR) };
                Interval { low: low.min(*value), value: *value, high: high.max(*value) }
            }
        }
    }
}

/// Returns how far each slice's number of values below a quantile is from the expected number, as a share of
/// all values.
fn below_residuals(at: f64, below: &[f64], counts: &[f64]) -> Vec<f64> {
    let all: f64 = counts.iter().sum();
    below.iter().zip(counts).map(|(below, count)| (below - at * count) / all).collect()
}

/// Returns the number of slices per independent segment, estimated from the values below the median.
pub(crate) fn memory(below_p50: &[f64], counts: &[u64]) -> f64 {
    let counts: Vec<f64> = counts.iter().map(|count| *count as f64).collect();
    autocorrelation_time(&below_residuals(0.5, below_p50, &counts))
}

/// Returns Wilson's interval for a share of `count` values, with `t` instead of the normal quantile.
fn wilson(share: f64, count: f64, t: f64) -> (f64, f64) {
    let shrink = 1.0 + t * t / count;
    let middle = (share + t * t / (2.0 * count)) / shrink;
    let half = t / shrink * (share * (1.0 - share) / count + t * t / (4.0 * count * count)).sqrt();
    (middle - half, middle + half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wilson_by_hand() {
        // The interval of 50 of 100 values at 95 percent, as in any table of Wilson's interval.
        let (low, high) = wilson(0.5, 100.0, 1.96);
        assert!((low - 0.4038).abs() < 1e-4 && (high - 0.5962).abs() < 1e-4, "{low} {high}");
    }

    #[test]
    fn ratios_and_differences_of_two_values() {
        let of = |low, value, high| Interval { low, value, high };
        let ratio = of(9.0, 10.0, 11.0).ratio_of(of(18.0, 20.0, 22.0)).unwrap();
        // On each side, the distances ln 1.1111 and ln 1.1 combine to 0.1421.
        assert!((ratio.value - 2.0).abs() < 1e-12);
        assert!(
            (ratio.low - 2.0 / 1.1527).abs() < 1e-3 && (ratio.high - 2.0 * 1.1527).abs() < 1e-3,
            "{ratio:?}"
        );
        let open = of(0.0, 10.0, f64::INFINITY).ratio_of(of(18.0, 20.0, 22.0)).unwrap();
        assert_eq!((open.low, open.high), (0.0, f64::INFINITY));
        assert_eq!(of(0.0, 0.0, 0.0).ratio_of(of(1.0, 2.0, 3.0)), None);
        assert_eq!(of(0.0, 0.0, 0.0).difference_to(of(1.0, 2.0, 3.0)), of(1.0, 2.0, 3.0));
        assert_eq!(of(2.0, 5.0, 9.0).difference_to(of(7.0, 10.0, 11.0)), of(0.0, 5.0, 5.0 + 10f64.sqrt()));
    }

    #[test]
    fn slices_that_vary_alike_leave_few_values() {
        // The share of values below the quantile varies over the slices like a single cosine, the twelfth.
        // The greatest residual of a slice is 0.1 / 100. The square of the cosine transform is 100 / 2 times
        // the square of this residual. The variance is 100 times the mean square of the cosines used.
        let wave = |at: usize| libm::cos(std::f64::consts::PI * 12.0 * (at as f64 + 0.5) / 100.0);
        let below: Vec<f64> = (0..100).map(|at| 50.0 + 10.0 * wave(at)).collect();
        let steps = [(10, 5_000), (20, 5_000)];
        let estimate = Estimate::quantile(10.0, 0.5, &below, &[100; 100], &steps, 1.0).unwrap();
        let Estimate::Quantile { effective, freedom, .. } = estimate else { panic!("{estimate:?}") };
        let variance = 100.0 * 50.0 * (0.1 / 100.0) * (0.1 / 100.0) / freedom;
        assert!((12.0..=16.0).contains(&freedom), "expected 12 to 16 degrees of freedom, found {freedom}");
        assert!((effective * variance / 0.25 - 1.0).abs() < 1e-6, "{effective} independent values");
    }

    #[test]
    fn a_quantile_of_independent_values() {
        // There are 100 slices of 100 values, which are evenly spread over 1..=100. So half of the values in
        // each slice lie below the median.
        let steps: Vec<(u64, u64)> = (1..=100).map(|value| (value, 100)).collect();
        let mut below = vec![50.0; 100];
        // Slices with binomial variation: 5 values more or fewer below the quantile.
        below.iter_mut().enumerate().for_each(|(at, below)| *below += [5.0, -5.0, -5.0, 5.0][at % 4]);
        let estimate = Estimate::quantile(50.0, 0.5, &below, &[100; 100], &steps, 1.0).unwrap();
        let Interval { low, value, high } = estimate.bounds(0.05);
        assert!(low < value && value < high && low > 40.0 && high < 60.0, "{low} {value} {high}");
        let strict = estimate.bounds(0.001);
        assert!(strict.low <= low && strict.high >= high);
        // In effect, only two values lie beyond the 99th percentile, so the interval has no upper bound.
        let rare = Estimate::Quantile {
            value: 99.0,
            at: 0.99,
            effective: 20.0,
            freedom: 8.0,
            cumulative: vec![(99.0, 1.0)],
        };
        assert_eq!(rare.bounds(0.05).high, f64::INFINITY);
    }
}
