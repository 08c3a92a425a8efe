//! Limits processes to a share of one processor, with the bandwidth limit of the `cpu` control group.
//!
//! In each period the group may run for its quota; then it is stopped until the next period begins. A group with a
//! quarter of a processor therefore does not run at a quarter of the speed: it runs at full speed, and stands still for
//! three quarters of the time. Even with short periods, an event that comes while the group is stopped, such as the
//! completion of a read, is handled up to one period late. The kernel allows no quota below 1 ms
//! (`min_cfs_quota_period` of `kernel/sched/core.c`), so a share of 1/4 has periods of 4 ms. The kernel checks the used
//! time at each timer tick, and deducts any excess later: the share holds over many periods, not in each one.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use fonio_system::{MountPoint, MountTable};
use serde::{Deserialize, Serialize};

use crate::{Entry, HostError, Ledger, Step};

/// The smallest quota that the kernel accepts; it gives the shortest period.
const QUOTA_US: f64 = 1_000.0;
const SHARE_LEAST: f64 = 0.01;
/// Number of attempts to empty and remove a group.
const EMPTY_TRIES: u32 = 50;
const EMPTY_PAUSE: Duration = Duration::from_millis(10);

/// A share of one processor, above 0 and below 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CpuShare(f64);

impl CpuShare {
    /// Creates a share from 0.01 to below 1.
    ///
    /// # Errors
    ///
    /// [`HostError::CpuShare`] for any other value.
    pub fn new(share: f64) -> Result<CpuShare, HostError> {
        let is_one = (SHARE_LEAST..1.0).contains(&share);
        is_one.then_some(CpuShare(share)).ok_or_else(|| HostError::CpuShare { share: share.to_string() })
    }

    /// The share as a number.
    pub fn value(self) -> f64 {
        self.0
    }

    /// The quota and the period in microseconds.
    fn quota_period_us(self) -> (u64, u64) {
        (QUOTA_US as u64, (QUOTA_US / self.0).round() as u64)
    }

    /// The length of a period.
    pub fn period(self) -> Duration {
        Duration::from_micros(self.quota_period_us().1)
    }
}

impl FromStr for CpuShare {
    type Err = HostError;
    fn from_str(text: &str) -> Result<CpuShare, HostError> {
        let share = text.parse().ok().and_then(|share| CpuShare::new(share).ok());
        share.ok_or_else(|| HostError::CpuShare { share: text.to_owned() })
    }
}

impl fmt::Display for CpuShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A control group whose processes together get that share. Undoing its ledger removes it.
#[derive(Debug)]
pub struct ConfinedCpu {
    dir: PathBuf,
    entry: Entry,
}

impl ConfinedCpu {
    /// Creates the group.
    ///
    /// # Errors
    ///
    /// [`HostError::NotRoot`], or [`HostError::NoCpuLimit`] with the command that helps.
    pub fn make(ledger: &mut Ledger, share: CpuShare) -> Result<ConfinedCpu, HostError> {
        if !rustix::process::geteuid().is_root() {
            return Err(HostError::NotRoot { needs: "a share of a processor" });
        }
        let hierarchy = Hierarchy::find()?;
        let dir = hierarchy.dir().join(format!("fonio-{}-{}", std::process::id(), ledger.steps()));
        let entry = ledger.begin(Step::Cgroup { path: dir.clone() })?;
        fs::create_dir(&dir).map_err(HostError::system("make", &dir))?;
        let (quota, period) = share.quota_period_us();
        let settings = match hierarchy {
            Hierarchy::Unified(_) => vec![("cpu.max", format!("{quota} {period}"))],
            Hierarchy::Own(_) => {
                vec![("cpu.cfs_period_us", period.to_string()), ("cpu.cfs_quota_us", quota.to_string())]
            }
        };
        for (name, value) in settings {
            let path = dir.join(name);
            if !path.exists() {
                let reason = "the kernel was built without CONFIG_CFS_BANDWIDTH=y".to_owned();
                return Err(HostError::NoCpuLimit { reason });
            }
            fs::write(&path, value).map_err(HostError::system("write", path))?;
        }
        Ok(ConfinedCpu { dir, entry })
    }

