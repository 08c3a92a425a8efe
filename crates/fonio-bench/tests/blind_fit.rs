//! Fits a profile to an unknown device, and checks that the profile predicts held-back tests of this device.
//! The device is a shipped profile in virtual time; the fit only sees its benchmark.

use fonio_bench::fit::Fitted;
use fonio_bench::plan::{self, Scope, Set};
use fonio_bench::{fit, model};
use fonio_core::ByteCount;
use fonio_sim::profile::{Profile, Source};

const CAPACITY: ByteCount = ByteCount(2 << 30);

/// Maximum relative error of a held-back test.
const ERROR_MAX: f64 = 0.15;

/// Maximum relative error of a test that the profile was fitted to, as `fonio device fit` checks it.
const USED_ERROR_MAX: f64 = 0.2;

/// Maximum relative error of a held-back test with two processes, if the device programs several dies at the same time. The
/// fit uses tests with one process, which do not show the number of dies.
const ERROR_MAX_OF_TWO: f64 = 0.2;

fn check(hidden: &str, layer: &str) {
    let fitted = check_device(hidden, Profile::shipped(hidden).expect("a shipped profile"), layer);
    for prediction in &fitted.used {
        assert!(prediction.error().abs() <= USED_ERROR_MAX, "{hidden}: {prediction:?}");
    }
}

fn check_device(hidden: &str, device: Profile, layer: &str) -> Fitted {
    let scope =
        |sets: &[Set]| Scope { range_max: ByteCount(256 << 20), ..Scope::of(sets, ByteCount(128 << 20)) };
    let seen = plan::tests(&scope(&[Set::Four, Set::Response, Set::AddressRange, Set::Fit]));
    let seen = model::benchmark(&device, CAPACITY, &seen, 2, 11).expect("the hidden device runs");
    let fitted = fit::fit(&seen, "fitted", 3, |_| {}).expect("it can be fitted");
    assert_eq!(fitted.profile.word("ftl.kind"), Some(layer), "{hidden}");
    let overlaps = |profile: &Profile| profile.word("interface.programs_while_receiving").map(str::to_owned);
    assert_eq!(overlaps(&fitted.profile), overlaps(&device), "{hidden}");

    let again =
        Profile::parse("again", &fitted.profile.to_toml()).expect("a written profile can be parsed again");
    let held_back = plan::tests(&scope(&[Set::HeldBack]));
    let held_back = model::benchmark(&device, CAPACITY, &held_back, 1, 77).expect("the hidden device runs");
    let predictions = fit::predict(&again, &held_back).expect("the profile describes a device");
    assert_eq!(predictions.len(), held_back.tests.len());
    for prediction in &predictions {
        eprintln!("{hidden}: {prediction:?}, {:+.1} %", 100.0 * prediction.error());
    }
    for prediction in predictions {
        let is_of_two = prediction.test.contains("_beside_") && device.number("flash.channels") > Some(1);
        let error_max = if is_of_two { ERROR_MAX_OF_TWO } else { ERROR_MAX };
        assert!(prediction.error().abs() <= error_max, "{hidden}: {prediction:?}");
    }
    assert!(!fitted.intervals.is_empty());
    fitted
}

#[test]
fn kingston() {
    check("kingston", "bast");
}

#[test]
fn ridata() {
    check("ridata", "fast");
}

#[test]
fn transcend() {
    check("transcend", "page_map");
}

#[test]
fn sandisk() {
    check("sandisk", "page_map");
}

/// An eMMC that programs its write buffer while it receives the next data, and that reads ahead.
#[test]
fn galaxy_s3_emmc() {
    check("galaxy_s3_emmc", "page_map");
}

/// Uses times, erase blocks and log blocks that are not among the candidates of the fit.
#[test]
fn a_device_between_the_candidates() {
    let mut device = Profile::shipped("kingston").expect("a shipped profile");
    for (key, number) in [
        ("flash.pages_per_block", 96),
        ("ftl.log_blocks", 3),
        ("flash.t_program", 1_234_567),
        ("flash.t_erase", 4_100_000),
        ("interface.write_command", 377_000),
        ("interface.random_read", 650_000),
    ] {
        device.set(key, number, Source::Assumed, "").expect("the key exists, and the number is in its range");
    }
    check_device("between", device, "bast");
}
