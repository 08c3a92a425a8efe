//! Checks the types of the distributed programs for 32-bit ARM, which has other system calls and sizes. Linked programs
//! for it need a C library and take minutes, so they are only made for a release (`arm.rs`).

use anyhow::Result;

use super::program::{FONIO, RECORDER, RESULTS, component_of_target};
use super::sysroot;
use crate::process;

/// A target that rustup has the library for. It has the system calls of the distributed target, but another C library.
const TARGET: &str = "armv7-unknown-linux-gnueabihf";

/// Fails if a program does not compile. If rustup has no library for the target, says so.
pub fn check() -> Result<()> {
    if let Err(error) = component_of_target(TARGET, &sysroot()?) {
        println!("skipped: the programs are not compiled for 32-bit ARM: {error:#}");
        return Ok(());
    }
    let variable = |name: &str| format!("{name}_{}", TARGET.replace('-', "_"));
    let mut cargo = process::cargo();
    cargo.args(["check", "--target", TARGET]);
    for program in [FONIO, RECORDER, RESULTS] {
        cargo.args(["--package", program.name]);
    }
    // Nothing is linked, so the C code of dependencies need not be compiled: `true` does nothing.
    cargo.env(variable("CC"), "true").env(variable("AR"), "true");
    let flags = "-D warnings --cfg=io_uring_skip_arch_check";
    cargo.env(format!("CARGO_TARGET_{}_RUSTFLAGS", TARGET.replace('-', "_").to_uppercase()), flags);
    process::run(&mut cargo)
}
