//! Computes request sizes by op, sync and async (the block-trace study's Figure 2, left).

use fonio_core::{Request, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;
use crate::requests::class::Group;

/// Sizes of requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sizes {
    /// Each group that has requests with data.
    pub groups: Vec<SizeRow>,
}

/// Sizes of one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeRow {
    /// The group.
    pub group: Group,
    /// Request sizes in bytes. Sizes up to 1 MiB that are multiples of a sector are exact.
    pub bytes: Distribution,
    /// Share of requests of 4 KiB or less.
    pub up_to_4k_share: f64,
    /// Share of requests below 16 KiB.
    pub below_16k_share: f64,
    /// Share of requests below 64 KiB.
    pub below_64k_share: f64,
}

use crate::distribution::tally::{Curve, SizeDistribution};
use crate::figures::facts::{Facts, Frame};
use crate::question::Question;
use crate::question::context::Ending;
use crate::question::seen::Seen;
use crate::requests::class::Class;

/// The size limits that the study names, in bytes: up to 4 KiB, below 16 KiB, below 64 KiB.
const BOUNDS: [u64; 3] = [4096 + 1, 16 * 1024, 64 * 1024];
/// Number of bytes per histogram step. With one sector per step, sizes are exact up to 1 MiB.
const SCALE: u64 = fonio_core::SECTOR_BYTES;

#[derive(Debug, Default)]
pub(crate) struct SizeTally {
    classes: [(SizeDistribution, [u64; BOUNDS.len()]); Class::COUNT],
}

impl Question for SizeTally {
    type Answer = Sizes;

    #[inline]
    fn request(&mut self, _: &Request, seen: &Seen) {
        if seen.class == Class::Flush {
            return;
        }
        let (tally, below) = &mut self.classes[seen.class as usize];
        tally.add_scaled(seen.bytes.0, seen.bytes.0.div_ceil(SCALE));
        for (count, bound) in below.iter_mut().zip(BOUNDS) {
            *count += u64::from(seen.bytes.0 < bound);
        }
    }

    fn finish(self, end: &mut Ending) -> Sizes {
        let groups = Group::ALL.into_iter().filter_map(|group| {
            let classes = || group.classes();
            let tally = SizeDistribution::together(classes().map(|class| &self.classes[class as usize].0));
            let bytes = tally.distribution_despite(end.loss, SCALE, Curve::With)?;
            let share = |bound: usize| {
                classes().map(|class| self.classes[class as usize].1[bound]).sum::<u64>() as f64
                    / bytes.count as f64
            };
            let (up_to_4k_share, below_16k_share, below_64k_share) = (share(0), share(1), share(2));
            Some(SizeRow { group, bytes, up_to_4k_share, below_16k_share, below_64k_share })
        });
        Sizes { groups: groups.collect() }
    }

    fn figures(sizes: &Sizes, _: &Frame, facts: &mut Facts) {
        for row in &sizes.groups {
            let (name, requests) = (format!("sizes.{}", row.group.name()), row.group.requests());
            facts.distribution(&name, &format!("{} size", row.group.adjective()), Unit::Bytes, &row.bytes);
            for (part, bound, share) in [
                ("up_to_4k_share", "of 4 KiB or less", row.up_to_4k_share),
                ("below_16k_share", "below 16 KiB", row.below_16k_share),
                ("below_64k_share", "below 64 KiB", row.below_64k_share),
            ] {
                facts.share(format!("{name}.{part}"), format!("{requests} {bound}"), share);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyser::tests::analyse;

    #[test]
    fn shares_below_the_studys_sizes() {
        let sizes =
            analyse(&["WS 0+8 d0 c1", "W 0+31 d1 c2", "W 0+32 d2 c3", "W 0+128 d3 c4", "R 0+1024 d4 c5"])
                .sizes;
        let of = |group: Group| sizes.groups.iter().find(|row| row.group == group).unwrap();
        let writes = of(Group::Writes);
        assert_eq!(
            (writes.up_to_4k_share, writes.below_16k_share, writes.below_64k_share),
            (0.25, 0.5, 0.75)
        );
        assert_eq!(
            (writes.bytes.min, writes.bytes.p50, writes.bytes.max),
            (4096, Some(15_872), Some(65_536))
        );
        assert_eq!(of(Group::WriteAsync).bytes.count, 3);
        assert_eq!(of(Group::All).bytes.relative_error, 0.0);
    }
}
