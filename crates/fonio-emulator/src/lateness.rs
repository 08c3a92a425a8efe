//! Measures by how much commands complete later than in the model.

use std::time::Duration;

use fonio_core::Nanos;
use fonio_core::statistics::steps::Steps;
use serde::{Deserialize, Serialize};

/// Base-2 logarithm of the histogram steps per power of two. The relative error of a quantile is at most
/// 1/16.
const BITS: u32 = 4;

/// A histogram of completion delays, with an error of at most 7 %.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lateness {
    steps: Steps<BITS>,
    count: u64,
    sum_ns: u64,
    max_ns: u64,
}

/// Statistics of the delays of completions beyond the model's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatenessFigures {
    /// Number of commands whose completion time the model chose.
    pub commands: u64,
    /// Mean delay beyond the model's time.
    pub mean_ns: Nanos,
    /// Median delay beyond the model's time.
    pub median_ns: Nanos,
    /// 99th percentile of the delays beyond the model's time.
    pub p99_ns: Nanos,
    /// Maximum delay beyond the model's time.
    pub max_ns: Nanos,
}

impl Lateness {
    pub(crate) fn add(&mut self, late: Duration) {
        let ns = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        self.steps.add(ns);
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Returns the quantile at `per_mille` of all delays, rounded up to the upper bound of its bin.
    fn quantile(&self, per_mille: u64) -> Nanos {
        let rank = (self.count * per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (end, count) in self.steps.ends() {
            seen += count;
            if seen >= rank {
                return Nanos(end.min(self.max_ns));
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
