//! Distributions: exact count, sum and extremes, and quantiles with a known error.

pub(crate) mod tally;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A distribution of integers. The unit is in the name of the field that holds it (`service_ns`, `bytes`, …).
///
/// A quantile `pQ` is the smallest recorded value that at least Q percent of the values do not exceed. It is absent if
/// there are too few values to distinguish it from the maximum (p99 needs 100, p99.99 needs 10 000).
///
/// If events were lost, values are missing, and count, minimum, sum, mean and curve refer to the values that were seen.
/// The maximum is then absent. A quantile is absent too, unless all possible missing values give the same quantile
/// within 5 percent. `missing` holds the known bounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// The number of values.
    pub count: u64,
    /// The minimum, exact.
    pub min: u64,
    /// The maximum, exact; absent if a greater value may have been lost.
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
    /// The known bounds of the maximum and the quantiles if values are missing; absent if none is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<Missing>,
    /// The cumulative curve, for drawing; absent if it is not needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cdf: Option<Cdf>,
}

/// The known bounds of a distribution with missing values, because events were lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Missing {
    /// The most values that can be missing: each lost event can have cost one. Absent if the number of lost events is
    /// unknown; then no quantile has bounds.
    pub at_most: Option<u64>,
    /// The greatest value that was seen: the maximum is at least this.
    pub max_at_least: u64,
    /// The bounds of the median; like all quantiles, absent if there are too few values.
    pub p50: Option<Bounds>,
    /// The bounds of the 80th percentile.
    pub p80: Option<Bounds>,
    /// The bounds of the 90th percentile.
    pub p90: Option<Bounds>,
    /// The bounds of the 95th percentile.
    pub p95: Option<Bounds>,
    /// The bounds of the 99th percentile.
    pub p99: Option<Bounds>,
    /// The bounds of the 99.9th percentile.
    pub p999: Option<Bounds>,
    /// The bounds of the 99.99th percentile.
    pub p9999: Option<Bounds>,
}

/// The bounds of a quantile, for any missing values (Manski 1989: worst-case bounds).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// The lower bound: the quantile if all missing values were less than those seen.
    pub low: u64,
    /// The upper bound: the quantile if all missing values were greater; absent if it would be one of them.
    pub high: Option<u64>,
}

/// A cumulative curve: `cumulative[i]` values do not exceed `up_to[i]` (within the distribution's relative error).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cdf {
    /// Ascending values, four per doubling; the last is the maximum.
    pub up_to: Vec<u64>,
    /// For each, the number of values that do not exceed it.
    pub cumulative: Vec<u64>,
}
