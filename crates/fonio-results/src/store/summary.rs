//! Computes the distribution of a figure from the bins in the database: quantiles with intervals, shares, and
//! points of the distribution function. Numbers of results are exact. A quantile has the precision of a bin
//! (0.4 %).

use schemars::JsonSchema;
use serde::Serialize;

use fonio_core::Better;

use super::bins::Scored;
use super::order;

/// The quantiles on web pages, as shares of the results.
pub const SHARES: [f64; 5] = [0.05, 0.25, 0.5, 0.75, 0.95];

/// The distribution of a figure's values, ordered from best to worst.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    better: Better,
    /// Bins and their counts, in the order of bins, without empty bins.
    bins: Vec<(i64, i64)>,
    count: i64,
}

/// A quantile with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Quantile {
    /// The share of results with a smaller or equal value.
    pub share: f64,
    /// The value, to 0.4 %.
    pub value: f64,
    /// The lower end of the 95 % confidence interval of the quantile; absent if there are too few results.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}

/// A point of a distribution function.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Point {
    /// A value.
    pub value: f64,
    /// The share of results with a lower value.
    pub share: f64,
}

impl Summary {
    /// Creates a distribution from bins. The bins must be sorted by number.
    pub fn new(better: Better, bins: Vec<(i64, i64)>) -> Summary {
        assert!(bins.windows(2).all(|pair| pair[0].0 < pair[1].0), "bins are in order");
        let count = bins.iter().map(|(_, count)| count).sum();
        Summary { better, bins, count }
    }

    /// Returns whether higher or lower values of the figure are better.
    pub fn better(&self) -> Better {
        self.better
    }

    /// Returns the number of results.
    pub fn count(&self) -> i64 {
        self.count
    }

    /// Adds a number of results to a bin; a negative number removes results.
    pub fn add(&mut self, bin: i64, results: i64) {
        self.count += results;
        match self.bins.binary_search_by_key(&bin, |(bin, _)| *bin) {
            Ok(at) => {
                self.bins[at].1 += results;
                if self.bins[at].1 <= 0 {
                    self.bins.remove(at);
                }
            }
            Err(at) => self.bins.insert(at, (bin, results)),
        }
    }

    /// Returns the number of results in bins better than `bin`.
    pub fn better_than(&self, bin: i64) -> i64 {
        self.bins.iter().take_while(|(at, _)| *at < bin).map(|(_, count)| count).sum()
    }

    /// Returns the quantiles of [`SHARES`], or none if there are no results.
    pub fn quantiles(&self) -> Vec<Quantile> {
        SHARES.iter().filter_map(|share| self.quantile(*share)).collect()
    }

    /// Returns the quantile of a share between 0.05 and 0.95; `None` if there are no results.
    pub fn quantile(&self, share: f64) -> Option<Quantile> {
        let count = u64::try_from(self.count).ok().filter(|count| *count > 0)?;
        let ranks = order::interval(count, share);
        let at = |rank: u64| self.nth_smallest(rank);
        Some(Quantile {
            share,
            value: at(order::nearest_rank(count, share)),
            low: ranks.map(|(low, _)| at(low)),
            high: ranks.map(|(_, high)| at(high)),
        })
    }

    /// Returns the value at a rank, counted from 1 at the smallest value. The result is the middle of the bin
    /// that contains the rank.
    fn nth_smallest(&self, rank: u64) -> f64 {
        let rank = i64::try_from(rank).expect("a rank fits in 63 bits");
        let mut seen = 0;
        for (bin, results) in self.by_value() {
            seen += results;
            if seen >= rank {
                let (low, above) = self.better.edges(bin);
                return low + (above - low) / 2.0;
            }
        }
        panic!("rank {rank} of {} results", self.count);
    }

    /// Returns the bins in ascending order of their values.
    fn by_value(&self) -> Box<dyn Iterator<Item = (i64, i64)> + '_> {
        match self.better {
            Better::Lower => Box::new(self.bins.iter().copied()),
            Better::Higher => Box::new(self.bins.iter().rev().copied()),
        }
    }

    /// Returns at most `points` points of the distribution function, without redundant points.
    pub fn points(&self, points: usize) -> Vec<Point> {
        let total = self.count as f64;
        let mut all = Vec::new();
        let mut seen = 0;
        let mut above_last = None;
        for (bin, results) in self.by_value() {
            let (low, above) = self.better.edges(bin);
            // There is a gap before this bin. In the gap, the distribution function is flat.
            if above_last != Some(low) {
                all.push(Point { value: low, share: seen as f64 / total });
            }
            seen += results;
            all.push(Point { value: above, share: seen as f64 / total });
            above_last = Some(above);
        }
        if all.len() <= points {
            return all;
        }
        // Keep the first and last points, and points between them at equal steps of the share.
        let mut kept = vec![all[0]];
        for point in &all[1..all.len() - 1] {
            let last = kept[kept.len() - 1].share;
            if point.share - last >= 1.0 / (points - 2) as f64 {
                kept.push(*point);
            }
        }
        kept.extend(all.last().copied());
        kept
    }

    /// Returns half the width of the 95 % confidence band of the complete distribution function, by the
    /// inequality of Dvoretzky, Kiefer and Wolfowitz with Massart's constant.
    pub fn band(&self) -> f64 {
        /// ln(2 / 0.05).
        const LN_40: f64 = 3.688_879_454_113_936;
        (LN_40 / (2.0 * self.count.max(1) as f64)).sqrt().min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(better: Better, values: &[f64]) -> Summary {
        let mut summary = Summary::new(better, Vec::new());
        for value in values {
            summary.add(better.bin(*value), 1);
        }
        summary
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_sorted_values(
            mut values in proptest::collection::vec(0.001f64..1e6, 1..300),
            higher: bool,
        ) {
            let better = if higher { Better::Higher } else { Better::Lower };
            let summary = of(better, &values);
            values.sort_by(f64::total_cmp);
            let close = |ours: f64, exact: f64| (ours - exact).abs() <= exact * 0.004;
            for quantile in summary.quantiles() {
                let rank = order::nearest_rank(values.len() as u64, quantile.share);
                prop_assert!(close(quantile.value, values[rank as usize - 1]));
                if let (Some(low), Some(high)) = (quantile.low, quantile.high) {
                    prop_assert!(low <= quantile.value && quantile.value <= high);
                }
            }
            for point in summary.points(100) {
                let below = values.iter().filter(|value| **value < point.value).count();
                prop_assert!((point.share - below as f64 / values.len() as f64).abs() < 1e-9);
            }
            prop_assert!(summary.points(50).len() <= 100);
            let bin = better.bin(values[0]);
            let expected = values.iter().filter(|value| better.bin(**value) < bin).count();
            prop_assert_eq!(summary.better_than(bin), expected as i64);
        }

        #[test]
        fn what_was_added_can_be_taken_away(values in proptest::collection::vec(0.0f64..10.0, 1..50), split in 0usize..50) {
            let mut summary = of(Better::Lower, &values);
            let split = split.min(values.len());
            for value in &values[split..] {
                summary.add(Better::Lower.bin(*value), -1);
            }
            prop_assert_eq!(summary, of(Better::Lower, &values[..split]));
        }
    }

    #[test]
    fn without_results_there_are_no_quantiles() {
        let summary = of(Better::Lower, &[]);
        assert_eq!((summary.quantiles(), summary.points(10)), (vec![], vec![]));
    }
}
