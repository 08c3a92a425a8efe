//! Compares two results figure by figure. "No difference" is a possible outcome.
//!
//! A difference is claimed if the means differ by Welch's t-test and by more than [`SMALLEST`]. Holm's method
//! corrects for the number of figures: if two devices are equal, at most one of twenty comparisons claims any
//! difference. Nothing is claimed for a figure with a single run.
//!
//! A comparison does not account for changes of a device between two runs of StoreBench, for example of its
//! temperature. An important difference should also appear in a second run.

use fonio_core::Better;
use fonio_core::statistics::{FAMILY_LEVEL, holm};
use serde::Serialize;

use crate::document::{Document, Key, Measure, Value};
use crate::figures::{self, CatalogueFigure};
use crate::values;

/// Minimum relative difference for a claim, because means are known only to about this precision.
pub const SMALLEST: f64 = 0.02;

/// The comparison of two StoreBench results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The result of the comparison as a sentence.
    pub verdict: String,
    /// The differing parts of the keys, in words; empty if the keys are equal.
    pub keys_differ: Vec<String>,
    /// All figures that at least one result has.
    pub figures: Vec<Compared>,
}

/// The comparison of one figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The compared figure.
    #[serde(flatten)]
    pub figure: CatalogueFigure,
    /// The value in the first result, or the reason why it is missing.
    pub first: Measure,
    /// The value in the second result, or the reason why it is missing.
    pub second: Measure,
    /// The second value divided by the first; absent if one of the values is missing or the first value is 0.
    pub ratio: Option<f64>,
    /// The outcome of the comparison.
    pub answer: Answer,
}

/// The outcome of comparing a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The second result is better.
    Better,
    /// The second result is worse.
    Worse,
    /// The results differ, but the figure has no better direction.
    Differs,
    /// The runs show no difference.
    NoDifference,
    /// A result has only one run, so its spread is unknown.
    OneRun,
    /// At least one result lacks the figure.
    NotMeasured,
}

/// Lists the differing parts of two keys, in words.
pub fn keys_differ(first: &Key, second: &Key) -> Vec<String> {
    let mut words = Vec::new();
    let mut part = |what: &str, left: String, right: String| {
        if left != right {
            words.push(format!("{what} ({left} and {right})"));
        }
    };
    part("the version of the test", first.test_version.to_string(), second.test_version.to_string());
    part(
        "the effort",
        format!("{:?}", first.effort).to_lowercase(),
        format!("{:?}", second.effort).to_lowercase(),
    );
    let mode = |key: &Key| {
        serde_json::to_value(key.mode)
            .ok()
            .and_then(|mode| Some(mode.as_str()?.replace('_', " ")))
            .unwrap_or_default()
    };
    part("the mode", mode(first), mode(second));
    part("the file system", first.file_system.clone(), second.file_system.clone());
    part("the size class", format!("{} GB", first.size_class_gb), format!("{} GB", second.size_class_gb));
    words
}

/// Compares the result `second` with the result `first`.
pub fn compare(first: &Document, second: &Document) -> Comparison {
    let of_both: Vec<(CatalogueFigure, &Measure, &Measure)> = figures::catalogue()
        .into_iter()
        .filter_map(|figure| {
            let (left, right) = (first.figures.get(&figure.name)?, second.figures.get(&figure.name)?);
            (left.value().is_some() || right.value().is_some()).then_some((figure, left, right))
        })
        .collect();
    let tested: Vec<(&Value, &Value)> =
        of_both.iter().filter_map(|(_, left, right)| repeated(left, right)).collect();
    let mut levels = levels(&tested).into_iter();
    let figures: Vec<Compared> = of_both
        .into_iter()
        .map(|(figure, left, right)| {
            // Only figures that were measured several times in both results have a significance level.
            let level = repeated(left, right).and_then(|_| levels.next());
            of_figure(figure, left, right, level)
        })
        .collect();
    Comparison { verdict: verdict(&figures), keys_differ: keys_differ(&first.key, &second.key), figures }
}

/// Returns the values of a figure if both results measured the figure several times.
fn repeated<'a>(first: &'a Measure, second: &'a Measure) -> Option<(&'a Value, &'a Value)> {
    first.value().zip(second.value()).filter(|(first, second)| first.runs > 1 && second.runs > 1)
}

