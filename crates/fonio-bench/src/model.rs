//! Runs benchmark tests on a device model, in virtual time.

use fonio_core::{Access, ByteCount, Timestamp};
use fonio_sim::device::Device;
use fonio_sim::measure::{Gives, Job, Measured, Protocol, run, write_in_order};
use fonio_sim::profile::{Profile, ProfileError};

use crate::plan::Test;
use crate::result::{Benchmark, Run, TestResult};
use crate::verdict;

/// Number of requests that a concurrent process issues for each request of the measured process. The number
/// is large, so the concurrent process runs longer than the measured process.
const BESIDE_FACTOR: u64 = 64;

/// Runs `test` on a new model device with `requests` requests per process. Panics if the test needs more
/// space than the model device has.
pub fn measure(device: &mut dyn Device, test: &Test, requests: u64, seed: u64) -> Run {
    let now = write_in_order(device, ByteCount(test.prepare_bytes), Timestamp(0));
    let mut jobs: Vec<Job> =
        (0..u64::from(test.processes)).map(|index| job(test, test.access, index, requests)).collect();
    let own = jobs.len();
    if let Some(other) = test.beside {
        let others = own as u64..2 * own as u64;
        jobs.extend(others.map(|index| job(test, other, index, requests * BESIDE_FACTOR)));
    }
    let (measured, _) = run(device, &jobs, now, seed);
    as_run(&measured[..own])
}

fn job(test: &Test, access: Access, index: u64, count: u64) -> Job {
    Job {
        op: access.op(),
        order: access.into(),
        start: ByteCount(index * test.range_bytes),
        range: ByteCount(test.range_bytes),
        request: ByteCount(test.request_bytes),
        count,
        depth: 1,
    }
}

fn as_run(measured: &[Measured]) -> Run {
    let made: u64 = measured.iter().map(|one| one.requests).sum();
    let response: u64 = measured.iter().map(|one| one.response_sum.0).sum();
    Run {
        requests: made,
        bytes: measured.iter().map(|one| one.bytes.0).sum(),
        span_ns: measured.iter().map(|one| one.span.0).max().unwrap_or(0).max(1),
        response_mean_ns: response / made.max(1),
        response_max_ns: measured.iter().map(|one| one.response_max.0).max().unwrap_or(0),
        ..Run::default()
    }
}

/// Runs `test` on a model device that has already been written. Random writes leave log blocks and stale
/// pages behind. So a random-write test runs twice at full length, and only the second run is measured. A
/// measurement on a real device starts anywhere between two merges; its result is close to the mean over many
/// merges.
pub fn measure_used(device: &mut dyn Device, test: &Test, requests: u64, seed: u64) -> Run {
    if test.access != Access::RandWrite || test.processes > 1 || test.beside.is_some() {
        return measure(device, test, requests, seed);
    }
    let now = write_in_order(device, ByteCount(test.prepare_bytes), Timestamp(0));
    let job = job(test, test.access, 0, test.requests);
    let (_, now) = run(device, &[job], now, !seed);
    let (measured, _) = run(device, &[job], now, seed);
    as_run(&measured)
}

/// Runs each of `tests` on devices of `profile`, `runs` times with different seeds.
pub fn benchmark(
    profile: &Profile,
    capacity: ByteCount,
    tests: &[Test],
    runs: u32,
    seed: u64,
) -> Result<Benchmark, ProfileError> {
    let mut results = Vec::new();
    let mut written_bytes = 0;
    for test in tests {
        let mut measured = Vec::new();
        for run in 0..u64::from(runs) {
            let mut device = profile.device(Some(capacity), seed + run)?;
            measured.push(measure(device.as_mut(), test, test.requests, seed + run));
            written_bytes += device.counters().host_written.0;
        }
        results.push(TestResult::new(test.clone(), measured, true));
    }
    Ok(verdict::judged(Benchmark {
        tool: format!("model {}", profile.name()),
        seed,
        capacity_bytes: capacity.0,
        written_bytes,
        tests: results,
        ..Benchmark::default()
    }))
}

/// Returns the simulator's experiment for this test with the given number of requests. `None` for tests with
/// several processes or two concurrent access patterns, because the simulator measures such tests
/// differently.
pub fn protocol(test: &Test, requests: u64) -> Option<Protocol> {
    let alone = test.processes == 1 && test.beside.is_none();
    alone.then(|| Protocol {
        op: test.access.op(),
        order: test.access.into(),
        request: ByteCount(test.request_bytes),
        range: ByteCount(test.range_bytes),
        count: requests,
        depth: 1,
        prepare: ByteCount(test.prepare_bytes),
        gives: Gives::Response,
    })
}
