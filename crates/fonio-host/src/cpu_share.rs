//! A share of one processor, which the bandwidth limit of the `cpu` controller enforces.
//!
//! In each period, a control group may run for its quota and is then throttled until the next period. So a
//! group with a quarter of a processor runs at full speed for a quarter of the time. While the group is
//! throttled, an event such as the completion of a read is handled up to one period late. The minimum quota
//! is 1 ms (`min_cfs_quota_period` of `kernel/sched/core.c`), so a share of 1/4 has periods of 4 ms. The
//! kernel checks the used CPU time only at timer ticks, and deducts any excess from later periods. So the
//! share is met on average, not in each period.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::HostError;

/// The smallest quota that the kernel accepts. The smallest quota gives the shortest period.
const QUOTA_US: f64 = 1_000.0;
const SHARE_LEAST: f64 = 0.01;

/// A share of one processor's time, above 0 and below 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CpuShare(f64);

impl CpuShare {
    /// Creates a share, which must be at least 0.01 and less than 1. Fails with [`HostError::CpuShare`] for
    /// any other value.
    pub fn new(share: f64) -> Result<CpuShare, HostError> {
        let is_one = (SHARE_LEAST..1.0).contains(&share);
        is_one.then_some(CpuShare(share)).ok_or_else(|| HostError::CpuShare { share: share.to_string() })
    }

    /// Returns the share as a number below 1.
    pub fn value(self) -> f64 {
        self.0
    }

    pub(crate) fn quota_period_us(self) -> (u64, u64) {
        (QUOTA_US as u64, (QUOTA_US / self.0).round() as u64)
    }

    /// Returns the length of a period of the bandwidth limit.
    pub fn period(self) -> Duration {
        Duration::from_micros(self.quota_period_us().1)
    }
}

impl FromStr for CpuShare {
    type Err = HostError;
    fn from_str(text: &str) -> Result<CpuShare, HostError> {
        let share = text.parse().ok().and_then(|share| CpuShare::new(share).ok());
        share.ok_or_else(|| HostError::CpuShare { share: text.to_owned() })
    }
}

impl fmt::Display for CpuShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_their_periods() {
        for (text, period_us) in [("0.25", 4_000), ("0.5", 2_000), ("0.01", 100_000)] {
            let share: CpuShare = text.parse().expect("a share");
            assert_eq!(share.period(), Duration::from_micros(period_us), "{text}");
        }
        for text in ["0", "1", "1.5", "-0.5", "x", "NaN", "25%"] {
            assert!(text.parse::<CpuShare>().is_err(), "{text}");
        }
    }
}
