//! Distributions: exact count, sum and extremes, and quantiles with a stated error.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A distribution of whole numbers. The unit is in the name of the field that holds it (`service_ns`, `bytes`, …).
///
/// A quantile `pQ` is the smallest recorded value that at least Q percent of the values do not exceed. It is absent
/// where there are fewer values than it takes to tell it from the maximum (p99 needs 100, p99.99 needs 10 000).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// How many values.
    pub count: u64,
    /// The least, exact.
    pub min: u64,
    /// The greatest, exact.
    pub max: u64,
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
    /// The cumulative curve, for drawing; absent where it is not wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cdf: Option<Cdf>,
}

/// A cumulative curve: `cumulative[i]` values do not exceed `up_to[i]` (within the distribution's relative error).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cdf {
    /// Ascending values, four to each doubling; the last is the maximum.
    pub up_to: Vec<u64>,
    /// How many values do not exceed each.
    pub cumulative: Vec<u64>,
}
