//! The kinds of settings, with their values.

use std::fs;
use std::path::{Path, PathBuf};

use fonio_core::ByteCount;
use fonio_system::MountPoint;

use super::concurrency::{self, Concurrency};
use super::discard::Discards;
use super::drop_in::{JournalKey, UnitKey};
use super::places::{disk_of, mount_of, mounted_at};
use super::target::{QueueSetting, Target, mount_flags};
use super::{cgroup, database, folder, io_cost, sync_policy, systemd, trim, zram};
use crate::kernel::can_load_scheduler;
use crate::{HostError, Queue};

/// A setting with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The I/O scheduler of a device.
    Scheduler(String),
    /// How much the kernel reads ahead in files on a device; whole KiB.
    ReadAhead(ByteCount),
    /// How many requests of a device, of each direction, the kernel holds before it makes programs wait.
    QueueRequests(u32),
    /// The largest request that the kernel makes of reads and writes that follow each other.
    RequestSize(ByteCount),
    /// The largest discard that the kernel sends to a device at once. The device may allow only less, or only multiples of its unit.
    DiscardSize(ByteCount),
    /// At most how many requests of each kind the scheduler smartio has in flight.
    Concurrency(Concurrency),
    /// The kernel's controller io.cost of a device, which makes I/O weights act under every scheduler.
    IoCost,
    /// Reading a file does not update its access time.
    NoAccessTimes,
    /// Changed times of a file are kept in memory until the file is synced or a day has passed.
    LazyTimes,
    /// The interval in seconds between ext4's journal commits.
    CommitInterval(u32),
    /// The dirty pages at which the kernel makes writers wait, on the whole machine. Write-back begins at half of them.
    DirtyLimit(ByteCount),
    /// How readily the kernel swaps out memory of programs instead of dropping cached files, from 0 to 200.
    Swappiness(u32),
    /// systemd trims the mounted file systems weekly.
    TrimTimer,
    /// journald keeps its logs in memory, in at most this size.
    JournalInRam(ByteCount),
    /// The interval in seconds in which journald syncs its logs.
    JournalSync(u32),
    /// The share of a unit in the I/O of busy disks, from 1 to 1000; 100 is the default of all.
    IoWeight(u32),
    /// The bytes per second that a unit may read and, apart from that, write on each disk.
    IoLimit(ByteCount),
    /// The class of a unit's I/O.
    IoClass(IoClass),
    /// A unit's databases of SQLite are synced as the policy says.
    SyncPolicy,
    /// Swap in compressed memory of this size; without a size, half of the memory.
    SwapInRam(Option<ByteCount>),
    /// A database of SQLite has a write-ahead log.
    WriteAheadLog,
    /// A folder's content is in memory.
    FolderInRam {
        /// The most that it can take.
        size: ByteCount,
        /// Also if programs have files in it open for writing.
        despite_writers: bool,
    },
    /// Fonio's FUSE file system, with a write buffer, is mounted over a folder.
    Buffered,
    /// A folder's content is in an image, so that its writes stay in one range of the device.
    HotRange {
        /// The size of the image.
        size: Option<ByteCount>,
        /// Also if programs have files in it open for writing.
        despite_writers: bool,
    },
    /// A folder's content is on another device.
    FolderOn {
        /// The folder there.
        to: Option<PathBuf>,
        /// Also if programs have files in it open for writing.
        despite_writers: bool,
    },
}

/// A class of I/O, as `ioprio_set(2)` knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoClass {
    /// Only when nobody else has requests.
    Idle,
    /// The usual one.
    BestEffort,
}

impl IoClass {
    /// All classes.
    pub const ALL: [IoClass; 2] = [IoClass::Idle, IoClass::BestEffort];

    /// Its name in units of systemd.
    pub fn name(self) -> &'static str {
        match self {
            IoClass::Idle => "idle",
            IoClass::BestEffort => "best-effort",
        }
    }
}

/// What a setting applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A disk: a device, or a path on it.
    Disk,
    /// A mount: a path in it.
    Mount,
    /// The machine.
    Machine,
    /// A unit of systemd, or a control group by its path.
    Unit,
    /// A database of SQLite: its file.
    Database,
    /// A folder.
    Folder,
}

