//! Runs fio for short tests in a temporary directory.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fonio_bench::fio::Fio;
use fonio_bench::plan::{self, Scope, Set};
use fonio_bench::result::Benchmark;
use fonio_bench::run::{Effort, run};
use fonio_bench::target::Target;
use fonio_bench::{BenchError, concurrency};
use fonio_core::{Access, ByteCount};
use fonio_testing::{Need, has, skip};

const MIB: u64 = 1 << 20;

#[track_caller]
fn fio_and_folder() -> Option<(Fio, tempfile::TempDir, Target)> {
    if !has(&[Need::Fio]) {
        return None;
    }
    let fio = Fio::find().expect("it is installed");
    let folder = tempfile::tempdir().expect("a temporary folder");
    match Target::open(folder.path(), None) {
        Ok(target) => Some((fio, folder, target)),
        Err(error @ BenchError::NoDirectIo { .. }) => {
            skip(Need::DirectIo, error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn tests(sets: &[Set]) -> Vec<plan::Test> {
    plan::tests(&Scope {
        sets: sets.to_vec(),
        size: ByteCount(4 * MIB),
        range_max: ByteCount(2 * MIB),
        sustained: ByteCount(8 * MIB),
        room: ByteCount(64 * MIB),
    })
}

#[test]
fn every_set_runs_and_nothing_is_left() {
    let Some((fio, folder, target)) = fio_and_folder() else { return };
    let sets: Vec<Set> = Set::ALL.into_iter().map(|(set, _)| set).collect();
    let mut tests = tests(&sets);
    // Runs the first test of each set, and the tests with several processes. All other tests differ from the
    // tests run here only in sizes and counts.
    let mut seen = Vec::new();
    tests.retain(|test| {
        let first = !seen.contains(&test.set);
        seen.push(test.set);
        first
            || test.beside.is_some()
            || (test.access == Access::RandWrite && test.set == Set::Four)
            || test.processes == 4
    });
    let effort = Effort { run_time_max: Duration::from_millis(300), ..Effort::QUICK };
    let benchmark =
        run(&fio, &target, &tests, &effort, &AtomicBool::new(false), |_, _| {}).expect("fio runs");
    drop(target);
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0);
    assert_eq!(benchmark.tests.len(), tests.len(), "{:?}", benchmark.warnings);
    for result in &benchmark.tests {
        assert!(result.mb_s > 0.0 && result.runs[0].requests > 0, "{}", result.test.name);
        let most = result.test.requests * u64::from(result.test.processes);
        assert!(result.runs[0].requests <= most, "{}", result.test.name);
    }
    assert!(benchmark.find(Set::Four, Access::RandWrite).is_some() && !benchmark.verdict.is_empty());
    let json = serde_json::to_string(&benchmark).expect("it can be written");
    let again: Benchmark = serde_json::from_str(&json).expect("it can be read");
    assert_eq!(again.tests.len(), benchmark.tests.len());
}

#[test]
fn every_number_of_requests_is_measured_in_every_round() {
    let Some((fio, folder, target)) = fio_and_folder() else { return };
    let tests = concurrency::tests(&[1, 3, 32], 4 * MIB);
    let effort =
        Effort { runs_min: 2, runs_max: 2, run_time_max: Duration::from_millis(100), ..Effort::ROUNDS };
    let benchmark =
        run(&fio, &target, &tests, &effort, &AtomicBool::new(false), |_, _| {}).expect("fio runs");
    drop(target);
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0);
    assert_eq!(benchmark.tests.len(), 12);
    for result in &benchmark.tests {
        assert!(result.runs.len() == 2 && result.mb_s > 0.0, "{}", result.test.name);
    }
    assert_eq!(benchmark.concurrency.len(), 4);
    for found in &benchmark.concurrency {
        assert!(found.requests_high >= Some(found.requests) && found.measured_max == 32, "{found:?}");
    }
    assert!(
        benchmark.written_bytes >= 4 * 4 * MIB,
        "the range is not rewritten before each write test of each round"
    );
}

#[test]
fn by_turns_every_test_runs_once_before_any_runs_again() {
    let Some((fio, folder, target)) = fio_and_folder() else { return };
    let tests = tests(&[Set::Four]);
    let effort = Effort {
        runs_min: 2,
        runs_max: 2,
        run_time_max: Duration::from_millis(100),
        by_turns: true,
        ..Effort::FULL
    };
    let mut order = Vec::new();
    let benchmark = run(&fio, &target, &tests, &effort, &AtomicBool::new(false), |name, number| {
        order.push((number, name.to_owned()));
    })
    .expect("fio runs");
    drop((target, folder));
    let expected =
        [1, 2].into_iter().flat_map(|turn| tests.iter().map(move |test| (turn, test.name.clone())));
    assert!(order.into_iter().eq(expected));
    assert!(benchmark.tests.len() == 4 && benchmark.tests.iter().all(|result| result.runs.len() == 2));
}

#[test]
fn a_stop_ends_it_and_leaves_nothing() {
    let Some((fio, folder, target)) = fio_and_folder() else { return };
    let stopped = run(&fio, &target, &tests(&[Set::Four]), &Effort::QUICK, &AtomicBool::new(true), |_, _| {});
    assert!(matches!(stopped, Err(BenchError::Interrupted)), "{stopped:?}");
    drop(target);
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0);
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_written() {
    let Some((fio, folder, target)) = fio_and_folder() else { return };
    let mut tests = tests(&[Set::Four]);
    tests[0].range_bytes = u64::MAX / 4;
    let refused = run(&fio, &target, &tests, &Effort::QUICK, &AtomicBool::new(false), |_, _| {});
    assert!(matches!(refused, Err(BenchError::NoRoom { .. })), "{refused:?}");
    drop((target, folder));
}
