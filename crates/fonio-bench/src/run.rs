//! Runs a benchmark plan, and creates the document with its results.

use std::sync::atomic::AtomicBool;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::concurrency::rounds;
use crate::error::BenchError;
use crate::fio::Fio;
use crate::plan::repeats;
use crate::result::{Benchmark, TestResult};
pub use crate::session::Effort;
use crate::session::Session;
use crate::target::Target;
use crate::test::{Set, Test};
use crate::verdict;

/// Runs `tests` on `target`. Before each run, calls `progress` with the test's name and the run's number.
/// Fails if fio fails, the target has too little space, or `stop` was set.
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
    } else {
        for tests in tests.chunks(if effort.by_turns { tests.len() } else { 1 }) {
            let measured = session.by_turns(tests, &mut progress).map_err(explain)?;
            for (test, result) in tests.iter().zip(measured) {
                match result {
                    Some(result) => results.push(result),
                    None => left_out.push(test.name.as_str()),
                }
            }
        }
    }
    if results.is_empty() {
        return Err(BenchError::TimeOver);
    }
    let mut benchmark = verdict::judged(Benchmark {
        tool: fio.version.clone(),
        began_unix_s: began,
        seed: effort.seed,
        capacity_bytes: target.place().size_bytes,
        place: Some(target.place().clone()),
        warnings: target.place().warnings(),
        written_bytes: session.written,
        tests: results,
        ..Benchmark::default()
    });
    if !left_out.is_empty() {
        benchmark.warnings.push(format!(
            "The time ended before {}. Repeat with --for {}min.",
            left_out.join(", "),
            effort.time_max.as_secs().div_ceil(60) * 2
        ));
    }
    benchmark.warnings.extend(warnings(&benchmark, effort));
    Ok(benchmark)
}

/// Minimum requests per run: with fewer requests, the mean is unreliable if write times differ by a factor of
/// a thousand.
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
            "Some runs of {names} are outliers: another program may have used the device, or the device may have \
             collected garbage. Close programs that write (`fonio` without arguments lists them), and repeat with \
             --runs {}.",
            effort.runs_max * 2
        ));
    }
    if effort.runs_max > 1
        && let Some(names) = names(&|result| {
            repeats(&result.test, 2) > 1 && !result.stable && result.test.set != Set::ConcurrencyParameters
        })
    {
        warnings.push(format!(
            "After {} runs, the mean is not known to within {} % in {names}. Repeat with --runs {}.",
            effort.runs_max,
            effort.error_max * 100.0,
            effort.runs_max * 2
        ));
    }
    if effort.runs_max == 1 {
        warnings.push(
            "Each test ran once, so its spread is unknown. Repeat with --runs 10 to measure it.".to_owned(),
        );
    }
    if let Some(names) = names(&|result| result.runs.iter().any(|run| run.requests < REQUESTS_MIN)) {
        warnings.push(format!(
            "Fewer than {REQUESTS_MIN} requests were completed in {names}. Repeat with --run-time {}s.",
            effort.run_time_max.as_secs() * 4
        ));
    }
    if let Some(rounds) = benchmark.of(Set::ConcurrencyParameters).map(|result| result.runs.len()).min()
        && (rounds as u32) < effort.runs_min
    {
        warnings.push(format!(
            "The time limit was reached after {rounds} rounds; at least {} are needed. Repeat with --for {}min.",
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
            "The runs differ too much to compare the numbers of concurrent requests: {}. Repeat with --runs {} on an idle device.",
            uncertain.join(", "),
            effort.runs_max * 2
        ));
    }
    warnings
}
