//! What a setting applies to: how to read and set its value.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use fonio_system::MountTable;
use rustix::fs::CWD;
use rustix::mount::{
    FsPickFlags, MountFlags, fsconfig_reconfigure, fsconfig_set_flag, fsconfig_set_string, fspick,
    mount_remount,
};
use serde::{Deserialize, Serialize};

use super::drop_in::{DropIn, JournalKey, UnitKey};
use super::folder::{buffered, hot_range, in_ram, on};
use super::parts::is_between;
use super::places::mounted_at;
use super::{Setting, cgroup, concurrency, database, discard, io_cost, trim, zram};
use crate::{HostError, Queue};

/// ext4's default interval between journal commits (`JBD2_DEFAULT_MAX_COMMIT_AGE`).
const COMMIT_DEFAULT_S: &str = "5";

/// `MS_NOSYMFOLLOW` of Linux 5.10.
const NOSYMFOLLOW: MountFlags = MountFlags::from_bits_retain(256);

/// The limits of dirty pages, each in bytes or as a percentage of memory; the one not in use is 0.
const DIRTY_LIMITS: [[&str; 2]; 2] =
    [["vm.dirty_background_bytes", "vm.dirty_background_ratio"], ["vm.dirty_bytes", "vm.dirty_ratio"]];
const SWAPPINESS: &str = "vm.swappiness";

/// The kind of a setting, and the device or mount that it applies to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[non_exhaustive]
pub enum Target {
    /// The I/O scheduler.
    Scheduler {
        /// The device's name in `/sys/block`.
        device: String,
    },
    /// A number of a device's queue.
    Queue {
        /// The device's name in `/sys/block`.
        device: String,
        /// Which one.
        of: QueueSetting,
    },
    /// The concurrency parameters of the scheduler smartio, as assignments.
    Concurrency {
        /// The device's name in `/sys/block`.
        device: String,
    },
    /// Whether the controller io.cost is on: `on` or `off`.
    IoCost {
        /// The device's name in `/sys/block`.
        device: String,
    },
    /// How access times are updated: `relatime`, `noatime` or `strictatime`.
    AccessTimes {
        /// The mount point. Other mounts of the file system are not affected.
        dir: PathBuf,
    },
    /// Whether changed times of files are kept in memory for long: `lazytime` or `nolazytime`.
    LazyTimes {
        /// The mount point. The setting applies to the file system, at all its mount points.
        dir: PathBuf,
    },
    /// ext4's commit interval in seconds.
    CommitInterval {
        /// The mount point. The setting applies to the file system, at all its mount points.
        dir: PathBuf,
    },
    /// The machine's limits for dirty pages: two assignments of sysctl.
    DirtyLimits,
    /// The machine's swappiness.
    Swappiness,
    /// The weekly trimming by systemd: `enabled` or `disabled`.
    TrimTimer,
    /// Settings of journald, as assignments.
    Journal {
        /// Which ones.
        of: JournalKey,
    },
    /// Settings of a unit of systemd, as assignments.
    Unit {
        /// The unit's name.
        unit: String,
        /// Which ones.
        of: UnitKey,
    },
    /// The size of fonio's swap in compressed memory, or `none`.
    SwapInRam,
    /// The journal mode of a database of SQLite: `wal` or `rollback`.
    Database {
        /// Its file.
        path: PathBuf,
    },
    /// The weight of a control group that is not a unit of systemd.
    GroupWeight {
        /// The group's folder.
        dir: PathBuf,
    },
    /// The size of the memory in which a folder's content is, or `none`.
    FolderInRam {
        /// The folder.
        dir: PathBuf,
    },
    /// Whether fonio's FUSE file system is mounted over a folder: `mounted` or `none`.
    Buffered {
        /// The folder.
        dir: PathBuf,
    },
    /// The size of the image that a folder's content is in, or `none`.
    HotRange {
        /// The folder.
        dir: PathBuf,
        /// The image.
        image: PathBuf,
    },
    /// Whether a folder's content is in another folder: `bound` or `none`.
    FolderOn {
        /// The folder.
        dir: PathBuf,
        /// The folder that has its content.
        to: PathBuf,
    },
}

/// A number of a device's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueSetting {
    /// The read-ahead in KiB.
    ReadAhead,
    /// The number of requests.
    Requests,
    /// The largest request in KiB.
    RequestSize,
    /// The largest discard in bytes.
    DiscardSize,
}

