//! Measures how much later than in the model commands complete.

use std::time::Duration;

use fonio_core::Nanos;
use serde::{Deserialize, Serialize};

/// Buckets per doubling: the error of a quantile is at most 1/16.
const PER_DOUBLING: u32 = 16;

/// A histogram of delays from 1 ns to 18 s, with an error of at most 7 %.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lateness {
    buckets: Vec<u64>,
    count: u64,
    sum_ns: u64,
    max_ns: u64,
}

/// Statistics of the delays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatenessFigures {
    /// Commands that completed at a time of the model.
    pub commands: u64,
    /// Their mean delay beyond the model's time.
    pub mean_ns: Nanos,
    /// Their median.
    pub median_ns: Nanos,
    /// Their 99th percentile.
    pub p99_ns: Nanos,
    /// Their maximum.
    pub max_ns: Nanos,
}

impl Lateness {
    pub(crate) fn add(&mut self, late: Duration) {
        let ns = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        let bucket = bucket(ns);
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// The smallest delay that `per_mille` of all delays do not exceed, rounded up to the end of a bucket.
    fn quantile(&self, per_mille: u64) -> Nanos {
        let rank = (self.count * per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (at, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Nanos(bucket_end(at).min(self.max_ns));
            }
        }
        Nanos(self.max_ns)
    }

    pub(crate) fn figures(&self) -> LatenessFigures {
        LatenessFigures {
            commands: self.count,
            mean_ns: Nanos(self.sum_ns.checked_div(self.count).unwrap_or(0)),
            median_ns: self.quantile(500),
            p99_ns: self.quantile(990),
            max_ns: Nanos(self.max_ns),
        }
    }
}

/// Values below 16 have a bucket each; above, each doubling has 16.
fn bucket(ns: u64) -> usize {
    let per = u64::from(PER_DOUBLING);
    if ns < per {
        return ns as usize;
    }
    let shift = 63 - ns.leading_zeros() - PER_DOUBLING.ilog2();
    (u64::from(shift) * per + (ns >> shift)) as usize
}

/// The largest value of a bucket.
fn bucket_end(bucket: usize) -> u64 {
    let (bucket, per) = (bucket as u64, u64::from(PER_DOUBLING));
    if bucket < 2 * per {
        return bucket;
    }
    let shift = bucket / per - 1;
    ((bucket % per + per + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn quantiles_are_within_a_sixteenth(mut values in prop::collection::vec(0_u64..1 << 40, 1..200)) {
            let mut lateness = Lateness::default();
            for ns in &values {
                lateness.add(Duration::from_nanos(*ns));
            }
            values.sort_unstable();
            for per_mille in [1, 500, 990, 1000] {
                let exact = values[(values.len() * per_mille as usize).div_ceil(1000).max(1) - 1];
                let told = lateness.quantile(per_mille).0;
                prop_assert!(told >= exact && told <= exact + exact / 16, "{per_mille}: {told} for {exact}");
            }
        }
    }

    #[test]
    fn no_commands_have_no_delay() {
        assert_eq!(Lateness::default().figures(), LatenessFigures::default());
    }
}
