//! Defines distributions with exact count, sum, minimum and maximum, and with quantiles of known error.

pub(crate) mod tally;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A distribution of integers. The unit is in the name of the field that contains the distribution
/// (`service_ns`, `bytes`, …).
///
/// A quantile `pQ` is the smallest recorded value that is at least as large as Q percent of the values. It is
/// absent if too few values distinguish it from the maximum (p99 needs 100, p99.99 needs 10 000).
///
/// If events were lost, count, minimum, sum, mean and curve refer to the recorded values, and the maximum is
/// absent. A quantile is present only if the missing values cannot change it by more than 5 percent.
/// `missing` contains the known bounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// The number of values.
    pub count: u64,
    /// The exact minimum.
    pub min: u64,
    /// The exact maximum; absent if a greater value may have been lost.
    pub max: Option<u64>,
    /// The exact sum.
    pub sum: u64,
    /// `sum / count`.
    pub mean: f64,
    /// The median.
    pub p50: Option<u64>,
    /// The 80th percentile.
    pub p80: Option<u64>,
    /// The 90th percentile.
    pub p90: Option<u64>,
    /// The 95th percentile.
    pub p95: Option<u64>,
    /// The 99th percentile.
    pub p99: Option<u64>,
    /// The 99.9th percentile.
    pub p999: Option<u64>,
    /// The 99.99th percentile.
    pub p9999: Option<u64>,
    /// Maximum relative error of a quantile; 0 means exact.
    pub relative_error: f64,
    /// Bounds of the maximum and the quantiles if values are missing; otherwise absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<Missing>,
    /// Cumulative curve for charts; absent if not needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cdf: Option<Cdf>,
}

/// Bounds of a distribution that lacks values because events were lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Missing {
    /// Maximum number of missing values: one per lost event. Absent if the number of lost events is unknown;
    /// in this case, no quantile has bounds.
    pub at_most: Option<u64>,
    /// Greatest recorded value, a lower bound of the maximum.
    pub max_at_least: u64,
    /// Bounds of the median. The bounds of a quantile are absent if there are too few values.
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
    /// The lower bound: the quantile if all missing values were less than the recorded values.
    pub low: u64,
    /// The upper bound: the quantile if all missing values were greater than the recorded values; absent if
    /// that quantile is a missing value.
    pub high: Option<u64>,
}

/// A cumulative curve: `cumulative[i]` values do not exceed `up_to[i]` (within the distribution's relative error).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cdf {
    /// Ascending values, four per doubling; the last value is the maximum.
    pub up_to: Vec<u64>,
    /// For each value of `up_to`, the number of values that do not exceed it.
    pub cumulative: Vec<u64>,
}
