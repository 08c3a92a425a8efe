//! Collects a distribution: exact sums, and a histogram for the quantiles.

use crate::distribution::{Bounds, Cdf, Distribution, Missing};
use crate::question::loss::Loss;
use fonio_core::statistics::steps::Steps;

/// Binary logarithm of the number of histogram steps per doubling. The error of a quantile is at most 0.2
/// percent; values below 512 are exact.
const BITS: u32 = 8;
/// Binary logarithm of the number of histogram steps per doubling, for sizes. Sizes below 2048 sectors (1
/// MiB) are exact.
const SIZE_BITS: u32 = 10;

/// The quantiles of a [`Distribution`] as fractions, with the number of values that each needs.
const QUANTILES: [(u64, u64, u64); 7] = [
    (50, 100, 1),
    (80, 100, 1),
    (90, 100, 1),
    (95, 100, 20),
    (99, 100, 100),
    (999, 1_000, 1_000),
    (9_999, 10_000, 10_000),
];

/// Bounds within this relative distance are reported as one value (our choice). The distance is about ten
/// times the histogram's error, and smaller than the difference between identical runs.
const AGREE: f64 = 0.05;

#[derive(Debug, Clone)]
pub(crate) struct Tally<const STEP_BITS: u32 = BITS> {
    pub(crate) count: u64,
    pub(crate) sum: u64,
    min: u64,
    max: u64,
    steps: Steps<STEP_BITS>,
}

pub(crate) type SizeDistribution = Tally<SIZE_BITS>;

impl<const STEP_BITS: u32> Default for Tally<STEP_BITS> {
    fn default() -> Tally<STEP_BITS> {
        Tally { count: 0, sum: 0, min: u64::MAX, max: 0, steps: Steps::default() }
    }
}

/// Whether a distribution includes a [`Cdf`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Curve {
    With,
    Without,
}

impl<const STEP_BITS: u32> Tally<STEP_BITS> {
    #[inline]
    pub(crate) fn add(&mut self, value: u64) {
        self.add_scaled(value, value);
    }

    /// Adds `value` to the sum and `key` to the histogram. The histogram counts sizes in sectors, so that
    /// sizes are exact.
    #[inline]
    pub(crate) fn add_scaled(&mut self, value: u64, key: u64) {
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.steps.add(key);
    }

