//! Measures tests in rounds, in which each test runs once.

use fonio_core::Random;
use fonio_core::statistics::sample::is_known;

use super::{are_known, order};
use crate::error::BenchError;
use crate::result::{Run, TestResult};
use crate::session::{Effort, Session};
use crate::test::Test;

/// Runs every test once per round, until the parameters are stable. Before each run, calls `progress` with
/// the test's name and the round's number. A round that exceeds the time limit is discarded, so all tests
/// have the same number of runs. Fails with [`BenchError::TimeOver`] if the time limit was reached before the
/// first round was complete, or with an error of the session.
pub(crate) fn measure(
    session: &mut Session<'_>,
    tests: &[Test],
    progress: &mut impl FnMut(&str, u32),
) -> Result<Vec<TestResult>, BenchError> {
    let Effort { runs_min, runs_max, error_max, seed, .. } = *session.effort;
    let mut random = Random::labelled(seed, "order of the rounds");
    let mut runs: Vec<Vec<Run>> = vec![Vec::new(); tests.len()];
    for number in 1..=runs_max {
        let measured =
            match round(session, tests, &order(tests, &mut random), &mut |name| progress(name, number)) {
                Err(BenchError::TimeOver) if number > 1 => break,
                measured => measured?,
            };
        for (of_test, run) in runs.iter_mut().zip(measured) {
            of_test.push(run);
        }
        if number >= runs_min && are_known(tests, &runs) {
            break;
        }
    }
    let result = |(test, runs): (&Test, Vec<Run>)| {
        let rates: Vec<f64> = runs.iter().map(Run::mb_s).collect();
        TestResult::new(test.clone(), runs, is_known(&rates, error_max))
    };
    Ok(tests.iter().zip(runs).map(result).collect())
}

/// Runs every test once. Returns one run per test, in the order of `tests`.
fn round(
    session: &mut Session<'_>,
    tests: &[Test],
    order: &[usize],
    progress: &mut impl FnMut(&str),
) -> Result<Vec<Run>, BenchError> {
    let mut measured = Vec::new();
    let mut before = None;
    for place in order {
        let test = &tests[*place];
        progress(&test.name);
        if before != Some(test.access) {
            session.prepare_kind(test)?;
        }
        before = Some(test.access);
        measured.push((*place, session.measure(test)?));
    }
    measured.sort_by_key(|(place, _)| *place);
    Ok(measured.into_iter().map(|(_, run)| run).collect())
}
