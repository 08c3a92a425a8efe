//! Tests emulated ublk devices, on a kernel with ublk.

use crate::bed;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fonio_emulator::{Emulated, Kind, Log, Options, Through};
use fonio_host::{Ledger, mounts_under};
use fonio_testing::{Need, has, skip_part};
use rustix::ioctl::{self, Opcode, Setter};

const MIB: u64 = 1 << 20;

/// Each test holds this lock, because device numbers are reused and a leftover device could not be
/// distinguished from another test's device.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[track_caller]
fn ublk_devices() -> Option<MutexGuard<'static, ()>> {
    let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    has(&[Need::Root, Need::Ublk]).then_some(turn)
}

/// Creates the options for a 64 MiB ublk device with constant service times and this queue depth.
fn options(dir: &Path, depth: u32) -> Options {
    let mut options = bed::options(&dir.join("state"), 64);
    let steady = fs::read_to_string(&options.serve.profile).expect("profile");
    let profile = dir.join(format!("depth-{depth}.toml"));
    fs::write(&profile, steady.replace("depth = { value = 8", &format!("depth = {{ value = {depth}")))
        .expect("profile");
    options.serve.profile = profile.display().to_string();
    options.through = Some(Through::Ublk);
    // The tests must also pass on machines that are too slow for the device, such as virtual machines.
    options.at_floor = true;
    (options.filesystem, options.mount) = (None, None);
    options
}

fn sysfs(device: &Path) -> PathBuf {
    Path::new("/sys/block").join(device.file_name().expect("name"))
}

fn nothing_is_left(dir: &Path, device: &Path) {
    assert_eq!(fs::read_dir(dir.join("state")).expect("state").count(), 0, "files left in the state folder");
    assert!(mounts_under(dir).expect("mounts").is_empty());
    let character = device.display().to_string().replace("ublkb", "ublkc");
    let class = Path::new("/sys/class/ublk-char").join(Path::new(&character).file_name().expect("name"));
    assert!(!sysfs(device).exists() && !class.exists(), "{} is left", device.display());
}

fn open_direct(device: &Path, more: i32) -> File {
    let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT | more).open(device);
    opened.expect("open")
}

/// A buffer of 4 KiB, filled with one value and aligned for direct I/O.
#[repr(align(4096))]
struct Page([u8; 4096]);

fn discard(device: &File, offset: u64, bytes: u64) {
    const BLKDISCARD: Opcode = 0x1277;
    // SAFETY: BLKDISCARD reads two numbers of 64 bits and keeps no pointer to them.
    unsafe { ioctl::ioctl(device, Setter::<BLKDISCARD, [u64; 2]>::new([offset, bytes])) }.expect("discard");
}

#[test]
fn the_queue_has_the_limits_of_the_device_and_its_commands_arrive() {
    let Some(_turn) = ublk_devices() else { return };
    for depth in [1_u32, 2, 32] {
        let dir = tempfile::tempdir().expect("dir");
        let mut options = options(dir.path(), depth);
        options.serve.log = Some(dir.path().join("log"));
        let mut emulated = Emulated::start(&options, bed::server()).expect("start");
        let node = emulated.device().expect("a block device").to_owned();
        assert_eq!((emulated.depth(), emulated.through()), (depth, Some(Through::Ublk)));

        let attribute = |name: &str| {
            let text = fs::read_to_string(sysfs(&node).join(name)).expect(name);
            text.trim().to_owned()
        };
        assert_eq!(attribute("mq/0/nr_tags"), depth.to_string());
        assert!(!sysfs(&node).join("mq/1").exists(), "one hardware queue");
        for (name, expected) in [
            ("size", "131072"),
            ("queue/write_cache", "write back"),
            ("queue/fua", "1"),
            ("queue/rotational", "0"),
            ("queue/max_sectors_kb", "512"),
            ("queue/logical_block_size", "512"),
            ("queue/discard_granularity", "4096"),
            ("queue/scheduler", "[none]"),
        ] {
            let found = attribute(name);
            assert!(found.starts_with(expected), "{name} is {found}");
        }

        let file = open_direct(&node, 0);
        let mut page = Page([0; 4096]);
        for number in 0..16_u8 {
            page.0.fill(number + 1);
            file.write_all_at(&page.0, u64::from(number) * MIB).expect("write");
        }
        file.sync_data().expect("flush");
        page.0.fill(0xa5);
        open_direct(&node, libc::O_DSYNC).write_all_at(&page.0, 20 * MIB).expect("synchronous write");
        discard(&file, MIB, 4096);
        let zeroed = rustix::fs::FallocateFlags::ZERO_RANGE | rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, zeroed, 2 * MIB, 4096).expect("write zeroes");
        for (mib, expected) in [(0, 1), (1, 0), (2, 0), (3, 4), (15, 16), (20, 0xa5)] {
            page.0.fill(0xff);
            file.read_exact_at(&mut page.0, mib * MIB).expect("read");
            assert_eq!(page.0, [expected; 4096], "wrong data at {mib} MiB with depth {depth}");
        }
        // Write more than one command through the page cache, so that many commands are in flight.
        let content: Vec<u8> = (0_u32..1 << 20).flat_map(u32::to_le_bytes).collect();
        let cached = OpenOptions::new().read(true).write(true).open(&node).expect("open");
        cached.write_all_at(&content, 32 * MIB).expect("write");
        cached.sync_all().expect("sync");
        fonio_host::drop_device_cache(&node).expect("drop");
        let mut seen = vec![0; content.len()];
        cached.read_exact_at(&mut seen, 32 * MIB).expect("read");
        assert!(seen == content);
        drop((file, cached));

        let report = emulated.report().expect("report");
        assert!(report.host_written.0 >= 4 * MIB && report.host_read.0 >= 4 * MIB, "{report:?}");
        assert!(report.cpu_ns.0 > 0 && report.lateness.commands > 0, "{report:?}");
        emulated.stop().expect("stop");
        nothing_is_left(dir.path(), &node);

        let log = Log::open(&dir.path().join("log")).expect("log");
        let count = |kind| log.records.iter().filter(|record| record.kind == kind).count();
        assert!(count(Kind::Flush) >= 1 && count(Kind::Discard) == 1 && count(Kind::WriteZeroes) == 1);
        assert!(log.records.iter().any(|record| record.kind == Kind::Write && record.fua));
    }
}