impl QueueSetting {
    /// Its file in the folder `queue` of sysfs.
    pub(super) fn attribute(self) -> &'static str {
        match self {
            QueueSetting::ReadAhead => "read_ahead_kb",
            QueueSetting::Requests => "nr_requests",
            QueueSetting::RequestSize => "max_sectors_kb",
            QueueSetting::DiscardSize => discard::ATTRIBUTE,
        }
    }
}

impl Target {
    pub(super) fn refused(&self, setting: &Setting, reason: &str) -> HostError {
        setting.refused(&self.path(), reason.to_owned())
    }

    /// The device's node, the mount point, or the folder of the machine's settings.
    pub fn path(&self) -> PathBuf {
        match self {
            Target::Scheduler { device }
            | Target::Queue { device, .. }
            | Target::Concurrency { device }
            | Target::IoCost { device } => Path::new("/dev").join(device),
            Target::AccessTimes { dir }
            | Target::LazyTimes { dir }
            | Target::CommitInterval { dir }
            | Target::GroupWeight { dir }
            | Target::FolderInRam { dir }
            | Target::Buffered { dir }
            | Target::HotRange { dir, .. }
            | Target::FolderOn { dir, .. } => dir.clone(),
            Target::TrimTimer => trim::TIMER.into(),
            Target::SwapInRam => "/dev/zram".into(),
            Target::Database { path } => path.clone(),
            Target::Journal { .. } => "systemd-journald".into(),
            Target::Unit { unit, .. } => unit.into(),
            Target::DirtyLimits | Target::Swappiness => "/proc/sys/vm".into(),
        }
    }

    /// Whether the setting outlasts a reboot however it is made, so that applying it keeps it.
    pub fn lasts(&self) -> bool {
        matches!(self, Target::TrimTimer | Target::Database { .. })
    }

    /// Whether it is a mount over a folder.
    fn is_of_folder(&self) -> bool {
        matches!(
            self,
            Target::FolderInRam { .. }
                | Target::FolderOn { .. }
                | Target::HotRange { .. }
                | Target::Buffered { .. }
        )
    }

    /// Whether undoing takes the setting back before it takes it out of the files that keep it. The files of other settings can
    /// be what puts them in force.
    pub fn is_restored_first(&self) -> bool {
        self.lasts() || self.is_of_folder()
    }

    /// Whether the setting may not end with a reboot, because older data would come back.
    pub fn must_be_kept(&self) -> bool {
        matches!(self, Target::FolderOn { .. } | Target::HotRange { .. })
    }

