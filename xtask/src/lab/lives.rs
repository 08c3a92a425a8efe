//! The part *lives* of `cargo xtask lab test`: checks on f2fs, which this machine's kernel may lack, that files
//! with one inode number keep their names.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::KERNELS;
use crate::emulated::in_guest;
use crate::process;

/// The test that runs in a guest, on the mounted emulated device.
const TEST: &str = "lives::files_of_the_emulated_device_keep_their_names";
/// A fast device, slowed down so far that this machine can emulate it.
const DEVICE: [&str; 3] = ["nvme", "--dilate", "50"];

/// Runs the test on each kernel. Returns the number of kernels on which it failed.
pub fn run(fonio: &Path) -> Result<u32> {
    println!(
        "A program writes 10,000 files, several of which have the same inode number in turn, on f2fs; on Debian's kernels:\n"
    );
    let test = test_program()?;
    let mut broken = 0;
    for kernel in KERNELS {
        process::check_signals()?;
        let mut command = process::bound_to_this(fonio);
        command.args(["device", "emulate"]).args(DEVICE);
        command.args(["--fs", "f2fs", "--mount", "--in", kernel, "--"]);
        match in_guest(command.arg(&test).args(["--exact", TEST, "--nocapture"])) {
            Ok(_) => println!("{kernel:<12} right"),
            Err(error) => {
                broken += 1;
                println!("{kernel:<12} WRONG *\n{error:#}");
            }
        }
    }
    println!("\nPromised: no byte has the name of another file.\n");
    Ok(broken)
}

/// Builds the tests of live recordings, and returns their program.
fn test_program() -> Result<PathBuf> {
    #[derive(Deserialize)]
    struct Line {
        executable: Option<PathBuf>,
    }
    let mut command = process::cargo();
    command.args(["test", "--no-run", "--message-format=json-render-diagnostics"]);
    command.args(["-p", "fonio-record", "--test", "integration"]).stderr(Stdio::inherit());
    let out = command.output().context("cannot start cargo")?;
    ensure!(out.status.success(), "{} failed: {}", process::shown(&command), out.status);
    let lines = out.stdout.split(|byte| *byte == b'\n');
    let program = lines.filter_map(|line| serde_json::from_slice::<Line>(line).ok()?.executable).next_back();
    program.context("cargo named no test program")
}
