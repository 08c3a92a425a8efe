//! Decides whether two values differ, and compares the run times of repeated runs.
//!
//! A difference is claimed if the complete interval of the ratio lies beyond [`LEAST_EFFECT`]. "No
//! difference" is claimed only if the interval excludes a doubling and a halving. If neither claim is
//! possible, the answer is unknown.

use fonio_core::statistics::sample::{self, Spread};
use fonio_core::statistics::welch::{Interval, KnownMean};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::statistics::{FAMILY_LEVEL, holm, student};

/// The smallest reported difference is 5 percent (our choice). Identical runs can differ by 5 percent,
/// because file locations and earlier writes to the device vary.
pub const LEAST_EFFECT: f64 = 1.05;

/// An interval that reaches this ratio or its inverse is too wide for "no difference" (our choice).
const TOO_WIDE: f64 = 2.0;

/// Minimum number of runs for an interval. Two runs are not enough to estimate the spread.
pub const RUNS_MIN: usize = 3;

/// The change from a first to a second value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The second value divided by the first; absent if either value is unknown or the first value is 0.
    pub ratio: Option<f64>,
    /// Lower end of the ratio's interval; absent if there is no interval.
    pub low: Option<f64>,
    /// Upper end of the ratio's interval; absent if there is no interval, or if it is unbounded above.
    pub high: Option<f64>,
    /// The confidence of the interval, 0 to 1; it grows with the number of figures tested together.
    pub confidence: Option<f64>,
    /// The answer.
    pub answer: Answer,
    /// The reason for an unknown answer.
    pub unknown: Option<Unknown>,
}

/// The meaning of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The value is lower than on the first side by more than 5 percent.
    Lower,
    /// The value is higher than on the first side by more than 5 percent.
    Higher,
    /// No difference was found. The data would have shown a doubling or a halving.
    NoDifference,
    /// The data are insufficient.
    Unknown,
}

/// The reason for an unknown answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// One of the two sides was not measured.
    NotMeasured,
    /// One of the two sides has fewer than three runs.
    TooFewRuns,
    /// There is one recording per side, and the figure has one value per recording.
    OneValueEach,
    /// Because of autocorrelation, the recording has fewer than eight independent segments.
    TooFewPieces,
    /// The interval includes a halving or a doubling.
    TooWide,
    /// There is one recording per side, and the figure is an exact count of this recording. It is not tested.
    Counted,
}

impl Unknown {
    /// Returns the reason in the words used in tables.
    pub fn words(self) -> &'static str {
        match self {
            Unknown::NotMeasured => "not measured in both",
            Unknown::TooFewRuns => "fewer than three runs each",
            Unknown::OneValueEach => "one run each: no interval",
            Unknown::TooFewPieces => "too short to tell",
            Unknown::TooWide => "varies too much to tell",
            Unknown::Counted => "exact count",
        }
    }
}

impl Change {
    /// Returns a change whose answer is unknown, with the reason. `ratio` is the observed ratio, if any.
    pub(crate) fn unknown(ratio: Option<f64>, why: Unknown) -> Change {
        Change { ratio, low: None, high: None, confidence: None, answer: Answer::Unknown, unknown: Some(why) }
    }

    /// Creates a change from the interval of the ratio at `level`.
    pub(crate) fn of_ratio(ratio: Interval, level: f64) -> Change {
        let Interval { low, value, high } = ratio;
        let (answer, unknown) = if low > LEAST_EFFECT {
            (Answer::Higher, None)
        } else if high < 1.0 / LEAST_EFFECT {
            (Answer::Lower, None)
        } else if low > 1.0 / TOO_WIDE && high < TOO_WIDE {
            (Answer::NoDifference, None)
        } else {
            (Answer::Unknown, Some(Unknown::TooWide))
        };
        Change {
            ratio: Some(value),
            low: Some(low),
            high: Some(high).filter(|high| high.is_finite()),
            confidence: Some(1.0 - level),
            answer,
            unknown,
        }
    }

    /// Whether the answer claims a difference.
    pub fn is_claimed(&self) -> bool {
        matches!(self.answer, Answer::Lower | Answer::Higher)
    }

    /// Returns the side of 1 on which the complete interval lies, if the answer claims no difference: the
    /// values differ, but possibly by less than 5 percent.
    pub fn side(&self) -> Option<Side> {
        if self.is_claimed() {
            return None;
        }
        // A missing upper end is unbounded.
        Side::of(self.low?, self.high.unwrap_or(f64::INFINITY))
    }
}

/// The position of an interval that excludes 1, although no relevant difference was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// Whether the interval lies above 1.
    pub is_higher: bool,
    /// Whether the interval also excludes a difference of 20 percent.
    pub is_little: bool,
}

