//! Defines the result of a benchmark, in the format of its JSON file (`docs/benchmark.md`).

use fonio_core::Access;
use fonio_core::statistics::sample::{Spread, mean, median};
use serde::{Deserialize, Serialize};

use crate::outliers::outliers;
use crate::place::Place;
use crate::test::{Set, Test};

/// Version of the JSON format; the version is raised when the meaning of a key changes.
pub const SCHEMA: u32 = 1;

/// The result of a benchmark.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Benchmark {
    /// Version of the result format, [`SCHEMA`].
    pub schema: u32,
    /// The program that measured: `fio-3.33`, or `model NAME` for the simulator.
    pub tool: String,
    /// Start of the benchmark in seconds since 1970; `None` in virtual time.
    pub began_unix_s: Option<u64>,
    /// Seed from which random addresses are drawn.
    pub seed: u64,
    /// Size of the benchmarked device or file system in bytes.
    pub capacity_bytes: u64,
    /// The benchmarked machine and target; `None` for the simulator.
    pub place: Option<Place>,
    /// The verdict on the device, in one sentence.
    pub verdict: String,
    /// Warnings about the benchmark, each with the next step.
    pub warnings: Vec<String>,
    /// Total number of bytes that the benchmark wrote.
    pub written_bytes: u64,
    /// Slowdowns of concurrent reads and writes; empty if they were not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slowdowns: Vec<Slowdown>,
    /// The device's concurrency parameters; empty if they were not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub concurrency: Vec<Parameter>,
    /// The results of all tests in the order of execution; tests that run in rounds are in the order of the
    /// plan.
    pub tests: Vec<TestResult>,
}

/// The slowdown of one kind of I/O while another kind runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slowdown {
    /// The access pattern whose response times were measured.
    pub access: Access,
    /// The access pattern that ran concurrently.
    pub beside: Access,
    /// The number of processes with each access pattern.
    pub processes: u32,
    /// Mean response time of one process alone, in milliseconds.
    pub alone_ms: f64,
    /// Mean response time while the concurrent processes run, in milliseconds.
    pub beside_ms: f64,
    /// `beside_ms` divided by `alone_ms`; a value above 1 means that concurrent processes make requests
    /// slower.
    pub slowdown: f64,
    /// Mean response time in the fastest concurrent run, divided by the mean in the slowest run alone; `None`
    /// if either test ran only once.
    pub slowdown_min: Option<f64>,
    /// Mean response time in the slowest concurrent run, divided by the mean in the fastest run alone; `None`
    /// if either test ran only once.
    pub slowdown_max: Option<f64>,
    /// Throughput of one process without concurrent processes, in 10⁶ bytes per second.
    pub alone_mb_s: f64,
    /// Total throughput of all processes with this access pattern while the other processes run, in 10⁶ bytes
    /// per second.
    pub beside_mb_s: f64,
}

/// A concurrency parameter: the number of concurrent requests that is enough for one kind of I/O.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// The kind of I/O to which the parameter applies.
    pub access: Access,
    /// The smallest number of concurrent requests that is enough: no other number was shown to increase the
    /// throughput by more than 2 %. This number is also the lower end of the 95 % confidence interval.
    pub requests: u32,
    /// The upper end of the interval; `None` if each test ran only once.
    pub requests_high: Option<u32>,
    /// The largest number of concurrent requests that was measured.
    pub measured_max: u32,
    /// Throughput with [`Parameter::requests`] concurrent requests, in 10⁶ bytes per second.
    pub mb_s: f64,
    /// Throughput with one request at a time, in 10⁶ bytes per second.
    pub one_mb_s: f64,
    /// `mb_s` divided by `one_mb_s`.
    pub speedup: f64,
}

/// A test with its runs and their mean.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TestResult {
    /// The test that was run.
    pub test: Test,
    /// The runs of the test.
    pub runs: Vec<Run>,
    /// Mean throughput of the runs, in 10⁶ bytes per second.
    pub mb_s: f64,
    /// Standard deviation of the runs' throughput, in 10⁶ bytes per second.
    pub sigma_mb_s: f64,
    /// Throughput of the slowest run, in 10⁶ bytes per second.
    pub min_mb_s: f64,
    /// Throughput of the fastest run, in 10⁶ bytes per second.
    pub max_mb_s: f64,
    /// Mean number of requests per second over the runs.
    pub iops: f64,
    /// Whether the mean was precise enough when the last run ended.
    pub stable: bool,
    /// Throughput over time, if the test is a sustained write.
    pub sustained: Option<Sustained>,
}

