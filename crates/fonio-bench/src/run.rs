//! Runs a plan: prepare, measure, repeat until stable.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fonio_core::statistics::sample::is_known;

use crate::BenchError;
use crate::concurrency::{self, rounds};
use crate::fio::{Fio, Limit};
use crate::plan::{Set, Test, repeats};
use crate::result::{Benchmark, Run, SCHEMA, TestResult};
use crate::target::Target;
use crate::{interference, verdict};

/// Limits of the repetitions.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Smallest number of runs of a test.
    pub runs_min: u32,
    /// Largest number of runs of a test.
    pub runs_max: u32,
    /// A test is stable when the standard error of the mean is at most this share of the mean.
    pub error_max: f64,
    /// Longest time of a run, without its preparation.
    pub run_time_max: Duration,
    /// Longest time of a sustained write.
    pub sustained_time_max: Duration,
    /// Time after which the benchmark starts no further run.
    pub time_max: Duration,
    /// Seed of the random addresses; each run has its own.
    pub seed: u64,
    /// Whether every test runs once before any test runs again, so that a short time gives something of each. Otherwise
    /// the tests run one after the other.
    pub by_turns: bool,
}

impl Effort {
    /// Repeats until stable.
    pub const FULL: Effort = Effort {
        runs_min: 3,
        runs_max: 10,
        error_max: 0.02,
        run_time_max: Duration::from_secs(10),
        sustained_time_max: Duration::from_secs(60),
        time_max: Duration::from_secs(15 * 60),
        seed: 1,
        by_turns: false,
    };

    /// Runs each test once, for a short time.
    pub const QUICK: Effort = Effort {
        runs_min: 1,
        runs_max: 1,
        run_time_max: Duration::from_secs(3),
        sustained_time_max: Duration::from_secs(20),
        time_max: Duration::from_secs(3 * 60),
        ..Effort::FULL
    };

    /// Of the concurrency parameters: many short runs in rounds, since they compare numbers of requests within rounds.
    pub const ROUNDS: Effort =
        Effort { runs_min: 5, run_time_max: Duration::from_millis(500), ..Effort::FULL };

    /// One round of short runs.
    pub const QUICK_ROUND: Effort = Effort { run_time_max: Duration::from_millis(500), ..Effort::QUICK };
}

/// Pause after a preparation, as in the model's preparation.
const REST: Duration = Duration::from_secs(1);

/// Runs `tests` on `target`. Before each run, calls `progress` with the name of the test and the number of the run.
///
/// # Errors
///
/// If fio fails, there is not enough space, or `stop` was set.
pub fn run(
    fio: &Fio,
    target: &Target,
    tests: &[Test],
    effort: &Effort,
    stop: &AtomicBool,
    mut progress: impl FnMut(&str, u32),
) -> Result<Benchmark, BenchError> {
    target.check_room(tests.iter().map(Test::extent_bytes).max().unwrap_or(0))?;
    let began = SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs());
    let until = Instant::now() + effort.time_max;
    let mut session =
        Session { fio, target, effort, stop, until, laid_out: 0, written: 0, seed: effort.seed };
    let mut results = Vec::new();
    let mut left_out = Vec::new();
    let explain = |error| target.explain(error);
    if tests.iter().all(|test| test.set == Set::ConcurrencyParameters) {
        results = rounds::measure(&mut session, tests, &mut progress).map_err(explain)?;
    } else if effort.by_turns {
        let measured = session.by_turns(tests, &mut progress).map_err(explain)?;
        for (test, result) in tests.iter().zip(measured) {
            match result {
                Some(result) => results.push(result),
                None => left_out.push(test.name.as_str()),
            }
        }
    } else {
        for test in tests {
            match session.test(test, &mut progress).map_err(explain)? {
                Some(result) => results.push(result),
                None => left_out.push(test.name.as_str()),
            }
        }
    }
    if results.is_empty() {
        return Err(BenchError::TimeOver);
    }
    let mut benchmark = Benchmark {
        schema: SCHEMA,
        tool: fio.version.clone(),
        began_unix_s: began,
        seed: effort.seed,
        capacity_bytes: target.place().size_bytes,
        place: Some(target.place().clone()),
        verdict: String::new(),
        slowdowns: Vec::new(),
        concurrency: Vec::new(),
        warnings: target.place().warnings(),
        written_bytes: session.written,
        tests: results,
    };
    if !left_out.is_empty() {
        benchmark.warnings.push(format!(
            "The time ended before {}. Repeat with --for {}min.",
            left_out.join(", "),
            effort.time_max.as_secs().div_ceil(60) * 2
        ));
    }
    benchmark.slowdowns = interference::slowdowns(&benchmark);
    benchmark.concurrency = concurrency::parameters(&benchmark);
    benchmark.warnings.extend(warnings(&benchmark, effort));
    benchmark.verdict = verdict::sentence(&benchmark);
    Ok(benchmark)
}