/// The smallest ratio of interest: a reduction by 20 percent (our choice).
pub const EFFECT: f64 = 0.8;

impl Side {
    /// Returns the side of an interval of ratios; `None` if the interval contains 1.
    pub fn of(low: f64, high: f64) -> Option<Side> {
        let is_higher = low > 1.0;
        let is_little = low > EFFECT && high < 1.0 / EFFECT;
        (is_higher || high < 1.0).then_some(Side { is_higher, is_little })
    }

    /// Returns the words for a table: "a little slower". `lower` and `higher` are the words for the two
    /// directions.
    pub fn words(self, lower: &str, higher: &str) -> String {
        let word = if self.is_higher { higher } else { lower };
        if self.is_little { format!("a little {word}") } else { format!("{word}, amount unclear") }
    }
}

/// Returns the geometric mean; `None` if there are no values or if a value is not positive.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let possible = !values.is_empty() && values.iter().all(|value| *value > 0.0);
    possible.then(|| libm::exp(mean(&values.iter().map(|value| libm::log(*value)).collect::<Vec<f64>>())))
}

/// For each of several fixes, compares runs with the fix to runs without any fix. All fixes are tested
/// together (Holm).
///
/// Run `r` with a fix is compared with run `r` without the fix. Both runs belong to round `r`, and have the
/// same seed and machine state. The interval is Student's t of the logarithms of the rounds' ratios. A ratio
/// below 1 means that runs with the fix are faster.
///
/// # Panics
///
/// If a fix and its base have different numbers of rounds, or if a run time is not positive.
pub fn compare_rounds(pairs: &[(&[f64], &[f64])]) -> Vec<Change> {
    let ratios: Vec<Vec<f64>> = pairs
        .iter()
        .map(|(base, fix)| {
            assert_eq!(base.len(), fix.len(), "every round runs both");
            assert!(base.iter().chain(*fix).all(|time| *time > 0.0), "a run takes time");
            base.iter().zip(*fix).map(|(base, fix)| libm::log(fix / base)).collect()
        })
        .collect();
    let at = |index: usize, level: f64| paired(&ratios[index], level);
    let is_claimed = |index: usize, level: f64| at(index, level).is_claimed();
    let levels = holm::levels(FAMILY_LEVEL, &vec![1.0; pairs.len()], is_claimed);
    levels.iter().enumerate().map(|(index, level)| at(index, *level)).collect()
}

fn paired(logarithms: &[f64], level: f64) -> Change {
    let middle = mean(logarithms);
    let ratio = (!logarithms.is_empty()).then(|| libm::exp(middle));
    if logarithms.len() < RUNS_MIN {
        return Change::unknown(ratio, Unknown::TooFewRuns);
    }
    let half = student::two_sided(level, logarithms.len() as f64 - 1.0) * variance_of_mean(logarithms).sqrt();
    let bounds =
        Interval { low: libm::exp(middle - half), value: libm::exp(middle), high: libm::exp(middle + half) };
    Change::of_ratio(bounds, level)
}

/// Returns the number of rounds, estimated from a pilot, after which the interval lies within `factor` of the
/// ratio of the run times. The number is at least the number of pilot rounds, and at most `most`. Returns
/// `None` if the pilot has fewer than three rounds.
///
/// `together` is the number of ratios tested together; the interval uses the strictest level of Holm's
/// method. A short pilot may underestimate the spread. The plan therefore uses the upper end of the spread's
/// one-sided 80 percent interval, as Browne (1995) advises.
pub fn rounds_needed(base: &[f64], fix: &[f64], factor: f64, together: usize, most: usize) -> Option<usize> {
    let ratios: Vec<f64> = base.iter().zip(fix).map(|(base, fix)| libm::log(fix / base)).collect();
    if ratios.len() < RUNS_MIN {
        return None;
    }
    let deviation = deviation_of_pilot(&ratios);
    let variance = deviation * deviation;
    let level = FAMILY_LEVEL / together.max(1) as f64;
    let wanted = libm::log(factor);
    let enough = |rounds: &usize| {
        let rounds = *rounds as f64;
        student::two_sided(level, rounds - 1.0) * (variance / rounds).sqrt() <= wanted
    };
    Some((ratios.len()..most).find(enough).unwrap_or(most.max(ratios.len())))
}

/// Returns the standard deviation to plan with after a pilot of at least three values: the upper end of the
/// one-sided 80 percent interval of the standard deviation.
pub(crate) fn deviation_of_pilot(values: &[f64]) -> f64 {
    let (count, freedom) = (values.len() as f64, values.len() as f64 - 1.0);
    (variance_of_mean(values) * count * freedom / chi_squared_lower_fifth(freedom)).sqrt()
}

