//! Where the directory lies that is mounted: a tmpfs, a directory of the user's, or a file system on an emulated device.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process;

/// What the emulated device holds.
const DEVICE_SIZE: &str = "2GiB";

/// What is mounted, and where; what was made for it goes when this is dropped.
pub struct Place {
    pub source: PathBuf,
    pub dir: PathBuf,
    below: Below,
}

enum Below {
    Users,
    Tmpfs,
    Emulated(#[expect(dead_code, reason = "it ends when it is dropped")] Emulated),
}

impl Place {
    /// A directory of the user's.
    pub fn over(folder: &Path, source: PathBuf) -> Result<Self> {
        Ok(Self { source, dir: mount_point(folder)?, below: Below::Users })
    }

    /// A tmpfs of its own.
    pub fn tmpfs(folder: &Path) -> Result<Self> {
        let source = folder.join("source");
        std::fs::create_dir_all(&source)?;
        process::run(Command::new("mount").args(["-t", "tmpfs", "fonio-bench"]).arg(&source))?;
        Ok(Self { source, dir: mount_point(folder)?, below: Below::Tmpfs })
    }

    /// A file system on a new emulated device.
    pub fn emulated(folder: &Path, fonio: &Path, setup: &Setup<'_>) -> Result<Self> {
        let source = folder.join("source");
        std::fs::create_dir_all(&source)?;
        let emulated = Emulated::start(fonio, setup, Some(&source))?;
        Ok(Self { source, dir: mount_point(folder)?, below: Below::Emulated(emulated) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if matches!(self.below, Below::Tmpfs) {
            // The next run mounts over it at worst.
            let _ = Command::new("umount").arg(&self.source).status();
        }
    }
}

fn mount_point(folder: &Path) -> Result<PathBuf> {
    let dir = folder.join("mounted");
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// What lies between a file and an emulated device.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    pub profile: &'a str,
    pub file_system: &'a str,
    pub scheduler: &'a str,
}

/// A running `fonio device emulate`.
pub struct Emulated {
    child: Child,
    pub device: String,
}

impl Emulated {
    /// With a file system mounted at `dir`, or the bare device.
    pub fn start(fonio: &Path, setup: &Setup<'_>, dir: Option<&Path>) -> Result<Self> {
        let mut command = Command::new(fonio);
        command.args(["device", "emulate", setup.profile, "--json", "--size", DEVICE_SIZE]);
        command.args(["--scheduler", setup.scheduler]);
        if let Some(dir) = dir {
            command.args(["--fs", setup.file_system, "--mount"]).arg(dir);
        }
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", fonio.display()))?;
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().context("its output is piped")?).read_line(&mut line)?;
        let ready: Value = serde_json::from_str(&line).context("the emulator did not get ready")?;
        let device = ready["ready"]["device"].as_str().context("the emulator names its device")?.to_owned();
        Ok(Self { child, device })
    }

    /// Bytes per second of direct writes of 512 KiB, one after the other, to the device itself.
    pub fn raw_write(&self, bytes: u64) -> Result<f64> {
        let count = bytes / (512 << 10);
        let started = std::time::Instant::now();
        let mut dd = Command::new("dd");
        dd.args(["if=/dev/zero", "bs=512K", "oflag=direct", "conv=fsync,notrunc", "status=none"]);
        dd.arg(format!("of={}", self.device)).arg(format!("count={count}"));
        if !dd.status().context("cannot start dd")?.success() {
            bail!("dd could not write to {}", self.device);
        }
        Ok((count * (512 << 10)) as f64 / started.elapsed().as_secs_f64())
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        // Asked to end, it undoes what it made.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}
