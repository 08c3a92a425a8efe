//! Tests `fonio watch send` and `fonio fleet` as users run them, and runs the tests of the Python package `fonio.fleet`.
//!
//! `FONIO_DUCKDB` names a Python interpreter that has the package's dependencies and pytest. If it is not set, the tests
//! use the virtual environment that `cargo xtask test` makes.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{SystemTime, UNIX_EPOCH};

use fonio_core::{ByteCount, Nanos};
use fonio_testing::{Need, skip};
use fonio_watch::summary::{DeviceFigures, Summary, Traffic};
use fonio_watch::{Histogram, Rings};
use serde_json::Value;

const HOUR_S: i64 = 3600;
const IMPORTS: &str = "import duckdb, fsspec, numpy, pyarrow, pytest";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns a Python interpreter with the packages; skips the test if there is none.
fn python() -> Option<PathBuf> {
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../xtask/python/bin/python3");
    let named = std::env::var_os("FONIO_DUCKDB").map(PathBuf::from);
    let candidates = named.map_or_else(|| vec![made, "python3".into()], |named| vec![named]);
    let found = candidates.into_iter().find(|python| {
        let found = Command::new(python).args(["-c", IMPORTS]).output();
        found.is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        skip(
            Need::Fleet,
            "no Python has the packages duckdb, fsspec, numpy, pyarrow and pytest; install them with pip and set FONIO_DUCKDB to that Python",
        );
    }
    found
}

#[test]
fn the_package_passes_its_tests() {
    let Some(python) = python() else { return };
    let cache = tempfile::tempdir().unwrap();
    let out = Command::new(python)
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "python/tests/fleet"])
        .current_dir(root())
        .env("PYTHONPATH", "python")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("TMPDIR", cache.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    assert!(said.contains(" passed"), "{said}");
}

/// A watch that ran for three days.
struct Watched {
    dir: tempfile::TempDir,
}

impl Watched {
    fn new(now: i64, written_per_hour: u64) -> Watched {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let state = dir.path().join("state");
        fs::create_dir(&state).unwrap();
        let mut rings = Rings::open(&state.join("rings")).unwrap();
        let midnight = now / (24 * HOUR_S) * 24 * HOUR_S;
        for hour in (0..3 * 24).step_by(2) {
            let began = midnight - 3 * 24 * HOUR_S + hour * HOUR_S;
            let mut writes = Histogram::default();
            (0..50).for_each(|_| writes.add(Nanos(2_000_000)));
            let traffic =
                Traffic { writes, written_bytes: ByteCount(2 * written_per_hour), ..Traffic::default() };
            let device = DeviceFigures {
                name: "mmcblk0".to_owned(),
                model: Some("EM32".to_owned()),
                traffic,
                ..DeviceFigures::default()
            };
            let span = Summary {
                began,
                ended: began + 2 * HOUR_S,
                watched_s: 2 * 3600,
                devices: vec![device],
                ..Summary::default()
            };
            rings.append(&[span]).unwrap();
        }
        Watched { dir }
    }

    fn send(&self, to: &Path, more: &[&str]) -> Output {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("fonio"));
        command.args(["watch", "send", "--to"]).arg(to).args(more);
        command
            .arg("--state")
            .arg(self.dir.path().join("state"))
            .arg("--run")
            .arg(self.dir.path().join("run"));
        command.output().unwrap()
    }
}

#[track_caller]
fn said(out: &Output) -> String {
    let [said, error] = [&out.stdout, &out.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(out.status.success(), "{said}{error}");
    said
}

#[test]
fn the_days_of_watches_reach_a_report() {
    let fleet = tempfile::tempdir().unwrap();
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap();
    for (name, bytes) in [("first", 1 << 20), ("second", 3 << 20)] {
        let watched = Watched::new(now, bytes);
        let told = said(&watched.send(fleet.path(), &["--device-name", name]));
        assert!(told.starts_with(&format!("Sent 3 days of the device {name} to ")), "{told}");
        let again = said(&watched.send(fleet.path(), &["--device-name", name]));
        assert!(again.contains("Sent 0 days") && again.contains("3 days were sent before"), "{again}");
        let missing = watched.send(&fleet.path().join("missing"), &["--device-name", name]);
        assert_eq!(missing.status.code(), Some(2));
        let error = String::from_utf8_lossy(&missing.stderr).into_owned();
        assert!(error.contains("create the folder") && error.contains("missing"), "{error}");
        for (words, expected) in [
            (vec!["--device-name", "../x"], "is not a name for a device"),
            (vec!["--device-name", name, "--redact"], "needs --redact-key FILE"),
        ] {
            let out = watched.send(fleet.path(), &words);
            let error = String::from_utf8_lossy(&out.stderr).into_owned();
            assert!(out.status.code() == Some(2) && error.contains(expected), "{error}");
        }
    }
    let Some(python) = python() else { return };
    let report = |words: &[&str]| {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("fonio"));
        command.args(["fleet", "report"]).arg(fleet.path()).args(words);
        command.env("FONIO_PYTHON", &python).env("PYTHONPATH", root().join("python"));
        command.env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap()
    };
    let document: Value = serde_json::from_str(&said(&report(&["--json"]))).unwrap();
    assert_eq!((&document["devices"], &document["device_days"]), (&2.into(), &6.into()));
    assert_eq!(document["written_bytes"], 3 * 24 * (4 << 20));
    assert_eq!(document["problems"], Value::Array(Vec::new()));
    assert!(said(&report(&[])).starts_with("Nothing to blame"));
    assert_eq!(report(&["--no-such-option"]).status.code(), Some(2));
}

#[test]
fn a_missing_package_is_one_sentence() {
    let empty = tempfile::tempdir().unwrap();
    for (python, expected) in
        [("/nonexistent/python3", "cannot be started"), ("/bin/false", "which /bin/false does not have")]
    {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("fonio"));
        let out =
            command.args(["fleet", "report"]).arg(empty.path()).env("FONIO_PYTHON", python).output().unwrap();
        let error = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{error}");
        assert!(error.contains(expected) && error.contains("pip install duckdb"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
