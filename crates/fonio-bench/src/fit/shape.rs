//! Infers the possible translation layers from the cost of random writes over growing ranges (Kim et al.
//! 2012, section 5.3).

use std::fmt;

/// Minimum number of ranges from which a shape can be determined.
pub const POINTS_MIN: usize = 4;

/// A curve is flat if it rises by less than this factor in total.
const FLAT: f64 = 1.15;

/// A larger step from one range to the next is a cliff. A merge copies an erase block, so it costs tens of
/// page writes; a miss in a cached map costs only a few reads.
const CLIFF: f64 = 4.0;

/// The first points form a plateau if they differ by less than this factor.
const PLATEAU: f64 = 1.06;

/// Minimum number of points that form a plateau.
const LEVEL_POINTS_MIN: usize = 3;

/// The shape of the curve of random-write costs over ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The cost does not depend on the range, so pages are mapped individually.
    Flat,
    /// The cost is constant up to a range, then rises steeply. Up to this range, the data fit into the log
    /// blocks; each log block belongs to one erase block.
    Cliff {
        /// The largest range before the steep rise, in bytes.
        before: u64,
    },
    /// The cost rises from an early point, because all data share the log blocks. If the rise follows a
    /// plateau, another possible cause is that only a part of the map is in RAM.
    Smooth {
        /// The largest range of the plateau, in bytes; `None` if there is no plateau.
        level_until: Option<u64>,
    },
}

impl Shape {
    /// Determines the shape of a curve, which contains ranges in bytes with the cost of each range. The
    /// ranges must increase, and there must be at least [`POINTS_MIN`] ranges. Panics if the curve is empty.
    pub fn of(curve: &[(u64, f64)]) -> Shape {
        assert!(!curve.is_empty() && curve.iter().all(|(_, cost)| *cost > 0.0), "a curve of costs");
        let curve = rising(curve);
        let (least, most) = (curve[0].1, curve[curve.len() - 1].1);
        if most / least < FLAT {
            return Shape::Flat;
        }
        let steps = curve.windows(2).map(|pair| (pair[1].1 / pair[0].1, pair[0].0));
        let steepest = steps.max_by(|left, right| left.0.total_cmp(&right.0));
        if let Some((ratio, before)) = steepest
            && ratio >= CLIFF
        {
            return Shape::Cliff { before };
        }
        let level_at = |cost: f64| cost <= curve[0].1 * PLATEAU && cost >= curve[0].1 / PLATEAU;
        let level = curve.iter().take_while(|(_, cost)| level_at(*cost)).count();
        Shape::Smooth { level_until: (level >= LEVEL_POINTS_MIN).then(|| curve[level - 1].0) }
    }
}

/// Removes disturbed measurements from a curve. A larger range never costs less, so a cost that exceeds the
/// cost at a larger range is disturbed.
fn rising(curve: &[(u64, f64)]) -> Vec<(u64, f64)> {
    let mut rising = curve.to_vec();
    for at in (1..rising.len()).rev() {
        rising[at - 1].1 = rising[at - 1].1.min(rising[at].1);
    }
    rising
}

impl fmt::Display for Shape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Flat => write!(out, "flat, so each page is mapped separately"),
            Shape::Cliff { before } => {
                let mib = before >> 20;
                write!(out, "a cliff beyond {mib} MiB, so log blocks of individual erase blocks (BAST)")
            }
            Shape::Smooth { level_until: Some(level) } => {
                let mib = level >> 20;
                write!(out, "level up to {mib} MiB, then rising: a map partly in RAM, or shared log blocks")
            }
            Shape::Smooth { level_until: None } => {
                write!(out, "rising smoothly, so shared log blocks (FAST)")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::ByteCount;
    use fonio_sim::profile::Profile;

    use super::*;
    use crate::{model, plan};

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_disturbed_run_is_not_the_range() {
        let costs = [3.15, 3.03, 3.13, 3.10, 3.30, 4.93, 3.36];
        let curve: Vec<(u64, f64)> = costs.iter().enumerate().map(|(at, cost)| (MIB << at, *cost)).collect();
        assert_eq!(Shape::of(&curve), Shape::Flat);
    }

    #[test]
    fn the_studied_cards_have_their_shapes() {
        let scope = plan::Scope {
            range_max: ByteCount(256 * MIB),
            ..plan::Scope::of(&[plan::Set::AddressRange], ByteCount(128 * MIB))
        };
        for (name, expected) in [
            ("transcend", Shape::Flat),
            ("kingston", Shape::Cliff { before: 4 * MIB }),
            ("ridata", Shape::Smooth { level_until: None }),
            ("sandisk", Shape::Smooth { level_until: Some(32 * MIB) }),
        ] {
            let profile = Profile::shipped(name).expect("a shipped profile");
            let tests = plan::tests(&scope);
            let found = model::benchmark(&profile, ByteCount(2 << 30), &tests, 1, 1).expect("it runs");
            let curve: Vec<(u64, f64)> =
                found.tests.iter().map(|test| (test.test.range_bytes, 1.0 / test.mb_s)).collect();
            assert_eq!(Shape::of(&curve), expected, "{name}");
        }
    }
}
