//! Tests whether a setting has an effect on a machine in use. The test compares pairs of time slices. Each
//! pair consists of a slice with the setting and one without it, in random order.
//!
//! The figure is the time for which threads were blocked on storage, per second. Only the ratio of each pair
//! is used, so a load that grows or shrinks over time cancels out. A difference is claimed if the interval of
//! the ratio does not contain 1 and the ratio differs from 1 by at least 5 percent. The intervals after all
//! pairs are simultaneously valid, so the test may stop at any time
//! ([`statistics`](crate::compare::statistics), `sequential`).

use fonio_core::statistics::welch::Interval;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::interval::{self, EFFECT, LEAST_EFFECT, RUNS_MIN, Side};
use crate::compare::statistics::{FAMILY_LEVEL, sequential};

/// Minimum number of pairs needed to claim a difference.
pub const PAIRS_MIN: usize = 6;

/// Constant that is added to both blocked times of a pair, in seconds per second. Nobody notices 0.1 ms per
/// second, and ratios of times near 0 are meaningless.
pub const FLOOR: f64 = 1e-4;

const PAIRS_MAX: usize = 1000;

/// Result of a comparison of pairs of slices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Paired {
    /// The number of pairs.
    pub pairs: usize,
    /// Ratio of a typical pair: blocked time with the setting divided by blocked time without it; absent if
    /// there are no pairs.
    pub ratio: Option<f64>,
    /// Lower end of the ratio's confidence interval; absent if unbounded.
    pub low: Option<f64>,
    /// Upper end of the ratio's confidence interval; absent if unbounded.
    pub high: Option<f64>,
    /// Confidence of the interval, 0 to 1.
    pub confidence: f64,
    /// The answer.
    pub answer: PairedAnswer,
    /// Estimated number of pairs with which four of five tests would show an effect of 20 percent, given the
    /// observed variation. Absent if the number exceeds 1000, or if there are fewer than three pairs.
    pub pairs_needed: Option<usize>,
}

/// The answer that pairs of slices give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PairedAnswer {
    /// The blocked time is shorter with the setting.
    Lower,
    /// The blocked time is longer with the setting.
    Higher,
    /// No difference was shown, and a difference of 20 percent is excluded.
    LittleDifference,
    /// No difference was shown.
    NotShown,
}

impl Paired {
    /// Returns the side of 1 on which the complete interval lies, if no difference is claimed: the blocked
    /// times differ, but by less than 5 percent.
    pub fn side(&self) -> Option<Side> {
        if self.answer.is_claimed() {
            return None;
        }
        Side::of(self.low.unwrap_or(0.0), self.high.unwrap_or(f64::INFINITY))
    }
}

impl PairedAnswer {
    /// Whether the test can end early, because more pairs would not change the answer.
    pub fn is_final(self) -> bool {
        self != PairedAnswer::NotShown
    }

    /// Whether a difference is claimed.
    pub fn is_claimed(self) -> bool {
        matches!(self, PairedAnswer::Lower | PairedAnswer::Higher)
    }
}

/// Compares pairs of blocked times in seconds per second: each pair contains the time without the setting,
/// then the time with the setting.
///
/// # Panics
///
/// If a blocked time is negative or not a number.
pub fn compare_pairs(pairs: &[(f64, f64)]) -> Paired {
    compare_one_of(1, pairs)
}

/// Compares pairs of one of several figures of the same test. All intervals of the test are valid together.
///
/// # Panics
///
/// As [`compare_pairs`], and if `figures` is 0.
pub fn compare_one_of(figures: u32, pairs: &[(f64, f64)]) -> Paired {
    assert!(figures > 0, "the figure itself counts");
    let level = FAMILY_LEVEL / f64::from(figures);
    let ratios = log_ratios(pairs);
    let mut paired = Paired {
        pairs: pairs.len(),
        ratio: None,
        low: None,
        high: None,
        confidence: 1.0 - level,
        answer: PairedAnswer::NotShown,
        pairs_needed: pairs_needed(&ratios),
    };
    if ratios.is_empty() {
        return paired;
    }
    let Interval { low, value, high } = sequential::interval(&ratios, level);
    paired.ratio = Some(libm::exp(value));
    paired.low = low.is_finite().then(|| libm::exp(low));
    paired.high = high.is_finite().then(|| libm::exp(high));
    let (least, effect) = (libm::log(LEAST_EFFECT), -libm::log(EFFECT));
    paired.answer = if high < 0.0 && value < -least {
        PairedAnswer::Lower
    } else if low > 0.0 && value > least {
        PairedAnswer::Higher
    } else if -effect < low && high < effect {
        PairedAnswer::LittleDifference
    } else {
        PairedAnswer::NotShown
    };
    paired
}