    /// Why the setting cannot be switched back and forth while programs run; `None` if it can.
    pub fn cannot_switch(&self) -> Option<&'static str> {
        match self {
            Target::Database { .. } => Some("programs have the database open"),
            Target::TrimTimer => Some("it runs once a week"),
            Target::Journal { .. } => Some("journald is restarted for each change"),
            Target::Unit { of: UnitKey::Class | UnitKey::SyncPolicy, .. } => {
                Some("the unit has to be restarted for each change")
            }
            Target::FolderInRam { .. } | Target::FolderOn { .. } | Target::HotRange { .. } => {
                Some("its content is copied for each change")
            }
            Target::Buffered { .. } => Some("programs have files in the folder open"),
            Target::SwapInRam => Some("each change reads back all that is swapped out"),
            _ => None,
        }
    }

    /// Whether `now` is a value that a killed process left on the way from one value to another.
    pub(super) fn is_half_set(&self, now: &str, one: &str, other: &str) -> bool {
        let has_parts = matches!(self, Target::DirtyLimits | Target::Concurrency { .. });
        has_parts && is_between(now, one, other)
    }

    /// The name of the disk in `/sys/block`, if it is a setting of one.
    pub fn disk(&self) -> Option<&str> {
        match self {
            Target::Scheduler { device }
            | Target::Queue { device, .. }
            | Target::Concurrency { device }
            | Target::IoCost { device } => Some(device),
            _ => None,
        }
    }

    /// The drop-in of systemd that sets it, if one does.
    pub(super) fn drop_in(&self) -> Option<DropIn<'_>> {
        match self {
            Target::Journal { of } => Some(DropIn::of_journal(*of)),
            Target::Unit { unit, of } => Some(DropIn::of_unit(unit, *of)),
            _ => None,
        }
    }

    /// The value in force; `None` if the device or the mount is gone.
    pub(super) fn current(&self) -> Result<Option<String>, HostError> {
        let mounted = |dir: &Path| MountTable::read().map(|table| table.at(dir).cloned());
        let is_there = |device: &str| Path::new("/sys/block").join(device).exists();
        match self {
            Target::Scheduler { device } | Target::Queue { device, .. } if !is_there(device) => Ok(None),
            Target::Scheduler { device } => Ok(Some(Queue::of(device).schedulers()?.0)),
            Target::Queue { device, of: QueueSetting::DiscardSize } => discard::current(device).map(Some),
            Target::Queue { device, of } => Ok(Some(Queue::of(device).read(of.attribute())?)),
            Target::Concurrency { device } => concurrency::current(device),
            Target::IoCost { device } => io_cost::current(device),
            Target::AccessTimes { dir } => Ok(mounted(dir)?.map(|mounted| access_times(&mounted.options))),
            Target::CommitInterval { dir } => Ok(mounted(dir)?.map(|mounted| {
                let mut options = mounted.filesystem_options.iter();
                let seconds = options.find_map(|option| option.strip_prefix("commit="));
                seconds.unwrap_or(COMMIT_DEFAULT_S).to_owned()
            })),
            Target::DirtyLimits => {
                let mut limits = Vec::new();
                for [bytes, ratio] in DIRTY_LIMITS {
                    let in_bytes = read_sysctl(bytes)?;
                    let (name, value) =
                        if in_bytes == "0" { (ratio, read_sysctl(ratio)?) } else { (bytes, in_bytes) };
                    limits.push(format!("{name}={value}"));
                }
                Ok(Some(limits.join(" ")))
            }
            Target::Swappiness => Ok(Some(read_sysctl(SWAPPINESS)?)),
            Target::LazyTimes { dir } => Ok(mounted(dir)?.map(|mounted| {
                let is_lazy = mounted.filesystem_options.iter().any(|option| option == "lazytime");
                if is_lazy { "lazytime" } else { "nolazytime" }.to_owned()
            })),
            Target::TrimTimer => trim::timer(),
            Target::Journal { .. } | Target::Unit { .. } => self.drop_in().expect("it has one").current(),
            Target::GroupWeight { dir } => cgroup::weight(dir),
            Target::SwapInRam => zram::current().map(Some),
            Target::Database { path } => database::mode(path),
            Target::FolderInRam { dir } => in_ram::current(dir),
            Target::FolderOn { dir, to } => on::current(dir, to),
            Target::HotRange { dir, image } => hot_range::current(dir, image),
            Target::Buffered { dir } => buffered::current(dir),
        }
    }

    pub(super) fn set(&self, value: &str) -> Result<(), HostError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |errno: rustix::io::Errno| HostError::system("remount", path)(errno.into())
        };
        match self {
            Target::Scheduler { device } => Queue::of(device).set_scheduler(value),
            Target::Queue { device, of: QueueSetting::DiscardSize } => discard::set(device, value),
            Target::Queue { device, of } => Queue::of(device).write(of.attribute(), value),
            Target::Concurrency { device } => concurrency::set(device, value),
            Target::IoCost { device } => io_cost::set(device, value),
            Target::AccessTimes { dir } => {
                let flags = mount_flags(&mounted_at(dir)?.options).map_err(|option| {
                    let setting = value.to_owned();
                    let reason = format!("its option {option} could not be kept");
                    HostError::NotSettable { setting, path: dir.clone(), reason }
                })?;
                let times = match value {
                    "noatime" => MountFlags::NOATIME,
                    "strictatime" => MountFlags::STRICTATIME,
                    _ => MountFlags::RELATIME,
                };
                // BIND changes the flags of this mount only, not the file system's.
                mount_remount(dir, MountFlags::BIND | flags | times, c"").map_err(failed(dir))
            }
            Target::CommitInterval { dir } | Target::LazyTimes { dir } => {
                // Changes one parameter of the file system and keeps all others.
                let reconfigure = || {
                    let picked = fspick(CWD, dir, FsPickFlags::FSPICK_CLOEXEC)?;
                    match self {
                        Target::LazyTimes { .. } => fsconfig_set_flag(&picked, value)?,
                        _ => fsconfig_set_string(&picked, "commit", value)?,
                    }
                    fsconfig_reconfigure(&picked)
                };
                reconfigure().map_err(failed(dir))
            }
            Target::DirtyLimits | Target::Swappiness => {
                self.assignments(value).iter().try_for_each(|(name, value)| write_sysctl(name, value))
            }
            Target::TrimTimer => trim::set_timer(value),
            Target::Journal { .. } | Target::Unit { .. } => self.drop_in().expect("it has one").set(value),
            Target::GroupWeight { dir } => cgroup::set_weight(dir, value),
            Target::SwapInRam => zram::set(value),
            Target::Database { path } => database::set_mode(path, value),
            Target::FolderInRam { dir } => in_ram::set(dir, value),
            Target::FolderOn { dir, to } => on::set(dir, to, value),
            Target::HotRange { dir, image } => hot_range::set(dir, image, value),
            Target::Buffered { dir } => buffered::set(dir, value),
        }
    }

    /// Refuses what [`Target::restore`] could not do without losing data, before anything is changed.
    pub(super) fn check_restore(&self) -> Result<(), HostError> {
        match self {
            Target::FolderInRam { dir } => in_ram::check_undo(dir),
            Target::FolderOn { dir, to } => on::check_undo(dir, to),
            Target::HotRange { dir, image } => hot_range::check_undo(dir, image),
            Target::Buffered { dir } => buffered::check_undo(dir),
            _ => Ok(()),
        }
    }

    /// Sets the value from before a change, unless it is in force or the device or mount is gone.
    pub(crate) fn restore(&self, was: &str) -> Result<(), HostError> {
        if let Some(drop_in) = self.drop_in() {
            // Also if the files are as before: the daemon may not have read them since.
            drop_in.take_back()?;
        }
        if self.is_of_folder() {
            // Also if nothing is mounted: units or an unfinished copy may be there.
            return self.set(was);
        }
        match self.current()? {
            Some(now) if now != was => self.set(was).and_then(|()| self.expect(was)),
            _ => Ok(()),
        }
    }

    /// The assignments of sysctl that give the machine this value.
    pub(super) fn assignments(&self, value: &str) -> Vec<(String, String)> {
        match self {
            Target::Swappiness => vec![(SWAPPINESS.to_owned(), value.to_owned())],
            _ => {
                let pairs = value.split(' ').filter_map(|assignment| assignment.split_once('='));
                pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
            }
        }
    }

    /// Checks that `value` is in force: the kernel may accept a value and keep another.
    pub(super) fn expect(&self, value: &str) -> Result<(), HostError> {
        match self.current()? {
            Some(now) if now == value => Ok(()),
            now => Err(HostError::NotSettable {
                setting: value.to_owned(),
                path: self.path(),
                reason: format!("the kernel kept {}", now.as_deref().unwrap_or("nothing")),
            }),
        }
    }

    /// Checks that nobody has changed the setting since we read or set `value`. `setting` is the value for the error.
    pub(super) fn expect_still(&self, value: &str, setting: &str) -> Result<(), HostError> {
        let reason = match self.current()? {
            Some(now) if now == value => return Ok(()),
            Some(now) => format!("it was {value}, and somebody else has changed it to {now} since"),
            None => "the device or mount is not there any more".to_owned(),
        };
        Err(HostError::NotSettable { setting: setting.to_owned(), path: self.path(), reason })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Target::Scheduler { .. } => "the scheduler",
            Target::Queue { of: QueueSetting::ReadAhead, .. } => "read-ahead in KiB",
            Target::Queue { of: QueueSetting::Requests, .. } => "the number of requests",
            Target::Queue { of: QueueSetting::RequestSize, .. } => "the largest request in KiB",
            Target::Queue { of: QueueSetting::DiscardSize, .. } => "the largest discard in bytes",
            Target::Concurrency { .. } => "the concurrency parameters",
            Target::IoCost { .. } => "io.cost",
            Target::AccessTimes { .. } => "access times",
            Target::CommitInterval { .. } => "ext4's commit interval in seconds",
            Target::DirtyLimits => return f.write_str("the machine's limits for dirty pages"),
            Target::Swappiness => return f.write_str("the machine's swappiness"),
            Target::TrimTimer => return f.write_str("systemd's weekly fstrim.timer"),
            Target::LazyTimes { .. } => "lazy times",
            Target::Journal { of: JournalKey::Storage } => return f.write_str("journald's storage"),
            Target::Journal { of: JournalKey::SyncInterval } => {
                return f.write_str("journald's interval between syncs");
            }
            Target::Unit { of: UnitKey::Weight, .. } => "the I/O weight",
            Target::Unit { of: UnitKey::Limit, .. } => "the I/O limits",
            Target::Unit { of: UnitKey::Class, .. } => "the I/O class",
            Target::Unit { of: UnitKey::SyncPolicy, .. } => "the sync policy",
            Target::GroupWeight { .. } => "the I/O weight",
            Target::SwapInRam => return f.write_str("swap in compressed memory"),
            Target::Database { .. } => "the journal mode",
            Target::FolderInRam { .. } => "the memory for the content",
            Target::Buffered { .. } => "fonio's write buffer",
            Target::HotRange { .. } => "the range for the writes",
            Target::FolderOn { dir, to } => {
                return write!(f, "{} as the place of {}", to.display(), dir.display());
            }
        };
        write!(f, "{what} of {}", self.path().display())
    }
}