impl Setting {
    /// What the setting applies to.
    pub fn scope(&self) -> Scope {
        match self {
            Setting::Scheduler(_)
            | Setting::ReadAhead(_)
            | Setting::QueueRequests(_)
            | Setting::RequestSize(_)
            | Setting::DiscardSize(_)
            | Setting::Concurrency(_)
            | Setting::IoCost => Scope::Disk,
            Setting::NoAccessTimes | Setting::LazyTimes | Setting::CommitInterval(_) => Scope::Mount,
            Setting::DirtyLimit(_)
            | Setting::Swappiness(_)
            | Setting::TrimTimer
            | Setting::JournalInRam(_)
            | Setting::JournalSync(_)
            | Setting::SwapInRam(_) => Scope::Machine,
            Setting::WriteAheadLog => Scope::Database,
            Setting::FolderInRam { .. }
            | Setting::FolderOn { .. }
            | Setting::HotRange { .. }
            | Setting::Buffered => Scope::Folder,
            Setting::IoWeight(_) | Setting::IoLimit(_) | Setting::IoClass(_) | Setting::SyncPolicy => {
                Scope::Unit
            }
        }
    }

    pub(super) fn value(&self) -> String {
        match self {
            Setting::Scheduler(name) => name.clone(),
            Setting::Concurrency(numbers) => numbers.value(),
            Setting::IoCost => io_cost::ON.to_owned(),
            Setting::ReadAhead(bytes) | Setting::RequestSize(bytes) => (bytes.0 / 1024).to_string(),
            Setting::DiscardSize(bytes) => bytes.0.to_string(),
            Setting::NoAccessTimes => "noatime".to_owned(),
            Setting::LazyTimes => "lazytime".to_owned(),
            Setting::TrimTimer => "enabled".to_owned(),
            Setting::JournalInRam(size) => format!("Storage=volatile, RuntimeMaxUse={}", size.0),
            Setting::JournalSync(seconds) => format!("SyncIntervalSec={seconds}s"),
            Setting::IoWeight(weight) => format!("IOWeight={weight}"),
            Setting::IoLimit(rate) => cgroup::limits(&cgroup::disks(Path::new("/sys/block")), *rate),
            Setting::SwapInRam(size) => size.unwrap_or_else(zram::default_size).to_exact_text(),
            Setting::WriteAheadLog => database::WAL.to_owned(),
            Setting::FolderInRam { size, .. } => size.to_exact_text(),
            Setting::FolderOn { .. } => folder::on::BOUND.to_owned(),
            Setting::Buffered => folder::buffered::MOUNTED.to_owned(),
            Setting::HotRange { size, .. } => size.unwrap_or(ByteCount(0)).to_exact_text(),
            Setting::IoClass(class) => format!("IOSchedulingClass={}", class.name()),
            Setting::SyncPolicy => sync_policy::value(),
            Setting::QueueRequests(number)
            | Setting::CommitInterval(number)
            | Setting::Swappiness(number) => number.to_string(),
            Setting::DirtyLimit(bytes) => {
                format!("vm.dirty_background_bytes={} vm.dirty_bytes={}", bytes.0 / 2, bytes.0)
            }
        }
    }

    /// The value that this target gets, if it can have one.
    pub(super) fn value_on(&self, target: &Target) -> Result<String, HostError> {
        let (Setting::DiscardSize(wanted), Some(device)) = (self, target.disk()) else {
            return Ok(self.value());
        };
        let fitted = Discards::of(device)?.fitted(*wanted);
        fitted.map(|bytes| bytes.0.to_string()).map_err(|reason| self.refused(&target.path(), reason))
    }

    /// How the planned value differs from the one of this setting, if the device cannot have that: a clause.
    pub fn fitted_to(&self, planned: &super::Applied) -> Option<String> {
        let (Setting::DiscardSize(wanted), Some(device)) = (self, planned.target.disk()) else { return None };
        Discards::of(device).ok()?.difference(*wanted, ByteCount(planned.new.parse().ok()?))
    }

