//! Distributions: exact count, sum and extremes, and quantiles with a known error.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A distribution of whole numbers. The unit is in the name of the field that holds it (`service_ns`, `bytes`, …).
///
/// A quantile `pQ` is the smallest recorded value that at least Q percent of the values do not exceed. It is absent
/// where there are fewer values than it takes to tell it from the maximum (p99 needs 100, p99.99 needs 10 000).
///
/// Where events were lost, values are missing, and count, least, sum, mean and curve are of those that were seen. The
/// maximum is absent then, and so is a quantile, unless it is the same within 5 percent whatever the missing values are;
/// `missing` says what can be said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// How many values.
    pub count: u64,
    /// The least, exact.
    pub min: u64,
    /// The greatest, exact; absent where a greater one may have been lost.
    pub max: Option<u64>,
    /// The sum, exact.
    pub sum: u64,
    /// `sum / count`.
    pub mean: f64,
    /// The median.
    pub p50: Option<u64>,
    /// 80 percent do not exceed it.
    pub p80: Option<u64>,
    /// 90 percent do not exceed it.
    pub p90: Option<u64>,
    /// 95 percent do not exceed it.
    pub p95: Option<u64>,
    /// 99 percent do not exceed it.
    pub p99: Option<u64>,
    /// 99.9 percent do not exceed it.
    pub p999: Option<u64>,
    /// 99.99 percent do not exceed it.
    pub p9999: Option<u64>,
    /// The greatest relative error of a quantile; 0 means exact.
    pub relative_error: f64,
    /// What is known of the maximum and the quantiles where values are missing; absent where none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<Missing>,
    /// The cumulative curve, for drawing; absent where it is not wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cdf: Option<Cdf>,
}

/// What is known of a distribution where values are missing, because events were lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Missing {
    /// The most values that can be missing: each lost event can have cost one. Absent where the number of lost events is
    /// unknown; then no quantile has bounds.
    pub at_most: Option<u64>,
    /// The greatest value that was seen: the maximum is at least this.
    pub max_at_least: u64,
    /// The bounds of each quantile; absent as the quantile itself where there are too few values.
    pub p50: Option<Bounds>,
    /// 80 percent.
    pub p80: Option<Bounds>,
    /// 90 percent.
    pub p90: Option<Bounds>,
    /// 95 percent.
    pub p95: Option<Bounds>,
    /// 99 percent.
    pub p99: Option<Bounds>,
    /// 99.9 percent.
    pub p999: Option<Bounds>,
    /// 99.99 percent.
    pub p9999: Option<Bounds>,
}

/// The quantile lies between these, whatever the missing values are (Manski 1989: worst-case bounds).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// It is at least this: its value if all missing values were less than those seen.
    pub low: u64,
    /// It is at most this: its value if all missing values were greater; absent where it would be one of them.
    pub high: Option<u64>,
}

/// A cumulative curve: `cumulative[i]` values do not exceed `up_to[i]` (within the distribution's relative error).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cdf {
    /// Ascending values, four to each doubling; the last is the maximum.
    pub up_to: Vec<u64>,
    /// How many values do not exceed each.
    pub cumulative: Vec<u64>,
}
