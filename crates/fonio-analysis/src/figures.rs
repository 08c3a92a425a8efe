//! Figures by name: what rules and stated budgets refer to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a figure's value is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Bytes.
    Bytes,
    /// Bytes in a second.
    BytesPerS,
    /// In a second.
    PerS,
    /// A share of a whole, 1 being all of it.
    Share,
    /// A ratio of two things of the same kind.
    Ratio,
    /// A number of things.
    Count,
    /// Thousandths of a degree Celsius.
    Millicelsius,
}

/// A named value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// The name: the path in the analysis, shortened (`io_share.busy_union`).
    pub name: String,
    /// The value in its unit.
    pub value: f64,
    /// The unit.
    pub unit: Unit,
    /// The value as a reader wants it, with unit: `1.8 ms`, `23 %`, `64 KiB`.
    pub text: String,
}