    /// Whether `target` is what this setting sets.
    pub fn is_of(&self, target: &Target) -> bool {
        if let (Setting::FolderOn { to: Some(wanted), .. }, Target::FolderOn { to, .. }) = (self, target) {
            return wanted == to;
        }
        matches!(
            (self, target),
            (Setting::Scheduler(_), Target::Scheduler { .. })
                | (Setting::ReadAhead(_), Target::Queue { of: QueueSetting::ReadAhead, .. })
                | (Setting::QueueRequests(_), Target::Queue { of: QueueSetting::Requests, .. })
                | (Setting::RequestSize(_), Target::Queue { of: QueueSetting::RequestSize, .. })
                | (Setting::DiscardSize(_), Target::Queue { of: QueueSetting::DiscardSize, .. })
                | (Setting::Concurrency(_), Target::Concurrency { .. })
                | (Setting::IoCost, Target::IoCost { .. })
                | (Setting::LazyTimes, Target::LazyTimes { .. })
                | (Setting::TrimTimer, Target::TrimTimer)
                | (Setting::SwapInRam(_), Target::SwapInRam)
                | (Setting::WriteAheadLog, Target::Database { .. })
                | (Setting::FolderInRam { .. }, Target::FolderInRam { .. })
                | (Setting::Buffered, Target::Buffered { .. })
                | (Setting::HotRange { .. }, Target::HotRange { .. })
                | (Setting::FolderOn { to: None, .. }, Target::FolderOn { .. })
                | (Setting::JournalInRam(_), Target::Journal { of: JournalKey::Storage })
                | (Setting::JournalSync(_), Target::Journal { of: JournalKey::SyncInterval })
                | (
                    Setting::IoWeight(_),
                    Target::Unit { of: UnitKey::Weight, .. } | Target::GroupWeight { .. }
                )
                | (Setting::IoLimit(_), Target::Unit { of: UnitKey::Limit, .. })
                | (Setting::IoClass(_), Target::Unit { of: UnitKey::Class, .. })
                | (Setting::SyncPolicy, Target::Unit { of: UnitKey::SyncPolicy, .. })
                | (Setting::NoAccessTimes, Target::AccessTimes { .. })
                | (Setting::CommitInterval(_), Target::CommitInterval { .. })
                | (Setting::DirtyLimit(_), Target::DirtyLimits)
                | (Setting::Swappiness(_), Target::Swappiness)
        )
    }

    /// Whether `applied` sets the same kind of setting to this value.
    pub fn is_in_force_as(&self, applied: &super::Applied) -> bool {
        self.is_of(&applied.target) && self.value_on(&applied.target).is_ok_and(|value| value == applied.new)
    }

    /// Makes the setting also where programs have files open that they would go on using as before, if it is one that this
    /// concerns.
    #[must_use]
    pub fn despite_writers(self) -> Setting {
        match self {
            Setting::FolderInRam { size, .. } => Setting::FolderInRam { size, despite_writers: true },
            Setting::FolderOn { to, .. } => Setting::FolderOn { to, despite_writers: true },
            Setting::HotRange { size, .. } => Setting::HotRange { size, despite_writers: true },
            other => other,
        }
    }

    /// Whether the setting applies to the whole machine, whatever the path.
    pub fn is_of_machine(&self) -> bool {
        self.scope() == Scope::Machine
    }

