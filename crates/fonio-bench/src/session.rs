//! Measures a target: prepares and runs individual tests, and repeats them until they are stable.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fonio_core::statistics::sample::is_known;

use crate::error::BenchError;
use crate::fio::{Fio, Limit};
use crate::plan::repeats;
use crate::result::{Run, TestResult};
use crate::target::Target;
use crate::test::{Set, Test};

/// Limits on how often and how long tests are repeated.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Minimum number of runs of each test.
    pub runs_min: u32,
    /// Maximum number of runs of each test.
    pub runs_max: u32,
    /// A test is stable when the standard error of the mean is at most this share of the mean.
    pub error_max: f64,
    /// Maximum duration of a run, not including its preparation.
    pub run_time_max: Duration,
    /// Maximum duration of a sustained write.
    pub sustained_time_max: Duration,
    /// Time since the start of the benchmark after which no further run starts.
    pub time_max: Duration,
    /// Seed of the random addresses; each run derives its own seed.
    pub seed: u64,
    /// Whether all tests run once before any test runs again, so each test has a result even in a short time.
    /// If false, all runs of a test are completed before the next test starts.
    pub by_turns: bool,
}

impl Effort {
    /// Repeats each test until its mean is precise enough.
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

    /// The effort for the concurrency parameters: many short runs in rounds, because numbers of requests are
    /// compared within rounds.
    pub const ROUNDS: Effort =
        Effort { runs_min: 5, run_time_max: Duration::from_millis(500), ..Effort::FULL };

    /// Runs each test of a round once, for a shorter time than [`Effort::QUICK`].
    pub const QUICK_ROUND: Effort = Effort { run_time_max: Duration::from_millis(500), ..Effort::QUICK };
}

/// Pause after a preparation; the simulator uses the same pause.
const REST: Duration = Duration::from_secs(1);

pub(crate) struct Session<'a> {
    pub fio: &'a Fio,
    pub target: &'a Target,
    pub effort: &'a Effort,
    pub stop: &'a AtomicBool,
    pub until: Instant,
    /// Number of bytes at the beginning of the target that are already written, and so can be read.
    pub laid_out: u64,
    pub written: u64,
    pub seed: u64,
}

impl Session<'_> {
    /// Measures all tests in rounds. The result of a test is `None` if the time limit was reached before its
    /// first run.
    pub(crate) fn by_turns(
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

    fn prepare(&mut self, test: &Test) -> Result<(), BenchError> {
        let bytes = test.prepare_bytes;
        if bytes == 0 || (!test.is_prepared_each_time() && bytes <= self.laid_out) {
            return Ok(());
        }
        self.write_in_order(bytes)
    }

    /// Runs the preparation shared by all tests of one kind of I/O. Before write tests, the preparation
    /// writes the range; before read tests, it waits until the device has finished earlier writes.
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
        // A run that has started may use its full time; this time limit ends the run only if the device does
        // not respond.
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
