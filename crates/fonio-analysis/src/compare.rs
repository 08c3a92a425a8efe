//! One recording against another: differences with intervals, and "no difference" as an answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Analysis, Unit};

/// Something with a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Named<T> {
    /// The name.
    pub name: String,
    /// The thing.
    pub value: T,
}

/// Recordings compared with the first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// How the intervals were made.
    pub method: String,
    /// The recordings' names; the first is the one that the others are compared with.
    pub names: Vec<String>,
    /// Whether each recording's measurement holds.
    pub valid: Vec<bool>,
    /// Each headline figure.
    pub rows: Vec<ComparisonRow>,
}

/// One headline figure over all recordings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparisonRow {
    /// The figure's name: `latency.write_sync.service.p99`, …
    pub figure: String,
    /// Its unit.
    pub unit: Unit,
    /// What a person calls it: `sync write service, 99th percentile`.
    pub label: String,
    /// Whether less of it is better; absent where neither is.
    pub less_is_better: Option<bool>,
    /// Its value in each recording; absent where unknown.
    pub values: Vec<Option<f64>>,
    /// Each value as a reader wants it.
    pub texts: Vec<Option<String>>,
    /// Each recording after the first, compared with the first.
    pub differences: Vec<Difference>,
}

/// A difference from the first recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Its value less the first's.
    pub difference: Option<f64>,
    /// That over the first's; absent where the first is 0.
    pub relative: Option<f64>,
    /// Lower end of the 95 percent interval of the difference; absent where there are too few slices.
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
    /// Less than in the first.
    Lower,
    /// More than in the first.
    Higher,
    /// The interval holds 0: no difference was shown.
    NoDifference,
    /// One of the two is unknown, or there are too few slices for an interval.
    Unknown,
}

/// Compares each analysis with the first.
pub fn compare(analyses: &[Named<&Analysis>]) -> Comparison {
    Comparison { names: analyses.iter().map(|a| a.name.clone()).collect(), ..Comparison::default() }
}
