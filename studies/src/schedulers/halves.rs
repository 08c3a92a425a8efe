//! Checks whether the comparison that is used for the goals claims differences that do not exist. The check
//! compares two random halves of one cell's starts as if they belonged to two schedulers.

use fonio_analysis::compare::interval::{RUNS_MIN, compare_rounds};
use fonio_core::Random;

use super::Results;
use super::cell::Values;
use super::figures::slowdowns;
use super::goals::alone;

const DIVISIONS: usize = 50;
const SEED: u64 = 0x0a_a0;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    all: usize,
    /// The number of comparisons that claim "less" or "more". Each claim needs a difference of 5 percent.
    claims: usize,
    /// The number of comparisons whose interval does not contain 1.
    intervals: usize,
}

/// Returns the figures of a cell that the goals use, with one value for each start.
fn figures(part: &str, values: &Values) -> Vec<Vec<f64>> {
    let runs: &[&str] = match part {
        "seq" | "rand" => &["1x1", "4x4"],
        "deep" => &["beside"],
        "files" => &["copy"],
        _ => &[],
    };
    let mut found: Vec<Vec<f64>> =
        runs.iter().filter_map(|run| slowdowns(values, &format!("{run} read"), alone(part))).collect();
    let others = ["reads read iops", "writes write iops", "copy fsync p99"];
    found.extend(others.iter().filter_map(|name| values.get(*name).cloned()));
    found
}

/// Divides a cell's starts into two random halves `DIVISIONS` times, and compares the halves.
fn divide(starts: &[f64], random: &mut Random) -> Tally {
    let half = starts.len() / 2;
    let mut tally = Tally::default();
    if half < RUNS_MIN {
        return tally;
    }
    let mut order = starts.to_vec();
    for _ in 0..DIVISIONS {
        random.shuffle(&mut order);
        let change = compare_rounds(&[(&order[..half], &order[half..2 * half])]).remove(0);
        tally.all += 1;
        tally.claims += usize::from(change.is_claimed());
        let is_beyond = |end: Option<f64>, side: f64| end.is_some_and(|end| (end - 1.0) * side > 0.0);
        tally.intervals += usize::from(is_beyond(change.low, 1.0) || is_beyond(change.high, -1.0));
    }
    tally
}

pub(super) fn show(results: &Results) {
    let mut random = Random::new(SEED);
    let (mut sum, mut cells) = (Tally::default(), 0);
    for ((_, _, part), values) in results {
        let before = sum.all;
        for starts in figures(part, values) {
            let tally = divide(&starts, &mut random);
            sum.all += tally.all;
            sum.claims += tally.claims;
            sum.intervals += tally.intervals;
        }
        cells += usize::from(sum.all > before);
    }
    if sum.all == 0 {
        println!("\nEqual schedulers: no cell has six starts, so no cell can be compared with itself.");
        return;
    }
    let percent = |count: usize| 100.0 * count as f64 / sum.all as f64;
    println!(
        "\nEqual schedulers: halves of the starts of {cells} cells, drawn {DIVISIONS} times for each figure, and compared as if they were two\n\
         schedulers: in {:.2} % of {} comparisons, the interval excludes equality; in {:.2} %, by at least 5 percent. At this\n\
         level, at most 5 % are expected.",
        percent(sum.intervals),
        sum.all,
        percent(sum.claims)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_rarely_told_apart() {
        let mut random = Random::new(1);
        let mut sum = Tally::default();
        for _ in 0..200 {
            let starts: Vec<f64> = (0..16).map(|_| 1.0 + random.below(1000) as f64 / 2000.0).collect();
            let tally = divide(&starts, &mut random);
            sum.all += tally.all;
            sum.intervals += tally.intervals;
            sum.claims += tally.claims;
        }
        assert_eq!(sum.all, 200 * DIVISIONS);
        assert!(sum.intervals * 100 < sum.all * 6, "{sum:?}");
        assert!(0 < sum.intervals && sum.claims <= sum.intervals, "{sum:?}");
    }

    #[test]
    fn few_starts_are_not_divided() {
        assert_eq!(divide(&[1.0; 5], &mut Random::new(1)), Tally::default());
        assert_eq!(divide(&[1.0; 6], &mut Random::new(1)).intervals, 0);
    }
}