/// Returns the significance levels of the figures. With these levels, the probability that at least one claim
/// is wrong is at most [`FAMILY_LEVEL`].
fn levels(figures: &[(&Value, &Value)]) -> Vec<f64> {
    holm::levels(FAMILY_LEVEL, &vec![1.0; figures.len()], |at, level| {
        values::differ(figures[at].0, figures[at].1, level)
    })
}

fn of_figure(figure: CatalogueFigure, first: &Measure, second: &Measure, level: Option<f64>) -> Compared {
    let both = first.value().zip(second.value());
    Compared {
        answer: both.map_or(Answer::NotMeasured, |(left, right)| {
            level.map_or(Answer::OneRun, |level| answer(figure.better, left, right, level))
        }),
        ratio: both.filter(|(left, _)| left.value > 0.0).map(|(left, right)| right.value / left.value),
        first: first.clone(),
        second: second.clone(),
        figure,
    }
}

fn answer(better: Option<Better>, first: &Value, second: &Value, level: f64) -> Answer {
    let is_small = (first.value - second.value).abs() <= SMALLEST * first.value.abs().max(second.value.abs());
    match better {
        _ if is_small || !values::differ(first, second, level) => Answer::NoDifference,
        None => Answer::Differs,
        Some(better) if better.is_better(second.value, first.value) => Answer::Better,
        Some(_) => Answer::Worse,
    }
}

fn verdict(figures: &[Compared]) -> String {
    let count = |answer: Answer| figures.iter().filter(|compared| compared.answer == answer).count();
    let (better, worse) = (count(Answer::Better), count(Answer::Worse));
    let equal = count(Answer::NoDifference);
    let largest = figures
        .iter()
        .filter(|compared| matches!(compared.answer, Answer::Better | Answer::Worse))
        .filter_map(|compared| Some((compared, compared.ratio.filter(|ratio| *ratio > 0.0)?)))
        .max_by(|left, right| distance(left.1).total_cmp(&distance(right.1)));
    let untested = untested(figures);
    let Some((compared, ratio)) = largest else {
        let once = untested.as_ref().map_or("", |_| "; figures with one run were not tested");
        let untested = untested.unwrap_or_default();
        return match equal {
            0 if !once.is_empty() => format!(
                "One run of each figure cannot show whether the devices differ; measure without --quick{untested}."
            ),
            0 => "The results cannot be compared: no figure was measured in both.".to_owned(),
            1 => format!("No difference was shown in the only figure with several runs{once}{untested}."),
            _ => format!("No difference was shown in any of {equal} figures{once}{untested}."),
        };
    };
    let overall = match (better, worse) {
        (_, 0) => format!("The second result is better in {better} figures and worse in none"),
        (0, _) => format!("The second result is worse in {worse} figures and better in none"),
        _ => format!("The second result is better in {better} figures and worse in {worse}"),
    };
    format!(
        "{overall}; {equal} show no difference. The largest difference is in {}: the second's value is {:.2} times the first's.",
        compared.figure.label, ratio
    )
}

/// Returns the largest ratio of the figures that were measured only once in one of the results; `None` if there
/// are no such figures.
fn untested(figures: &[Compared]) -> Option<String> {
    let once = || figures.iter().filter(|compared| compared.answer == Answer::OneRun);
    once().next()?;
    let largest = once()
        .filter_map(|compared| Some((compared, compared.ratio.filter(|ratio| *ratio > 0.0)?)))
        .max_by(|left, right| distance(left.1).total_cmp(&distance(right.1)));
    Some(largest.map_or_else(String::new, |(compared, ratio)| {
        format!(
            ". The largest ratio is in {}: the second's value is {ratio:.2} times the first's",
            compared.figure.label
        )
    }))
}

