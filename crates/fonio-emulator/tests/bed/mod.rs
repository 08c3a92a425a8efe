//! Shared code of the tests with real emulated devices.
#![allow(dead_code, reason = "each test file is a program of its own and uses a part")]

use std::path::{Path, PathBuf};
use std::process::Command;

use fonio_core::ByteCount;
use fonio_emulator::{Options, ServeConfig, Through};
use fonio_host::Filesystem;
use fonio_testing::{Need, has};

#[track_caller]
pub fn can_make_block_devices() -> bool {
    has(&[Need::Root, Need::Fuse, Need::Loop, Need::Mkfs])
}

pub fn server() -> Command {
    Command::new(env!("CARGO_BIN_EXE_fonio-emulator-serve"))
}

/// A device of `mib` MiB with constant times.
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