    /// The target that `path` means for this setting: the path is a device, or a file or folder on it.
    pub(super) fn target(&self, path: &Path) -> Result<Target, HostError> {
        let queue = |of| Ok(Target::Queue { device: disk_of(path, self)?, of });
        match self {
            Setting::Scheduler(_) => Ok(Target::Scheduler { device: disk_of(path, self)? }),
            Setting::ReadAhead(_) => queue(QueueSetting::ReadAhead),
            Setting::QueueRequests(_) => queue(QueueSetting::Requests),
            Setting::RequestSize(wanted) => {
                let device = disk_of(path, self)?;
                check_request_size(&device, *wanted).map_err(|reason| self.refused(path, reason))?;
                Ok(Target::Queue { device, of: QueueSetting::RequestSize })
            }
            Setting::DiscardSize(_) => queue(QueueSetting::DiscardSize),
            Setting::Concurrency(_) => {
                let device = disk_of(path, self)?;
                let target = Target::Concurrency { device };
                let device = target.disk().expect("it is of a disk");
                concurrency::check(device).map_err(|reason| self.refused(&target.path(), reason))?;
                Ok(target)
            }
            Setting::IoCost => {
                let target = Target::IoCost { device: disk_of(path, self)? };
                io_cost::check().map_err(|reason| self.refused(&target.path(), reason))?;
                Ok(target)
            }
            Setting::DirtyLimit(_) => Ok(Target::DirtyLimits),
            Setting::Swappiness(_) => Ok(Target::Swappiness),
            Setting::TrimTimer => {
                trim::check_timer().map_err(|reason| self.refused(Path::new(trim::TIMER), reason))?;
                Ok(Target::TrimTimer)
            }
            Setting::JournalInRam(_) => Ok(Target::Journal { of: JournalKey::Storage }),
            Setting::JournalSync(_) => Ok(Target::Journal { of: JournalKey::SyncInterval }),
            Setting::SwapInRam(_) => Ok(Target::SwapInRam),
            Setting::WriteAheadLog => database::database_at(path)
                .map(|path| Target::Database { path })
                .map_err(|reason| self.refused(path, reason)),
            Setting::FolderInRam { .. } => folder::folder_at(path)
                .map(|dir| Target::FolderInRam { dir })
                .map_err(|reason| self.refused(path, reason)),
            Setting::Buffered => folder::folder_at(path)
                .map(|dir| Target::Buffered { dir })
                .map_err(|reason| self.refused(path, reason)),
            Setting::HotRange { size: None, .. } => Err(self.refused(
                path,
                "name its size, such as hot-range=16MiB: `fonio bench address-range FOLDER` measures over which range small random writes are fast"
                    .to_owned(),
            )),
            Setting::HotRange { .. } => {
                let found = folder::folder_at(path)
                    .and_then(|dir| Ok(Target::HotRange { image: folder::hot_range::image_of(&dir)?, dir }));
                found.map_err(|reason| self.refused(path, reason))
            }
            Setting::FolderOn { to, .. } => {
                let wanted = "name the folder on the other device, such as folder-on=/mnt/ssd/log";
                let to = to.as_deref().ok_or_else(|| wanted.to_owned()).and_then(folder::on::destination);
                let found = to.and_then(|to| Ok((folder::folder_at(&to)?, folder::folder_at(path)?)));
                let (to, dir) = found.map_err(|reason| self.refused(path, reason))?;
                Ok(Target::FolderOn { dir, to })
            }
            Setting::IoWeight(_) if path.is_absolute() => cgroup::group_at(path)
                .map(|dir| Target::GroupWeight { dir })
                .map_err(|reason| self.refused(path, reason)),
            Setting::IoWeight(_) => self.of_unit(path, UnitKey::Weight),
            Setting::IoLimit(_) => self.of_unit(path, UnitKey::Limit),
            Setting::IoClass(_) => self.of_unit(path, UnitKey::Class),
            Setting::SyncPolicy => self.of_unit(path, UnitKey::SyncPolicy),
            Setting::NoAccessTimes | Setting::LazyTimes => {
                let mounted = mount_of(path)?;
                if !is_on_device(&mounted.filesystem) {
                    let reason = format!("it is {}, which is not on a device", mounted.filesystem);
                    return Err(self.refused(&mounted.dir, reason));
                }
                let dir = mounted.dir;
                Ok(match self {
                    Setting::LazyTimes => Target::LazyTimes { dir },
                    _ => Target::AccessTimes { dir },
                })
            }
            Setting::CommitInterval(_) => {
                let MountPoint { dir, filesystem, .. } = mount_of(path)?;
                if matches!(filesystem.as_str(), "ext3" | "ext4") {
                    return Ok(Target::CommitInterval { dir });
                }
                Err(self.refused(&dir, format!("it is {filesystem}, and only ext4 has it")))
            }
        }
    }