/// The 20 percent quantile of the chi-squared distribution (Wilson and Hilferty 1931; within 1 percent from 2 degrees of
/// freedom on).
fn chi_squared_lower_fifth(freedom: f64) -> f64 {
    const NORMAL_LOWER_FIFTH: f64 = -0.841_621;
    let spread = 2.0 / (9.0 * freedom);
    let root = 1.0 - spread + NORMAL_LOWER_FIFTH * spread.sqrt();
    freedom * root * root * root
}

/// Compares unpaired runs of two sides with Welch's t on the logarithms, or on the values themselves if a
/// value is 0.
pub(crate) fn compare_runs(first: &[f64], other: &[f64], level: f64) -> Change {
    let ratio = geometric_mean(first).zip(geometric_mean(other)).map(|(first, other)| other / first);
    if first.len() < RUNS_MIN || other.len() < RUNS_MIN {
        return Change::unknown(ratio, Unknown::TooFewRuns);
    }
    let Some(ratio) = ratio else {
        let bounds = welch(first, other, level);
        return Change::of_difference(bounds, mean(first) == 0.0 && mean(other) == 0.0, level);
    };
    let logarithms = |values: &[f64]| values.iter().map(|value| libm::log(*value)).collect::<Vec<f64>>();
    let Interval { low, high, .. } = welch(&logarithms(first), &logarithms(other), level);
    Change::of_ratio(Interval { low: libm::exp(low), value: ratio, high: libm::exp(high) }, level)
}

impl Change {
    /// Creates a change from the interval of a difference. This is used if a value is 0, which makes ratios
    /// meaningless.
    pub(crate) fn of_difference(difference: Interval, both_zero: bool, level: f64) -> Change {
        let answer = match difference {
            _ if both_zero => Answer::NoDifference,
            Interval { low, .. } if low > 0.0 => Answer::Higher,
            Interval { high, .. } if high < 0.0 => Answer::Lower,
            _ => Answer::Unknown,
        };
        let unknown = (answer == Answer::Unknown).then_some(Unknown::TooWide);
        Change { ratio: None, low: None, high: None, confidence: Some(1.0 - level), answer, unknown }
    }
}

/// Returns the difference of the means, `other` minus `first`, with Welch's interval.
fn welch(first: &[f64], other: &[f64], level: f64) -> Interval {
    let known = |runs: &[f64]| KnownMean::of(runs).expect("three runs or more");
    known(first).difference(&known(other), level)
}

fn mean(values: &[f64]) -> f64 {
    sample::mean(values).unwrap_or(f64::NAN)
}

