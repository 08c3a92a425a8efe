//! Computes the difference of two means of independent runs with different variances (Welch, *The
//! generalization of "Student's" problem when several different population variances are involved*,
//! Biometrika 1947).

use super::sample::Spread;
use super::student;

/// A value with a confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end of the interval.
    pub low: f64,
    /// The value to which the interval belongs.
    pub value: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Interval {
    /// Returns the ratio `other` / `self`. Its interval is computed from the intervals of both means by the
    /// method of variance estimates recovery, applied to the logarithms (Donner and Zou 2012). Returns `None`
    /// if one of the values is 0.
    pub fn ratio_of(self, other: Interval) -> Option<Interval> {
        if self.value <= 0.0 || other.value <= 0.0 {
            return None;
        }
        let apart = |a: f64, b: f64| {
            let (a, b) = (libm::log(a), libm::log(b));
            libm::exp((a * a + b * b).sqrt())
        };
        let value = other.value / self.value;
        Some(Interval {
            low: value / apart(other.value / other.low, self.high / self.value),
            value,
            high: value * apart(other.high / other.value, self.value / self.low),
        })
    }

    /// Returns `other` minus `self`, with an interval from the method of variance estimates recovery.
    pub fn difference_to(self, other: Interval) -> Interval {
        let apart = |a: f64, b: f64| (a * a + b * b).sqrt();
        let value = other.value - self.value;
        Interval {
            low: value - apart(other.value - other.low, self.high - self.value),
            value,
            high: value + apart(other.high - other.value, self.value - self.low),
        }
    }
}

/// A mean, with its variance and degrees of freedom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownMean {
    /// The mean of the values.
    pub mean: f64,
    /// The variance of the mean: the square of its standard error.
    pub variance: f64,
    /// The degrees of freedom of the variance, at least 1.
    pub freedom: f64,
}

impl KnownMean {
    /// Returns the mean of the values; `None` for fewer than two values, because their spread is unknown.
    pub fn of(values: &[f64]) -> Option<KnownMean> {
        let spread = Spread::of(values).filter(|spread| spread.count > 1)?;
        Some(KnownMean {
            mean: spread.mean,
            variance: spread.variance_of_mean(),
            freedom: spread.count as f64 - 1.0,
        })
    }

    /// Returns `other` minus this mean, with the confidence interval of the difference; `level` is the error
    /// probability. If both variances are 0, the interval is a single point.
    pub fn difference(&self, other: &KnownMean, level: f64) -> Interval {
        let value = other.mean - self.mean;
        let both = self.variance + other.variance;
        if both <= 0.0 {
            return Interval { low: value, value, high: value };
        }
        let share = |mean: &KnownMean| mean.variance * mean.variance / mean.freedom;
        let freedom = (both * both / (share(self) + share(other))).max(1.0);
        let half = student::two_sided(level, freedom) * both.sqrt();
        Interval { low: value - half, value, high: value + half }
    }

    /// Whether the two means differ significantly at an error level.
    pub fn differs(&self, other: &KnownMean, level: f64) -> bool {
        let Interval { low, high, .. } = self.difference(other, level);
        low > 0.0 || high < 0.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::random::Random;

    #[test]
    fn as_by_hand() {
        // The variances of the means are 1/3 and 4/3, so the standard error is 1.2910 and there are 2.94
        // degrees of freedom. The t value for 2 degrees is 4.303.
        let (first, other) = (KnownMean::of(&[9.0, 10.0, 11.0]), KnownMean::of(&[18.0, 20.0, 22.0]));
        let (first, other) = first.zip(other).expect("three values each");
        let found = first.difference(&other, 0.05);
        assert!((found.value - 10.0).abs() < 1e-12);
        assert!((found.high - 10.0 - 4.3027 * (5.0f64 / 3.0).sqrt()).abs() < 1e-3, "{found:?}");
        assert!(first.differs(&other, 0.05) && !first.differs(&first, 0.5));
        assert_eq!(KnownMean::of(&[1.0]), None);
    }

    #[test]
    fn without_variance_any_difference_counts() {
        let of = |value: f64| KnownMean { mean: value, variance: 0.0, freedom: 2.0 };
        assert!(of(1.0).differs(&of(1.0 + 1e-12), 1e-6) && !of(1.0).differs(&of(1.0), 0.05));
    }

    /// With normal errors, the intervals contain the true difference in about 95 of 100 cases, even with
    /// unequal spreads and sample sizes.
    #[test]
    fn intervals_hold_the_truth() {
        const CASES: u64 = 2000;
        let normal = |random: &mut Random| (0..12).map(|_| random.uniform()).sum::<f64>() - 6.0;
        for (first, other) in [(4, 4), (4, 12), (10, 5)] {
            let mut held = 0;
            for seed in 0..CASES {
                let mut random = Random::new(seed);
                let mut draw = |count: usize, mean: f64, sigma: f64| {
                    let values: Vec<f64> = (0..count).map(|_| mean + sigma * normal(&mut random)).collect();
                    KnownMean::of(&values).expect("several values")
                };
                let found = draw(first, 1.0, 0.3).difference(&draw(other, 2.0, 0.1), 0.05);
                held += u64::from(found.low <= 1.0 && 1.0 <= found.high);
            }
            // The expected count is 1900 (95 % of 2000), with a standard deviation of 10. The count can be
            // higher, because degrees of freedom are rounded down.
            assert!((1870..=1985).contains(&held), "{first} and {other} values: {held} intervals hold");
        }
    }

    proptest! {
        #[test]
        fn order_changes_the_sign_alone(
            first in prop::collection::vec(-100i32..100, 2..10),
            other in prop::collection::vec(-100i32..100, 2..10),
        ) {
            let of = |values: &[i32]| {
                KnownMean::of(&values.iter().map(|value| f64::from(*value)).collect::<Vec<_>>()).expect("two or more")
            };
            let (there, back) = (of(&first).difference(&of(&other), 0.05), of(&other).difference(&of(&first), 0.05));
            prop_assert_eq!((there.low, there.value, there.high), (-back.high, -back.value, -back.low));
            prop_assert!(there.low <= there.value && there.value <= there.high);
        }
    }
}
