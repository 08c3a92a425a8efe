//! Differences with 95 percent intervals (Welch's t), between slices of recordings or between repeated runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a second value differs from a first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// The second less the first; absent where one of them is unknown.
    pub difference: Option<f64>,
    /// That over the first's; absent where the first is 0.
    pub relative: Option<f64>,
    /// Lower end of the 95 percent interval of the difference; absent where a variance is unknown.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// The answer.
    pub answer: Answer,
}

/// What a difference means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Less than the first.
    Lower,
    /// More than the first.
    Higher,
    /// The interval holds 0: no difference was shown.
    NoDifference,
    /// One of the two is unknown, or there is too little of one for an interval.
    Unknown,
}

/// A value and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// The variance of `value` itself, with its degrees of freedom; `None` where nothing says how it would vary.
    pub variance: Option<(f64, f64)>,
}

impl Estimate {
    /// The mean of repeated measurements; `None` without any. One alone has no variance.
    pub fn of_repeats(values: &[f64]) -> Option<Estimate> {
        let count = values.len() as f64;
        let value = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|one| (one - value) * (one - value)).sum();
        let variance = (values.len() > 1).then(|| (squares / (count - 1.0) / count, count - 1.0));
        (!values.is_empty()).then_some(Estimate { value, variance })
    }

    /// Half the width of its 95 percent interval.
    pub fn half_interval(&self) -> Option<f64> {
        self.variance.map(|(variance, freedom)| student_t_95(freedom) * variance.sqrt())
    }
}

impl Difference {
    /// How `other` differs from `first`.
    pub fn between(first: Option<Estimate>, other: Option<Estimate>) -> Difference {
        let difference = other.zip(first).map(|(other, first)| other.value - first.value);
        let base = first.map(|first| first.value).filter(|first| *first != 0.0);
        let variances = first.and_then(|first| first.variance).zip(other.and_then(|other| other.variance));
        let half = variances.map(|((a, a_freedom), (b, b_freedom))| {
            let both = a + b;
            // Welch and Satterthwaite; without any variance the freedom does not matter.
            let freedom = if both > 0.0 {
                both * both / (a * a / a_freedom + b * b / b_freedom)
            } else {
                a_freedom + b_freedom
            };
            student_t_95(freedom) * both.sqrt()
        });
        let interval = difference.zip(half);
        let (low, high) =
            (interval.map(|(value, half)| value - half), interval.map(|(value, half)| value + half));
        let answer = match (low, high) {
            (Some(low), Some(_)) if low > 0.0 => Answer::Higher,
            (Some(_), Some(high)) if high < 0.0 => Answer::Lower,
            (Some(_), Some(_)) => Answer::NoDifference,
            _ => Answer::Unknown,
        };
        Difference { difference, relative: difference.zip(base).map(|(d, base)| d / base), low, high, answer }
    }
}

/// Two-sided 95 percent points of Student's t for 1 to 30 degrees of freedom.
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The point for so many degrees of freedom, rounded down: the interval is never too narrow.
fn student_t_95(freedom: f64) -> f64 {
    match freedom {
        few if few < 31.0 => T_95[(few as usize).clamp(1, 30) - 1],
        _ if freedom < 40.0 => 2.042,
        _ if freedom < 60.0 => 2.021,
        _ => 2.000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_of_t() {
        assert_eq!((student_t_95(1.0), student_t_95(10.9), student_t_95(500.0)), (12.706, 2.228, 2.0));
    }

    #[test]
    fn three_runs_before_and_three_after() {
        let of = Estimate::of_repeats;
        let faster = Difference::between(of(&[10.0, 10.2, 9.8]), of(&[5.1, 5.0, 4.9]));
        assert_eq!(faster.answer, Answer::Lower);
        assert!((faster.relative.unwrap() + 0.5).abs() < 1e-9);
        // Means 10 and 10.4, variances of the means 1 and 1, four degrees of freedom: 0.4 within 2.776 times root 2.
        let spread = 3f64.sqrt();
        let same = Difference::between(
            of(&[10.0 - spread, 10.0, 10.0 + spread]),
            of(&[10.4 - spread, 10.4, 10.4 + spread]),
        );
        assert_eq!(same.answer, Answer::NoDifference);
        assert!((same.high.unwrap() - (0.4 + 2.776 * 2f64.sqrt())).abs() < 1e-9);
    }

    #[test]
    fn one_run_has_no_spread() {
        let once = Estimate::of_repeats(&[3.0]);
        assert_eq!(once.unwrap().half_interval(), None);
        assert_eq!(Difference::between(once, once).answer, Answer::Unknown);
        assert_eq!(Estimate::of_repeats(&[]), None);
    }
}
