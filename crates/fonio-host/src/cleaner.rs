//! Runs NILFS2's cleaner, which frees the space of overwritten and deleted data.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use fonio_system::ProcessId;

use crate::error::HostError;
use crate::ledger::{Ledger, Step};
use crate::program;

const PROGRAM: &str = "nilfs_cleanerd";
const PACKAGE: &str = "nilfs-tools";

/// The cleaner's settings. They are Debian's, except for the first one: by default, the cleaner does not free
/// data that were deleted within the last hour, so a nearly full file system would stay full for the whole
/// run.
const SETTINGS: &str = include_str!("nilfs_cleanerd.conf");

/// A running nilfs_cleanerd. Dropping this value kills the daemon.
#[derive(Debug)]
pub struct Cleaner(Child);

impl Cleaner {
    /// Starts the cleaner of the NILFS2 file system on `device`, which is mounted on `dir`. Writes the
    /// cleaner's settings to the new file `settings`. They are Debian's settings, except that the cleaner may
    /// free space at once. The cleaner starts to free space when less than a tenth of the device is free.
    /// Fails with [`HostError::ProgramMissing`], or [`HostError::System`] if the cleaner cannot be started.
    pub fn start(
        ledger: &mut Ledger,
        device: &Path,
        dir: &Path,
        settings: &Path,
    ) -> Result<Cleaner, HostError> {
        fs::write(settings, SETTINGS).map_err(HostError::system("write", settings))?;
        let mut command = Command::new(PROGRAM);
        program::find_in_system(&mut command);
        command.arg("-n").arg("-c").args([settings, device, dir]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => {
                HostError::ProgramMissing { program: PROGRAM.to_owned(), package: PACKAGE }
            }
            _ => HostError::system("start", PROGRAM)(source),
        })?;
        let cleaner = Cleaner(child);
        if let Some(id) = ProcessId::of(cleaner.0.id()) {
            ledger.begin(Step::Process { id, leads_group: false })?;
        }
        Ok(cleaner)
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
