//! The part *rate* of `cargo xtask lab test`: checks that a limit of a process or a command holds, that undo moves
//! the processes back, and that nothing stays. With systemd, the groups are scopes, so this needs a complete
//! Debian; without systemd, they are folders, which a small guest checks.

use std::path::Path;

use anyhow::Result;
use fonio_lab::SystemOptions;

use crate::lab::on_kernel;
use crate::lab::steps::{Steps, contains, in_debian, ok, shown, steps_of};
use crate::process;

const DISK_BYTES: u64 = 1 << 30;
/// The kernel of the small guest.
const KERNEL: &str = "lab:6.12";

/// Functions for the steps.
const FUNCTIONS: &str = include_str!("rate.sh");
/// A script that makes a file system on the second disk, a service, and a service that starts jobs.
const PREPARE: &str = include_str!("rate_prepare.sh");
const STEPS: &str = include_str!("rate.steps");

/// A script that runs the same checks in a guest without systemd, and the lines that its output must contain.
const WITHOUT_SYSTEMD: &str = include_str!("rate_without_systemd.sh");
const WITHOUT_SYSTEMD_SAID: &str = include_str!("rate_without_systemd.txt");

/// Runs all checks. Returns the number of broken promises.
pub fn run() -> Result<u32> {
    let fonio = process::build_fonio_for_tests()?;
    let folder = tempfile::tempdir()?;
    let functions = folder.path().join("rate.sh");
    std::fs::write(&functions, FUNCTIONS)?;
    let stripped = fonio_lab::stripped(&fonio, &folder.path().join("fonio"))?;
    let options = SystemOptions { disks: vec![DISK_BYTES], ..SystemOptions::default() };
    let mut broken = in_debian("Rates of processes and commands", &options, |steps: &mut Steps<'_, '_>| {
        steps.system.put(&stripped, "/usr/local/bin/fonio")?;
        steps.system.put(&functions, "/root/rate.sh")?;
        ok(steps.system, "chmod +x /usr/local/bin/fonio")?;
        ok(steps.system, PREPARE)?;
        for (script, wanted, what) in steps_of(STEPS) {
            steps.step((&format!(". /root/rate.sh\n{script}"), wanted, what));
        }
        Ok(())
    })?;
    broken += without_systemd(&fonio)?;
    println!("\nPromised: all of these. A rate holds if it is between half and twice the limit.\n");
    Ok(broken)
}

fn without_systemd(fonio: &Path) -> Result<u32> {
    println!("\nThe same without systemd, on {KERNEL}:\n");
    let said = on_kernel(fonio, KERNEL, &format!("{FUNCTIONS}\n{WITHOUT_SYSTEMD}"));
    let mut broken = 0;
    for line in WITHOUT_SYSTEMD_SAID.lines() {
        let (holds, found) =
            contains(said.as_ref().map(String::clone).map_err(|error| anyhow::anyhow!("{error:#}")), line);
        broken += u32::from(!shown(line, holds, &found));
    }
    Ok(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_read() {
        assert_eq!(steps_of(STEPS).count(), 24);
        for line in WITHOUT_SYSTEMD_SAID.lines() {
            assert!(WITHOUT_SYSTEMD.contains(line.split(':').next().unwrap_or_default()), "{line}");
        }
    }
}