/// Returns a ratio's distance from 1, in either direction.
fn distance(ratio: f64) -> f64 {
    ratio.max(1.0 / ratio)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models;
    use fonio_core::{Random, Unit};

    fn of_model(name: &str) -> Document {
        let shipped = models::shipped().into_iter();
        shipped.into_iter().find(|model| model.device.model.as_deref() == Some(name)).expect("it is shipped")
    }

    #[test]
    fn a_result_does_not_differ_from_itself() {
        let document = of_model("sd_a1");
        let comparison = compare(&document, &document);
        assert!(
            comparison.verdict.starts_with("No difference was shown in any of "),
            "{}",
            comparison.verdict
        );
        assert!(comparison.keys_differ.is_empty());
    }

    #[test]
    fn another_card_differs_with_its_direction() {
        let comparison = compare(&of_model("kingston"), &of_model("sd_a2"));
        let of = |name: &str| {
            let found = comparison.figures.iter().find(|compared| compared.figure.name == name);
            found.map(|compared| compared.answer)
        };
        assert_eq!(of("bandwidth.rand_write"), Some(Answer::Better));
        assert_eq!(of("response.rand_write.4k.mean"), Some(Answer::Better));
        assert_eq!(of("launch.cold.total"), None);
        assert!(comparison.verdict.starts_with("The second result is better in "), "{}", comparison.verdict);
    }

    #[test]
    fn one_run_each_cannot_show_a_difference() {
        let once = |name: &str| {
            let mut document = of_model(name);
            for measure in document.figures.values_mut() {
                if let Measure::Measured(value) = measure {
                    value.runs = 1;
                }
            }
            document
        };
        let comparison = compare(&once("kingston"), &once("sd_a2"));
        assert!(comparison.figures.iter().all(|compared| compared.answer != Answer::NoDifference));
        let verdict = &comparison.verdict;
        let begin = "One run of each figure cannot show whether the devices differ; measure without --quick. The largest \
                     ratio is in ";
        assert!(verdict.starts_with(begin) && verdict.ends_with(" times the first's."), "{verdict}");
        assert!(!verdict.contains("No difference"), "{verdict}");
    }

    #[test]
    fn keys_that_differ_are_named() {
        let first = of_model("sd_a1").key;
        let second = Key { file_system: "ext4".to_owned(), size_class_gb: 32, ..first.clone() };
        assert_eq!(
            keys_differ(&first, &second),
            ["the file system (none and ext4)", "the size class (2 GB and 32 GB)"]
        );
    }

    /// If the runs of equal devices vary by 5 %, at most one of twenty comparisons claims a difference in any
    /// of forty figures. If a device is twice as fast in ten figures, the comparison finds most of these
    /// differences.
    #[test]
    fn claims_are_rarely_wrong() {
        const COMPARISONS: u64 = 500;
        const FIGURES: usize = 40;
        const FASTER: usize = 10;
        let normal = |random: &mut Random| (0..12).map(|_| random.uniform()).sum::<f64>() - 6.0;
        for (runs, of_100_found) in [(3, 40), (5, 95)] {
            let (mut wrong, mut found) = (0, 0);
            for seed in 0..COMPARISONS {
                let mut random = Random::new(seed);
                let mut measured = |faster: usize| -> Vec<Value> {
                    let level = |at: usize| if at < faster { 20.0 } else { 10.0 };
                    let runs = |level: f64, random: &mut Random| -> Vec<f64> {
                        (0..runs).map(|_| level * (1.0 + 0.05 * normal(random))).collect()
                    };
                    (0..FIGURES)
                        .map(|at| {
                            let each = runs(level(at), &mut random);
                            *values::mean(&each, Unit::MbPerS, "").value().expect("it was measured")
                        })
                        .collect()
                };
                let (one, same, faster) = (measured(0), measured(0), measured(FASTER));
                let claims = |other: &[Value]| -> Vec<bool> {
                    let pairs: Vec<(&Value, &Value)> = one.iter().zip(other).collect();
                    let levels = levels(&pairs);
                    let answers = pairs.iter().zip(levels);
                    answers
                        .map(|((one, other), level)| answer(Some(Better::Higher), one, other, level))
                        .map(|answer| answer != Answer::NoDifference)
                        .collect()
                };
                wrong += u64::from(claims(&same).contains(&true));
                found += claims(&faster)[..FASTER].iter().filter(|claim| **claim).count() as u64;
            }
            // 5 % plus twice the standard deviation of this share.
            assert!(wrong * 1000 <= COMPARISONS * 70, "{runs} runs: {wrong} of {COMPARISONS} are wrong");
            let all = COMPARISONS * FASTER as u64;
            assert!(found * 100 >= all * of_100_found, "{runs} runs: {found} of {all} differences found");
        }
    }
}
