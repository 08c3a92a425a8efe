//! Runs `fonio bench` and `fonio device fit`.

use std::fs;

use fonio_testing::skip_without;

use super::{answer, fonio, text};

#[test]
fn a_dry_run_says_the_bytes_and_writes_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().to_str().expect("its name is text");
    let words = ["--set", "four", "--range", "8MiB", "--runs", "2", "--dry-run", "--json"];
    let said = fonio(&[&["bench", "device", at][..], &words].concat());
    let volume = answer(&said);
    // The test file is written completely once. Then each of two runs writes 8 MiB sequentially, and prepares
    // 16 MiB before its 2048 random writes of 4 KiB.
    assert_eq!(volume["writes_max_bytes"], (8 + 2 * (8 + 16 + 8)) << 20);
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0);
}

#[test]
fn what_cannot_be_measured_is_said() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let at = file.path().to_str().expect("its name is text");
    let said = fonio(&["bench", "device", at]);
    assert_eq!(said.status.code(), Some(2));
    assert!(text(&said.stderr).contains("neither a directory nor a block device"), "{said:?}");
    let said = fonio(&["bench", "device", "/tmp", "--set", "all"]);
    assert_eq!(said.status.code(), Some(2));
    assert!(text(&said.stderr).contains("address-range"), "{said:?}");
}

#[test]
fn concurrency_says_the_bytes_of_its_rounds() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().to_str().expect("its name is text");
    let said = fonio(&["bench", "concurrency", at, "--range", "4MiB", "--runs", "2", "--dry-run", "--json"]);
    let volume = answer(&said);
    // The address range is written once, and then in each round before each of the two kinds of writes. For
    // each of ten process counts, the processes issue up to 16,384 requests of 4 KiB; 3, 6, 12 and 24
    // processes cannot share this number evenly.
    let requests = [16384, 16384, 16383, 16384, 16380, 16384, 16380, 16384, 16368, 16384].iter().sum::<u64>();
    assert_eq!(volume["writes_max_bytes"], (4 << 20) + 2 * 2 * ((4 << 20) + requests * 4096));
    assert_eq!(volume["extent_bytes"], 4 << 20);
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0);
}

#[test]
fn concurrency_is_not_measured_where_nothing_could_follow_from_it() {
    let shm = fs::read_to_string("/proc/self/mounts").is_ok_and(|text| text.contains(" /dev/shm tmpfs "));
    for (arguments, says) in [
        (&[".", "--range", "1MiB"][..], "give at least 4MiB"),
        (&["ridata", "--apply"], "an emulated device, which is gone after the benchmark"),
        (&["ridata", "--apply", "--in", "lab:6.12"], "an emulated device, which is gone after the benchmark"),
        (&[".", "--apply", "--quick"], "leave out --quick"),
        (&[".", "--apply", "--runs", "1"], "give --runs 2 or more"),
        (&["/proc", "--apply", "--dry-run"], "name a device, or a folder on one"),
        (&["/dev/shm"], "is in memory (tmpfs), so it has no device to measure"),
    ] {
        if arguments == ["/dev/shm"] && !shm {
            continue;
        }
        let said = fonio(&[&["bench", "concurrency"][..], arguments].concat());
        assert_eq!(said.status.code(), Some(2), "{arguments:?}");
        assert!(text(&said.stderr).contains(says), "{arguments:?}: {}", text(&said.stderr));
    }
}

#[test]
fn a_fit_needs_a_benchmark() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.json");
    fs::write(&file, "{}").expect("it is written");
    let said = fonio(&["device", "fit", file.to_str().expect("its name is text")]);
    assert_eq!(said.status.code(), Some(2));
    assert!(text(&said.stderr).contains("fonio bench device -o"), "{said:?}");
}

/// The measurement is in real time, so a busy machine can disturb it. Then, the result says so and names the tests. Fits
/// without disturbances are tested in virtual time (crates/fonio-bench/tests/blind_fit.rs).
#[test]
fn an_emulated_emmc_is_fitted_or_the_tests_that_it_misses_are_named() {
    skip_without!(Root, Fuse, Loop, Fio);
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("card.toml");
    let to = profile.to_str().expect("its name is text");
    let words = [
        "device",
        "fit",
        "galaxy_s3_emmc",
        "--size",
        "1GiB",
        "--quick",
        "--run-time",
        "200ms",
        "--range",
        "16MiB",
        "--range-max",
        "16MiB",
    ];
    let said = fonio(&[&words[..], &["--resamples", "0", "--json", "-o", to]].concat());
    let found: serde_json::Value =
        serde_json::from_str(&text(&said.stdout)).unwrap_or_else(|_| panic!("{said:?}"));
    let used = found["used"].as_array().expect("a list");
    let missed = |test: &&serde_json::Value| {
        let mb_s = |what: &str| test[what].as_f64().expect("a rate");
        (mb_s("predicted_mb_s") / mb_s("measured_mb_s") - 1.0).abs() > 0.2
    };
    let missed: Vec<_> = used.iter().filter(missed).collect();
    assert_eq!(found["fits"], missed.is_empty(), "{missed:?}");
    assert_eq!(said.status.code(), Some(if missed.is_empty() { 0 } else { 3 }), "{said:?}");
    let shown = fonio(&["device", "show", to]);
    assert_eq!(shown.status.code(), Some(0), "the profile can be read: {shown:?}");
}

#[test]
fn layers_are_compared_with_the_layer_below_and_leave_nothing() {
    skip_without!(Root, Fuse, Disk);
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder on a disk");
    let at = folder.path().to_str().expect("its name is text");
    let said = fonio(&["bench", "layers", at, "--range", "1MiB", "--runs", "3", "--json"]);
    let found = answer(&said);
    let layers = found["layers"].as_array().expect("a list");
    let named = |name: &str| layers.iter().find(|layer| layer["name"] == name).expect("the layer is listed");
    let filesystem = found["place"]["file_system"].as_str().expect("a disk has a file system");
    let stock = named("FUSE, mode=stock");
    assert_eq!(stock["compared_with"], filesystem);
    for layer in [named(filesystem), stock] {
        assert!(layer["write_mb_s"].as_f64().is_some_and(|rate| rate > 0.0), "{layer}");
        assert!(layer["read_mb_s"].as_f64().is_some_and(|rate| rate > 0.0), "{layer}");
    }
    let change = &stock["write_change"];
    assert!(change["low"].as_f64() < change["ratio"].as_f64() && change["confidence"].as_f64() >= Some(0.95));
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0);
    let mounts = fs::read_to_string("/proc/self/mounts").expect("the kernel lists mounts");
    assert!(!mounts.contains(at), "{mounts}");
}
