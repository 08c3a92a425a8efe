//! `fonio run` and `fonio fix` on real and emulated places.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::path::Path;
use std::process::Output;

use assert_cmd::cargo::cargo_bin_cmd;

fn fonio(arguments: &[&str]) -> Output {
    cargo_bin_cmd!("fonio").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Emulated devices and recording need root, FUSE and loop devices.
fn can_emulate() -> bool {
    let root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let can = root && Path::new("/dev/fuse").exists() && Path::new("/dev/loop-control").exists();
    if !can {
        eprintln!("skipped: running on an emulated device needs root, /dev/fuse and /dev/loop-control");
    }
    can
}

/// Other tests emulate devices too: what is left of this run is what names its process.
fn left_behind(dir: &Path) -> Vec<String> {
    fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("fonio-run-"))
        .collect()
}

#[test]
fn lists_name_what_there_is() {
    assert!(text(&fonio(&["run"]).stdout).contains("webbench"));
    let fixes = text(&fonio(&["fix"]).stdout);
    assert!(fixes.contains("wal-normal") && fixes.contains("never the database"), "{fixes}");
    let safe = text(&fonio(&["fix", "--safe"]).stdout);
    assert!(!safe.contains("db-in-ram"), "{safe}");
}

#[test]
fn what_does_not_exist_is_named() {
    for (arguments, says) in [
        (&["run", "no-such-app"][..], "no-such-app"),
        (&["run", "webbench", "--fix", "magic"], "there is no fix \"magic\"; there are wal-normal"),
        (&["run", "webbench", "--on", "no-such-card"], "no-such-card is no folder and no block device"),
        (&["run", "webbench", "--on", ".", "--scheduler", "bfq"], "a folder has its own file system"),
        (&["run", "webbench", "--on", ".", "--scale", "0"], "scale"),
    ] {
        let out = fonio(arguments);
        assert_eq!(out.status.code(), Some(2), "{arguments:?}");
        assert!(text(&out.stderr).contains(says), "{arguments:?}: {}", text(&out.stderr));
    }
}

#[test]
fn a_workload_on_an_emulated_card_with_and_without_a_fix() {
    if !can_emulate() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("runs");
    let run = fonio(&[
        "run",
        "webbench",
        "--on",
        "sd_a2",
        "--size",
        "256MiB",
        "--scale",
        "0.02",
        "--repeat",
        "2",
        "--fix",
        "wal-normal,db-in-ram",
        "--json",
        "-o",
        out.to_str().unwrap(),
    ]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let series: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let variations = series["variations"].as_array().unwrap();
    let names: Vec<&str> = variations.iter().map(|variation| variation["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["sd_a2", "sd_a2, wal-normal", "sd_a2, db-in-ram"]);
    let requests = |at: usize| variations[at]["runs"][0]["requests"].as_u64().unwrap();
    assert!(requests(0) > requests(1), "a write-ahead log writes less often");
    assert!(requests(1) > requests(2), "and memory not at all");
    for variation in variations {
        for run in variation["runs"].as_array().unwrap() {
            let recording = run["recording"].as_str().unwrap();
            let report = fonio(&["report", recording, "--json"]);
            assert!(report.status.success(), "{}", text(&report.stderr));
        }
    }
    // The phases of the workload stand in the recording.
    let marks = fs::metadata(out.join("sd_a2-1/marks.parquet")).unwrap();
    assert!(marks.len() > 0);
}

#[test]
fn a_run_in_a_folder_leaves_nothing_there() {
    if !can_emulate() {
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (place, out) = (dir.path().join("place"), dir.path().join("runs"));
    fs::create_dir(&place).unwrap();
    let run = fonio(&[
        "run",
        "webbench",
        "--on",
        place.to_str().unwrap(),
        "--scale",
        "0.02",
        "--repeat",
        "1",
        "-o",
        out.to_str().unwrap(),
    ]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert!(text(&run.stdout).starts_with("webbench on "), "{}", text(&run.stdout));
    assert!(left_behind(&place).is_empty());
    assert!(out.join("summary.json").exists());
}
