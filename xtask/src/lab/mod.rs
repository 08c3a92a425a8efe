//! `cargo xtask lab test`: checks fonio in guests with Debian's kernels, and in complete Debian systems.
//!
//! The part *waits* checks how blocked threads are recorded on several kernels, *watch* checks the I/O that
//! the watch reports, *lives* checks the names of files on f2fs, *keep* checks whether settings are kept across
//! reboots, *system* checks a complete Debian with systemd, *sync-policy* checks whether the fix
//! `sync-policy` survives a reboot and a power cut, *pressure* checks that an emulated card never blocks the
//! machine, and *phone* checks `--in android` with a guest that stands for a phone. `cargo studies guests` measures how repeatable results in guests are.

mod keep;
mod lives;
mod phone;
mod pressure;
mod rate;
pub mod steps;
mod sync_policy;
mod system;
mod waits;
mod watch;

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use clap::{Args, Subcommand};
use fonio_lab::Architecture;

use crate::emulated::in_guest;
use crate::{process, tools};

const PARTS: [&str; 9] =
    ["waits", "watch", "lives", "keep", "rate", "system", "sync-policy", "pressure", "phone"];

/// The options of `cargo xtask lab`.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Check fonio's promises in guests with Debian's kernels and complete Debian systems (one hour).
    Test {
        /// Check only these parts.
        #[arg(value_parser = PARTS)]
        parts: Vec<String>,
        /// Run only these cases of the part `pressure`; the results of its other cases are kept.
        #[arg(long, value_name = "CASE", value_parser = pressure::names())]
        only: Vec<String>,
        /// Run the part `phone` on these architectures, separated by commas.
        #[arg(long, value_name = "ARCHITECTURE", value_delimiter = ',', default_value = "amd64")]
        arch: Vec<Architecture>,
    },
}

/// Checks the named parts. If no part is named, checks all parts.
pub fn run(Arguments { action: Action::Test { parts, only, arch } }: &Arguments) -> Result<()> {
    tools::ensure(&[tools::BUILD, tools::GUEST])?;
    let wants = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    process::outlive_signals()?;
    let mut broken = 0;
    if wants("waits") || wants("watch") || wants("lives") {
        let fonio = process::build_fonio()?;
        process::run(Command::new(&fonio).args(["lab", "fetch"]))?;
        if wants("waits") {
            broken += waits::run(&fonio)?;
        }
        if wants("watch") {
            broken += watch::run(&fonio)?;
        }
        if wants("lives") {
            broken += lives::run(&fonio)?;
        }
    }
    if wants("keep") {
        broken += keep::run(&process::build_fonio()?)?;
    }
    if wants("rate") {
        broken += rate::run()?;
    }
    if wants("system") {
        broken += system::run()?;
    }
    if wants("sync-policy") {
        broken += sync_policy::run()?;
    }
    if wants("pressure") {
        broken += pressure::run(only)?;
    }
    if wants("phone") {
        broken += phone::run(arch)?;
    }
    ensure!(broken == 0, "{broken} promises were broken (marked *)");
    Ok(())
}

/// The kernels on which recordings are checked.
const KERNELS: [&str; 3] = ["lab:6.1", "lab:6.12", "lab:newest"];

/// Prints whether the behaviour on a kernel is right, and why. Returns the number of wrong behaviours.
fn judged(kernel: &str, is_right: bool, why: &str) -> u32 {
    println!("{kernel:<21} {}{why}", if is_right { "right" } else { "WRONG *" });
    u32::from(!is_right)
}

/// Runs a script in a guest with this kernel and an emulated card with ext4. Returns the output of the
/// script.
fn on_kernel(fonio: &Path, kernel: &str, script: &str) -> Result<String> {
    process::check_signals()?;
    let mut command = process::bound_to_this(fonio);
    command.args(["device", "emulate", "transcend", "--fs", "ext4", "--mount", "--in", kernel]);
    Ok(in_guest(command.args(["--", "sh", "-c", script]))?.0)
}
