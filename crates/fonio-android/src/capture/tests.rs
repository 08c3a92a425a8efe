//! The client and the programs of the phone are stand-ins here; the shell is real. No phone is touched.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::*;

/// Stands for the adb client: commands of the phone run in this machine's shell.
const ADB: &str = r#"#!/bin/sh
PATH="$(dirname "$0"):$PATH"
case "$1" in
devices) [ -e "$(dirname "$0")/stall" ] && sleep 60; printf 'List of devices attached\nX1 device model:Stand_in\n' ;;
-s) [ "$2 $3 $4" = "X1 shell -T" ] || exit 9; exec sh -c "$5" ;;
esac
"#;
/// Stands for Perfetto: writes its configuration as the trace, and ends after 60 s or when it is asked to.
const PERFETTO: &str = r#"#!/bin/sh
[ "$1 $2 $3" = "-c - -o" ] || { echo "bad arguments" >&2; exit 2; }
[ -e "$(dirname "$0")/refuse" ] && { echo "traced is not running" >&2; exit 3; }
cat > "$4"
trap 'echo stopped >> "$4"; kill $!; exit 0' TERM
[ -e "$(dirname "$0")/short" ] || { sleep 60 & wait $!; }
"#;
const GETPROP: &str =
    "#!/bin/sh\ncase $1 in ro.build.version.sdk) echo 34 ;; ro.product.model) echo Stand-in ;; esac\n";

struct StandIn {
    dir: tempfile::TempDir,
}

impl StandIn {
    /// Creates the programs, and these files beside them.
    fn new(marks: &[&str]) -> StandIn {
        let dir = tempfile::tempdir().expect("a folder");
        for (name, text) in [("adb", ADB), ("perfetto", PERFETTO), ("getprop", GETPROP)] {
            let file = dir.path().join(name);
            fs::write(&file, text).expect("written");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("executable");
        }
        marks.iter().for_each(|mark| fs::write(dir.path().join(mark), "").expect("written"));
        fs::create_dir(dir.path().join("traces")).expect("created");
        StandIn { dir }
    }

    fn capture(&self, stop: &AtomicBool) -> Result<(Captured, Vec<u8>), AndroidError> {
        let adb = Adb::connect_by(self.dir.path().join("adb"), None, Duration::from_secs(2))?;
        let phone = Phone::ask(&adb)?;
        assert_eq!((phone.sdk, phone.model.as_str()), (34, "Stand-in"));
        let to = self.dir.path().join("here");
        let captured = capture_in(&adb, &phone, &self.folder(), Duration::from_secs(1), &to, stop)?;
        Ok((captured, fs::read(to).expect("the trace is here")))
    }

    fn folder(&self) -> String {
        self.dir.path().join("traces").display().to_string()
    }

    fn left(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder()).expect("a folder");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }
}

fn config() -> Vec<u8> {
    Config { duration: Duration::from_secs(1), size_max: SIZE_MAX }.bytes()
}

#[test]
fn a_trace_is_read_and_removed() {
    let phone = StandIn::new(&["short"]);
    // The file of an earlier recording that was lost.
    fs::write(phone.dir.path().join("traces/fonio-1.pftrace"), "old").expect("written");
    let (captured, trace) = phone.capture(&AtomicBool::new(false)).expect("it is captured");
    assert_eq!(trace, config(), "perfetto receives each byte of its configuration");
    assert_eq!(captured, Captured { bytes: ByteCount(trace.len() as u64), was_stopped: false });
    assert_eq!(phone.left(), [] as [PathBuf; 0]);
}

#[test]
fn stopping_keeps_what_was_recorded() {
    let phone = StandIn::new(&[]);
    let stop = AtomicBool::new(false);
    let (captured, trace) = thread::scope(|scope| {
        let capturing = scope.spawn(|| phone.capture(&stop));
        let until = Instant::now() + Duration::from_secs(30);
        while phone.left().is_empty() && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        capturing.join().expect("it ends").expect("it is captured")
    });
    assert!(captured.was_stopped && trace == [&config()[..], b"stopped\n"].concat());
    assert_eq!(phone.left(), [] as [PathBuf; 0]);
}

#[test]
fn failures_name_their_cause() {
    for (mark, expected) in [
        ("refuse", "perfetto on the phone ended with exit code 3: traced is not running"),
        ("stall", "`adb devices -l` did not answer within 2 s"),
    ] {
        let phone = StandIn::new(&[mark]);
        let error = phone.capture(&AtomicBool::new(false)).expect_err(mark).to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(phone.left(), [] as [PathBuf; 0]);
    }
    let error = Adb::connect_by("/nonexistent/adb".into(), None, SHORT).expect_err("no adb").to_string();
    assert!(error.contains("apt-get install --no-install-recommends adb"), "{error}");
}

/// Android's shell is mksh, Debian's is dash.
#[test]
fn the_script_ends_and_cleans_up_without_its_host() {
    for shell in ["sh", "bash", "mksh"] {
        let phone = StandIn::new(&[]);
        let file = format!("{}/fonio-7.pftrace", phone.folder());
        let path = format!("{}:/usr/bin:/bin", phone.dir.path().display());
        let mut command = Command::new(shell);
        command.args(["-c", &script(&config(), &file)]).env("PATH", path);
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(mut script) = spawned else {
            eprintln!("{shell} is not installed, so it is not tried");
            continue;
        };
        let until = Instant::now() + Duration::from_secs(30);
        while !Path::new(&file).exists() && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        assert!(Path::new(&file).exists(), "{shell} starts the recording");
        // The connection ends.
        script.stdin = None;
        script.wait().expect("it ends");
        assert_eq!(phone.left(), [] as [PathBuf; 0], "{shell}");
    }
}