/// Returns the variance of the mean of at least two values.
fn variance_of_mean(values: &[f64]) -> f64 {
    Spread::of(values).map_or(f64::NAN, |spread| spread.variance_of_mean())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: Option<f64>, wanted: f64) {
        assert!(found.is_some_and(|found| (found - wanted).abs() < 5e-4), "{found:?}, not {wanted}");
    }

    #[test]
    fn rounds_are_paired() {
        // Rounds of 10, 20 and 40 s. As unpaired values, they show no difference; as pairs, they show a
        // halving without spread.
        let base = [10.0, 20.0, 40.0];
        let change = &compare_rounds(&[(&base, &[5.0, 10.0, 20.0])])[0];
        assert_eq!((change.answer, change.confidence), (Answer::Lower, Some(0.95)));
        near(change.ratio, 0.5);
        near(change.low, 0.5);
        assert_eq!(compare_runs(&base, &[5.0, 10.0, 20.0], 0.05).answer, Answer::Unknown);
    }

    #[test]
    fn the_interval_of_a_ratio_by_hand() {
        // The logarithms of the ratios are -0.1, 0 and 0.1, so the mean is 0 and the standard error 0.0577.
        // With 2 degrees of freedom, t is 4.303, so the half width is 0.2484.
        let fix: Vec<f64> = [-0.1f64, 0.0, 0.1].iter().map(|value| libm::exp(*value)).collect();
        let change = &compare_rounds(&[(&[1.0; 3], &fix)])[0];
        near(change.ratio, 1.0);
        near(change.low, 0.7800);
        near(change.high, 1.2820);
        assert_eq!(change.answer, Answer::NoDifference);
    }

    #[test]
    fn answers() {
        let of = |low, high| Change::of_ratio(Interval { low, value: 1.0, high }, 0.05);
        for (low, high, answer) in [
            (1.06, 1.5, Answer::Higher),
            (1.04, 1.5, Answer::NoDifference),
            (0.5, 0.9, Answer::Lower),
            (0.5, 0.96, Answer::Unknown),
            (0.6, 1.9, Answer::NoDifference),
            (0.4, 1.1, Answer::Unknown),
            (0.9, f64::INFINITY, Answer::Unknown),
        ] {
            assert_eq!(of(low, high).answer, answer, "{low} to {high}");
            assert_eq!(of(low, high).unknown.is_some(), answer == Answer::Unknown);
        }
        assert_eq!(of(0.9, f64::INFINITY).high, None);
    }

    #[test]
    fn an_interval_beside_1_has_a_side() {
        let of = |low, high| {
            let change = Change::of_ratio(Interval { low, value: 1.0, high }, 0.05);
            change.side().map(|side| side.words("faster", "slower"))
        };
        for (low, high, expected) in [
            (1.01, 1.08, Some("a little slower")),
            (1.04, 1.5, Some("slower, amount unclear")),
            (1.01, f64::INFINITY, Some("slower, amount unclear")),
            (0.93, 0.99, Some("a little faster")),
            (0.5, 0.96, Some("faster, amount unclear")),
            (0.99, 1.08, None),
            (1.0, 1.02, None),
            (1.06, 1.5, None),
            (0.5, 0.9, None),
        ] {
            assert_eq!(of(low, high).as_deref(), expected, "{low} to {high}");
        }
        assert_eq!(Change::unknown(Some(24.0), Unknown::TooFewRuns).side(), None);
    }

    #[test]
    fn many_fixes_are_held_together() {
        // The effect of a fix is found if the fix is tested alone, but not if it is tested together with
        // nineteen fixes that have no effect.
        let (base, fix) = ([1.0; 4], [0.80, 0.86, 0.79, 0.84]);
        let nothing = [1.01, 0.99, 1.0, 1.02];
        assert_eq!(compare_rounds(&[(&base, &fix)])[0].answer, Answer::Lower);
        let mut many: Vec<(&[f64], &[f64])> = vec![(&base, &fix)];
        many.extend([(&base[..], &nothing[..]); 19]);
        let together = compare_rounds(&many);
        assert_eq!(together[0].answer, Answer::NoDifference);
        assert!(together[0].confidence.unwrap() > 0.99);
    }

    #[test]
    fn too_few_runs_show_nothing() {
        for rounds in 0..RUNS_MIN {
            let change = &compare_rounds(&[(&vec![2.0; rounds][..], &vec![1.0; rounds][..])])[0];
            assert_eq!((change.answer, change.unknown), (Answer::Unknown, Some(Unknown::TooFewRuns)));
            assert_eq!(compare_runs(&vec![2.0; rounds], &[1.0; 5], 0.05).answer, Answer::Unknown);
        }
    }

    #[test]
    fn runs_of_nothing() {
        assert_eq!(compare_runs(&[0.0; 3], &[0.0; 3], 0.05).answer, Answer::NoDifference);
        assert_eq!(compare_runs(&[0.0; 3], &[9.0, 10.0, 11.0], 0.05).answer, Answer::Higher);
        assert_eq!(compare_runs(&[9.0, 10.0, 11.0], &[0.0; 3], 0.05).answer, Answer::Lower);
        assert_eq!(compare_runs(&[0.0; 3], &[0.0, 0.0, 1.0], 0.05).answer, Answer::Unknown);
    }

    #[test]
    fn a_difference_must_lie_beyond_nothing() {
        let of = |low, high| Change::of_difference(Interval { low, value: 0.0, high }, false, 0.05).answer;
        assert_eq!((of(-2.0, 0.0), of(0.0, 2.0)), (Answer::Unknown, Answer::Unknown));
        assert_eq!((of(-2.0, -0.1), of(0.1, 2.0)), (Answer::Lower, Answer::Higher));
    }

    #[test]
    fn rounds_by_a_pilot() {
        let base = [10.0, 10.0, 10.0];
        assert_eq!(rounds_needed(&base, &[5.0, 5.0, 5.0], 1.25, 1, 20), Some(3));
        // The logarithms have a standard deviation of 0.2, or of 0.42 with the pilot's uncertainty. From n =
        // 17 rounds on, t * 0.42 / root(n) is below 0.223.
        let fix: Vec<f64> = [-0.2f64, 0.0, 0.2].iter().map(|value| 10.0 * libm::exp(*value)).collect();
        assert_eq!(rounds_needed(&base, &fix, 1.25, 1, 40), Some(17));
        assert!(rounds_needed(&base, &fix, 1.25, 2, 40) > Some(17), "two ratios need more rounds than one");
        assert_eq!(rounds_needed(&base, &fix, 1.25, 1, 4), Some(4));
        assert_eq!(rounds_needed(&base[..2], &fix[..2], 1.25, 1, 4), None);
        // Values from tables: 0.446 for 2 degrees of freedom, 2.343 for 5.
        assert!((chi_squared_lower_fifth(2.0) - 0.446).abs() < 0.01);
        assert!((chi_squared_lower_fifth(5.0) - 2.343).abs() < 0.02);
    }
}
