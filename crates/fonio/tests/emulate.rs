//! Tests the output, the termination and the cleanup of `fonio device emulate`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use assert_cmd::cargo::cargo_bin_cmd;
use fonio_testing::{Need, has};
use serde_json::Value;

#[track_caller]
fn can() -> bool {
    has(&[Need::Root, Need::Fuse, Need::Loop, Need::Mkfs])
}

/// Starts a mounted emulated device that runs until it is stopped. Also returns its first output.
fn start() -> (Child, Value) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_fonio"))
        .args(["device", "emulate", "transcend", "--size", "64MiB", "--fs", "ext4", "--mount", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("start");
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.as_mut().expect("piped"));
    out.read_line(&mut line).expect("line");
    let ready: Value = serde_json::from_str(&line).expect("JSON");
    (child, ready["ready"].clone())
}

/// Lists the leftovers of the emulated device. Loop device numbers are reused, so the backing file shows
/// whether a loop device belongs to this test.
fn left_behind(ready: &Value) -> Vec<&'static str> {
    let device = ready["device"].as_str().expect("a device").trim_start_matches("/dev/").to_owned();
    let below = fs::read_to_string(format!("/sys/block/{device}/loop/backing_file")).unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    let mounted = ready["mount"].as_str().expect("a folder");
    let server = fs::read_to_string(format!("/proc/{}/stat", ready["server_pid"])).unwrap_or_default();
    let mut left = Vec::new();
    let mut check = |is_left, what| left.extend(Some(what).filter(|_| is_left));
    check(below.contains(&format!("/{}-", ready["pid"])), "the loop device");
    check(mounts.contains(mounted), "the mount");
    check(Path::new(mounted).exists(), "the folder");
    // A zombie process that its new parent has not yet reaped counts as ended.
    check(!server.is_empty() && !server.contains(") Z "), "the serving process");
    let is_note = |name: &str| name.starts_with(&format!("{}-", ready["pid"])) && name.ends_with(".emulated");
    let notes = fs::read_dir("/run/fonio").into_iter().flatten().flatten();
    let is_left = notes.into_iter().any(|note| note.file_name().to_str().is_some_and(is_note));
    check(is_left, "the note with its profile");
    left
}

/// Returns the model that the status card shows for the device.
fn model_of(ready: &Value) -> Option<String> {
    let out = cargo_bin_cmd!("fonio").arg("--json").output().expect("it runs");
    let status: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let name = ready["device"].as_str().expect("a device").trim_start_matches("/dev/").to_owned();
    let devices = status["devices"].as_array().expect("a list");
    let device = devices.iter().find(|device| device["device"]["name"] == name.as_str())?;
    device["device"]["model"].as_str().map(str::to_owned)
}

#[test]
fn every_way_to_end_leaves_nothing_behind() {
    if !can() {
        return;
    }
    for (signal, code) in [("INT", Some(130)), ("TERM", Some(143)), ("HUP", Some(129)), ("KILL", None)] {
        let (mut child, ready) = start();
        fs::write(Path::new(ready["mount"].as_str().expect("a folder")).join("file"), [7; 100_000])
            .expect("the mount can be written to");
        assert_eq!(model_of(&ready).as_deref(), Some("emulated transcend"));
        let killed =
            Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().expect("kill");
        assert!(killed.success());
        assert_eq!(child.wait().expect("wait").code(), code, "SIG{signal}");
        if signal == "KILL" {
            // The next emulated device cleans up the leftovers of a killed process.
            cargo_bin_cmd!("fonio").args(["device", "emulate", "--floor"]).assert().success();
        }
        assert_eq!(left_behind(&ready), [""; 0], "after SIG{signal}: {ready}");
    }
}

#[test]
fn a_workload_runs_on_it_and_its_power_can_be_cut() {
    if !can() {
        return;
    }
    let emulate = |check: &str| {
        let mut fonio = cargo_bin_cmd!("fonio");
        fonio.args(["device", "emulate", "transcend", "--size", "64MiB", "--power-cuts", "3", "--json"]);
        fonio.args(["--check", check, "--", "sh", "-c", "echo x > $FONIO_MOUNT/x; sync -f $FONIO_MOUNT"]);
        let out = fonio.output().expect("it runs");
        let text = String::from_utf8(out.stdout).expect("UTF-8");
        let end = text.lines().last().expect("a last line");
        (out.status.code(), serde_json::from_str::<Value>(end).expect("JSON")["end"].clone())
    };
    let (code, end) = emulate("test -d $FONIO_MOUNT/lost+found");
    assert_eq!((code, &end["power_cuts"]["survived"]), (Some(0), &Value::from(3)), "{end}");
    let (code, end) = emulate("echo no >&2; exit 7");
    assert_eq!((code, &end["power_cuts"]["survived"]), (Some(1), &Value::from(0)), "{end}");
    assert_eq!(end["power_cuts"]["failures"][0]["exit_code"], 7);
    assert_eq!(end["power_cuts"]["failures"][0]["said"], "no");
}

#[test]
fn what_cannot_be_done_is_refused_with_the_way_out() {
    let refused = |arguments: &[&str], expected: &str| {
        let out =
            cargo_bin_cmd!("fonio").args(["device", "emulate"]).args(arguments).output().expect("it runs");
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    };
    refused(&["no-such-card"], "no-such-card: neither a shipped profile nor a readable file");
    refused(&["transcend", "--fault", "melt"], "use one of: error, delay, vanish, flip");
    refused(&["transcend", "--dilate", "0.5"], "at least 1");
    refused(
        &["transcend", "--image", "a", "--erase", "b"],
        "--erase names b, which is not the file of --image",
    );
    refused(&["transcend", "--check", "true"], "--power-cuts");
    if can() {
        refused(&["ram", "--size", "64MiB"], "--dilate");
    }
}
