//! A slow processor, for the daemon alone: a control group with a share of one CPU.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// The shortest time that the kernel takes as a quota; short periods come closest to a processor that is slow.
const QUOTA_US: f64 = 1000.0;

/// A control group, until this is dropped.
pub struct Confined {
    folder: PathBuf,
    is_unified: bool,
}

impl Confined {
    /// Makes one.
    pub fn new() -> Result<Self> {
        let unified = PathBuf::from("/sys/fs/cgroup/cgroup.controllers");
        let is_unified = unified.exists();
        let above = if is_unified { "/sys/fs/cgroup" } else { "/sys/fs/cgroup/cpu" };
        let folder = PathBuf::from(above).join(format!("fonio-bench-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| {
            format!(
                "cannot make the control group {}; it needs root and the cpu controller",
                folder.display()
            )
        })?;
        Ok(Self { folder, is_unified })
    }

    /// Gives all who are in it this share of one CPU.
    pub fn set(&self, share: f64) -> Result<()> {
        let period = (QUOTA_US / share).round().clamp(1000.0, 1_000_000.0);
        let quota = (period * share).round().max(QUOTA_US);
        if self.is_unified {
            return self.write("cpu.max", &format!("{quota} {period}"));
        }
        // The quota may not be above the period at any time.
        self.write("cpu.cfs_quota_us", "-1")?;
        self.write("cpu.cfs_period_us", &period.to_string())?;
        self.write("cpu.cfs_quota_us", &quota.to_string())
    }

    /// Puts a process in, with its threads.
    pub fn take_in(&self, process: u32) -> Result<()> {
        self.write("cgroup.procs", &process.to_string())
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {text} into {}", path.display()))
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        // Those who were in it have ended; an empty group that stays costs nothing.
        let _ = fs::remove_dir(&self.folder);
    }
}