    pub(crate) fn together<'a>(tallies: impl IntoIterator<Item = &'a Tally<STEP_BITS>>) -> Tally<STEP_BITS> {
        let mut all = Tally::default();
        for tally in tallies {
            all.count += tally.count;
            all.sum = all.sum.saturating_add(tally.sum);
            all.min = all.min.min(tally.min);
            all.max = all.max.max(tally.max);
            all.steps.fold(&tally.steps);
        }
        all
    }

    /// Returns the distribution, or `None` if there are no values. `scale` is the size of one histogram step.
    pub(crate) fn distribution(&self, scale: u64, curve: Curve) -> Option<Distribution> {
        if self.count == 0 {
            return None;
        }
        let mut quantiles = [None; QUANTILES.len()];
        let mut cdf = Cdf::default();
        let mut next_quantile = 0;
        let mut step = Step::at_or_below(self.min / scale);
        let mut seen = 0;
        for (middle, count) in self.steps.iter() {
            let value = middle.saturating_mul(scale).clamp(self.min, self.max);
            while curve == Curve::With && step.value().saturating_mul(scale) < value {
                cdf.up_to.push(step.value().saturating_mul(scale));
                cdf.cumulative.push(seen);
                step.advance();
            }
            seen += count;
            while next_quantile < QUANTILES.len() {
                let (part, whole, needs) = QUANTILES[next_quantile];
                let rank = (u128::from(self.count) * u128::from(part)).div_ceil(u128::from(whole));
                if u128::from(seen) < rank {
                    break;
                }
                quantiles[next_quantile] = (self.count >= needs).then_some(value);
                next_quantile += 1;
            }
        }
        cdf.up_to.push(self.max);
        cdf.cumulative.push(seen);
        let [p50, p80, p90, p95, p99, p999, p9999] = quantiles;
        Some(Distribution {
            count: self.count,
            min: self.min,
            max: Some(self.max),
            sum: self.sum,
            mean: self.sum as f64 / self.count as f64,
            p50,
            p80,
            p90,
            p95,
            p99,
            p999,
            p9999,
            relative_error: if self.max / scale < Steps::<STEP_BITS>::EXACT_BELOW {
                0.0
            } else {
                Steps::<STEP_BITS>::RELATIVE_ERROR
            },
            missing: None,
            cdf: (curve == Curve::With).then_some(cdf),
        })
    }

    /// Returns the distribution, with bounds if `loss` allows missing values.
    pub(crate) fn distribution_despite(&self, loss: Loss, scale: u64, curve: Curve) -> Option<Distribution> {
        let whole = self.distribution(scale, curve)?;
        let at_most = match loss {
            Loss::Nothing => return Some(whole),
            Loss::UpTo(events) => Some(events),
            Loss::Unknown => None,
        };
        let seen = QUANTILES.map(|(part, all, needs)| {
            let missing = at_most.filter(|_| self.count >= needs)?;
            Some(self.bounds(part, all, missing, scale))
        });
        let agree = |value: Option<u64>, bounds: Option<Bounds>| {
            let Bounds { low, high: Some(high) } = bounds? else { return None };
            value.filter(|_| (high - low) as f64 <= AGREE * low as f64)
        };
        let [p50, p80, p90, p95, p99, p999, p9999] = seen;
        Some(Distribution {
            max: None,
            p50: agree(whole.p50, p50),
            p80: agree(whole.p80, p80),
            p90: agree(whole.p90, p90),
            p95: agree(whole.p95, p95),
            p99: agree(whole.p99, p99),
            p999: agree(whole.p999, p999),
            p9999: agree(whole.p9999, p9999),
            missing: Some(Missing { at_most, max_at_least: self.max, p50, p80, p90, p95, p99, p999, p9999 }),
            ..whole
        })
    }

    /// Returns the bounds of the quantile `part / all`, if up to `missing` values were not observed.
    fn bounds(&self, part: u64, all: u64, missing: u64, scale: u64) -> Bounds {
        let rank = |count: u128| (count * u128::from(part)).div_ceil(u128::from(all));
        // Missing values below the quantile lower it, and missing values above it raise it. The maximum
        // number of missing values is therefore the worst case for both bounds.
        let count = u128::from(self.count) + u128::from(missing);
        Bounds {
            low: rank(count)
                .checked_sub(u128::from(missing))
                .map_or(0, |rank| self.at_rank(rank, scale).unwrap_or(0)),
            high: self.at_rank(rank(count), scale),
        }
    }

    /// Returns the value with this rank, counted from 1; `None` if the rank exceeds the count.
    fn at_rank(&self, rank: u128, scale: u64) -> Option<u64> {
        if rank == 0 {
            return Some(0);
        }
        let mut seen = 0;
        self.steps.iter().find_map(|(middle, count)| {
            seen += u128::from(count);
            (seen >= rank).then(|| middle.saturating_mul(scale).clamp(self.min, self.max))
        })
    }
}

/// The values at which a curve is sampled: 4/4, 5/4, 6/4 and 7/4 of each power of two.
struct Step {
    quarters: u64,
    exponent: u32,
}

