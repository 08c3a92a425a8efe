//! Compares recordings. The answers are differences with intervals, "no difference", or "unknown".
//!
//! The method depends on the number of recordings:
//!
//! - **One recording per side.** Each recording is cut into slices of time, and the variation of a figure
//!   between slices gives its interval ([`crate::compare::statistics`] accounts for autocorrelation). The
//!   result applies to these recordings only, because this method cannot show how much identical runs differ.
//! - **Several recordings per side.** Each recording gives one value, and the spread between recordings gives
//!   the interval. Use several recordings per side to support a claim about a change.
//!
//! Both methods test all figures together (Holm, with weights), so that at most 5 percent of comparisons
//! without a true difference claim any difference. `cargo studies compare` measures the rate of false claims.

mod headline;
pub mod interval;
pub mod paired;
pub mod statistics;

use fonio_core::{Better, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analyser::questions::Analysis;
use headline::{Headline, Within, headlines};
use interval::{Change, RUNS_MIN, Unknown, geometric_mean};
use statistics::{FAMILY_LEVEL, holm};

/// A value with the name of its recording or side.
#[derive(Clone, Debug, PartialEq)]
pub struct Named<T> {
    /// The name of the recording or side.
    pub name: String,
    /// The named value.
    pub value: T,
}

/// A comparison of one or more sides with the first side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The method by which the intervals were computed.
    pub method: String,
    /// The compared sides; each further side is compared with the first side.
    pub sides: Vec<Side>,
    /// Headline figures known on at least one side; figures that users feel most directly come first.
    pub rows: Vec<ComparisonRow>,
}

impl Comparison {
    /// Whether there are enough recordings to call a difference better or worse. Two single recordings are
    /// not enough, because two runs of the same work differ too.
    pub fn is_judged(&self) -> bool {
        self.sides.iter().all(|side| side.recordings.len() >= RUNS_MIN)
    }
}

/// One side of a comparison: one recording, or several recordings of the same setup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// The name of the side.
    pub name: String,
    /// The name of each recording.
    pub recordings: Vec<String>,
    /// The names of the recordings that are not valid measurements.
    pub invalid: Vec<String>,
}

/// One headline figure on all sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparisonRow {
    /// The figure's name: `latency.write_sync.response.p99`, …
    pub figure: String,
    /// Its unit.
    pub unit: Unit,
    /// The label for people: `sync write response, 99th percentile`.
    pub label: String,
    /// Whether lower or higher values of the figure are better; absent if the figure only explains other
    /// figures.
    pub better: Option<Better>,
    /// Whether the figure is the work's own time: run time or time blocked on storage.
    pub felt: bool,
    /// The value on each side; absent if unknown. For several recordings, this is the geometric mean of their
    /// values, or the arithmetic mean if one of their values is 0.
    pub values: Vec<Option<f64>>,
    /// Each value as text for people.
    pub texts: Vec<Option<String>>,
    /// Each recording's value.
    pub runs: Vec<Vec<Option<f64>>>,
    /// The change from the first side to each further side.
    pub changes: Vec<Change>,
}

const METHOD_ONE: &str = "One recording per side: the variation of each figure over time slices of the recording gives its \
interval (equal-weighted cosines of the slices, so that slices may depend on each other; percentiles by Woodruff's \
method). All figures are tested together (Holm, 5 percent), so the confidence of a single interval is higher than 95 \
percent. A difference is named from 5 percent on. Slices of one recording cannot show how runs differ: give several \
recordings per side for that (--before A… --after B…).";

const METHOD_RUNS: &str = "Several recordings per side: each recording gives one value, and Welch's t on the logarithms gives the \
interval of the ratio. All figures are tested together (Holm, 5 percent), so the confidence of a single interval is higher \
than 95 percent. A difference is named from 5 percent on.";

