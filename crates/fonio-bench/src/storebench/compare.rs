//! Compares two results, figure by figure. "No difference" is an answer.
//!
//! A difference is claimed if the intervals of 95 % do not overlap and the means differ by more than [`SMALLEST`]. Two equal
//! devices then differ in about one of two hundred figures; a single run of a figure claims nothing.

use serde::Serialize;

use super::document::{Document, Key, Measure, Value};
use super::figures::{self, Better, Figure};
use super::verdict::is_better;

/// A smaller difference than this share is not worth a claim: means are known to about this.
pub const SMALLEST: f64 = 0.02;

/// The comparison of two results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The comparison in a sentence.
    pub verdict: String,
    /// The parts of the keys that differ, in words; empty for equal keys.
    pub keys_differ: Vec<String>,
    /// Every figure that at least one result has.
    pub figures: Vec<Compared>,
}

/// A figure of two results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The figure.
    #[serde(flatten)]
    pub figure: Figure,
    /// Its value in the first result, or why there is none.
    pub first: Measure,
    /// Its value in the second result, or why there is none.
    pub second: Measure,
    /// The second value over the first; absent if one is missing or the first is 0.
    pub ratio: Option<f64>,
    /// The answer.
    pub answer: Answer,
}

/// The answer of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The second is better.
    Better,
    /// The second is worse.
    Worse,
    /// They differ, and the figure has no better direction.
    Differs,
    /// No difference was shown.
    NoDifference,
    /// One of them has only one run, which shows no spread.
    OneRun,
    /// One of them was not measured.
    NotMeasured,
}

/// The parts in which two keys differ, in words.
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
    part(
        "the class of the size",
        format!("{} GB", first.size_class_gb),
        format!("{} GB", second.size_class_gb),
    );
    words
}

/// Compares `second` with `first`.
pub fn compare(first: &Document, second: &Document) -> Comparison {
    let figures: Vec<Compared> = figures::catalogue()
        .into_iter()
        .filter_map(|figure| {
            let (left, right) = (first.figures.get(&figure.name)?, second.figures.get(&figure.name)?);
            (left.value().is_some() || right.value().is_some()).then(|| of_figure(figure, left, right))
        })
        .collect();
    Comparison { verdict: verdict(&figures), keys_differ: keys_differ(&first.key, &second.key), figures }
}

fn of_figure(figure: Figure, first: &Measure, second: &Measure) -> Compared {
    let both = first.value().zip(second.value());
    Compared {
        answer: both.map_or(Answer::NotMeasured, |(left, right)| answer(figure.better, left, right)),
        ratio: both.filter(|(left, _)| left.value > 0.0).map(|(left, right)| right.value / left.value),
        first: first.clone(),
        second: second.clone(),
        figure,
    }
}

fn answer(better: Option<Better>, first: &Value, second: &Value) -> Answer {
    if first.runs < 2 || second.runs < 2 {
        return Answer::OneRun;
    }
    let overlap = first.low <= second.high && second.low <= first.high;
    let is_small = (first.value - second.value).abs() <= SMALLEST * first.value.abs().max(second.value.abs());
    match better {
        _ if overlap || is_small => Answer::NoDifference,
        None => Answer::Differs,
        Some(better) if is_better(better, second.value, first.value) => Answer::Better,
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
    let Some((compared, ratio)) = largest else {
        return match equal {
            0 => "The results cannot tell: no figure was measured more than once in both.".to_owned(),
            1 => "No difference was shown in the figure that both have.".to_owned(),
            _ => format!("No difference was shown in any of {equal} figures."),
        };
    };
    let overall = match (better, worse) {
        (_, 0) => format!("The second is better in {better} figures and worse in none"),
        (0, _) => format!("The second is worse in {worse} figures and better in none"),
        _ => format!("The second is better in {better} figures and worse in {worse}"),
    };
    format!(
        "{overall}; {equal} show no difference. The largest difference: {}, {:.2} times the first.",
        compared.figure.label, ratio
    )
}

/// How far a ratio is from 1, in either direction.
fn distance(ratio: f64) -> f64 {
    ratio.max(1.0 / ratio)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storebench::figures::Unit;
    use crate::storebench::{models, statistics};
    use fonio_core::Random;

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
        assert!(comparison.verdict.starts_with("The second is better in "), "{}", comparison.verdict);
    }

    #[test]
    fn keys_that_differ_are_named() {
        let first = of_model("sd_a1").key;
        let second = Key { file_system: "ext4".to_owned(), size_class_gb: 32, ..first.clone() };
        assert_eq!(
            keys_differ(&first, &second),
            ["the file system (none and ext4)", "the class of the size (2 GB and 32 GB)"]
        );
    }

    /// Equal devices with runs that differ by 5 %: rarely a claim; a device that is a third faster: mostly one.
    #[test]
    fn claims_are_rarely_wrong() {
        const COMPARISONS: u64 = 2000;
        let normal = |random: &mut Random| (0..12).map(|_| random.uniform()).sum::<f64>() - 6.0;
        for (runs, of_100_found) in [(3, 40), (5, 90)] {
            let (mut wrong, mut found) = (0, 0);
            for seed in 0..COMPARISONS {
                let mut random = Random::new(seed);
                let mut measured = |level: f64| {
                    let each: Vec<f64> =
                        (0..runs).map(|_| level * (1.0 + 0.05 * normal(&mut random))).collect();
                    *statistics::mean(&each, Unit::MbPerS, "").value().expect("it was measured")
                };
                let (one, same, faster) = (measured(10.0), measured(10.0), measured(13.3));
                wrong += u64::from(answer(Some(Better::Higher), &one, &same) != Answer::NoDifference);
                found += u64::from(answer(Some(Better::Higher), &one, &faster) == Answer::Better);
            }
            assert!(wrong * 100 <= COMPARISONS, "{runs} runs: {wrong} of {COMPARISONS} wrong");
            assert!(found * 100 >= COMPARISONS * of_100_found, "{runs} runs: {found} of {COMPARISONS} found");
        }
    }
}
