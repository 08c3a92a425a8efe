//! Parameters of models whose parallelism is known.

use expect_test::{Expect, expect};
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

/// A device that does everything one after the other.
fn serial() -> Profile {
    shipped("transcend")
}

/// The S5 without its limits of streams. Each request occupies the controller for some time, and then takes
/// `factor` - 1 times as long without it. So `factor` requests at once keep the controller busy, and more do
/// not help.
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
    // 80 µs and the transfer of 4 KiB with 200 MB/s.
    let busy = 80_000 + 20_480;
    set("interface.read_latency", busy * (factor - 1));
    set("interface.write_latency", busy * (factor - 1));
    set("interface.read_streams", 64);
    set("interface.write_streams", 64);
    profile
}

#[test]
fn a_device_that_does_one_thing_at_a_time_needs_one_request() {
    let benchmark = measured(&serial(), 2);
    assert_eq!(numbers(&benchmark), [(1, Some(1)); 4], "{}", benchmark.verdict);
    assert!(benchmark.verdict.starts_with("One request at a time is enough"), "{}", benchmark.verdict);
}

#[test]
fn the_known_number_of_overlapping_requests_is_found() {
    for factor in [1, 2, 4, 8, 16] {
        let benchmark = measured(&overlapping(u64::from(factor)), 2);
        assert_eq!(numbers(&benchmark), [(factor, Some(factor)); 4], "{}", benchmark.verdict);
    }
}

fn check(profile: &str, expected: Expect) {
    let benchmark = measured(&shipped(profile), 2);
    let mut shown = format!("{}\n", benchmark.verdict);
    for found in &benchmark.concurrency {
        let Parameter { access, requests, requests_high, mb_s, one_mb_s, .. } = found;
        shown +=
            &format!("{}: {requests} to {requests_high:?}, {mb_s:.2} MB/s of {one_mb_s:.2}\n", access.name());
    }
    expected.assert_eq(&shown);
}

/// The model has the speedups of the study's figure (1.45, 1.29, 1.55 and 1.41), all of them from two requests on. The study
/// names 2, 4, 4 and 2 processes as the best; it does not name the smallest within 2 %.
#[test]
fn the_phone_of_the_study() {
    check(
        "samsung_s5",
        expect![[r#"
        Throughput grows up to 2 sequential reads, 2 sequential writes, 2 random reads and 2 random writes at once. Random reads gain most: 1.55 times the throughput of one at a time.
        seq_read: 2 to Some(2), 82.45 MB/s of 56.88
        seq_write: 2 to Some(2), 27.81 MB/s of 21.56
        rand_read: 2 to Some(2), 33.95 MB/s of 21.91
        rand_write: 2 to Some(2), 14.09 MB/s of 9.99
    "#]],
    );
}

#[test]
fn an_emmc_whose_controller_is_soon_busy() {
    check(
        "emmc51",
        expect![[r#"
        Throughput grows up to 2 sequential reads, 2 sequential writes, 2 random reads and 2 random writes at once. Random reads gain most: 1.95 times the throughput of one at a time.
        seq_read: 2 to Some(2), 45.05 MB/s of 38.17
        seq_write: 2 to Some(2), 53.25 MB/s of 46.99
        rand_read: 2 to Some(2), 45.00 MB/s of 23.09
        rand_write: 2 to Some(2), 53.25 MB/s of 46.99
    "#]],
    );
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