/// A target that is being measured.
pub(crate) struct Session<'a> {
    fio: &'a Fio,
    target: &'a Target,
    effort: &'a Effort,
    stop: &'a AtomicBool,
    until: Instant,
    /// Number of bytes from the beginning that have been written and can be read.
    laid_out: u64,
    written: u64,
    seed: u64,
}

impl Session<'_> {
    /// `None` if the time ended before its first run.
    fn test(
        &mut self,
        test: &Test,
        progress: &mut impl FnMut(&str, u32),
    ) -> Result<Option<TestResult>, BenchError> {
        let mut runs: Vec<Run> = Vec::new();
        let runs_min = repeats(test, self.effort.runs_min);
        let runs_max = repeats(test, self.effort.runs_max);
        let mut stable = false;
        while (runs.len() as u32) < runs_max && !(stable && runs.len() as u32 >= runs_min) {
            progress(&test.name, runs.len() as u32 + 1);
            match self.prepare(test).and_then(|()| self.measure(test)) {
                Ok(run) => runs.push(run),
                Err(BenchError::TimeOver) => break,
                Err(error) => return Err(error),
            }
            let rates: Vec<f64> = runs.iter().map(Run::mb_s).collect();
            stable = is_known(&rates, self.effort.error_max);
        }
        Ok((!runs.is_empty()).then(|| TestResult::new(test.clone(), runs, stable)))
    }

    /// Measures all tests by turns. The result of a test is `None` if the time ended before its first run.
    fn by_turns(
        &mut self,
        tests: &[Test],
        progress: &mut impl FnMut(&str, u32),
    ) -> Result<Vec<Option<TestResult>>, BenchError> {
        let mut runs: Vec<Vec<Run>> = vec![Vec::new(); tests.len()];
        let is_stable = |runs: &[Run], error_max: f64| {
            let rates: Vec<f64> = runs.iter().map(Run::mb_s).collect();
            is_known(&rates, error_max)
        };
        'turns: for turn in 1..=self.effort.runs_max {
            for (test, runs) in tests.iter().zip(&mut runs) {
                let is_known = turn > self.effort.runs_min && is_stable(runs, self.effort.error_max);
                if is_known || turn > repeats(test, self.effort.runs_max) {
                    continue;
                }
                progress(&test.name, turn);
                match self.prepare(test).and_then(|()| self.measure(test)) {
                    Ok(run) => runs.push(run),
                    Err(BenchError::TimeOver) => break 'turns,
                    Err(error) => return Err(error),
                }
            }
        }
        let result = |(test, runs): (&Test, Vec<Run>)| {
            let stable = is_stable(&runs, self.effort.error_max);
            (!runs.is_empty()).then(|| TestResult::new(test.clone(), runs, stable))
        };
        Ok(tests.iter().zip(runs).map(result).collect())
    }

    pub(crate) fn effort(&self) -> &Effort {
        self.effort
    }

    fn prepare(&mut self, test: &Test) -> Result<(), BenchError> {
        let bytes = test.prepare_bytes;
        if bytes == 0 || (!test.is_prepared_each_time() && bytes <= self.laid_out) {
            return Ok(());
        }
        self.write_in_order(bytes)
    }

    /// Prepares for all tests of one kind of I/O: before writes, writes the range; before reads, waits until the device has
    /// finished earlier writes.
    pub(crate) fn prepare_kind(&mut self, first: &Test) -> Result<(), BenchError> {
        if first.access.writes() || first.prepare_bytes > self.laid_out {
            self.write_in_order(first.prepare_bytes)
        } else {
            self.rest()
        }
    }

    fn write_in_order(&mut self, bytes: u64) -> Result<(), BenchError> {
        self.fio.prepare(self.target.file(), bytes, Limit { stop: self.stop, until: self.until })?;
        self.laid_out = self.laid_out.max(bytes);
        self.written += bytes;
        self.rest()
    }

    fn rest(&self) -> Result<(), BenchError> {
        let until = Instant::now() + REST;
        while Instant::now() < until {
            if self.stop.load(Ordering::Relaxed) {
                return Err(BenchError::Interrupted);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    pub(crate) fn measure(&mut self, test: &Test) -> Result<Run, BenchError> {
        let time_max = match test.set {
            Set::Sustained => self.effort.sustained_time_max,
            _ => self.effort.run_time_max,
        };
        self.seed += 1;
        if Instant::now() >= self.until {
            return Err(BenchError::TimeOver);
        }
        // A run that has started may use its full time; this limit ends it if the device does not answer at all.
        let limit = Limit { stop: self.stop, until: self.until + time_max };
        let run = self.fio.measure(self.target.file(), test, time_max, self.seed, limit)?;
        if test.access.writes() {
            self.written += run.bytes;
            if test.access.is_sequential() {
                self.laid_out = self.laid_out.max(run.bytes);
            }
        }
        Ok(run)
    }
}

/// With fewer requests in a run, the mean says little about a device whose write times differ by a factor of a thousand.
const REQUESTS_MIN: u64 = 20;

fn warnings(benchmark: &Benchmark, effort: &Effort) -> Vec<String> {
    let mut warnings = Vec::new();
    let names = |which: &dyn Fn(&TestResult) -> bool| {
        let names: Vec<&str> = benchmark
            .tests
            .iter()
            .filter(|result| which(result))
            .map(|result| result.test.name.as_str())
            .collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    if let Some(names) = names(&|result| result.runs.iter().any(|run| run.outlier)) {
        warnings.push(format!(
            "Single runs stand apart in {names}: something else used the device, or it cleaned up. Close what writes \
             (bare `fonio` shows it) and repeat with --runs {}.",
            effort.runs_max * 2
        ));
    }
    if effort.runs_max > 1
        && let Some(names) = names(&|result| {
            repeats(&result.test, 2) > 1 && !result.stable && result.test.set != Set::ConcurrencyParameters
        })
    {
        warnings.push(format!(
            "After {} runs the mean is not known to {} % in {names}. Repeat with --runs {}.",
            effort.runs_max,
            effort.error_max * 100.0,
            effort.runs_max * 2
        ));
    }
    if effort.runs_max == 1 {
        warnings
            .push("Each test ran once, so nothing is known of its spread. For that: --runs 10.".to_owned());
    }
    if let Some(names) = names(&|result| result.runs.iter().any(|run| run.requests < REQUESTS_MIN)) {
        warnings.push(format!(
            "Fewer than {REQUESTS_MIN} requests were done in the time in {names}. Repeat with --run-time {}s.",
            effort.run_time_max.as_secs() * 4
        ));
    }
    if let Some(rounds) = benchmark.of(Set::ConcurrencyParameters).map(|result| result.runs.len()).min()
        && (rounds as u32) < effort.runs_min
    {
        warnings.push(format!(
            "The time ended after {rounds} of at least {} rounds. Repeat with --for {}min.",
            effort.runs_min,
            effort.time_max.as_secs().div_ceil(60) * 2
        ));
    }
    let uncertain: Vec<String> = benchmark
        .concurrency
        .iter()
        .filter_map(|found| {
            let high = found.requests_high.filter(|high| *high > found.requests)?;
            Some(format!("{} {} to {high}", found.access.name(), found.requests))
        })
        .collect();
    if !uncertain.is_empty() {
        warnings.push(format!(
            "The runs differ too much to tell numbers of requests apart: {}. Repeat with --runs {} on an idle device.",
            uncertain.join(", "),
            effort.runs_max * 2
        ));
    }
    warnings
}