impl Step {
    fn at_or_below(value: u64) -> Step {
        Step { quarters: 4, exponent: value.max(1).ilog2() }
    }
    fn value(&self) -> u64 {
        u64::try_from(u128::from(self.quarters) << self.exponent >> 2).unwrap_or(u64::MAX)
    }
    fn advance(&mut self) {
        let before = self.value();
        // For values below 4, quarters of a value are not integers.
        while self.value() == before && self.exponent < u64::BITS {
            self.quarters += 1;
            if self.quarters == 8 {
                self.quarters = 4;
                self.exponent += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tally(values: &[u64]) -> Tally {
        let mut tally: Tally = Tally::default();
        values.iter().for_each(|value| tally.add(*value));
        tally
    }

    #[test]
    fn ten_values_by_hand() {
        let values = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3];
        let d = tally(&values).distribution(1, Curve::With).unwrap();
        assert_eq!((d.count, d.min, d.max, d.sum, d.mean), (10, 1, Some(9), 39, 3.9));
        assert_eq!((d.p50, d.p80, d.p90, d.p95, d.p99), (Some(3), Some(5), Some(6), None, None));
        assert_eq!(d.relative_error, 0.0);
        let cdf = d.cdf.unwrap();
        assert_eq!(cdf.up_to, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(cdf.cumulative, [2, 3, 5, 6, 8, 9, 9, 9, 10]);
    }

    #[test]
    fn sizes_in_sectors_are_exact() {
        let mut sizes = SizeDistribution::default();
        for bytes in [4096, 4096, 524_288, 1_048_064] {
            sizes.add_scaled(bytes, bytes / 512);
        }
        let d = sizes.distribution(512, Curve::Without).unwrap();
        assert_eq!((d.p50, d.p80, d.relative_error), (Some(4096), Some(1_048_064), 0.0));
    }

    #[test]
    fn nothing_and_the_extremes() {
        assert_eq!(tally(&[]).distribution(1, Curve::With), None);
        let d = tally(&[0, u64::MAX]).distribution(1, Curve::With).unwrap();
        assert_eq!((d.min, d.max, d.p50), (0, Some(u64::MAX), Some(0)));
    }

    #[test]
    fn what_was_lost_withholds_quantiles_and_the_maximum() {
        let values: Vec<u64> = [vec![100; 100], vec![1000; 10]].concat();
        let of = |loss| tally(&values).distribution_despite(loss, 1, Curve::Without).unwrap();
        assert_eq!(of(Loss::Nothing), tally(&values).distribution(1, Curve::Without).unwrap());

        let one = of(Loss::UpTo(1));
        assert_eq!((one.max, one.p50, one.p90), (None, Some(100), Some(100)));
        // With one missing value, p99 is the value of rank 110 among 111. There are too few values for p999.
        assert_eq!((one.p99, one.p999), (Some(1000), None));
        let missing = one.missing.unwrap();
        assert_eq!((missing.at_most, missing.max_at_least), (Some(1), 1000));
        assert_eq!((missing.p99, missing.p999), (Some(Bounds { low: 1000, high: Some(1000) }), None));

        let many = of(Loss::UpTo(20));
        assert_eq!((many.p50, many.p80, many.p90, many.p99), (Some(100), None, None, None));
        let missing = many.missing.unwrap();
        assert_eq!(missing.p80, Some(Bounds { low: 100, high: Some(1000) }));
        assert_eq!(missing.p90, Some(Bounds { low: 100, high: None }));

        let unknown = of(Loss::Unknown);
        assert_eq!((unknown.max, unknown.p50, unknown.p99, unknown.mean), (None, None, None, one.mean));
        let missing = unknown.missing.unwrap();
        assert_eq!((missing.at_most, missing.max_at_least, missing.p50), (None, 1000, None));
    }

    proptest! {
        /// The bounds contain the quantile of all values, whichever values were removed.
        #[test]
        fn bounds_hold_the_quantile_of_all(
            all in prop::collection::vec((0u64..400, any::<bool>()), 2..200), more in 0u64..5
        ) {
            let kept: Vec<u64> = all.iter().filter(|(_, kept)| *kept).map(|(value, _)| *value).collect();
            let missing = (all.len() - kept.len()) as u64 + more;
            let Some(d) = tally(&kept).distribution_despite(Loss::UpTo(missing), 1, Curve::Without) else { return Ok(()) };
            let mut sorted: Vec<u64> = all.iter().map(|(value, _)| *value).collect();
            sorted.sort_unstable();
            let bounds = d.missing.unwrap();
            prop_assert!(bounds.max_at_least <= sorted[sorted.len() - 1]);
            for (bounds, part) in [(bounds.p50, 50), (bounds.p80, 80), (bounds.p90, 90), (bounds.p95, 95), (bounds.p99, 99)] {
                let Some(Bounds { low, high }) = bounds else { continue };
                let exact = sorted[(sorted.len() * part).div_ceil(100) - 1];
                prop_assert!(low <= exact && high.is_none_or(|high| exact <= high), "{low} {exact} {high:?}");
            }
        }

        #[test]
        fn quantiles_are_within_the_stated_error(mut values in prop::collection::vec(0u64..1 << 45, 1..400)) {
            let d = tally(&values).distribution(1, Curve::With).unwrap();
            values.sort_unstable();
            for (found, part) in [(d.p50, 50), (d.p80, 80), (d.p90, 90), (d.p95, 95), (d.p99, 99)] {
                let Some(found) = found else { continue };
                let exact = values[(values.len() * part).div_ceil(100) - 1];
                prop_assert!(found.abs_diff(exact) as f64 <= d.relative_error * exact as f64, "{found} {exact}");
            }
            let cdf = d.cdf.unwrap();
            for (up_to, cumulative) in cdf.up_to.iter().zip(&cdf.cumulative) {
                let slack = (*up_to as f64 * d.relative_error) as u64 + 1;
                let least = values.partition_point(|value| *value <= up_to.saturating_sub(slack)) as u64;
                let most = values.partition_point(|value| *value <= up_to + slack) as u64;
                prop_assert!(least <= *cumulative && *cumulative <= most);
            }
            prop_assert_eq!(cdf.cumulative.last(), Some(&d.count));
        }

        #[test]
        fn together_is_as_if_from_one(a in prop::collection::vec(0u64..1 << 40, 0..50), b in prop::collection::vec(0u64..1 << 40, 0..50)) {
            let both: Vec<u64> = a.iter().chain(&b).copied().collect();
            let together = Tally::together([&tally(&a), &tally(&b)]).distribution(1, Curve::With);
            prop_assert_eq!(together, tally(&both).distribution(1, Curve::With));
        }
    }
}
