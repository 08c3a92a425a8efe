//! Tests that the serving process locks all memory that a request uses, or refuses to serve.

use crate::bed;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;

use fonio_core::ByteCount;
use fonio_emulator::{Emulated, Options};
use fonio_host::{Filesystem, Ledger, LoopDevice, LoopOptions};
use fonio_testing::skip_without;

const MIB: u64 = 1 << 20;

/// Creates the options for a device of `mib` MiB without a file system.
fn bare(state: &Path, mib: u64) -> Options {
    let mut options = bed::options(state, mib);
    (options.filesystem, options.mount, options.at_floor) = (None, None, true);
    options
}

/// Returns the values of a field in the parts of `/proc/PID/smaps` that describe mappings of `file`, in KiB.
fn smaps(process: u32, file: &str, field: &str) -> Vec<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/smaps")).expect("smaps");
    let mut is_of_file = false;
    let mut values = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        if !first.ends_with(':') {
            is_of_file = line.contains(file);
        } else if is_of_file && first.trim_end_matches(':') == field {
            values.push(words.next().and_then(|value| value.parse().ok()).expect("a number"));
        }
    }
    values
}

/// Returns a server whose limit of locked memory is 64 KiB, and which cannot exceed this limit.
fn server_that_cannot_lock() -> Command {
    let mut command = Command::new("setpriv");
    command.args([
        "--bounding-set=-ipc_lock",
        "--inh-caps=-ipc_lock",
        "prlimit",
        "--memlock=65536:65536",
        "--",
    ]);
    command.arg(bed::server().get_program());
    command
}

#[test]
fn the_data_in_memory_are_locked_before_the_device_appears() {
    if !bed::can_make_block_devices() {
        return;
    }
    let dir = tempfile::tempdir().expect("dir");
    for place in ["memory", "tmpfs"] {
        let shm = tempfile::tempdir_in("/dev/shm").expect("a tmpfs");
        let mut options = bare(&dir.path().join("state"), 64);
        options.serve.image = (place == "tmpfs").then(|| shm.path().join("image"));
        let mut emulated = Emulated::start(&options, bed::server()).expect("start");
        let server = emulated.server_pid();
        let memory = emulated.memory().clone();
        assert_eq!((memory.is_sparse, &memory.not_locked), (false, &None));
        assert!(memory.locked_bytes.0 > 64 * MIB, "{memory:?}");
        let file = if place == "tmpfs" { "/image" } else { "fonio-emulated-disk" };
        // `Locked` counts only pages that have memory.
        for field in ["Size", "Rss", "Locked"] {
            assert_eq!(smaps(server, file, field), [64 << 10], "{field} of the data in {place}");
        }
        // A discard must not give memory back, because the next write could wait for memory.
        let device = emulated.device().expect("a block device").to_owned();
        let node = OpenOptions::new().read(true).write(true).open(&device).expect("open");
        let zeroed = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&node, zeroed, 0, 32 * MIB).expect("discard");
        drop(node);
        assert_eq!(smaps(server, file, "Locked"), [64 << 10], "after a discard in {place}");
        let report = emulated.report().expect("report");
        assert_eq!((report.image_error, report.memory.not_locked), (None, None));
        emulated.stop().expect("stop");
    }
}

#[test]
fn a_server_that_cannot_lock_its_memory_refuses_to_serve_a_block_device() {
    if !bed::can_make_block_devices() {
        return;
    }
    let dir = tempfile::tempdir().expect("dir");
    let state = dir.path().join("state");
    let error =
        Emulated::start(&bare(&state, 16), server_that_cannot_lock()).expect_err("no permission").to_string();
    for part in ["cannot lock the memory", "RLIMIT_MEMLOCK) is 64 KiB", "ulimit -l unlimited"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(fs::read_dir(&state).expect("state").count(), 0, "files left in the state folder");
    // A virtual machine's device does not depend on this machine's memory.
    let mut options = bare(&state, 16);
    options.nbd = Some(dir.path().join("socket"));
    let emulated = Emulated::start(&options, server_that_cannot_lock()).expect("start");
    let memory = emulated.memory().clone();
    assert!(memory.not_locked.is_some_and(|why| why.contains("RLIMIT_MEMLOCK")), "the reason is reported");
    emulated.stop().expect("stop");
}

#[test]
fn memory_can_be_taken_as_data_are_written() {
    if !bed::can_make_block_devices() {
        return;
    }
    let dir = tempfile::tempdir().expect("dir");
    let mut server = bed::server();
    server.env(fonio_emulator::SPARSE_VARIABLE, "1");
    // More than the machine has.
    let emulated = Emulated::start(&bare(&dir.path().join("state"), 1 << 15), server).expect("start");
    assert!(emulated.memory().is_sparse);
    let device = emulated.device().expect("a block device").to_owned();
    let direct = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(&device).expect("open");
    #[repr(align(4096))]
    struct Page([u8; 4096]);
    direct.write_all_at(&Page([7; 4096]).0, 32 * MIB).expect("write");
    let locked = smaps(emulated.server_pid(), "fonio-emulated-disk", "Locked");
    assert!((4..=4096).contains(&locked[0]), "written data are locked: {locked:?} KiB");
    drop(direct);
    emulated.stop().expect("stop");
}

#[test]
fn an_image_on_a_full_disk_fails_commands_and_reports_the_reason() {
    skip_without!(Root, Fuse, Loop, Mkfs, DirectIo);
    let dir = tempfile::tempdir().expect("dir");
    let mut ledger = Ledger::open(&dir.path().join("disk")).expect("ledger");
    let backing = dir.path().join("backing");
    File::create(&backing).and_then(|file| file.set_len(24 * MIB)).expect("file");
    let disk = LoopDevice::attach(&mut ledger, &backing, &LoopOptions::default()).expect("loop");
    Filesystem::Ext4.make(disk.path()).expect("mkfs");
    let (mounted, entry) =
        fonio_host::mount(&mut ledger, disk.path(), Filesystem::Ext4, None, "").expect("mount");
    let mut options = bare(&dir.path().join("state"), 64);
    options.serve.image = Some(mounted.join("image"));
    let mut emulated = Emulated::start(&options, bed::server()).expect("start");
    let fds = fs::read_dir(format!("/proc/{}/fd", emulated.server_pid())).expect("fds").flatten();
    let image = fds.filter(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.ends_with("image"))).map(|fd| {
        let info = fd.path().display().to_string().replace("/fd/", "/fdinfo/");
        let text = fs::read_to_string(info).expect("fdinfo");
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:")).expect("flags").trim();
        i32::from_str_radix(flags, 8).expect("an octal number")
    });
    let flags: Vec<i32> = image.collect();
    assert!(matches!(flags[..], [flags] if flags & libc::O_DIRECT != 0), "one descriptor, direct: {flags:?}");
    let device = emulated.device().expect("a block device").to_owned();
    let node = OpenOptions::new().write(true).open(&device).expect("open");
    let written = node.write_all_at(&vec![7; 48 << 20], 0).and_then(|()| node.sync_all());
    assert!(written.is_err(), "48 MiB do not fit on the disk");
    drop(node);
    let report = emulated.report().expect("the server goes on");
    assert!(report.image_error.is_some_and(|why| why.contains("No space left")), "the reason is reported");
    emulated.stop().expect("stop");
    ledger.undo(entry).expect("unmount");
    disk.detach(&mut ledger).expect("detach");
    ledger.close().expect("close");
    assert_eq!(ByteCount(backing.metadata().expect("file").len()), ByteCount(24 * MIB));
}
