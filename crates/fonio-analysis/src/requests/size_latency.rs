//! Computes service times by size class (Figure 3 of the block-trace study).

use fonio_core::ByteCount;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;
use crate::requests::class::Group;

/// Service time by size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeLatency {
    /// Size classes that have requests, by group (reads, writes, synchronous writes, asynchronous writes,
    /// discards), then by ascending size.
    pub rows: Vec<SizeLatencyRow>,
}

/// One group's service time in one size class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeLatencyRow {
    /// `reads`, `writes`, `write_sync`, `write_async` or `discard`.
    pub group: Group,
    /// Exclusive lower bound of the size class, in bytes.
    pub over_bytes: ByteCount,
    /// Inclusive upper bound of the size class, in bytes; absent for the largest class.
    pub up_to_bytes: Option<ByteCount>,
    /// Distribution of service times in nanoseconds, without its cumulative curve.
    pub service_ns: Distribution,
}

use super::times::{BOUNDS, SIZES};
use crate::distribution::tally::Curve;
use crate::question::Question;
use crate::question::context::Ending;

const GROUPS: [Group; 5] = [Group::Reads, Group::Writes, Group::WriteSync, Group::WriteAsync, Group::Discard];

/// Lists the service times kept in [`Context`](crate::question::context::Context).
#[derive(Debug, Default)]
pub(crate) struct SizeLatencyTally;

impl Question for SizeLatencyTally {
    type Answer = SizeLatency;

    fn finish(self, end: &mut Ending) -> SizeLatency {
        let mut rows = Vec::new();
        for group in GROUPS {
            for size in 0..SIZES {
                let (tally, without) = end.context.service.of_size(group, size);
                if let Some(service_ns) = tally.distribution_despite(end.loss.and(without), 1, Curve::Without)
                {
                    rows.push(SizeLatencyRow {
                        group,
                        over_bytes: size
                            .checked_sub(1)
                            .map_or(ByteCount(0), |below| ByteCount(BOUNDS[below])),
                        up_to_bytes: BOUNDS.get(size).copied().map(ByteCount),
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
    fn larger_reads_take_longer() {
        let rows = analyse(&["R 0+8 d0 c10", "R 0+8 d10 c30", "R 0+128 d30 c130", "WS 0+8 d130 c140"])
            .size_latency
            .rows;
        let short =
            |row: &SizeLatencyRow| (row.group, row.over_bytes.0, row.up_to_bytes, row.service_ns.mean);
        assert_eq!(
            rows.iter().map(short).collect::<Vec<_>>(),
            [
                (Group::Reads, 0, Some(ByteCount(4096)), 15_000.0),
                (Group::Reads, 32 << 10, Some(ByteCount(64 << 10)), 100_000.0),
                (Group::Writes, 0, Some(ByteCount(4096)), 10_000.0),
                (Group::WriteSync, 0, Some(ByteCount(4096)), 10_000.0),
            ]
        );
    }
}
