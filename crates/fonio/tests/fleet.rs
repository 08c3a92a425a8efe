//! Tests `fonio watch send` and `fonio fleet` as users run them, and runs the tests of the Python package `fonio.fleet`.
//!
//! `FONIO_DUCKDB` names a Python interpreter that has the package's dependencies and pytest. If it is not set, the tests
//! use the virtual environment that `cargo xtask test` makes.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use fonio_core::{ByteCount, Nanos};
use fonio_results::database::Location;
use fonio_results::fleet::Fleet;
use fonio_results::forwarded::ProxyHeader;
use fonio_results::limits::Rate;
use fonio_results::serve;
use fonio_results::service::Settings;
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

/// A results service with a fleet in this process.
struct Service {
    address: String,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    _data: tempfile::TempDir,
}

impl Service {
    fn start(fleet: &Path, tokens: &Path, submissions: Rate) -> Service {
        let data = tempfile::tempdir().unwrap();
        let many = Rate { per_s: 1e6, burst: 1e6 };
        let settings = Settings {
            location: Location::Folder(data.path().to_owned()),
            readers: 1,
            requests: many,
            submissions,
            submissions_at_once: 16,
            reviews: true,
            proxies: Vec::new(),
            proxy_header: ProxyHeader::XForwardedFor,
            public_url: String::new(),
            fleet: Some(Arc::new(Fleet::open(fleet, tokens).unwrap())),
        };
        let (service, writer) = fonio_results::service::Service::start(&settings).unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (send_address, address) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = serve::listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
                send_address.send(listener.local_addr().unwrap()).unwrap();
                let stop = async { drop(stopped.await) };
                serve::serve(listener, serve::router(service), serve::Times::default(), stop).await;
            });
            drop(runtime);
            writer.join().unwrap();
        });
        let address = format!("http://{}", address.recv().unwrap());
        Service { address, stop: Some(stop), thread: Some(thread), _data: data }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop.take();
        let ended = self.thread.take().map(std::thread::JoinHandle::join);
        assert!(ended.is_none_or(|ended| ended.is_ok()) || std::thread::panicking());
    }
}

#[test]
fn days_reach_a_fleet_through_a_results_service() {
    let dir = tempfile::tempdir().unwrap();
    let [fleet, tokens, own, expired] =
        ["fleet", "tokens", "own", "expired"].map(|name| dir.path().join(name));
    fs::create_dir(&fleet).unwrap();
    let (valid, old) = ("a".repeat(64), "b".repeat(64));
    for (path, text) in
        [(&tokens, format!("{valid}\n{old} 2020-01-31\n")), (&own, valid.clone()), (&expired, old)]
    {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    // The second and the third day must wait for half a second each.
    let service = Service::start(&fleet, &tokens, Rate { per_s: 2.0, burst: 1.0 });
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap();
    let watched = Watched::new(now, 1 << 20);
    let send = |to: &str, token: &Path| {
        watched.send(Path::new(to), &["--device-name", "kitchen", "--token-file", token.to_str().unwrap()])
    };
    let told = said(&send(&service.address, &own));
    assert_eq!(told, format!("Sent 3 days of the device kitchen to {}.\n", service.address));
    let days = fs::read_dir(fleet.join("arrived")).unwrap().count();
    assert_eq!(days, 3);
    // The file is the one that a folder gets.
    let folder = tempfile::tempdir().unwrap();
    said(&watched.send(folder.path(), &["--device-name", "kitchen"]));
    for day in fs::read_dir(folder.path().join("arrived")).unwrap().flatten() {
        let file = |root: &Path| {
            fs::read(root.join("arrived").join(day.file_name()).join("kitchen.jsonl.gz")).unwrap()
        };
        assert_eq!(file(folder.path()), file(&fleet));
    }
    let again = said(&send(&service.address, &own));
    assert!(again.contains("Sent 0 days") && again.contains("; 3 days were sent before"), "{again}");
    let refused = |out: &Output, expected: &str| {
        let error = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(2) && error.contains(expected), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    };
    refused(&send(&service.address, &expired), "the token expired after 2020-01-31; ask the operator");
    refused(&send(&service.address, &dir.path().join("missing")), "missing");
    refused(&watched.send(Path::new(&service.address), &[]), "needs a token; ask the operator");
    refused(&send(fleet.to_str().unwrap(), &own), "--token-file is for a results service");
    let gone = service.address.clone();
    drop(service);
    refused(&send(&gone, &own), "cannot be reached");
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
