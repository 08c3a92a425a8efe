//! Limits the processor time and memory of processes with control groups, version 1 or 2.

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fonio_core::ByteCount;
use fonio_system::{MountPoint, MountTable};
use rustix::io::Errno;

use crate::cpu_share::CpuShare;
use crate::error::HostError;
use crate::ledger::{Entry, Ledger, Step};

/// The number in the name of the next control group, unique in this process. It begins far above the numbers of
/// steps, which are in the names of control groups for settings.
static NEXT: AtomicU64 = AtomicU64::new(1_000_000);
/// Number of attempts to empty and remove a control group.
const EMPTY_TRIES: u32 = 50;
const EMPTY_PAUSE: Duration = Duration::from_millis(10);
/// Minimum memory limit: enough for a program to start and to cache some pages.
const MEMORY_LEAST: ByteCount = ByteCount(16 << 20);

/// A limit of processor time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuLimit {
    /// The maximum share of each core, on average over all cores; `None` for complete cores.
    pub share: Option<CpuShare>,
    /// The number of processors that the processes may use, before all other programs; `None` for all processors,
    /// with the share of one.
    pub cores: Option<NonZeroU32>,
}

impl From<CpuShare> for CpuLimit {
    fn from(share: CpuShare) -> CpuLimit {
        CpuLimit { share: Some(share), cores: None }
    }
}

impl CpuLimit {
    /// Returns the quota and the period of the bandwidth limit, in microseconds; `None` for no such limit.
    fn quota_period_us(self) -> Option<(u64, u64)> {
        let (quota, period) = self.share?.quota_period_us();
        Some((quota * u64::from(self.cores.map_or(1, NonZeroU32::get)), period))
    }

    fn settings(self, is_unified: bool) -> Vec<(&'static str, String)> {
        let mut settings = match (is_unified, self.quota_period_us()) {
            (true, Some((quota, period))) => vec![("cpu.max", format!("{quota} {period}"))],
            (true, None) => vec![("cpu.max", "max".to_owned())],
            (false, Some((quota, period))) => {
                vec![("cpu.cfs_period_us", period.to_string()), ("cpu.cfs_quota_us", quota.to_string())]
            }
            (false, None) => vec![("cpu.cfs_quota_us", "-1".to_owned())],
        };
        if self.cores.is_some() {
            // With the greatest weight, other programs do not take the share away.
            settings.push(if is_unified {
                ("cpu.weight", "10000".to_owned())
            } else {
                ("cpu.shares", "262144".to_owned())
            });
        }
        settings
    }
}

/// Limits on the total resources that a set of processes may use.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Maximum processor time; `None` for no limit.
    pub cpu: Option<CpuLimit>,
    /// Maximum memory, including the page cache that the processes fill, but not swap; `None` for no limit.
    pub memory: Option<ByteCount>,
}

impl Limits {
    /// Returns whether no resource is limited.
    pub fn is_none(&self) -> bool {
        *self == Limits::default()
    }
}

/// Control groups whose processes share the same limits. Undoing the ledger removes these groups.
#[derive(Debug)]
pub struct Confined {
    dirs: Vec<(PathBuf, Entry)>,
}

impl Confined {
    /// Creates control groups with these limits. Fails with [`HostError::NotRoot`],
    /// [`HostError::MemoryLimit`] if the memory limit is too low, or [`HostError::NoLimit`] with the command
    /// that enables the limit.
    pub fn make(ledger: &mut Ledger, limits: Limits) -> Result<Confined, HostError> {
        let mut confined = Confined { dirs: Vec::new() };
        if limits.is_none() {
            return Ok(confined);
        }
        HostError::check_root("a limit of processor time or memory")?;
        if let Some(limit) = limits.cpu {
            confined.limit(ledger, Controller::CPU, |is_unified| limit.settings(is_unified))?;
            if let Some(cores) = limit.cores {
                let (cpus, mems) = cpus_for(cores)?;
                confined.limit(ledger, Controller::CPUSET, |_| {
                    vec![("cpuset.cpus", cpus.clone()), ("cpuset.mems", mems.clone())]
                })?;
            }
        }
        if let Some(memory) = limits.memory {
            if memory < MEMORY_LEAST {
                return Err(HostError::MemoryLimit { wanted: memory, least: MEMORY_LEAST });
            }
            confined.limit(ledger, Controller::MEMORY, |is_unified| {
                // Without a swap limit, memory beyond the limit would be swapped out to disk.
                match is_unified {
                    true => vec![("memory.max", memory.0.to_string()), ("memory.swap.max", "0".to_owned())],
                    false => vec![
                        ("memory.limit_in_bytes", memory.0.to_string()),
                        ("memory.memsw.limit_in_bytes", memory.0.to_string()),
                    ],
                }
            })?;
        }
        Ok(confined)
    }

