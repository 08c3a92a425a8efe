//! Creates the directory that is mounted: in a tmpfs, in a user's directory, or on an emulated device.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Result;
use fonio_host::Ledger;
use serde::{Deserialize, Serialize};

use crate::emulated::{Emulated, Options};
use crate::process;

const DEVICE_SIZE: &str = "2GiB";

/// Size of the tmpfs: twice the size of the largest file.
const TMPFS_BYTES: u64 = 1 << 30;

/// The mounted directory and its mount point. Everything that was created for them is removed when this value
/// is dropped.
pub struct Place {
    pub source: PathBuf,
    pub dir: PathBuf,
    #[expect(dead_code, reason = "dropping it removes the source directory's file system")]
    below: Below,
}

#[expect(dead_code, reason = "the values are only dropped")]
enum Below {
    Users,
    Tmpfs(Ledger),
    Emulated(Emulated),
}

impl Place {
    /// Uses a directory of the user as the mounted directory.
    pub fn over(folder: &Path, source: PathBuf) -> Result<Self> {
        Ok(Self { source, dir: subfolder(folder, "mounted")?, below: Below::Users })
    }

    /// Creates a tmpfs that contains the mounted directory.
    pub fn tmpfs(folder: &Path) -> Result<Self> {
        let mut ledger = Ledger::open(&Ledger::default_dir())?;
        let (source, _) = fonio_host::mount_tmpfs(&mut ledger, TMPFS_BYTES)?;
        Ok(Self { source, dir: subfolder(folder, "mounted")?, below: Below::Tmpfs(ledger) })
    }

    /// Creates a file system on a new emulated device, for the mounted directory.
    pub fn emulated(folder: &Path, fonio: &Path, setup: &Setup) -> Result<Self> {
        let source = subfolder(folder, "source")?;
        let mounted = Some((setup.file_system.as_ref(), source.as_path()));
        let emulated = Emulated::start(fonio, &Options { mounted, ..setup.bare() })?;
        Ok(Self { source, dir: subfolder(folder, "mounted")?, below: Below::Emulated(emulated) })
    }
}

fn subfolder(folder: &Path, name: &str) -> Result<PathBuf> {
    let dir = folder.join(name);
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// The layers between a file and an emulated device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    pub profile: Cow<'static, str>,
    pub file_system: Cow<'static, str>,
    pub scheduler: Cow<'static, str>,
    /// The seed of the emulated device.
    pub seed: u64,
}

impl Setup {
    fn bare(&self) -> Options<'_> {
        Options { scheduler: &self.scheduler, seed: self.seed, ..Options::bare(&self.profile, DEVICE_SIZE) }
    }

    /// Returns the rate of direct sequential writes of 512 KiB to the bare device, in bytes per second.
    pub fn raw_write(&self, fonio: &Path, bytes: u64) -> Result<f64> {
        let emulated = Emulated::start(fonio, &self.bare())?;
        let count = bytes / (512 << 10);
        let started = Instant::now();
        let mut dd = Command::new("dd");
        dd.args(["if=/dev/zero", "bs=512K", "oflag=direct", "conv=fsync,notrunc", "status=none"]);
        process::run(dd.arg(format!("of={}", emulated.device)).arg(format!("count={count}")))?;
        Ok((count * (512 << 10)) as f64 / started.elapsed().as_secs_f64())
    }
}
