//! Measures the concurrency parameters of a device (Nguyen et al. 2015, sections 4.5 and 5): for sequential
//! and random reads and writes, the number of concurrent requests beyond which throughput no longer grows.
//!
//! Each test runs one or more processes, each with one request in flight. The study gives every process its
//! own 32 MB, so a test with more processes covers a larger range. On some devices, the larger range alone
//! lowers the throughput. Here all processes of a test share one range in equal parts.
//!
//! In every round, each test runs once. The kinds of I/O, and the numbers of processes within a kind, are in
//! random order. So if the device slows down or heats up, no number of processes is favoured. [`growth`]
//! computes the parameters from the results of the rounds.

pub mod growth;
pub mod limits;
pub(crate) mod rounds;

use fonio_core::{Access, Random};

use self::growth::Enough;
use crate::result::{Benchmark, Parameter, Run, TestResult};
use crate::test::{Set, Test};

/// The numbers of concurrent requests that are measured. The study uses 1, 2, 4, … 32 processes; we added
/// numbers between these.
pub const AT_ONCE: [u32; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];

/// The numbers of concurrent requests of a quick measurement, as in the study.
pub const AT_ONCE_QUICK: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// The smallest range of a test: 128 KiB for each of 32 processes.
pub const RANGE_MIN: u64 = 4 << 20;

/// Maximum number of requests of a run, over all processes. Only fast devices reach this number before the
/// time limit of a run.
const REQUESTS: u64 = 16_384;

/// Size of a request, as in the study.
const REQUEST_BYTES: u64 = 4096;

/// Returns the tests with these numbers of processes; all processes of a test share `range` bytes.
pub fn tests(at_once: &[u32], range: u64) -> Vec<Test> {
    let kinds = Access::ALL.into_iter();
    kinds.flat_map(|access| at_once.iter().map(move |at_once| test(access, *at_once, range))).collect()
}

fn test(access: Access, processes: u32, range: u64) -> Test {
    let count = u64::from(processes);
    Test {
        name: format!("{}_4k_by_{processes}", access.name()),
        set: Set::ConcurrencyParameters,
        access,
        request_bytes: REQUEST_BYTES,
        range_bytes: range / count / REQUEST_BYTES * REQUEST_BYTES,
        requests: REQUESTS / count,
        processes,
        beside: None,
        prepare_bytes: range,
    }
}

/// Returns the order of the tests in one round: indices of `tests`, grouped by kind of I/O.
pub(crate) fn order(tests: &[Test], random: &mut Random) -> Vec<usize> {
    let mut kinds = Access::ALL;
    random.shuffle(&mut kinds);
    let of_kind = |access: Access| {
        let mut places: Vec<usize> = (0..tests.len()).filter(|at| tests[*at].access == access).collect();
        random.shuffle(&mut places);
        places
    };
    kinds.into_iter().flat_map(of_kind).collect()
}

/// Returns the parameters from the tests of [`Set::ConcurrencyParameters`]; the list is empty if there are no
/// such tests.
pub fn parameters(benchmark: &Benchmark) -> Vec<Parameter> {
    let tests: Vec<&TestResult> = benchmark.of(Set::ConcurrencyParameters).collect();
    Access::ALL.into_iter().filter_map(|access| parameter(access, &tests)).collect()
}

fn parameter(access: Access, tests: &[&TestResult]) -> Option<Parameter> {
    let mut tests: Vec<&&TestResult> = tests.iter().filter(|result| result.test.access == access).collect();
    tests.sort_by_key(|result| result.test.processes);
    let rates: Vec<Vec<f64>> =
        tests.iter().map(|result| result.runs.iter().map(Run::mb_s).collect()).collect();
    let Enough { at, high } = growth::enough(&rates)?;
    let at_once = |place: usize| tests[place].test.processes;
    Some(Parameter {
        access,
        requests: at_once(at),
        requests_high: high.map(at_once),
        measured_max: at_once(tests.len() - 1),
        mb_s: tests[at].mb_s,
        one_mb_s: tests[0].mb_s,
        speedup: tests[at].mb_s / tests[0].mb_s,
    })
}

/// Whether the parameters are stable, which means that each interval contains only one number of requests.
pub(crate) fn are_known(tests: &[Test], runs: &[Vec<Run>]) -> bool {
    let is_known = |access: Access| {
        let of_kind = tests.iter().zip(runs).filter(|(test, _)| test.access == access);
        let rates: Vec<Vec<f64>> = of_kind.map(|(_, runs)| runs.iter().map(Run::mb_s).collect()).collect();
        growth::enough(&rates).is_none_or(|Enough { at, high }| high == Some(at))
    };
    Access::ALL.into_iter().all(is_known)
}

/// Describes the parameters in a sentence; returns `None` if there are no parameters.
pub(crate) fn sentence(parameters: &[Parameter]) -> Option<String> {
    let best = parameters.iter().max_by(|left, right| left.speedup.total_cmp(&right.speedup))?;
    if parameters.iter().all(|found| found.requests == 1) {
        return Some(format!(
            "One request at a time is enough: more concurrent requests were not shown to raise the throughput of any kind of I/O by more than {TOLERANCE_PERCENT} %."
        ));
    }
    let count = |found: &Parameter| {
        let Parameter { access, requests, measured_max, .. } = found;
        let more = if requests == measured_max { " or more" } else { "" };
        let plural = if *requests == 1 { "" } else { "s" };
        format!("{requests}{more} {}{plural}", access.word())
    };
    let counts: Vec<String> = parameters.iter().map(count).collect();
    let listed = match counts.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => return None,
    };
    Some(format!(
        "Throughput grows up to {listed} at once. {}s gain most: {:.2} times the throughput of one at a time.",
        capitalised(best.access.word()),
        best.speedup
    ))
}

const TOLERANCE_PERCENT: f64 = growth::TOLERANCE * 100.0;

fn capitalised(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests;
