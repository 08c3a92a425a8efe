//! Tests `--in android` with Debian's own `adbd` and `perfetto`, which stand for a phone. No phone is touched.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fonio_host::{Ledger, LoopDevice, LoopOptions};
use fonio_lab::Archive;
use fonio_testing::{Need, has, skip};
use serde_json::Value;

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

#[test]
fn a_phone_is_recorded_like_this_machine() {
    if !has(&[Need::Root, Need::Tracefs, Need::Loop, Need::Fio, Need::Adb, Need::Guests]) {
        return;
    }
    let archive = Archive::open().unwrap();
    let programs = archive.folder().join("phone");
    if let Err(error) = archive.unpack(&["adbd", "perfetto"], &programs, &|_| {}) {
        return skip(Need::Adb, format!("Debian's archive: {error}"));
    }
    let instance = format!("fonio-phone-{}", std::process::id());
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut ledger = Ledger::open(&dir.path().join("state")).unwrap();
    let image = dir.path().join("image");
    fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let disk = LoopDevice::attach(&mut ledger, &image, &LoopOptions::default()).unwrap();
    let disk = disk.path().to_owned();
    let mut command = Command::new("unshare");
    command.args(["-m", "-n", "-p", "-f", "--mount-proc", "--kill-child", "sh"]);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/phone.sh"));
    command.args([&programs, dir.path(), Path::new(&instance)]);
    command.arg(env!("CARGO_BIN_EXE_fonio")).env("NO_COLOR", "1");
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let mut phone = Phone(child);
    let mut output = BufReader::new(phone.0.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let here = dir.path().join("here");
    let mut beside = Command::new(env!("CARGO_BIN_EXE_fonio"));
    beside.args(["record", "--for", "12s", "--device"]).arg(&disk).arg("-o").arg(&here);
    let mut beside = beside.stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(4));
    let mut load = Command::new("fio");
    load.args(["--name=load", "--rw=randrw", "--bs=16k", "--iodepth=8", "--ioengine=libaio", "--direct=1"]);
    load.args(["--number_ios=400", "--size=60M"]).arg(format!("--filename={}", disk.display()));
    assert!(load.stdout(Stdio::null()).status().unwrap().success());
    assert!(beside.wait().unwrap().success());
    let mut said = String::new();
    output.read_to_string(&mut said).unwrap();
    assert!(phone.0.wait().unwrap().success(), "{said}");
    let report = fonio(&["report", dir.path().join("phone").to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&report.stdout).contains("Stand-in, Android 14"), "it names the phone");
    let name = disk.file_name().unwrap().to_str().unwrap();
    let number = fs::read_to_string(format!("/sys/block/{name}/dev")).unwrap();
    let expected = amounts(&here, number.trim());
    assert_eq!(amounts(&dir.path().join("phone"), number.trim()), expected);
    assert!(expected[0].as_f64().unwrap() >= 400.0, "{expected:?}");
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
    let lines: Vec<&str> = said.lines().collect();
    let expected = [
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
    ];
    let told: Vec<&&str> =
        lines.iter().filter(|line| expected.iter().any(|begin| line.starts_with(begin))).collect();
    assert_eq!(told.len(), expected.len(), "{said}");
    assert!(
        lines.iter().filter(|line| line.starts_with("left: ")).all(|line| line.trim() == "left:"),
        "{said}"
    );
    assert!(dir.path().join("stopped/requests.parquet").exists(), "what was recorded before Ctrl-C is there");
    ledger.close().unwrap();
}

#[test]
fn what_a_phone_cannot_do_is_refused_before_it_is_asked() {
    for (words, expected) in [
        ("launch --in android --fs ext4 -- com.example/.Main", "leave out --fs"),
        ("launch --in android --html x.html -- com.example/.Main", "`fonio report RECORDING --html FILE`"),
        ("launch --in android -- com.example", "com.example is not an activity"),
        ("launch --in android -- com.example/.Main more", "name only the activity"),
        ("launch --start warm -- true", "--start is for the apps of a phone"),
        ("run sqlite --in android", "work on a phone"),
        ("record --in android --device sda", "cannot be used with"),
        ("check --in androids", "android:SERIAL"),
    ] {
        let out = fonio(&super::split(words));
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && said.contains(expected), "{words}: {said}");
    }
}