    /// Writes the settings of a controller to a control group, which is created if it does not exist.
    fn limit(
        &mut self,
        ledger: &mut Ledger,
        controller: Controller,
        settings: impl Fn(bool) -> Vec<(&'static str, String)>,
    ) -> Result<(), HostError> {
        let hierarchy = Hierarchy::find(controller)?;
        let known = self.dirs.iter().find(|(dir, _)| dir.parent() == Some(hierarchy.dir()));
        let dir = match known {
            Some((dir, _)) => dir.clone(),
            None => {
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                let dir = hierarchy.dir().join(format!("fonio-{}-{number}", std::process::id()));
                let entry = ledger.begin(Step::Cgroup { path: dir.clone() })?;
                fs::create_dir(&dir).map_err(HostError::system("make", &dir))?;
                self.dirs.push((dir.clone(), entry));
                dir
            }
        };
        for (at, (file, value)) in settings(hierarchy.is_unified()).into_iter().enumerate() {
            let path = dir.join(file);
            if !path.exists() {
                // On kernels without swap accounting, swap cannot be limited.
                if at > 0 && controller == Controller::MEMORY {
                    continue;
                }
                let reason = format!("the kernel was built without {}", controller.limit_option);
                return Err(HostError::NoLimit { what: controller.what, reason });
            }
            fs::write(&path, value).map_err(HostError::system("write", path))?;
        }
        Ok(())
    }

    /// Changes the limit of processor time of these groups, which must have one; the processors stay the same.
    pub fn set_cpu(&self, limit: CpuLimit) -> Result<(), HostError> {
        let has_limit =
            |dir: &&Path| ["cpu.max", "cpu.cfs_quota_us"].iter().any(|file| dir.join(file).exists());
        for dir in self.dirs().filter(has_limit) {
            let is_unified = dir.join("cpu.max").exists();
            // A quota must never exceed what the period allows in between, so the quota is lifted first.
            let lifted = if is_unified { None } else { Some(("cpu.cfs_quota_us", "-1".to_owned())) };
            for (file, value) in lifted.into_iter().chain(limit.settings(is_unified)) {
                let path = dir.join(file);
                fs::write(&path, value).map_err(HostError::system("write", path))?;
            }
        }
        Ok(())
    }

    /// Returns the directories of the control groups, for starting processes inside them.
    pub fn dirs(&self) -> impl Iterator<Item = &Path> {
        self.dirs.iter().map(|(dir, _)| dir.as_path())
    }

    /// Moves a running process with all its threads into the control groups. A process that has ended needs no limit.
    pub fn add(&self, pid: u32) -> Result<(), HostError> {
        self.dirs().try_for_each(|dir| move_to(dir, pid))
    }

    /// Moves a running process into the control groups that limit processor time, but not into one that only limits
    /// memory. A process that has ended needs no limit.
    pub fn add_for_processor(&self, pid: u32) -> Result<(), HostError> {
        const FILES: [&str; 3] = ["cpu.max", "cpu.cfs_quota_us", "cpuset.cpus"];
        let dirs = self.dirs().filter(|dir| FILES.iter().any(|file| dir.join(file).exists()));
        dirs.into_iter().try_for_each(|dir| move_to(dir, pid))
    }

    /// Returns the number of processes in these groups that the OOM killer has killed.
    pub fn kills(&self) -> u64 {
        let counted = self.dirs().filter_map(|dir| {
            // In version 1, this file also shows whether the OOM killer is on.
            let text = ["memory.events", "memory.oom_control"]
                .iter()
                .find_map(|file| fs::read_to_string(dir.join(file)).ok())?;
            text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse::<u64>().ok())
        });
        counted.sum()
    }

