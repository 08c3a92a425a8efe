//! Defines figures: the named numbers of an analysis.
//!
//! Budgets, rules, comparisons and `fonio report --figures` read all figures from here. Names of figures are
//! stable; labels may change. A figure that the recording does not show is listed without a value. Each
//! question declares its own figures, in its own file.

pub(crate) mod facts;

use fonio_core::{Better, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A figure: its name, its label and its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// The stable name, which budgets and rules use: `latency.reads.response.p99`, `process[sqlite3].write_bytes`.
    pub name: String,
    /// The label for people: `read response, 99th percentile`.
    pub label: String,
    /// The unit of the value.
    pub unit: Unit,
    /// Whether lower or higher values of the figure are better, if either.
    pub better: Option<Better>,
    /// The value; absent if the recording does not show it.
    pub value: Option<f64>,
    /// The value with its unit, as reports write it: `1.8 ms`, `23 %`, `64 KiB`.
    pub text: String,
}

impl Figure {
    /// Creates a figure with its label.
    pub fn new(
        name: impl Into<String>,
        label: impl Into<String>,
        unit: Unit,
        better: Option<Better>,
        value: Option<f64>,
    ) -> Figure {
        let text = value.map_or_else(|| "unknown".to_owned(), |value| unit.format(value));
        Figure { name: name.into(), label: label.into(), unit, better, value, text }
    }
}