/// Compares each further side with the first side. A side consists of the analyses of one or more recordings.
pub fn compare(sides: &[Named<Vec<Named<&Analysis>>>]) -> Comparison {
    let measured: Vec<Vec<Vec<Headline>>> = sides
        .iter()
        .map(|side| side.value.iter().map(|recording| headlines(recording.value)).collect())
        .collect();
    let one_each = sides.iter().all(|side| side.value.len() == 1);
    let figures = measured.iter().flatten().next().map_or(0, Vec::len);
    let known: Vec<usize> = (0..figures)
        .filter(|figure| measured.iter().flatten().any(|recording| recording[*figure].value().is_some()))
        .collect();
    let mut rows: Vec<ComparisonRow> = known.iter().map(|figure| row(&measured, *figure)).collect();
    for other in measured.iter().skip(1) {
        let change = |at: usize, level: f64| {
            let figure = known[at];
            if one_each {
                within(&measured[0][0][figure], &other[0][figure], level)
            } else {
                between(&values(&measured[0], figure), &values(other, figure), level)
            }
        };
        // A figure without an interval gets no share of the significance level.
        let weight = |at: usize| match change(at, FAMILY_LEVEL).confidence {
            Some(_) => measured[0][0][known[at]].nearness.weight(),
            None => 0.0,
        };
        let weights: Vec<f64> = (0..known.len()).map(weight).collect();
        let levels = holm::levels(FAMILY_LEVEL, &weights, |at, level| {
            weights[at] > 0.0 && change(at, level).is_claimed()
        });
        for (at, row) in rows.iter_mut().enumerate() {
            let level = if weights[at] > 0.0 { levels[at] } else { FAMILY_LEVEL };
            row.changes.push(change(at, level));
        }
    }
    Comparison {
        method: if one_each { METHOD_ONE } else { METHOD_RUNS }.to_owned(),
        sides: sides.iter().map(side).collect(),
        rows,
    }
}

/// The values of one figure in the recordings of one side.
fn values(side: &[Vec<Headline>], figure: usize) -> Vec<Option<f64>> {
    side.iter().map(|recording| recording[figure].value()).collect()
}

fn side(side: &Named<Vec<Named<&Analysis>>>) -> Side {
    let name = |recording: &Named<&Analysis>| recording.name.clone();
    Side {
        name: side.name.clone(),
        recordings: side.value.iter().map(name).collect(),
        invalid: side.value.iter().filter(|recording| !recording.value.validity.ok).map(name).collect(),
    }
}

fn row(measured: &[Vec<Vec<Headline>>], figure: usize) -> ComparisonRow {
    let first = &measured[0][0][figure];
    let known = measured.iter().flatten().find_map(|recording| recording[figure].figure.as_ref());
    let known = known.expect("each compared figure occurs in at least one recording");
    let runs: Vec<Vec<Option<f64>>> = measured.iter().map(|side| values(side, figure)).collect();
    let values: Vec<Option<f64>> = runs.iter().map(|runs| typical(runs)).collect();
    ComparisonRow {
        figure: first.name.clone(),
        unit: known.unit,
        label: known.label.clone(),
        better: known.better,
        felt: first.nearness == headline::Nearness::Felt,
        texts: values.iter().map(|value| value.map(|value| known.unit.format(value))).collect(),
        values,
        runs,
        changes: Vec::new(),
    }
}

/// Returns the typical value of several recordings; `None` if the value of one of the recordings is unknown.
fn typical(runs: &[Option<f64>]) -> Option<f64> {
    let runs: Vec<f64> = runs.iter().copied().collect::<Option<_>>()?;
    match runs.as_slice() {
        [] => None,
        [one] => Some(*one),
        several => {
            geometric_mean(several).or_else(|| Some(several.iter().sum::<f64>() / several.len() as f64))
        }
    }
}

/// Computes the change between two sides with one recording each, from time slices.
fn within(first: &Headline, other: &Headline, level: f64) -> Change {
    let (Some(a), Some(b)) = (first.value(), other.value()) else {
        return Change::unknown(None, Unknown::NotMeasured);
    };
    let ratio = (a > 0.0).then(|| b / a);
    match (&first.within, &other.within) {
        (Within::Known(first), Within::Known(other)) => {
            let (first, other) = (first.bounds(level), other.bounds(level));
            match first.ratio_of(other) {
                Some(ratio) => Change::of_ratio(ratio, level),
                None => Change::of_difference(first.difference_to(other), a == 0.0 && b == 0.0, level),
            }
        }
        (Within::Counted, _) => Change::unknown(ratio, Unknown::Counted),
        (Within::OneValue, _) => Change::unknown(ratio, Unknown::OneValueEach),
        _ => Change::unknown(ratio, Unknown::TooFewPieces),
    }
}

/// Returns the change of a figure with several recordings per side; the interval comes from the spread
/// between the recordings.
fn between(first: &[Option<f64>], other: &[Option<f64>], level: f64) -> Change {
    let all = |runs: &[Option<f64>]| runs.iter().copied().collect::<Option<Vec<f64>>>();
    match (all(first), all(other)) {
        (Some(first), Some(other)) => interval::compare_runs(&first, &other, level),
        _ => Change::unknown(None, Unknown::NotMeasured),
    }
}

#[cfg(test)]
mod tests;