    /// The group's folder, for processes that begin in the group.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Moves a running process into the group, with all its threads.
    ///
    /// # Errors
    ///
    /// [`HostError::System`].
    pub fn add(&self, pid: u32) -> Result<(), HostError> {
        let path = self.dir.join("cgroup.procs");
        fs::write(&path, pid.to_string()).map_err(HostError::system("write", path))
    }

    /// Removes the group.
    ///
    /// # Errors
    ///
    /// [`HostError::System`].
    pub fn remove(self, ledger: &mut Ledger) -> Result<(), HostError> {
        ledger.undo(self.entry)
    }
}

/// The hierarchy of the kernel's `cpu` controller.
enum Hierarchy {
    /// The unified hierarchy (version 2).
    Unified(PathBuf),
    /// A separate hierarchy (version 1).
    Own(PathBuf),
}

impl Hierarchy {
    fn find() -> Result<Hierarchy, HostError> {
        let mounts = MountTable::read()?;
        let has_cpu = |mount: &&MountPoint| mount.filesystem_options.iter().any(|option| option == "cpu");
        if let Some(own) = mounts.of_kind("cgroup").find(has_cpu) {
            return Ok(Hierarchy::Own(own.dir.clone()));
        }
        let Some(unified) = mounts.of_kind("cgroup2").next() else {
            let reason = "no control groups are mounted; `mount -t cgroup2 none /sys/fs/cgroup` mounts them";
            return Err(HostError::NoCpuLimit { reason: reason.to_owned() });
        };
        let holds = |file: &str| {
            let text = fs::read_to_string(unified.dir.join(file)).unwrap_or_default();
            text.split_whitespace().any(|controller| controller == "cpu")
        };
        let dir = unified.dir.display();
        if holds("cgroup.subtree_control") {
            Ok(Hierarchy::Unified(unified.dir.clone()))
        } else if holds("cgroup.controllers") {
            let reason = format!(
                "the cpu controller is off; `echo +cpu > {dir}/cgroup.subtree_control` turns it on until the next boot"
            );
            Err(HostError::NoCpuLimit { reason })
        } else {
            let reason = format!("{dir} has no cpu controller (CONFIG_CGROUP_SCHED=y)");
            Err(HostError::NoCpuLimit { reason })
        }
    }

    fn dir(&self) -> &Path {
        match self {
            Hierarchy::Unified(dir) | Hierarchy::Own(dir) => dir,
        }
    }
}

/// Removes the group at `path`, after moving its remaining processes to its parent.
pub(crate) fn undo(path: &Path) -> Result<(), HostError> {
    let parent = path.parent().unwrap_or(path).join("cgroup.procs");
    for _ in 0..EMPTY_TRIES {
        let Ok(left) = fs::read_to_string(path.join("cgroup.procs")) else { return Ok(()) };
        for pid in left.split_whitespace() {
            // This fails if the process has ended, which is fine.
            let _ = fs::write(&parent, pid);
        }
        match fs::remove_dir(path) {
            Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => std::thread::sleep(EMPTY_PAUSE),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(HostError::system("remove", path)(error));
            }
            _ => return Ok(()),
        }
    }
    Err(HostError::system("remove", path)(std::io::ErrorKind::ResourceBusy.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_their_periods() {
        for (text, period_us) in [("0.25", 4_000), ("0.5", 2_000), ("0.01", 100_000)] {
            let share: CpuShare = text.parse().expect("a share");
            assert_eq!(share.period(), Duration::from_micros(period_us), "{text}");
        }
        for text in ["0", "1", "1.5", "-0.5", "x", "NaN", "25%"] {
            assert!(text.parse::<CpuShare>().is_err(), "{text}");
        }
    }
}