/// Returns the logarithm of each pair's ratio: the time with the setting divided by the time without it.
fn log_ratios(pairs: &[(f64, f64)]) -> Vec<f64> {
    let ratio = |&(without, with): &(f64, f64)| {
        assert!(without >= 0.0 && with >= 0.0, "a duration is not negative");
        libm::log((with + FLOOR) / (without + FLOOR))
    };
    pairs.iter().map(ratio).collect()
}

/// Returns the number of pairs needed to show an effect of 20 percent. An estimate from few pairs may be too
/// low, so the upper bound of the variation is used, as in [`interval::rounds_needed`].
fn pairs_needed(ratios: &[f64]) -> Option<usize> {
    if ratios.len() < RUNS_MIN {
        return None;
    }
    let deviation = interval::deviation_of_pilot(ratios);
    sequential::needed(libm::log(EFFECT), deviation, FAMILY_LEVEL, PAIRS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_clear_pairs_show_a_difference_and_five_do_not() {
        let with = |pairs: usize, factor: f64| {
            let pairs: Vec<(f64, f64)> =
                (0..pairs).map(|at| (0.1 + 0.01 * at as f64, factor * (0.1 + 0.01 * at as f64))).collect();
            compare_pairs(&pairs)
        };
        assert_eq!(with(PAIRS_MIN - 1, 0.5).answer, PairedAnswer::NotShown);
        let halved = with(PAIRS_MIN, 0.5);
        assert_eq!((halved.answer, halved.pairs_needed), (PairedAnswer::Lower, Some(6)));
        let ratio = halved.ratio.expect("there are pairs");
        assert!((ratio - 0.5).abs() < 0.01, "{ratio}");
        assert_eq!(with(6, 2.0).answer, PairedAnswer::Higher);
        assert_eq!(with(6, 1.0).answer, PairedAnswer::LittleDifference);
    }

    /// A test of two figures that ends as soon as one of them shows a difference, as `fonio cure` does.
    fn ends_with_a_claim(random: &mut fonio_core::Random, spread: f64, factor: f64, most: usize) -> bool {
        let mut noise = || libm::exp(spread * ((0..12).map(|_| random.uniform()).sum::<f64>() - 6.0));
        let (mut times, mut longest) = (Vec::new(), Vec::new());
        (0..most).any(|_| {
            times.push((noise(), factor * noise()));
            longest.push((noise(), factor * noise()));
            [&times, &longest].iter().any(|pairs| compare_one_of(2, pairs).answer.is_claimed())
        })
    }

    #[test]
    fn equal_things_are_rarely_different_in_one_of_two_figures() {
        let mut random = fonio_core::Random::new(7);
        let claims = (0..50).filter(|_| ends_with_a_claim(&mut random, 0.3, 1.0, 8)).count();
        // 5 percent are allowed; chance gives more than 16 percent once in a thousand times.
        assert!(claims <= 8, "{claims} of 50 tests of equal things");
        let mut random = fonio_core::Random::new(7);
        let found = (0..10).filter(|_| ends_with_a_claim(&mut random, 0.1, 0.5, 8)).count();
        assert!(found >= 9, "{found} of 10 halved times were found");
    }

    #[test]
    fn nothing_and_times_around_nothing_show_nothing() {
        let none = compare_pairs(&[]);
        assert_eq!((none.answer, none.ratio, none.pairs_needed), (PairedAnswer::NotShown, None, None));
        assert_eq!(compare_pairs(&[(0.0, 0.0); 10]).answer, PairedAnswer::LittleDifference);
        // The blocked times differ by a factor of 4, but are negligible.
        assert_eq!(compare_pairs(&[(1e-6, 4e-6); 10]).answer, PairedAnswer::LittleDifference);
    }

    #[test]
    fn an_interval_that_the_pairs_do_not_bound_is_open() {
        let few = compare_pairs(&[(0.1, 0.2), (0.3, 0.2)]);
        assert_eq!((few.low, few.high, few.answer), (None, None, PairedAnswer::NotShown));
    }

    #[test]
    fn a_load_that_varies_more_needs_more_pairs() {
        let needed = |spread: f64| {
            let pairs: Vec<(f64, f64)> =
                [1.0, -1.0, 0.5, -0.5].iter().map(|side| (0.1, 0.1 * libm::exp(side * spread))).collect();
            compare_pairs(&pairs).pairs_needed
        };
        assert_eq!(needed(0.001), Some(6));
        let (some, more) = (needed(0.2).expect("not too many"), needed(0.5).expect("not too many"));
        assert!(6 < some && 2 * some < more, "{some} {more}");
        assert_eq!(needed(20.0), None);
    }
}