/// One run of a benchmark test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Number of requests completed in the run.
    pub requests: u64,
    /// Bytes of the completed requests.
    pub bytes: u64,
    /// Duration: for one process, the sum of its response times; otherwise the time from the first to the
    /// last request.
    pub span_ns: u64,
    /// Mean response time of the requests.
    pub response_mean_ns: u64,
    /// Standard deviation of the requests' response times.
    pub response_sigma_ns: u64,
    /// Median response time of the requests; `None` if it was not recorded.
    pub response_p50_ns: Option<u64>,
    /// 99th percentile of the response times; `None` if it was not recorded.
    pub response_p99_ns: Option<u64>,
    /// The longest response time of a request.
    pub response_max_ns: u64,
    /// Throughput over time, one value per 500 ms; only for a sustained write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates_mb_s: Vec<f64>,
    /// Whether the run is an outlier according to its modified z-score.
    pub outlier: bool,
}

impl Run {
    /// Returns the run's throughput in 10⁶ bytes per second.
    pub fn mb_s(&self) -> f64 {
        self.bytes as f64 * 1e3 / self.span_ns as f64
    }

    /// Returns the run's duration divided by the number of requests, in microseconds.
    pub fn micros_each(&self) -> f64 {
        self.span_ns as f64 / 1e3 / self.requests as f64
    }
}

/// The result of a write that is longer than the device's cache of faster flash.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sustained {
    /// Throughput during the first tenth of the write, in 10⁶ bytes per second.
    pub first_mb_s: f64,
    /// Throughput during the last third of the write, in 10⁶ bytes per second.
    pub last_mb_s: f64,
    /// Number of bytes after which the throughput dropped permanently; `None` if it did not drop.
    pub fell_after_bytes: Option<u64>,
}

/// Throughput below this share of the initial throughput counts as dropped.
const FALLEN: f64 = 0.7;

impl Sustained {
    /// Derives the result from the rates in equal intervals and the `bytes` written in total; `None` if there
    /// are too few intervals.
    pub fn from_rates(rates: &[f64], bytes: u64) -> Option<Sustained> {
        if rates.len() < 6 {
            return None;
        }
        let first_mb_s = median(&rates[..(rates.len() / 10).max(2)])?;
        let last_mb_s = median(&rates[rates.len() * 2 / 3..])?;
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
    /// Summarises `runs`. Panics if `runs` is empty.
    pub fn new(test: Test, mut runs: Vec<Run>, stable: bool) -> TestResult {
        let rates: Vec<f64> = runs.iter().map(Run::mb_s).collect();
        for (run, outlier) in runs.iter_mut().zip(outliers(&rates)) {
            run.outlier = outlier;
        }
        let spread = Spread::of(&rates).expect("a test was run");
        let iops: Vec<f64> = runs.iter().map(|run| run.requests as f64 * 1e9 / run.span_ns as f64).collect();
        let iops = mean(&iops).expect("a test was run");
        let sustained = runs.first().and_then(|run| Sustained::from_rates(&run.rates_mb_s, run.bytes));
        TestResult {
            test,
            mb_s: spread.mean,
            sigma_mb_s: spread.sigma(),
            min_mb_s: spread.min,
            max_mb_s: spread.max,
            iops,
            stable,
            sustained,
            runs,
        }
    }

    /// Returns the mean number of requests per process and run.
    pub fn requests_each(&self) -> u64 {
        let sum: u64 = self.runs.iter().map(|run| run.requests).sum();
        (sum / self.runs.len() as u64 / u64::from(self.test.processes)).max(1)
    }

    /// Returns the median and the 99th percentile of the response times in milliseconds, averaged over the
    /// runs; `None` if they were not recorded.
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
    /// Returns the result of the first test with this set and access pattern.
    pub fn find(&self, set: Set, access: Access) -> Option<&TestResult> {
        self.tests.iter().find(|result| result.test.set == set && result.test.access == access)
    }

    /// Returns the results of the tests of a set.
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
