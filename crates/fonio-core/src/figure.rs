//! Declares figures: named numbers from analyses and benchmarks.

use serde::{Deserialize, Serialize};

use crate::quantity::Unit;

/// The declaration of a figure, without its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Figure {
    /// The stable name, such as `response.rand_read.4k.p99`.
    pub name: String,
    /// The label for people.
    pub label: String,
    /// The unit of its values.
    pub unit: Unit,
    /// Whether lower or higher values are better, if either.
    pub better: Option<Better>,
}

/// Whether lower or higher values of a figure are better for users of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// A lower value.
    Lower,
    /// A higher value.
    Higher,
}

impl Better {
    /// Whether the value `left` is better than `right`.
    pub fn is_better(self, left: f64, right: f64) -> bool {
        match self {
            Better::Lower => left < right,
            Better::Higher => left > right,
        }
    }
}
