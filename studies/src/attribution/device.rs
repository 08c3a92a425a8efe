//! Creates the devices and file systems to which the writers write.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::ran;

pub const FILE_SYSTEMS: [&str; 3] = ["ext4", "xfs", "btrfs"];
const DEVICE_BYTES: u64 = 512 << 20;

/// A block device with a file system.
pub struct Device {
    path: String,
    /// Whether the device is a loop device of this program. If so, it is detached when this value is dropped.
    is_loop: bool,
}

/// A mounted file system. Dropping this value unmounts the file system.
pub struct Mounted(pub PathBuf);

impl Device {
    /// Creates a loop device over a new file, with a file system.
    pub fn over(image: &Path, fs: &str) -> Result<Device> {
        File::create(image)?.set_len(DEVICE_BYTES)?;
        make(fs, &image.to_string_lossy())?;
        let made = ran("losetup", Command::new("losetup").args(["--find", "--show"]).arg(image))?;
        Ok(Device { path: made.trim().to_owned(), is_loop: true })
    }

    /// Creates a file system on an existing device, and overwrites the data of this device.
    pub fn at(path: &str, fs: &str) -> Result<Device> {
        make(fs, path)?;
        Ok(Device { path: fs::canonicalize(path)?.to_string_lossy().into_owned(), is_loop: false })
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    pub fn mounted(&self, dir: &Path) -> Result<Mounted> {
        fs::create_dir(dir)?;
        ran("mount", Command::new("mount").arg(&self.path).arg(dir))?;
        Ok(Mounted(dir.to_owned()))
    }
}

/// An overlay over a folder, as in container engines. Dropping this value unmounts the overlay.
pub struct Overlay {
    /// The overlay's mount point, through which programs access the files.
    pub merged: Mounted,
    /// The overlay's upper folder, which stores the files.
    pub upper: PathBuf,
}

impl Overlay {
    pub fn over(system: &Path, scratch: &Path) -> Result<Overlay> {
        let (upper, work) = (system.join("upper"), system.join("work"));
        let (lower, merged) = (scratch.join("lower"), scratch.join("merged"));
        for dir in [&upper, &work, &lower, &merged] {
            fs::create_dir(dir)?;
        }
        let [lower, upper_dir, work] = [&lower, &upper, &work].map(|dir| dir.display());
        let options = format!("lowerdir={lower},upperdir={upper_dir},workdir={work}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "overlay", "overlay", "-o", &options]).arg(&merged);
        ran("mount", &mut mount)?;
        Ok(Overlay { merged: Mounted(merged), upper })
    }
}

fn make(fs: &str, path: &str) -> Result<()> {
    let options: &[&str] = match fs {
        "xfs" => &["-q", "-f"],
        "btrfs" => &["-q", "-f", "-d", "single", "-m", "single"],
        _ => &["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
    };
    let mkfs = format!("mkfs.{fs}");
    ran(&mkfs, Command::new(&mkfs).args(options).arg(path)).map(drop)
}

impl Drop for Device {
    fn drop(&mut self) {
        if self.is_loop {
            let _ = Command::new("losetup").args(["--detach", &self.path]).status();
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}
