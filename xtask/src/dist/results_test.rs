//! `cargo xtask dist results test`: tests the package and the image of the results service in a new Debian,
//! with a result that is measured in this Debian.

use std::path::Path;

use anyhow::Result;
use fonio_lab::SystemOptions;

use super::target::Target;
use crate::lab::steps::{all_kept, in_debian, ok, steps_of};
use crate::process;

/// The files that are copied to the guest.
pub struct Files<'a> {
    /// The path of the service's package.
    pub package: &'a Path,
    /// The path of the service's static program.
    pub program: &'a Path,
    /// The path of the static program fonio.
    pub fonio: &'a Path,
}

/// Runs all test steps in a guest.
pub fn run(target: Target, files: &Files<'_>) -> Result<()> {
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
