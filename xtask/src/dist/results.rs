//! `cargo xtask dist results`: creates the files of the results service: a static program, a Debian package,
//! and a folder for its container.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::{folder, package};
use crate::process;

/// Creates the folder from which the service's container is built.
pub fn container(program: &Path) -> Result<PathBuf> {
    let context = folder()?.join("results");
    package::install(program, &context.join("fonio-results"), 0o755)?;
    fs::create_dir_all(context.join("data"))?;
    Ok(context)
}

/// Returns how systemd rates the exposure of the unit; `None` if this machine has no systemd.
pub fn exposure() -> Option<String> {
    let unit = process::root().join(package::RESULTS_UNIT);
    let text = process::output(
        Command::new("systemd-analyze").args(["security", "--offline=true", "--no-pager"]).arg(unit),
    )
    .ok()?;
    let line = text.lines().rev().find(|line| line.contains("Overall exposure level"))?;
    Some(line.trim_start_matches(['→', ' ']).to_owned())
}
