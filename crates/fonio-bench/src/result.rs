//! What a benchmark found, in the shape in which it is written as JSON (`docs/benchmark.md`).

use serde::{Deserialize, Serialize};

use crate::place::Place;
use crate::plan::{Access, Set, Test};
use crate::stable;

/// The version of the JSON's shape; a key that changes its meaning raises it.
pub const SCHEMA: u32 = 1;

/// A whole benchmark.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Benchmark {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What measured: `fio-3.33`, or `model NAME` for the simulator.
    pub tool: String,
    /// When it began, in seconds since 1970; `None` in virtual time.
    pub began_unix_s: Option<u64>,
    /// The seed of its random places.
    pub seed: u64,
    /// The size of the device, or of the file system below the folder.
    pub capacity_bytes: u64,
    /// Where it ran; `None` for the simulator.
    pub place: Option<Place>,
    /// What it comes to, in a sentence.
    pub verdict: String,
    /// What the user should know before believing it, each with what to do next.
    pub warnings: Vec<String>,
    /// Bytes written in all.
    pub written_bytes: u64,
    /// Every test, in the order in which they ran.
    pub tests: Vec<TestResult>,
}

/// One test with its runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TestResult {
    /// What was done.
    pub test: Test,
    /// What came of it, each time.
    pub runs: Vec<Run>,
    /// 10⁶ bytes a second: mean over the runs.
    pub mb_s: f64,
    /// Standard deviation of a run.
    pub sigma_mb_s: f64,
    /// The slowest run.
    pub min_mb_s: f64,
    /// The fastest run.
    pub max_mb_s: f64,
    /// Requests a second: mean over the runs.
    pub iops: f64,
    /// Whether the mean was known well enough before the repetitions were over.
    pub stable: bool,
    /// What a sustained write showed.
    pub sustained: Option<Sustained>,
}

/// One run of a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Requests completed.
    pub requests: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// The time they took: for one process the sum of its response times, else from first to last.
    pub span_ns: u64,
    /// Mean response time.
    pub response_mean_ns: u64,
    /// Standard deviation of the response times.
    pub response_sigma_ns: u64,
    /// Median response time; `None` where it was not kept.
    pub response_p50_ns: Option<u64>,
    /// 99th percentile of the response times; `None` where it was not kept.
    pub response_p99_ns: Option<u64>,
    /// The longest response time.
    pub response_max_ns: u64,
    /// Rates over time, one each 500 ms; only of a sustained write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates_mb_s: Vec<f64>,
    /// It stands apart from the other runs by its modified z-score.
    pub outlier: bool,
}

impl Run {
    /// 10⁶ bytes a second.
    pub fn mb_s(&self) -> f64 {
        self.bytes as f64 * 1e3 / self.span_ns as f64
    }

    /// Total time over the number of requests, in microseconds.
    pub fn micros_each(&self) -> f64 {
        self.span_ns as f64 / 1e3 / self.requests as f64
    }
}

/// A write so long that a cache of faster flash shows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sustained {
    /// The rate of the first tenth.
    pub first_mb_s: f64,
    /// The rate of the last third.
    pub last_mb_s: f64,
    /// After so many bytes the rate fell for good; `None` where it did not.
    pub fell_after_bytes: Option<u64>,
}

/// A rate has fallen where it is below this share of what it began with.
const FALLEN: f64 = 0.7;

impl Sustained {
    /// Reads it from rates over equal intervals, during which `bytes` were written in all; `None` for too few of them.
    pub fn from_rates(rates: &[f64], bytes: u64) -> Option<Sustained> {
        if rates.len() < 6 {
            return None;
        }
        let first_mb_s = stable::median(&rates[..(rates.len() / 10).max(2)]);
        let last_mb_s = stable::median(&rates[rates.len() * 2 / 3..]);
        let fell = last_mb_s < FALLEN * first_mb_s;
        let total: f64 = rates.iter().sum();
        let fell_after_bytes = fell.then(|| {
            let still_fast =
                rates.iter().rposition(|rate| *rate >= FALLEN * first_mb_s).map_or(0, |at| at + 1);
            let before: f64 = rates[..still_fast].iter().sum();
            (bytes as f64 * before / total) as u64
        });
        Some(Sustained { first_mb_s, last_mb_s, fell_after_bytes })
    }
}

impl TestResult {
    /// Sums up `runs`, of which there is at least one.
    ///
    /// # Panics
    ///
    /// Where there is none.
    pub fn new(test: Test, mut runs: Vec<Run>, stable: bool) -> TestResult {
        let rates: Vec<f64> = runs.iter().map(Run::mb_s).collect();
        for (run, outlier) in runs.iter_mut().zip(stable::outliers(&rates)) {
            run.outlier = outlier;
        }
        let spread = stable::spread(&rates).expect("a test was run");
        let iops: f64 = runs.iter().map(|run| run.requests as f64 * 1e9 / run.span_ns as f64).sum();
        let iops = iops / runs.len() as f64;
        let sustained = runs.first().and_then(|run| Sustained::from_rates(&run.rates_mb_s, run.bytes));
        TestResult {
            test,
            mb_s: spread.mean,
            sigma_mb_s: spread.sigma,
            min_mb_s: rates.iter().copied().fold(f64::INFINITY, f64::min),
            max_mb_s: rates.iter().copied().fold(0.0, f64::max),
            iops,
            stable,
            sustained,
            runs,
        }
    }

    /// Requests that a process made in a run: the mean over the runs.
    pub fn requests_each(&self) -> u64 {
        let sum: u64 = self.runs.iter().map(|run| run.requests).sum();
        (sum / self.runs.len() as u64 / u64::from(self.test.processes)).max(1)
    }

    /// Median and 99th percentile of the response times in milliseconds, the means over the runs; `None` where not kept.
    pub fn percentiles_ms(&self) -> Option<(f64, f64)> {
        let mean = |pick: fn(&Run) -> Option<u64>| -> Option<f64> {
            let values: Option<Vec<u64>> = self.runs.iter().map(pick).collect();
            let values = values?;
            Some(values.iter().sum::<u64>() as f64 / values.len() as f64 / 1e6)
        };
        Some((mean(|run| run.response_p50_ns)?, mean(|run| run.response_p99_ns)?))
    }
}

impl Benchmark {
    /// The first test of this set and access.
    pub fn find(&self, set: Set, access: Access) -> Option<&TestResult> {
        self.tests.iter().find(|result| result.test.set == set && result.test.access == access)
    }

    /// Tests of a set.
    pub fn of(&self, set: Set) -> impl Iterator<Item = &TestResult> {
        self.tests.iter().filter(move |result| result.test.set == set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_fast_cache_is_found() {
        let mut rates = vec![80.0; 10];
        rates.extend([20.0; 20]);
        let found = Sustained::from_rates(&rates, 600_000_000).expect("enough rates");
        assert_eq!((found.first_mb_s, found.last_mb_s), (80.0, 20.0));
        assert_eq!(found.fell_after_bytes, Some(400_000_000));
        let even = Sustained::from_rates(&[30.0; 30], 1_000).expect("enough rates");
        assert_eq!(even.fell_after_bytes, None);
        assert_eq!(Sustained::from_rates(&[1.0; 3], 3), None);
    }
}
