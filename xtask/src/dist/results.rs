//! `cargo xtask dist results`: creates the files of the results service: a static program, a Debian package,
//! and a folder for its container.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use fonio_lab::SystemOptions;

use super::target::Target;
use super::{folder, package};
use crate::lab::steps::{all_kept, in_debian, ok, steps_of};
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

/// The files that are copied to the guest.
pub struct Files<'a> {
    /// The path of the service's package.
    pub package: &'a Path,
    /// The path of the service's static program.
    pub program: &'a Path,
    /// The path of the static program fonio.
    pub fonio: &'a Path,
}

/// Tests the package and the image in a new Debian, with a result measured there.
pub fn test(target: Target, files: &Files<'_>) -> Result<()> {
    let options = SystemOptions {
        architecture: target.debian,
        packages: ["podman", "netavark", "nftables", "curl", "fio"].map(str::to_owned).to_vec(),
        memory_mib: 1536,
        ..SystemOptions::default()
    };
    let title = format!("The results service for {target} with systemd and podman");
    let broken = in_debian(&title, &options, |steps| {
        ok(steps.system, "mkdir -p /root/context/data")?;
        steps.system.put(files.package, "/root/fonio-results.deb")?;
        steps.system.put(files.fonio, "/root/fonio")?;
        steps.system.put(files.program, "/root/context/fonio-results")?;
        steps.system.put(&process::root().join("packages/results/Containerfile"), "/root/Containerfile")?;
        steps_of(include_str!("results.steps")).for_each(|step| steps.step(step));
        Ok(())
    })?;
    all_kept(broken)
}
