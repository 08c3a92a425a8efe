//! Tests the concurrency parameters of models with known parallelism.

use expect_test::expect;
use fonio_core::ByteCount;
use fonio_sim::profile::{Profile, Source};

use super::*;
use crate::model;

fn measured(profile: &Profile, rounds: u32) -> Benchmark {
    let tests = tests(&AT_ONCE, 32 << 20);
    model::benchmark(profile, ByteCount(1 << 30), &tests, rounds, 1).expect("it runs")
}

fn numbers(benchmark: &Benchmark) -> Vec<(u32, Option<u32>)> {
    benchmark.concurrency.iter().map(|found| (found.requests, found.requests_high)).collect()
}

fn shipped(name: &str) -> Profile {
    Profile::shipped(name).expect("a shipped profile")
}

/// The S5 without its stream limits. Each request occupies the controller for some time, and then takes
/// `factor` - 1 times as long without the controller. So `factor` concurrent requests keep the controller
/// busy, and more requests do not raise the throughput.
fn overlapping(factor: u64) -> Profile {
    let mut profile = shipped("samsung_s5");
    let mut set = |key: &str, number: u64| profile.set(key, number, Source::Assumed, "").expect(key);
    for (key, nanoseconds) in [
        ("interface.read_command", 80_000),
        ("interface.write_command", 80_000),
        ("interface.random_read", 0),
        ("interface.random_write", 0),
        ("interface.random_read_latency", 0),
        ("interface.random_write_latency", 0),
        ("flash.t_read", 0),
        ("flash.t_program", 0),
    ] {
        set(key, nanoseconds);
    }
    // A request takes 80 µs plus the transfer of 4 KiB at 200 MB/s.
    let busy = 80_000 + 20_480;
    set("interface.read_latency", busy * (factor - 1));
    set("interface.write_latency", busy * (factor - 1));
    set("interface.read_streams", 64);
    set("interface.write_streams", 64);
    profile
}

#[test]
fn the_known_number_of_overlapping_requests_is_found() {
    let benchmark = measured(&shipped("transcend"), 2);
    assert_eq!(numbers(&benchmark), [(1, Some(1)); 4], "not one request at a time: {}", benchmark.verdict);
    assert!(benchmark.verdict.starts_with("One request at a time is enough"), "{}", benchmark.verdict);
    for factor in [1, 2, 4, 8, 16] {
        let benchmark = measured(&overlapping(u64::from(factor)), 2);
        assert_eq!(numbers(&benchmark), [(factor, Some(factor)); 4], "{}", benchmark.verdict);
    }
}

/// The phone's model reaches the speedups of the study's figure (1.45, 1.29, 1.55 and 1.41) with two
/// requests. The study states that 2, 4, 4 and 2 processes are best, but it does not state the smallest
/// number within 2 % of the best speedup. Two concurrent requests keep the controller of the eMMC model busy.
#[test]
fn models_have_their_parameters() {
    let mut shown = String::new();
    for profile in ["samsung_s5", "emmc51"] {
        let benchmark = measured(&shipped(profile), 2);
        shown += &format!("{profile}: {}\n", benchmark.verdict);
        for found in &benchmark.concurrency {
            let Parameter { access, requests, requests_high, mb_s, one_mb_s, .. } = found;
            let access = access.name();
            shown += &format!("{access}: {requests} to {requests_high:?}, {mb_s:.2} MB/s of {one_mb_s:.2}\n");
        }
    }
    expect_test::expect_file!["../../tests/golden/parameters.txt"].assert_eq(&shown);
}

#[test]
fn a_round_has_every_test_once_and_kinds_together() {
    let tests = tests(&AT_ONCE, RANGE_MIN);
    let mut random = Random::new(1);
    let (first, second) = (order(&tests, &mut random), order(&tests, &mut random));
    assert_ne!(first, second);
    for order in [first, second] {
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..tests.len()).collect::<Vec<_>>());
        let mut kinds: Vec<Access> = order.iter().map(|at| tests[*at].access).collect();
        kinds.dedup();
        assert_eq!(kinds.len(), 4);
    }
    for test in &tests {
        assert!(test.range_bytes >= REQUEST_BYTES && test.extent_bytes() <= RANGE_MIN, "{test:?}");
    }
}

#[test]
fn the_sentence_names_all_kinds() {
    let found = |access, requests, speedup| Parameter {
        access,
        requests,
        requests_high: Some(requests),
        measured_max: 32,
        mb_s: speedup,
        one_mb_s: 1.0,
        speedup,
    };
    let study = [
        found(Access::SeqRead, 2, 1.45),
        found(Access::SeqWrite, 4, 1.29),
        found(Access::RandRead, 32, 1.55),
        found(Access::RandWrite, 1, 1.0),
    ];
    expect!["Throughput grows up to 2 sequential reads, 4 sequential writes, 32 or more random reads and 1 random write at once. Random reads gain most: 1.55 times the throughput of one at a time."]
        .assert_eq(&sentence(&study).expect("parameters"));
    assert_eq!(sentence(&[]), None);
}
