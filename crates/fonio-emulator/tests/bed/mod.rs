//! Shared code of the tests with real emulated devices.
#![allow(dead_code, reason = "each test program uses only a part of this module")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fonio_core::ByteCount;
use fonio_emulator::{Emulated, Options, ServeConfig, Through};
use fonio_host::Filesystem;
use fonio_testing::{Need, has};

#[track_caller]
pub fn can_make_block_devices() -> bool {
    has(&[Need::Root, Need::Fuse, Need::Loop, Need::Mkfs])
}

pub fn server() -> Command {
    Command::new(env!("CARGO_BIN_EXE_fonio-emulator-serve"))
}

/// Creates the options for a device of `mib` MiB with constant service times.
pub fn options(state: &Path, mib: u64) -> Options {
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/profiles/steady.toml");
    let serve = ServeConfig::of(profile, ByteCount(mib << 20), 1);
    Options {
        through: Some(Through::Loop),
        filesystem: Some(Filesystem::Ext4),
        mount: Some(PathBuf::new()),
        ..Options::of(serve, state.to_owned())
    }
}

pub fn kill_server(emulated: &mut Emulated) {
    let server = rustix::process::Pid::from_raw(emulated.server_pid().cast_signed()).expect("a process");
    rustix::process::kill_process(server, rustix::process::Signal::KILL).expect("kill");
    while emulated.runs() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the folder of this process's device, if [`kill_owner`] started this process.
pub fn folder_of_owner() -> Option<PathBuf> {
    std::env::var_os("FONIO_TEST_STATE").map(PathBuf::from)
}

/// Prints the path of the emulated device, then sleeps until this process is killed.
pub fn wait_to_be_killed(emulated: &Emulated) -> ! {
    eprintln!("{}", emulated.device().expect("device").display());
    loop {
        std::thread::park();
    }
}

/// Starts the test `name` in another process, as the owner of a device in `folder`, and kills that process.
/// Returns the path of the device.
pub fn kill_owner(name: &str, folder: &Path) -> PathBuf {
    let mut owner = Command::new(std::env::current_exe().expect("this test"));
    owner.args(["--exact", name, "--nocapture"]).env("FONIO_TEST_STATE", folder);
    let mut owner = owner.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("owner");
    let mut lines = BufReader::new(owner.stderr.take().expect("stderr")).lines().map_while(Result::ok);
    let device = lines.find(|line| line.starts_with("/dev")).expect("it names its device");
    owner.kill().expect("kill");
    owner.wait().expect("wait");
    device.into()
}
