//! Tests `fonio fix trial` on a loop device, with slices of one second. These slices are too few for a valid
//! result; the tests only check that the setting is switched and always restored.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use assert_cmd::cargo::cargo_bin_cmd;
use fonio_host::{Filesystem, Ledger, LoopDevice, LoopOptions};
use fonio_testing::skip_without;
use serde_json::Value;

use super::{json, text};

/// A user program that repeatedly syncs a file until this value is dropped.
struct Load {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    fn start(dir: &Path) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let (asked, path) = (Arc::clone(&stop), dir.join("notes"));
        let thread = std::thread::spawn(move || {
            while !asked.load(Ordering::Relaxed) {
                let mut file = fs::File::create(&path).unwrap();
                file.write_all(&[7; 5000]).unwrap();
                file.sync_all().unwrap();
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        Load { stop, thread: Some(thread) }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

struct Machine {
    load: Option<Load>,
    device: String,
    ledger: Option<Ledger>,
    dir: tempfile::TempDir,
}

impl Machine {
    fn make() -> Machine {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let image = dir.path().join("image");
        fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let mut ledger = Ledger::open(&dir.path().join("state")).unwrap();
        let device = LoopDevice::attach(&mut ledger, &image, &LoopOptions::default()).unwrap();
        Filesystem::Ext4.make(device.path()).unwrap();
        let (mounted, _) = fonio_host::mount(&mut ledger, device.path(), Filesystem::Ext4, None, "").unwrap();
        Machine { load: Some(Load::start(&mounted)), device: device.name(), ledger: Some(ledger), dir }
    }

    fn queue(&self, name: &str) -> PathBuf {
        Path::new("/sys/block").join(&self.device).join("queue").join(name)
    }

    fn read_ahead(&self) -> String {
        fs::read_to_string(self.queue("read_ahead_kb")).unwrap().trim().to_owned()
    }

    fn test(&self, out: &str, options: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("fonio"));
        command.args(["fix", "trial", "read-ahead=512KiB", "--slice", "1s", "--carry-over", "100ms"]);
        command
            .arg("--output")
            .arg(self.dir.path().join(out))
            .args(options)
            .arg(format!("/dev/{}", self.device));
        command
    }

    fn slices(&self, out: &str) -> Vec<Value> {
        let count = (1..).take_while(|number| self.slice(out, *number).exists()).count();
        (1..=count)
            .map(|number| serde_json::from_slice(&fs::read(self.slice(out, number)).unwrap()).unwrap())
            .collect()
    }

    fn slice(&self, out: &str, number: usize) -> PathBuf {
        self.dir.path().join(out).join(format!("slice-{number:03}.json"))
    }

    fn start(&self, out: &str) -> Child {
        let mut test = self.test(out, &["--for", "10m"]);
        let child = test.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut tries = 0;
        while self.read_ahead() != "512" {
            std::thread::sleep(Duration::from_millis(20));
            tries += 1;
            assert!(tries < 3000, "the setting was not switched within a minute");
        }
        child
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // End the load before the ledger unmounts the file system, because the load uses it.
        drop(self.load.take());
        drop(self.ledger.take());
    }
}

#[test]
fn a_setting_is_tested_while_the_machine_is_used_and_comes_back_whatever_happens() {
    skip_without!(Root, Loop, Mkfs, Tracefs);
    let machine = Machine::make();
    let before = machine.read_ahead();

    // A test that ended by itself can be continued.
    let first = machine.test("test", &["--for", "4s", "--json", "--seed", "3"]).output().unwrap();
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    assert_eq!(machine.read_ahead(), before);
    let said = text(&first.stderr);
    assert!(
        said.contains("the seed of the random order is 3") && said.contains("--for is too short"),
        "{said}"
    );
    let result = json(&first);
    let pairs = result["paired"]["pairs"].as_u64().unwrap();
    assert!(pairs > 0 && result["verdict"].as_str().unwrap().starts_with("Not shown: "), "{result}");
    assert_eq!(machine.slices("test").len() as u64, 2 * pairs);
    for (with, slice) in [("without", false), ("with", true)] {
        assert!(result[with]["blocked"].as_f64().unwrap() > 0.0, "{result}");
        let of_arm = machine.slices("test").iter().filter(|one| one["with_setting"] == slice).count() as u64;
        assert_eq!(of_arm, pairs, "the pairs are balanced");
    }
    let recording = machine.dir.path().join("test/slice-001");
    let report = cargo_bin_cmd!("fonio").arg("report").arg(&recording).output().unwrap();
    assert!(report.status.success(), "{}", text(&report.stderr));

    let again = machine.test("test", &["--for", "4s"]).output().unwrap();
    let said = text(&again.stderr);
    assert!(again.status.success() && said.contains("the seed of the random order is 3"), "{said}");
    assert!(text(&again.stdout).starts_with("Not shown: "), "{}", text(&again.stdout));
    assert!(machine.slices("test").len() as u64 > 2 * pairs);
    let other = machine.test("test", &["--carry-over", "200ms"]).output().unwrap();
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other.stderr).contains("carry-over"), "{}", text(&other.stderr));

    // Send Ctrl-C while the setting is in force. During the test, no other process may change the setting.
    let child = machine.start("interrupted");
    for change in [&["apply"][..], &["trial", "--slice", "1s"]] {
        let device = format!("/dev/{}", machine.device);
        let mut second = cargo_bin_cmd!("fonio");
        second.current_dir(machine.dir.path()).arg("fix").args(change).args(["read-ahead=1MiB", &device]);
        let second = second.output().unwrap();
        assert_eq!(second.status.code(), Some(2));
        assert!(text(&second.stderr).contains("is changing read-ahead"), "{}", text(&second.stderr));
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let interrupted = child.wait_with_output().unwrap();
    assert_eq!(interrupted.status.code(), Some(130), "{}", text(&interrupted.stderr));
    assert!(text(&interrupted.stdout).starts_with("Not shown: "), "{}", text(&interrupted.stdout));
    assert!(
        text(&interrupted.stderr).contains(&format!("is {before} again")),
        "{}",
        text(&interrupted.stderr)
    );
    assert_eq!(machine.read_ahead(), before);

    // After `kill -9`, the next start restores the setting, and the test continues with the slices measured
    // before the kill.
    let mut child = machine.start("killed");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(machine.read_ahead(), "512");
    let next = machine.test("killed", &["--for", "1s"]).output().unwrap();
    assert!(text(&next.stderr).contains("Cleaned up after an interrupted run"), "{}", text(&next.stderr));
    assert_eq!(machine.read_ahead(), before);

    // If another program changes the setting during the test, fonio does not overwrite its value.
    let mut child = machine.start("changed");
    fs::write(machine.queue("read_ahead_kb"), "64").unwrap();
    let said: Vec<String> =
        BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok).collect();
    assert_eq!(child.wait().unwrap().code(), Some(2));
    assert!(said.last().unwrap().contains("another program has since changed it to 64"), "{said:?}");
    assert_eq!(machine.read_ahead(), "64");
}

#[test]
fn what_cannot_be_tested_is_refused_with_the_reason() {
    for (arguments, says) in [
        (&["fix", "trial", "wal-normal"][..], "cannot be switched back and forth on a machine in use"),
        (&["fix", "trial", "f2fs", "."], "mkfs.f2fs -f DEVICE"),
        (&["fix", "trial", "device=kingston", "."], "replace the hardware"),
        (&["fix", "trial", "bfq"], "such as `fonio fix trial bfq /mnt/sd`"),
        (&["fix", "trial", "bfq", "--dry-run", "."], "unexpected argument"),
        (&["fix", "trial", "bfq", ".", "--slice", "1ms"], "write a time from 1s to 1h"),
        (&["fix", "trial", "bfq", "--resume", "/no/such"], "/no/such contains no test"),
        (&["fix", "trial"], "<NAME>"),
    ] {
        let out = cargo_bin_cmd!("fonio").args(arguments).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{arguments:?}");
        assert!(text(&out.stderr).contains(says), "{arguments:?}: {}", text(&out.stderr));
    }
    skip_without!(Root);
    let dir = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str]| {
        let out = dir.path().join("out");
        let run = cargo_bin_cmd!("fonio").args(arguments).arg("--output").arg(&out).output().unwrap();
        assert_eq!(run.status.code(), Some(2), "{arguments:?}");
        assert!(!out.exists(), "nothing is left");
        text(&run.stderr)
    };
    let unit = refused(&["fix", "trial", "swappiness=1", "--unit", "no-such.service"]);
    assert!(unit.contains("the unit \"no-such.service\" has no process now; "), "{unit}");
    let place = refused(&["fix", "trial", "noatime", "/proc"]);
    assert!(place.contains("the file system proc is not on a device"), "{place}");
}
