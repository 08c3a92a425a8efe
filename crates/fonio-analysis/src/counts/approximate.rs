//! Compares counts that repeat only approximately: block writes and flushes.
//!
//! A count is a range over the runs of one program. Two ranges differ if even their nearest ends are further apart
//! than the tolerance and a few requests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::block::BlockCounts;

/// Requests that write.
pub const BLOCK_WRITES: &str = "block.writes";
/// The bytes of these requests.
pub const BLOCK_WRITTEN_BYTES: &str = "block.written_bytes";
/// Flush requests.
pub const BLOCK_FLUSHES: &str = "block.flushes";

/// Differences that never count, however small the counts. A commit of the file system's journal more or less, which its
/// timer causes, has two or three writes and a flush; unsynced data of 300 files took 11 to 16 writes in equal runs,
/// depending on how the kernel merged them.
const SLACK: [(&str, f64); 3] =
    [(BLOCK_WRITES, 8.0), (BLOCK_WRITTEN_BYTES, 64.0 * 1024.0), (BLOCK_FLUSHES, 4.0)];

/// Counts that repeat only approximately, and the tolerance for their comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approximate {
    /// The difference that a comparison does not count, as a share: 0.2 is 20 %.
    pub tolerance: f64,
    /// The counts by name, each as a range over the runs.
    pub counts: BTreeMap<String, CountRange>,
}

/// The lowest and the highest count of several runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountRange {
    /// The lowest count.
    pub least: u64,
    /// The highest count.
    pub most: u64,
}

/// The relation of a count to the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// The difference is within the tolerance.
    Within,
    /// The count is higher by more than the tolerance.
    More,
    /// The count is lower by more than the tolerance.
    Less,
}

/// A count, compared with the baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct ApproximatelyCompared {
    /// The name of the count.
    pub name: String,
    /// The count in the baseline.
    pub was: CountRange,
    /// The count in this run.
    pub is: CountRange,
    /// The relation of the two.
    pub difference: Difference,
    /// The middle of this run's range divided by the middle of the baseline's, per unit of work.
    pub ratio: f64,
}

impl CountRange {
    /// Returns the middle of the range.
    pub fn middle(&self) -> f64 {
        (self.least as f64 + self.most as f64) / 2.0
    }
}

impl Approximate {
    /// Puts the counts of repeated runs together. `None` without a run.
    pub fn of(runs: &[BlockCounts], tolerance: f64) -> Option<Approximate> {
        let range = |count: fn(&BlockCounts) -> u64| {
            let counts = || runs.iter().map(count);
            Some(CountRange { least: counts().min()?, most: counts().max()? })
        };
        let counts = [
            (BLOCK_WRITES, range(|run| run.writes)?),
            (BLOCK_WRITTEN_BYTES, range(|run| run.written.0)?),
            (BLOCK_FLUSHES, range(|run| run.flushes)?),
        ];
        let counts = counts.into_iter().map(|(name, range)| (name.to_owned(), range)).collect();
        Some(Approximate { tolerance, counts })
    }

    /// Compares the counts with those of a baseline, with this tolerance. `units` are the numbers of units of work in the
    /// baseline and here; 1 without such a unit.
    pub fn against(&self, baseline: &Approximate, units: (u64, u64)) -> Vec<ApproximatelyCompared> {
        let (was_units, is_units) = (units.0 as f64, units.1 as f64);
        let compared = |(name, is): (&String, &CountRange)| {
            let was = baseline.counts.get(name)?;
            let slack = SLACK.iter().find(|(of, _)| of == name).map_or(0.0, |(_, slack)| *slack);
            let is_far = |low: f64, high: f64| high > low * (1.0 + self.tolerance) + slack;
            // The counts as they would be with as many units of work as in this run.
            let scale = is_units / was_units;
            let (was_least, was_most) = (was.least as f64 * scale, was.most as f64 * scale);
            let difference = if is_far(was_most, is.least as f64) {
                Difference::More
            } else if is_far(is.most as f64, was_least) {
                Difference::Less
            } else {
                Difference::Within
            };
            let (was_middle, is_middle) = (was.middle() * scale, is.middle());
            let ratio = if was_middle == is_middle { 1.0 } else { is_middle / was_middle };
            Some(ApproximatelyCompared { name: name.clone(), was: *was, is: *is, difference, ratio })
        };
        self.counts.iter().filter_map(compared).collect()
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::ByteCount;

    use super::*;

    fn runs(writes: &[u64]) -> Approximate {
        let run =
            |writes: &u64| BlockCounts { writes: *writes, written: ByteCount(writes * 4096), flushes: 3 };
        Approximate::of(&writes.iter().map(run).collect::<Vec<_>>(), 0.2).expect("a run")
    }

    #[track_caller]
    fn check(was: &[u64], was_units: u64, is: &[u64], is_units: u64, expected: (Difference, &str)) {
        let compared = runs(is).against(&runs(was), (was_units, is_units));
        let [flushes, writes, bytes] = &compared[..] else { panic!("{compared:?}") };
        assert_eq!((writes.difference, &*format!("{:.2}", writes.ratio)), expected, "{compared:?}");
        assert_eq!((&*flushes.name, &*bytes.name), (BLOCK_FLUSHES, BLOCK_WRITTEN_BYTES));
    }

    #[test]
    fn a_difference_counts_beyond_the_tolerance_and_a_few_requests() {
        use Difference::{Less, More, Within};
        check(&[100], 1, &[100], 1, (Within, "1.00"));
        // 20 % and 8 requests.
        check(&[100], 1, &[128], 1, (Within, "1.28"));
        check(&[100], 1, &[129], 1, (More, "1.29"));
        check(&[129], 1, &[100], 1, (Less, "0.78"));
        check(&[11], 1, &[16], 1, (Within, "1.45"));
        check(&[0], 1, &[0], 1, (Within, "1.00"));
        check(&[0], 1, &[9], 1, (More, "inf"));
        // The nearest ends of the ranges decide.
        check(&[90, 100], 1, &[128, 200], 1, (Within, "1.73"));
        check(&[90, 100], 1, &[129, 200], 1, (More, "1.73"));
        // Ten times as many units.
        check(&[100], 10, &[1000], 100, (Within, "1.00"));
        check(&[100], 10, &[1300], 100, (More, "1.30"));
    }

    #[test]
    fn counts_of_several_runs_are_a_range() {
        let range = runs(&[5, 3, 4]).counts[BLOCK_WRITES];
        assert_eq!((range, range.middle()), (CountRange { least: 3, most: 5 }, 4.0));
        assert_eq!(Approximate::of(&[], 0.2), None);
    }
}