#[test]
fn every_scheduler_of_the_kernel_can_be_chosen_and_a_wrong_one_leaves_nothing_behind() {
    let Some(_turn) = ublk_devices() else { return };
    let dir = tempfile::tempdir().expect("dir");
    let mut options = options(dir.path(), 1);
    options.scheduler = "no-such-scheduler".to_owned();
    let error = Emulated::start(&options, bed::server()).expect_err("there is none").to_string();
    assert!(error.contains("no scheduler `no-such-scheduler`"), "{error}");
    assert_eq!(fs::read_dir(dir.path().join("state")).expect("state").count(), 0);
    let (_, offered) = error.split_once("it has ").expect("the offered ones");
    for scheduler in offered.split(", ") {
        options.scheduler = scheduler.to_owned();
        let emulated = Emulated::start(&options, bed::server()).expect(scheduler);
        let device = emulated.device().expect("device").to_owned();
        assert_eq!(fs::read_to_string(sysfs(&device).join("mq/0/nr_tags")).expect("tags").trim(), "1");
        emulated.stop().expect("stop");
        nothing_is_left(dir.path(), &device);
    }
}

#[test]
fn a_file_system_keeps_its_files() {
    let Some(_turn) = ublk_devices().filter(|_| has(&[Need::Mkfs])) else { return };
    let dir = tempfile::tempdir().expect("dir");
    let mut options = options(dir.path(), 2);
    (options.filesystem, options.mount) = (Some(fonio_host::Filesystem::Ext4), Some(PathBuf::new()));
    let emulated = Emulated::start(&options, bed::server()).expect("start");
    let device = emulated.device().expect("device").to_owned();
    let file = emulated.mount_dir().expect("mounted").join("file");
    let content: Vec<u8> = (0_u32..1 << 20).flat_map(u32::to_le_bytes).collect();
    fs::write(&file, &content).expect("write");
    File::open(&file).and_then(|file| file.sync_all()).expect("sync");
    fonio_host::drop_file_cache(&file).expect("drop");
    assert!(fs::read(&file).expect("read") == content);
    emulated.stop().expect("stop");
    nothing_is_left(dir.path(), &device);
}

#[test]
fn stopping_writes_back_what_the_kernel_has_cached() {
    let Some(_turn) = ublk_devices() else { return };
    let dir = tempfile::tempdir().expect("dir");
    let image = dir.path().join("image");
    let mut options = options(dir.path(), 1);
    options.serve.image = Some(image.clone());
    let emulated = Emulated::start(&options, bed::server()).expect("start");
    let device = emulated.device().expect("device").to_owned();
    let file = OpenOptions::new().write(true).open(&device).expect("open");
    file.write_all_at(&[7; 100_000], 8 * MIB).expect("write");
    // Stop the device while it is still open, as if it were mounted.
    emulated.stop().expect("stop");
    nothing_is_left(dir.path(), &device);
    assert!(file.write_all_at(&[7; 4096], 0).and_then(|()| file.sync_all()).is_err());
    let mut seen = [0; 100_000];
    File::open(&image).and_then(|image| image.read_exact_at(&mut seen, 8 * MIB)).expect("read");
    assert!(seen == [7; 100_000]);
}

