//! Size against latency: the service time of each size class (the block-trace study's Figure 3).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Distribution, Group};

/// Service time by size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeLatency {
    /// Reads, then sync and other writes, each by ascending size; only size classes that have requests.
    pub rows: Vec<SizeLatencyRow>,
}

/// One group's service time in one size class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeLatencyRow {
    /// `reads`, `writes`, `write_sync`, `write_async` or `discard`.
    pub group: Group,
    /// Sizes above this many bytes …
    pub over_bytes: u64,
    /// … and up to this many; absent for the largest class.
    pub up_to_bytes: Option<u64>,
    /// Service time in nanoseconds, without a curve.
    pub service_ns: Distribution,
}

use crate::Class;
use crate::loss::Loss;
use crate::seen::Seen;
use crate::tally::{Curve, Tally};

/// Upper bounds of the size classes in bytes: the first class holds a page, and each next class twice as much; a
/// further class holds all larger sizes.
const BOUNDS: [u64; 10] =
    [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20];
const SIZES: usize = BOUNDS.len() + 1;

/// The groups that are listed.
const GROUPS: [Group; 5] = [Group::Reads, Group::Writes, Group::WriteSync, Group::WriteAsync, Group::Discard];

/// Collects service times by class and size class.
#[derive(Debug)]
pub(crate) struct ServiceTally {
    tallies: Vec<[Tally; SIZES]>,
    /// Requests without a service time.
    without: Vec<[u64; SIZES]>,
}

impl Default for ServiceTally {
    fn default() -> ServiceTally {
        ServiceTally {
            tallies: (0..Class::COUNT).map(|_| Default::default()).collect(),
            without: vec![[0; SIZES]; Class::COUNT],
        }
    }
}

fn size_class(bytes: u64) -> usize {
    // The number of pages minus one has as many bits as there are doublings from one page to the class.
    let pages = bytes.div_ceil(BOUNDS[0]);
    ((u64::BITS - pages.saturating_sub(1).leading_zeros()) as usize).min(SIZES - 1)
}

impl ServiceTally {
    #[inline]
    pub(crate) fn add(&mut self, seen: &Seen) {
        let (class, size) = (seen.class as usize, size_class(seen.bytes));
        match seen.service {
            Some(service) => self.tallies[class][size].add(service),
            None => self.without[class][size] += 1,
        }
    }

    /// The summed service time of a class.
    pub(crate) fn sum_ns(&self, class: Class) -> u64 {
        self.tallies[class as usize].iter().map(|tally| tally.sum).fold(0, u64::saturating_add)
    }

    /// Service times of a group, for all sizes.
    pub(crate) fn of_group(&self, group: Group) -> Tally {
        let classes = Class::ALL.into_iter().filter(|class| group.includes(*class));
        Tally::together(classes.flat_map(|class| &self.tallies[class as usize]))
    }

    /// The number of requests of a group without a service time.
    pub(crate) fn without(&self, group: Group) -> u64 {
        let classes = Class::ALL.into_iter().filter(|class| group.includes(*class));
        classes.flat_map(|class| &self.without[class as usize]).sum()
    }

    pub(crate) fn finish(&self, loss: Loss) -> SizeLatency {
        let mut rows = Vec::new();
        for group in GROUPS {
            for size in 0..SIZES {
                let classes = || Class::ALL.into_iter().filter(move |class| group.includes(*class));
                let tally = Tally::together(classes().map(|class| &self.tallies[class as usize][size]));
                let loss = loss.and(classes().map(|class| self.without[class as usize][size]).sum());
                if let Some(service_ns) = tally.distribution_despite(loss, 1, Curve::Without) {
                    rows.push(SizeLatencyRow {
                        group,
                        over_bytes: size.checked_sub(1).map_or(0, |below| BOUNDS[below]),
                        up_to_bytes: BOUNDS.get(size).copied(),
                        service_ns,
                    });
                }
            }
        }
        SizeLatency { rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyser::tests::analyse;

    #[test]
    fn size_classes() {
        for (bytes, class) in [
            (0, 0),
            (512, 0),
            (4096, 0),
            (4097, 1),
            (8192, 1),
            (8193, 2),
            (1 << 20, 8),
            ((1 << 20) + 1, 9),
            (2 << 20, 9),
            ((2 << 20) + 1, 10),
            (u64::MAX, 10),
        ] {
            assert_eq!(size_class(bytes), class, "{bytes}");
        }
    }

    #[test]
    fn larger_reads_take_longer() {
        let rows = analyse(&["R 0+8 d0 c10", "R 0+8 d10 c30", "R 0+128 d30 c130", "WS 0+8 d130 c140"])
            .size_latency
            .rows;
        let short = |row: &SizeLatencyRow| (row.group, row.over_bytes, row.up_to_bytes, row.service_ns.mean);
        assert_eq!(
            rows.iter().map(short).collect::<Vec<_>>(),
            [
                (Group::Reads, 0, Some(4096), 15_000.0),
                (Group::Reads, 32 << 10, Some(64 << 10), 100_000.0),
                (Group::Writes, 0, Some(4096), 10_000.0),
                (Group::WriteSync, 0, Some(4096), 10_000.0),
            ]
        );
    }
}