    /// Refuses values that the kernel would refuse, or that could not be undone.
    pub(super) fn check(&self, target: &Target) -> Result<(), HostError> {
        match target {
            Target::Scheduler { device } => {
                let (_, offered) = Queue::of(device).schedulers()?;
                let wanted = self.value();
                if offered.contains(&wanted) || can_load_scheduler(&wanted) {
                    return Ok(());
                }
                Err(HostError::NoScheduler { device: device.clone(), wanted, offered })
            }
            Target::AccessTimes { dir } => mount_flags(&mounted_at(dir)?.options)
                .map(|_| ())
                .map_err(|option| self.refused(dir, format!("its option {option} could not be kept"))),
            Target::CommitInterval { dir } | Target::LazyTimes { dir } => {
                let mounted = mounted_at(dir)?;
                let read_only = |options: &[String]| options.iter().any(|option| option == "ro");
                if read_only(&mounted.filesystem_options) {
                    return Err(self.refused(dir, "it is read-only".to_owned()));
                }
                Ok(())
            }
            Target::Unit { unit, of: UnitKey::SyncPolicy } => {
                sync_policy::check(unit).map_err(|reason| self.refused(&target.path(), reason))
            }
            Target::Unit { of, .. } => {
                cgroup::check_of_machine(*of).map_err(|reason| self.refused(&target.path(), reason))
            }
            Target::GroupWeight { .. } => cgroup::check_of_machine(UnitKey::Weight)
                .map_err(|reason| self.refused(&target.path(), reason)),
            Target::SwapInRam => zram::check().map_err(|reason| self.refused(&target.path(), reason)),
            Target::FolderInRam { dir } => {
                let Setting::FolderInRam { size, despite_writers } = self else { return Ok(()) };
                folder::in_ram::check(dir, *size, *despite_writers)
                    .map_err(|reason| self.refused(dir, reason))
            }
            Target::Buffered { dir } => {
                folder::buffered::check(dir).map_err(|reason| self.refused(dir, reason))
            }
            Target::HotRange { dir, image } => {
                let Setting::HotRange { size: Some(size), despite_writers } = self else { return Ok(()) };
                folder::hot_range::check(dir, image, *size, *despite_writers)
                    .map_err(|reason| self.refused(dir, reason))
            }
            Target::FolderOn { dir, to } => {
                let despite_writers = matches!(self, Setting::FolderOn { despite_writers: true, .. });
                folder::on::check(dir, to, despite_writers).map_err(|reason| self.refused(dir, reason))
            }
            Target::TrimTimer
            | Target::Database { .. }
            | Target::Journal { .. }
            | Target::Queue { .. }
            | Target::Concurrency { .. }
            | Target::IoCost { .. }
            | Target::DirtyLimits
            | Target::Swappiness => Ok(()),
        }
    }

    /// The unit that a word names, if systemd knows it.
    fn of_unit(&self, named: &Path, of: UnitKey) -> Result<Target, HostError> {
        let refuse = |reason| self.refused(named, reason);
        let unit = systemd::unit_named(named).map_err(refuse)?;
        Ok(Target::Unit { unit, of })
    }

    pub(super) fn refused(&self, path: &Path, reason: String) -> HostError {
        HostError::NotSettable { setting: self.to_string(), path: path.to_owned(), reason }
    }
}

/// The kernel refuses requests that are larger than the device takes.
fn check_request_size(device: &str, wanted: ByteCount) -> Result<(), String> {
    let text = Queue::of(device).read("max_hw_sectors_kb").map_err(|error| error.to_string())?;
    match text.parse::<u64>() {
        Ok(kib) if wanted.0 > kib << 10 => {
            Err(format!("it takes at most {} in a request", ByteCount(kib << 10).to_exact_text()))
        }
        _ => Ok(()),
    }
}

/// Whether file systems of this kind are on block devices. The kernel marks the others.
fn is_on_device(filesystem: &str) -> bool {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    !known.lines().any(|line| line.split_once('\t') == Some(("nodev", filesystem)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_path_cannot_have_is_refused_with_the_reason() {
        let refused =
            |setting: Setting, path| setting.target(Path::new(path)).expect_err("refused").to_string();
        assert_eq!(
            refused(Setting::CommitInterval(30), "/proc/self"),
            "a commit interval of 30 s cannot be set on /proc: it is proc, and only ext4 has it"
        );
        assert_eq!(
            refused(Setting::NoAccessTimes, "/proc/self"),
            "noatime cannot be set on /proc: it is proc, which is not on a device"
        );
        assert_eq!(
            refused(Setting::ReadAhead(ByteCount(131_072)), "/proc/self"),
            "a read-ahead of 128KiB cannot be set on /proc/self: it is on no block device"
        );
        assert!(refused(Setting::NoAccessTimes, "/no/such/file").contains("/no/such/file"));
    }

    #[test]
    fn a_file_lies_in_the_deepest_mount() {
        assert_eq!(mount_of(Path::new("/proc/self/status")).expect("mount").dir, Path::new("/proc"));
        assert!(mount_of(Path::new("/no/such/file")).is_err());
    }

    #[test]
    fn settings_of_the_machine_need_no_path() {
        let limit = Setting::DirtyLimit(ByteCount(64 << 20));
        assert_eq!(limit.value(), "vm.dirty_background_bytes=33554432 vm.dirty_bytes=67108864");
        assert_eq!(
            limit.target(Path::new("/no/such/file")).expect("it is of the machine"),
            Target::DirtyLimits
        );
        assert!(limit.is_of_machine() && !Setting::NoAccessTimes.is_of_machine());
    }
}
