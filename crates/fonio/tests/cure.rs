//! Tests `fonio cure` as a user runs it.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::path::Path;
use std::process::{Command, Output};

use fonio_testing::skip_without;
use serde_json::Value;

fn cure(words: &[&str], state: &Path) -> Output {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("fonio"));
    command.arg("cure").args(words).env("FONIO_LASTING_STATE", state).output().unwrap()
}

/// Writes small pieces and syncs each, on a disk and not in memory.
const SYNCS: &str = "for piece in $(seq 40); do dd if=/dev/zero of=notes bs=4k count=1 seek=$piece conv=notrunc,fsync \
                     2>/dev/null; done";

#[test]
fn a_command_is_recorded_and_explained_and_nothing_is_changed() {
    skip_without!(Root, Tracefs);
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (recording, state) = (dir.path().join("recording"), dir.path().join("state"));
    let line = format!("cd {} && {SYNCS}", dir.path().display());
    let out = cure(
        &["--dry-run", "--json", "--output", recording.to_str().unwrap(), "--", "sh", "-c", &line],
        &state,
    );
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!([Some(0), Some(3)].contains(&out.status.code()), "{errors}");
    let document: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(document["recording"], recording.to_str().unwrap());
    assert!(document["verdict"].as_str().is_some_and(|verdict| !verdict.is_empty()), "{document:#}");
    assert_eq!((document["attempts"].as_array().map(Vec::len), &document["kept"]), (Some(0), &Value::Null));
    assert!(errors.contains("1. What was seen"), "{errors}");
    assert!(!state.join("trials.json").exists(), "nothing was tried");
    // The same recording can be read again.
    let again = cure(&["--dry-run", "--json", "--from", recording.to_str().unwrap()], &state);
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["verdict"], document["verdict"]);
}

#[test]
fn what_cannot_be_read_is_refused_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let out = cure(&["--dry-run", "--from", "/no/such/recording"], dir.path());
    let errors = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{errors}");
    assert!(errors.contains("/no/such/recording: no such file"), "{errors}");
}
