//! The test bed on a real kernel. Each test says in a sentence why it does nothing where it cannot.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use fonio_host::{Filesystem, HostError, Ledger, LoopDevice, LoopOptions, ProcessId, mount, mounts_under};

fn can() -> bool {
    let can = rustix::process::geteuid().is_root() && Path::new("/dev/loop-control").exists();
    if !can {
        eprintln!("skipped: loop devices need root and /dev/loop-control");
    }
    can
}

fn image(dir: &Path, mib: u64) -> std::path::PathBuf {
    let path = dir.join("image");
    File::create(&path).and_then(|file| file.set_len(mib << 20)).expect("image");
    path
}

#[test]
fn a_file_system_comes_and_goes_with_the_ledger() {
    if !can() {
        return;
    }
    let dir = tempfile::tempdir().expect("dir");
    let state = dir.path().join("state");
    for filesystem in [Filesystem::Ext4, Filesystem::Ext3] {
        let mut ledger = Ledger::open(&state).expect("ledger");
        let backing = image(dir.path(), 32);
        let device = LoopDevice::attach(&mut ledger, &backing, &LoopOptions::default()).expect("loop");
        let node = device.path().to_owned();
        match filesystem.make(&node) {
            Err(HostError::ProgramMissing { program, .. }) => {
                eprintln!("skipped: {program} is not installed");
                continue;
            }
            made => made.expect("mkfs"),
        }
        let (mounted, _) = mount(&mut ledger, &node, filesystem, None, "").expect("mount");
        fs::write(mounted.join("file"), b"content").expect("write");
        let busy = fonio_host::check_empty(&node, fonio_host::Confirmation::NamedTwice);
        assert!(matches!(busy, Err(HostError::InUse { .. })));
        ledger.close().expect("everything can be undone");
        assert!(!mounted.exists());
        assert!(!Path::new("/sys/block").join(node.file_name().expect("name")).exists());
        assert_eq!(fs::read_dir(&state).expect("state").count(), 0);
        assert!(mounts_under(dir.path()).expect("mounts").is_empty());
    }
}

#[test]
fn a_depth_of_four_is_a_depth_of_four() {
    if !can() {
        return;
    }
    let dir = tempfile::tempdir().expect("dir");
    let mut ledger = Ledger::open(&dir.path().join("state")).expect("ledger");
    let backing = image(dir.path(), 8);
    let device = LoopDevice::attach(&mut ledger, &backing, &LoopOptions::default()).expect("loop");
    let queue = device.queue();
    let scheduler = "mq-deadline";
    match queue.set_depth(4, scheduler) {
        Err(HostError::NoScheduler { .. }) => {
            eprintln!("skipped: this kernel has no {scheduler}");
            return;
        }
        set => set.expect("depth"),
    }
    assert!(queue.set_request_max_kib(512).expect("size") == 512);
    let shown = fs::read_to_string(format!("/sys/block/{}/queue/scheduler", device.name())).expect("sysfs");
    assert!(shown.contains(&format!("[{scheduler}]")), "{shown}");
    device.detach(&mut ledger).expect("detach");
}

/// A process writes its ledger, makes a loop device with a file system on it, mounts it, and is killed.
#[test]
fn what_a_killed_process_left_is_undone_at_the_next_start() {
    if !can() {
        return;
    }
    if let Some(state) = std::env::var_os("FONIO_TEST_STATE") {
        return be_killed(Path::new(&state));
    }
    let dir = tempfile::tempdir().expect("dir");
    let state = dir.path().join("state");
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "what_a_killed_process_left_is_undone_at_the_next_start", "--nocapture"])
        .env("FONIO_TEST_STATE", &state)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("child");
    let mut said = String::new();
    let mut stderr = std::io::BufReader::new(child.stderr.take().expect("stderr"));
    std::io::BufRead::read_line(&mut stderr, &mut said).expect("line");
    let (node, mounted) = said.trim().split_once(' ').expect("device and mount");
    assert!(Path::new(mounted).join("file").exists());
    assert!(Ledger::recover(&state).expect("recover").undone.is_empty(), "its owner still runs");
    child.kill().expect("kill");
    child.wait().expect("wait");
    let recovery = Ledger::recover(&state).expect("recover");
    assert!(recovery.failed.is_empty(), "{recovery:?}");
    assert!(!Path::new("/sys/block").join(node.trim_start_matches("/dev/")).exists());
    assert!(mounts_under(dir.path()).expect("mounts").is_empty());
    assert_eq!(fs::read_dir(&state).expect("state").count(), 0, "{recovery:?}");
}

fn be_killed(state: &Path) {
    let mut ledger = Ledger::open(state).expect("ledger");
    let backing = image(state, 16);
    ledger.begin(fonio_host::Step::File { path: backing.clone() }).expect("begin");
    let device = LoopDevice::attach(&mut ledger, &backing, &LoopOptions::default()).expect("loop");
    Filesystem::Ext4.make(device.path()).expect("mkfs");
    let (mounted, _) = mount(&mut ledger, device.path(), Filesystem::Ext4, None, "").expect("mount");
    fs::write(mounted.join("file"), b"content").expect("write");
    assert!(ProcessId::own().runs());
    eprintln!("{} {}", device.path().display(), mounted.display());
    std::io::stderr().flush().expect("flush");
    loop {
        std::thread::park();
    }
}