#[test]
fn faults_reach_the_host() {
    let Some(_turn) = ublk_devices() else { return };
    let dir = tempfile::tempdir().expect("dir");
    let mut options = options(dir.path(), 1);
    options.serve.faults = vec!["error:op=read,range=4M-5M".to_owned()];
    let mut emulated = Emulated::start(&options, bed::server()).expect("start");
    let file = File::open(emulated.device().expect("device")).expect("open");
    let read = |mib: u64| file.read_exact_at(&mut [0; 4096], mib * MIB);
    assert!(read(8).is_ok() && read(4).is_err());
    assert!(emulated.report().expect("report").failed >= 1);
    drop(file);
    emulated.stop().expect("stop");
}

#[test]
fn a_request_in_flight_is_waited_for_or_fails_with_its_server() {
    let Some(_turn) = ublk_devices() else { return };
    for (delay, is_killed) in [("1s", false), ("1000s", true)] {
        let dir = tempfile::tempdir().expect("dir");
        let mut options = options(dir.path(), 1);
        options.serve.faults = vec![format!("delay:op=read,range=4M-5M,add={delay}")];
        let mut emulated = Emulated::start(&options, bed::server()).expect("start");
        let device = emulated.device().expect("device").to_owned();
        let file = open_direct(&device, 0);
        let read = |offset| {
            let file = file.try_clone().expect("clone");
            std::thread::spawn(move || file.read_exact_at(&mut Page([0; 4096]).0, offset).is_ok())
        };
        let first = read(4 * MIB);
        let in_flight = || fs::read_to_string(sysfs(&device).join("inflight")).expect("inflight");
        while in_flight().split_whitespace().next() == Some("0") {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Either this request waits in the kernel, because the queue depth is 1, or the device no longer
        // exists.
        let second = read(9 * MIB);
        drop(file);
        if is_killed {
            bed::kill_server(&mut emulated);
        }
        assert_eq!(emulated.stop().is_err(), is_killed);
        assert_eq!(first.join().expect("no panic"), !is_killed);
        let second = second.join().expect("no panic");
        assert!(!(is_killed && second));
        nothing_is_left(dir.path(), &device);
    }
}

#[test]
fn a_killed_server_and_a_killed_owner_leave_nothing_behind() {
    let Some(_turn) = ublk_devices() else { return };
    let with_file_system = |mut options: Options| {
        if fonio_testing::find_program("mkfs.ext4").is_some() {
            (options.filesystem, options.mount) = (Some(fonio_host::Filesystem::Ext4), Some(PathBuf::new()));
        } else {
            skip_part(Need::Mkfs, "the devices are killed without a mounted file system");
        }
        options
    };
    let start = |dir: &Path| {
        let emulated = Emulated::start(&with_file_system(options(dir, 1)), bed::server()).expect("start");
        let device = emulated.device().expect("device").to_owned();
        let file = emulated.mount_dir().map_or(device, |dir| dir.join("file"));
        // Leave dirty data in the page cache.
        fs::write(file, [7; 100_000]).expect("write");
        emulated
    };
    if let Some(dir) = bed::folder_of_owner() {
        bed::wait_to_be_killed(&start(&dir));
    }
    let dir = tempfile::tempdir().expect("dir");
    let mut emulated = start(dir.path());
    let device = emulated.device().expect("device").to_owned();
    bed::kill_server(&mut emulated);
    assert!(emulated.stop().is_err(), "a killed server cannot report");
    nothing_is_left(dir.path(), &device);

    let name = "ublk::a_killed_server_and_a_killed_owner_leave_nothing_behind";
    let device = bed::kill_owner(name, dir.path());
    let recovery = Ledger::recover(&dir.path().join("state")).expect("recover");
    assert!(recovery.failed.is_empty(), "{recovery:?}");
    assert!(recovery.undone.contains(&device.display().to_string()), "{recovery:?}");
    nothing_is_left(dir.path(), &device);
}

#[test]
fn where_the_driver_is_missing_the_error_says_what_to_do() {
    if !has(&[Need::Root]) || Path::new("/dev/ublk-control").exists() {
        return;
    }
    let dir = tempfile::tempdir().expect("dir");
    let error = Emulated::start(&options(dir.path(), 1), bed::server()).expect_err("there is no driver");
    assert!(error.to_string().contains("modprobe ublk_drv"), "{error}");
    assert_eq!(fs::read_dir(dir.path().join("state")).expect("state").count(), 0);
}