/// The file of a setting of sysctl.
fn sysctl(name: &str) -> PathBuf {
    Path::new("/proc/sys").join(name.replace('.', "/"))
}

pub(super) fn read_sysctl(name: &str) -> Result<String, HostError> {
    let path = sysctl(name);
    let text = fs::read_to_string(&path).map_err(HostError::system("read", path))?;
    Ok(text.trim().to_owned())
}

fn write_sysctl(name: &str, value: &str) -> Result<(), HostError> {
    let path = sysctl(name);
    fs::write(&path, value).map_err(HostError::system("write", path))
}

fn access_times(options: &[String]) -> String {
    let known =
        ["noatime", "relatime"].into_iter().find(|known| options.iter().any(|option| option == known));
    known.unwrap_or("strictatime").to_owned()
}

/// The flags of a mount except those for access times; the error is the first unknown option.
pub(super) fn mount_flags(options: &[String]) -> Result<MountFlags, String> {
    let mut flags = MountFlags::empty();
    for option in options {
        flags |= match option.as_str() {
            "rw" | "noatime" | "relatime" => MountFlags::empty(),
            "ro" => MountFlags::RDONLY,
            "nosuid" => MountFlags::NOSUID,
            "nodev" => MountFlags::NODEV,
            "noexec" => MountFlags::NOEXEC,
            "nodiratime" => MountFlags::NODIRATIME,
            "nosymfollow" => NOSYMFOLLOW,
            other => return Err(other.to_owned()),
        };
    }
    Ok(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_disturbs_programs_is_not_switched() {
        let unit = |of| Target::Unit { unit: "notes.service".to_owned(), of };
        for target in [Target::Swappiness, Target::DirtyLimits, unit(UnitKey::Weight), unit(UnitKey::Limit)] {
            assert_eq!(target.cannot_switch(), None, "{target}");
        }
        for target in [
            Target::TrimTimer,
            Target::SwapInRam,
            unit(UnitKey::Class),
            Target::Database { path: "/notes.db".into() },
        ] {
            assert!(target.cannot_switch().is_some(), "{target}");
        }
    }

    #[test]
    fn access_times_are_one_of_three() {
        let of = |options: &str| access_times(&options.split(',').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(of("rw,relatime"), "relatime");
        assert_eq!(of("rw,nosuid,noatime"), "noatime");
        assert_eq!(of("rw"), "strictatime");
    }

    #[test]
    fn what_could_not_be_kept_is_named() {
        let of = |options: &str| mount_flags(&options.split(',').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(of("rw,nosuid,relatime"), Ok(MountFlags::NOSUID));
        assert_eq!(of("rw,idmapped"), Err("idmapped".to_owned()));
    }

    #[test]
    fn limits_for_dirty_pages_are_two_assignments() {
        let now = Target::DirtyLimits.current().expect("procfs").expect("every machine has them");
        let assignments = Target::DirtyLimits.assignments(&now);
        let names: Vec<&str> = assignments.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names[0].starts_with("vm.dirty_background_") && names[1].starts_with("vm.dirty_"), "{now}");
        assert_eq!(Target::Swappiness.assignments("10"), [("vm.swappiness".to_owned(), "10".to_owned())]);
    }
}
