//! `cargo xtask lab test`: checks in guests with Debian's kernels, and in complete Debian systems.
//!
//! *Waits*: blocked threads, on several kernels. *Watch*: the watch's view of I/O. *Keep*: settings that are
//! kept across reboots. *System*: a complete Debian with systemd. *Sync policy*: the fix over a reboot and a
//! power cut. `cargo studies guests` measures how well guests repeat.

mod keep;
mod sync_policy;
pub mod system;
mod waits;
mod watch;

use std::process::Command;

use anyhow::{Result, bail, ensure};

use crate::{process, tools};

const PARTS: [&str; 5] = ["waits", "watch", "keep", "system", "sync-policy"];

/// `cargo xtask lab test [waits] [watch] [keep] [system] [sync-policy]`.
pub fn run(arguments: &[String]) -> Result<()> {
    let [what, parts @ ..] = arguments else { bail!("write `cargo xtask lab test`") };
    ensure!(what == "test", "there is only `cargo xtask lab test`");
    if let Some(unknown) = parts.iter().find(|part| !PARTS.contains(&part.as_str())) {
        bail!("unknown part `{unknown}`; use {}", PARTS.join(", "));
    }
    tools::ensure(&[tools::BUILD, tools::GUEST])?;
    let wants = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    let stop = process::outlive_signals()?;
    let mut broken = 0;
    if wants("waits") || wants("watch") {
        let fonio = process::build_fonio()?;
        process::run(Command::new(&fonio).args(["lab", "fetch"]))?;
        if wants("waits") {
            broken += waits::run(&fonio)?;
        }
        if wants("watch") {
            broken += watch::run(&fonio)?;
        }
    }
    if PARTS[2..].iter().any(|part| wants(part)) {
        tools::ensure(&[tools::SYSTEM_GUEST])?;
    }
    if wants("keep") {
        broken += keep::run(&process::build_fonio()?, &stop)?;
    }
    if wants("system") {
        broken += system::run(&stop)?;
    }
    if wants("sync-policy") {
        sync_policy::run()?;
    }
    ensure!(broken == 0, "{broken} of the promises do not hold, marked *");
    Ok(())
}