    /// Removes the control groups.
    pub fn remove(self, ledger: &mut Ledger) -> Result<(), HostError> {
        self.dirs.into_iter().try_for_each(|(_, entry)| ledger.undo(entry))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Controller {
    name: &'static str,
    what: &'static str,
    /// Kernel configuration options for the controller and for its limit.
    option: &'static str,
    limit_option: &'static str,
}

impl Controller {
    const CPU: Controller = Controller {
        name: "cpu",
        what: "processor time",
        option: "CONFIG_CGROUP_SCHED=y",
        limit_option: "CONFIG_CFS_BANDWIDTH=y",
    };
    const CPUSET: Controller = Controller {
        name: "cpuset",
        what: "the number of processors",
        option: "CONFIG_CPUSETS=y",
        limit_option: "CONFIG_CPUSETS=y",
    };
    const MEMORY: Controller = Controller {
        name: "memory",
        what: "memory",
        option: "CONFIG_MEMCG=y",
        limit_option: "CONFIG_MEMCG=y",
    };
}

enum Hierarchy {
    /// The unified hierarchy (version 2).
    Unified(PathBuf),
    /// A separate hierarchy (version 1).
    Own(PathBuf),
}

impl Hierarchy {
    fn find(controller: Controller) -> Result<Hierarchy, HostError> {
        let mounts = MountTable::read()?;
        let name = controller.name;
        let has_it = |mount: &&MountPoint| mount.filesystem_options.iter().any(|option| option == name);
        if let Some(own) = mounts.of_kind("cgroup").find(has_it) {
            return Ok(Hierarchy::Own(own.dir.clone()));
        }
        let none = |reason: String| HostError::NoLimit { what: controller.what, reason };
        let Some(unified) = mounts.of_kind("cgroup2").next() else {
            let reason = "no control groups are mounted; run `mount -t cgroup2 none /sys/fs/cgroup`";
            return Err(none(reason.to_owned()));
        };
        let holds = |file: &str| {
            let text = fs::read_to_string(unified.dir.join(file)).unwrap_or_default();
            text.split_whitespace().any(|word| word == name)
        };
        let dir = unified.dir.display();
        if holds("cgroup.subtree_control") {
            Ok(Hierarchy::Unified(unified.dir.clone()))
        } else if holds("cgroup.controllers") {
            Err(none(format!(
                "the {name} controller is off; run `echo +{name} > {dir}/cgroup.subtree_control` to turn it on until the next boot"
            )))
        } else {
            // Raspberry Pi OS disables the memory controller by default.
            let boot = if controller == Controller::MEMORY {
                "; on a Raspberry Pi, add cgroup_enable=memory to the line in /boot/firmware/cmdline.txt and reboot"
            } else {
                ""
            };
            Err(none(format!("{dir} has no {name} controller ({}){boot}", controller.option)))
        }
    }

    fn is_unified(&self) -> bool {
        matches!(self, Hierarchy::Unified(_))
    }

    fn dir(&self) -> &Path {
        match self {
            Hierarchy::Unified(dir) | Hierarchy::Own(dir) => dir,
        }
    }
}

fn move_to(dir: &Path, pid: u32) -> Result<(), HostError> {
    let path = dir.join("cgroup.procs");
    match fs::write(&path, pid.to_string()) {
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(()),
        written => written.map_err(HostError::system("write", path)),
    }
}

/// Returns the last `cores` processors that a control group can use, and the memory nodes, as the files of the
/// controller write them. The first processor often serves the interrupts of the machine.
fn cpus_for(cores: NonZeroU32) -> Result<(String, String), HostError> {
    let hierarchy = Hierarchy::find(Controller::CPUSET)?;
    // With version 2, the root group has only the effective values.
    let read = |name: &str| {
        let effective = hierarchy.dir().join(format!("{name}.effective"));
        let path = if effective.exists() { effective } else { hierarchy.dir().join(name) };
        let text = fs::read_to_string(&path).map_err(HostError::system("read", path))?;
        Ok::<String, HostError>(text.trim().to_owned())
    };
    let all = listed(&read("cpuset.cpus")?);
    let wanted = cores.get() as usize;
    if all.len() < wanted {
        return Err(HostError::Cores { wanted: cores.get(), has: all.len() });
    }
    let last: Vec<String> = all[all.len() - wanted..].iter().map(u32::to_string).collect();
    Ok((last.join(","), read("cpuset.mems")?))
}

/// Returns the numbers of a list such as `0-3,8`.
fn listed(text: &str) -> Vec<u32> {
    let ranges = text.split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<u32>().ok()?..=last.trim().parse().ok()?)
    });
    ranges.flatten().collect()
}

/// Removes the control group at `path`, after moving the group's remaining processes to the parent group.
/// Does nothing if `path` is not in a hierarchy of control groups.
pub(crate) fn undo(path: &Path) -> Result<(), HostError> {
    let mounts = MountTable::read()?;
    if !mounts.holding(path).is_some_and(|mount| ["cgroup", "cgroup2"].contains(&mount.filesystem.as_str())) {
        return Ok(());
    }
    let parent = path.parent().unwrap_or(path).join("cgroup.procs");
    for _ in 0..EMPTY_TRIES {
        let Ok(left) = fs::read_to_string(path.join("cgroup.procs")) else { return Ok(()) };
        for pid in left.split_whitespace() {
            // The write fails if the process has ended.
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
    Err(HostError::system("remove", path)(std::io::ErrorKind::ResourceBusy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_several_cores_has_the_quota_of_all() {
        let share: CpuShare = "0.25".parse().expect("a share");
        assert_eq!(CpuLimit::from(share).quota_period_us(), Some((1_000, 4_000)));
        let cores = NonZeroU32::new(3);
        assert_eq!(CpuLimit { share: Some(share), cores }.quota_period_us(), Some((3_000, 4_000)));
        let complete = CpuLimit { share: None, cores };
        assert_eq!(
            complete.settings(true),
            [("cpu.max", "max".to_owned()), ("cpu.weight", "10000".to_owned())]
        );
        assert_eq!(complete.settings(false)[0], ("cpu.cfs_quota_us", "-1".to_owned()));
    }

    #[test]
    fn a_list_of_processors_has_ranges_and_numbers() {
        assert_eq!(listed("0-3,8"), [0, 1, 2, 3, 8]);
        assert_eq!(listed("5"), [5]);
        assert_eq!(listed(""), [0_u32; 0]);
    }
}
