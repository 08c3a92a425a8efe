//! Tests `--in android` with Debian's own `adbd` and `perfetto`, which stand for a phone. No phone is touched.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use fonio_host::{Ledger, LoopDevice, LoopOptions};
use fonio_lab::Archive;
use fonio_testing::{Need, has, skip};
use serde_json::Value;
use tempfile::TempDir;

use super::fonio;

/// Ends the stand-in with all its processes.
struct Phone(Child);

impl Drop for Phone {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the numbers of requests and bytes, read and written, on a disk of a recording.
fn amounts(recording: &Path, device: &str) -> Vec<Value> {
    let words = ["report", recording.to_str().unwrap(), "--device", device, "--json"];
    let report: Value = serde_json::from_slice(&fonio(&words).stdout).unwrap();
    let figures = report["figures"].as_array().unwrap();
    let named = |name: &str| figures.iter().find(|figure| figure["name"] == name).unwrap()["value"].clone();
    ["totals.requests", "totals.read_bytes", "totals.write_bytes"].map(named).to_vec()
}

/// Returns a figure of all disks of a recording.
fn count(recording: &Path, name: &str) -> f64 {
    let out = fonio(&["report", recording.to_str().unwrap(), "--json"]);
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    let figures = report["figures"].as_array().unwrap();
    figures.iter().find(|figure| figure["name"] == name).unwrap()["value"].as_f64().unwrap()
}

/// A stand-in for a phone that has recorded a load, and the same load as this machine recorded it.
struct Compared {
    dir: TempDir,
    ledger: Ledger,
    /// The disk of the load.
    disk: String,
    /// What the script of the phone printed.
    said: String,
}

impl Compared {
    /// Runs the stand-in in this mode, with a load of its disk, whose image is in the folder `images`. Returns nothing if
    /// this machine cannot do it.
    fn run(mode: &str, images: &str) -> Option<Compared> {
        if !has(&[Need::Root, Need::Tracefs, Need::Loop, Need::Fio, Need::Adb, Need::Guests, Need::Python]) {
            return None;
        }
        let archive = Archive::open().unwrap();
        let programs = archive.folder().join("phone");
        if let Err(error) = archive.unpack(&["adbd", "perfetto"], &programs, &|_| {}) {
            skip(Need::Adb, format!("Debian's archive: {error}"));
            return None;
        }
        let instance = format!("fonio-phone-{}-{mode}", std::process::id());
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut ledger = Ledger::open(&dir.path().join("state")).unwrap();
        let image = tempfile::Builder::new().prefix("fonio-phone-").tempfile_in(images).unwrap();
        image.as_file().set_len(64 << 20).unwrap();
        let disk = LoopDevice::attach(&mut ledger, image.path(), &LoopOptions::default()).unwrap();
        let disk = disk.path().to_owned();
        let mut command = Command::new("unshare");
        command.args(["-m", "-n", "-p", "-f", "--mount-proc", "--kill-child", "sh"]);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/phone.sh"));
        command.args([&programs, dir.path(), Path::new(&instance)]);
        command.arg(env!("CARGO_BIN_EXE_fonio")).arg(mode).arg(recorder()).env("NO_COLOR", "1");
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut phone = Phone(child);
        let mut output = BufReader::new(phone.0.stdout.take().unwrap());
        let mut line = String::new();
        while line != "recording\n" {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "the phone does not record");
        }
        let here = dir.path().join("here");
        let mut beside = Command::new(env!("CARGO_BIN_EXE_fonio"));
        beside.args(["record", "--for", "12s", "--device"]).arg(&disk).arg("-o").arg(&here);
        let mut beside = beside.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut progress = BufReader::new(beside.stderr.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("Recording ") {
            line.clear();
            assert!(progress.read_line(&mut line).unwrap() > 0, "fonio does not record");
        }
        let mut load = Command::new("fio");
        load.args([
            "--name=load",
            "--rw=randrw",
            "--bs=16k",
            "--iodepth=8",
            "--ioengine=libaio",
            "--direct=1",
        ]);
        load.args(["--number_ios=400", "--size=60M"]).arg(format!("--filename={}", disk.display()));
        assert!(load.stdout(Stdio::null()).status().unwrap().success());
        assert!(beside.wait().unwrap().success());
        let mut said = String::new();
        output.read_to_string(&mut said).unwrap();
        assert!(phone.0.wait().unwrap().success(), "{said}");
        let name = disk.file_name().unwrap().to_str().unwrap();
        let number = fs::read_to_string(format!("/sys/block/{name}/dev")).unwrap();
        let compared = Compared { dir, ledger, disk: number.trim().to_owned(), said };
        let expected = amounts(&here, &compared.disk);
        assert!(expected[0].as_f64().unwrap() >= 400.0, "{expected:?}");
        assert_eq!(
            amounts(&compared.path("phone"), &compared.disk),
            expected,
            "requests and bytes are equal"
        );
        Some(compared)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Checks the beginnings of lines that the script printed, and that nothing is left after any of its steps.
    fn check(&self, expected: &[&str]) {
        let mut files = self.said.lines().filter_map(|line| line.split_once("files: "));
        assert!(files.all(|(_, files)| files.is_empty()), "{}", self.said);
        let lines: Vec<&str> = self.said.lines().collect();
        let mut rest = lines.iter();
        for begin in expected {
            assert!(rest.any(|line| line.starts_with(begin)), "{begin:?} in {}", self.said);
        }
        let mut left = lines.iter().filter(|line| line.starts_with("left: "));
        assert!(left.all(|line| line.trim() == "left:"), "{}", self.said);
    }
}

/// Returns the recorder for this machine. Cargo builds it next to fonio, if it builds the workspace.
fn recorder() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_fonio")).with_file_name("fonio-recorder")
}

#[test]
fn a_rooted_phone_is_recorded_by_fonios_own_recorder() {
    if !recorder().exists() {
        return skip(Need::Adb, "fonio-recorder is not built (cargo build -p fonio-recorder)".to_owned());
    }
    // A loop device over a file of a disk is left out of a recording of all devices.
    let Some(compared) = Compared::run("rooted", "/dev/shm") else { return };
    let log = fs::read_to_string(compared.path("phone.log")).unwrap();
    assert!(log.contains("By fonio's recorder. As on this machine"), "{log}");
    // The recorder has removed its own file.
    let programs = "instances: 1, files: ";
    compared.check(&[
        "left: ",
        programs,
        "stopped: 130",
        "left: ",
        programs,
        "killed: 137",
        "left: ",
        programs,
        "left: ",
        "silent: 137",
        programs,
        "lost: 2",
        "fonio: `adb shell",
        "left: ",
        "Not by fonio's recorder: cannot read",
        "Not by perfetto: it has no program `perfetto`.",
        "Not by atrace: it has no program `atrace`.",
        "By counters. They are totals",
        "Recorded the phone, without requests, to",
        "Not by fonio's recorder: adb's shell is not root, and su refuses: su: permission denied.",
        "Not by perfetto: ",
        "By atrace. It records requests from issue to completion, blocked threads and syncs.",
        "killed: 137",
        "left: ",
        "Not by fonio's recorder: the recorder did not start",
        "left: ",
    ]);
    let by_atrace = compared.path("atrace");
    assert!(count(&by_atrace, "totals.requests") >= 50.0, "the writes of the stand-in are there");
    for name in ["phone", "stopped"] {
        assert!(compared.path(name).join("requests.parquet").exists(), "{name}");
    }
    let counters = compared.path("counters");
    let report = fonio(&["report", counters.to_str().unwrap(), "--all"]);
    assert!(String::from_utf8_lossy(&report.stdout).contains("Stand-in, Android 14"), "it names the phone");
    compared.ledger.close().unwrap();
}

#[test]
fn a_phone_is_recorded_like_this_machine() {
    let Some(compared) = Compared::run("user", env!("CARGO_TARGET_TMPDIR")) else { return };
    let dir = &compared.dir;
    let report = fonio(&["report", dir.path().join("phone").to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&report.stdout).contains("Stand-in, Android 14"), "it names the phone");
    let scripted = fs::read_to_string(dir.path().join("scripted.json")).unwrap();
    let scripted: Value = serde_json::from_str(&scripted).unwrap();
    let actions = |run: usize| {
        let actions = scripted["runs"][run]["actions"].as_array().unwrap();
        let named = actions.iter().map(|action| (action["action"].clone(), action["note"].clone()));
        named.collect::<Vec<_>>()
    };
    assert_eq!(actions(0), actions(1), "equal seeds, equal screens, equal actions");
    assert_eq!(actions(0).len(), 9, "{scripted}");
    assert!(actions(0)[1].1.as_str().unwrap().starts_with("com.example:id/b"), "{scripted}");
    assert_eq!(actions(0)[7].1, "idle", "{scripted}");
    for name in ["recording-1", "recording-2"] {
        assert!(dir.path().join("scripted").join(name).join("requests.parquet").exists());
    }
    let watched = fs::read_to_string(dir.path().join("watch.json")).unwrap();
    let watched: Value = serde_json::from_str(&watched).unwrap();
    assert!(watched["watched_s"].as_u64().unwrap() > 60, "{watched}");
    let written = watched["wear"]["devices"].as_array().unwrap().iter();
    let written: u64 = written.map(|device| device["written"].as_u64().unwrap()).sum();
    assert!(written >= 100 << 16, "{watched}");
    let launches = fs::read_to_string(dir.path().join("launches.json")).unwrap();
    let launches: Value = serde_json::from_str(&launches).unwrap();
    let found = launches["launches"].as_array().unwrap();
    assert_eq!(found.len(), 2, "{launches}");
    for launch in found {
        assert_eq!((launch["total_ms"].as_f64(), launch["state"].as_str()), (Some(312.0), Some("COLD")));
        assert_eq!(launch["dropped_caches"], true);
        let traced = launch["traced_ms"].as_f64().unwrap();
        assert!((300.0..3000.0).contains(&traced), "{launches}");
    }
    // Whatever ends a recording, nothing is left on the phone.
    compared.check(&[
        "left: ",
        "left: ",
        "left: ",
        "fonio: `adb shell am start` failed: Starting: Intent",
        "left: ",
        "stopped: 130",
        "left: ",
        "killed: 137",
        "left: ",
        "lost: 2",
        "fonio: `adb shell perfetto` failed: the connection was lost (exit code",
        "left: ",
        "fonio: watching the phone 127.0.0.1:25555; the history is in ",
        "fonio: the phone does not answer; fonio waits for it",
        "fonio: the phone answers again",
        "No watch runs",
        "! A phone shows the watch no requests and no waits, so stalls are unknown.",
        "The report is in ",
        "fonio: A phone shows the watch no requests and no waits, so stalls are unknown; use `fonio record",
        "refused: 2",
    ]);
    for name in ["watch.txt", "watch.html"] {
        let shown = fs::read_to_string(dir.path().join(name)).unwrap();
        assert!(shown.contains("vda") && !shown.to_lowercase().contains("no stall"), "{name}: {shown}");
    }
    assert!(dir.path().join("stopped/requests.parquet").exists(), "what was recorded before Ctrl-C is there");
    compared.ledger.close().unwrap();
}

#[test]
fn what_a_phone_cannot_do_is_refused_before_it_is_asked() {
    for (words, expected) in [
        ("launch --in android --fs ext4 -- com.example/.Main", "leave out --fs"),
        ("launch --in android --html x.html -- com.example/.Main", "`fonio report RECORDING --html FILE`"),
        ("launch --in android -- com.example", "com.example is not an activity"),
        ("launch --in android -- com.example/.Main more", "name only the activity"),
        ("launch --start warm -- true", "--start is for the apps of a phone"),
        ("run sqlite --in android", "fonio runs a script of actions"),
        ("run x.toml --in android --fs ext4", "leave out --fs"),
        ("run x.toml --in android", "cannot read x.toml"),
        ("replay x --in android", "work on a phone"),
        ("record --in android --device sda", "cannot be used with"),
        ("check --in androids", "android:SERIAL"),
    ] {
        let out = fonio(&super::split(words));
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && said.contains(expected), "{words}: {said}");
    }
}
