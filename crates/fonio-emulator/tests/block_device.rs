//! Tests emulated block devices on a real kernel.

use crate::bed;

use std::fs;
use std::path::Path;
use std::time::Duration;

use fonio_emulator::{Emulated, EmulatorError};
use fonio_host::{Ledger, mounts_under};

fn nothing_is_left(state: &Path, device: &Path) {
    assert_eq!(fs::read_dir(state).expect("state").count(), 0, "files left in the state folder");
    assert!(mounts_under(state).expect("mounts").is_empty());
    // Loop device numbers are reused, so check the backing file.
    let loop_device = Path::new("/sys/block").join(device.file_name().expect("name"));
    let below = fs::read_to_string(loop_device.join("loop/backing_file")).unwrap_or_default();
    assert!(!Path::new(&below).starts_with(state), "{below}");
}

#[test]
fn files_are_kept_and_nothing_is_left_behind() {
    if !bed::can_make_block_devices() {
        return;
    }
    let state = tempfile::tempdir().expect("dir");
    let mut emulated = Emulated::start(&bed::options(state.path(), 64), bed::server()).expect("start");
    let device = emulated.device().expect("a block device").to_owned();
    let file = emulated.mount_dir().expect("mounted").join("file");
    let content: Vec<u8> = (0_u32..1 << 20).flat_map(u32::to_le_bytes).collect();
    fs::write(&file, &content).expect("write");
    fs::File::open(&file).and_then(|file| file.sync_all()).expect("sync");
    fonio_host::drop_file_cache(&file).expect("drop");
    assert!(fs::read(&file).expect("read") == content);
    assert_eq!(emulated.depth(), 8);
    let report = emulated.report().expect("report");
    assert!(report.host_written.0 >= 4 << 20 && report.host_read.0 >= 4 << 20, "{report:?}");
    assert!(report.cpu_ns.0 > 0 && report.lateness.commands > 0);
    emulated.stop().expect("stop");
    nothing_is_left(state.path(), &device);
}

#[test]
fn an_error_on_the_way_leaves_nothing_behind() {
    if !bed::can_make_block_devices() {
        return;
    }
    let state = tempfile::tempdir().expect("dir");
    let mut options = bed::options(state.path(), 64);
    options.mount_options = "no-such-option".to_owned();
    let error = Emulated::start(&options, bed::server()).expect_err("mount refuses it");
    assert!(matches!(error, EmulatorError::Host(_)), "{error}");
    options.mount_options = String::new();
    options.serve.profile = "no-such-card".to_owned();
    let error = Emulated::start(&options, bed::server()).expect_err("the profile does not exist");
    assert!(error.to_string().contains("no-such-card"), "{error}");
    assert_eq!(fs::read_dir(state.path()).expect("state").count(), 0);
    assert!(mounts_under(state.path()).expect("mounts").is_empty());
}

#[test]
fn an_image_with_data_must_be_named_twice_and_its_size_must_be_right() {
    if !bed::can_make_block_devices() {
        return;
    }
    let state = tempfile::tempdir().expect("dir");
    let image = state.path().join("image");
    let mut bytes = vec![0; 64 << 20];
    bytes[70_000] = 1;
    fs::write(&image, &bytes).expect("write");
    let mut options = bed::options(&state.path().join("state"), 64);
    options.serve.image = Some(image.clone());
    let error = Emulated::start(&options, bed::server()).expect_err("it holds data");
    assert!(error.to_string().contains("add --erase"), "{error}");
    assert!(fs::read(&image).expect("read") == bytes, "nothing was written");
    options.serve.capacity = fonio_core::ByteCount(32 << 20);
    let error = Emulated::start(&options, bed::server()).expect_err("another size");
    assert!(error.to_string().contains("67108864 bytes"), "{error}");
    options.serve.capacity = fonio_core::ByteCount(64 << 20);
    options.confirmation = fonio_host::Confirmation::NamedTwice;
    Emulated::start(&options, bed::server()).expect("start").stop().expect("stop");
    assert!(fs::read(&image).expect("read") != bytes);
}

#[test]
fn faults_reach_the_host() {
    if !bed::can_make_block_devices() {
        return;
    }
    let state = tempfile::tempdir().expect("dir");
    let start = |fault: &str| {
        let mut options = bed::options(state.path(), 16);
        (options.filesystem, options.mount) = (None, None);
        options.serve.faults = vec![fault.to_owned()];
        Emulated::start(&options, bed::server()).expect("start")
    };
    let read = |emulated: &Emulated, megabyte: u64| {
        use std::os::unix::fs::FileExt;
        let file = fs::File::open(emulated.device().expect("device")).expect("open");
        let mut bytes = vec![1; 4096];
        file.read_exact_at(&mut bytes, megabyte << 20).map(|()| bytes)
    };
    let mut emulated = start("error:op=read,range=4M-5M");
    assert!(read(&emulated, 8).is_ok());
    assert!(read(&emulated, 4).is_err());
    assert!(emulated.report().expect("report").failed >= 1);
    emulated.stop().expect("stop");
    let emulated = start("flip:range=4M-5M");
    let ones: u32 = read(&emulated, 4).expect("no error").iter().map(|byte| byte.count_ones()).sum();
    assert!(ones >= 1);
    emulated.stop().expect("stop");
    let emulated = start("vanish:after=200ms");
    std::thread::sleep(Duration::from_millis(300));
    assert!(read(&emulated, 9).is_err());
    emulated.stop().expect("stop");
}

#[test]
fn a_killed_server_and_a_killed_owner_leave_nothing_behind() {
    if !bed::can_make_block_devices() {
        return;
    }
    let start = |state: &Path| {
        let emulated = Emulated::start(&bed::options(state, 64), bed::server()).expect("start");
        fs::write(emulated.mount_dir().expect("mounted").join("file"), [7; 100_000]).expect("write");
        emulated
    };
    if let Some(state) = bed::folder_of_owner() {
        bed::wait_to_be_killed(&start(&state));
    }
    let state = tempfile::tempdir().expect("dir");
    let mut emulated = start(state.path());
    let device = emulated.device().expect("device").to_owned();
    bed::kill_server(&mut emulated);
    assert!(emulated.stop().is_err(), "a killed server cannot report");
    nothing_is_left(state.path(), &device);

    let name = "block_device::a_killed_server_and_a_killed_owner_leave_nothing_behind";
    let device = bed::kill_owner(name, state.path());
    let recovery = Ledger::recover(state.path()).expect("recover");
    assert!(recovery.failed.is_empty(), "{recovery:?}");
    nothing_is_left(state.path(), &device);
}
