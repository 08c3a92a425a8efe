//! What people read about a setting: its name, what it needs, where it is kept.

use std::fmt;
use std::path::Path;

use super::concurrency::SMARTIO;
use super::folder;
use super::setting::{Scope, Setting};

impl Setting {
    /// What the machine must have for the setting.
    pub fn needs(&self) -> &'static str {
        match self {
            Setting::Scheduler(name) if name == SMARTIO => "a disk, and the kernel module smartio-iosched",
            Setting::Concurrency(_) => "a disk with the scheduler smartio",
            Setting::IoCost => {
                "a disk, control groups v2, and a kernel with io.cost (CONFIG_BLK_CGROUP_IOCOST)"
            }
            Setting::Scheduler(_) => "a disk whose kernel has the scheduler",
            Setting::ReadAhead(_) | Setting::QueueRequests(_) | Setting::RequestSize(_) => "a disk",
            Setting::DiscardSize(_) => "a disk that can discard",
            Setting::NoAccessTimes | Setting::LazyTimes => "a mount on a device",
            Setting::CommitInterval(_) => "a mount of ext3 or ext4",
            Setting::DirtyLimit(_) | Setting::Swappiness(_) => "nothing more",
            Setting::TrimTimer => "a device that can discard; for the weekly timer, systemd",
            Setting::JournalInRam(_) | Setting::JournalSync(_) => "systemd",
            Setting::IoWeight(_) => {
                "control groups v2 with the controller io, and the scheduler bfq or io.cost on a disk; a unit of systemd, or a control group such as a container's"
            }
            Setting::IoLimit(_) => "systemd, and control groups v2 with the controller io",
            Setting::IoClass(_) => {
                "systemd, and the scheduler bfq, mq-deadline or smartio on a disk; a restart of the unit"
            }
            Setting::SyncPolicy => {
                "systemd, the policy `/etc/fonio/sync-policy.toml`, and programs that load SQLite as a library; a restart of the unit"
            }
            Setting::SwapInRam(_) => "the kernel's module zram; to keep it, systemd",
            Setting::FolderOn { .. } => {
                "Linux 5.2, an empty folder on another device, and that no program has files in the folder open for writing"
            }
            Setting::Buffered => "FUSE (`/dev/fuse`); to keep it, systemd",
            Setting::HotRange { .. } => {
                "Linux 5.2, loop devices, `mkfs.ext4`, the folder on ext4, ext3, ext2 or xfs with as much free space, and that no program has files in the folder open for writing"
            }
            Setting::WriteAheadLog => "a database of SQLite that no other program uses meanwhile",
            Setting::FolderInRam { .. } => {
                "Linux 5.2, as much free memory, and that no program has files in the folder open for writing; to keep it, systemd"
            }
        }
    }

    /// Where the setting is kept across reboots.
    pub fn kept_in(&self) -> &'static str {
        match self {
            Setting::TrimTimer => "systemd, which enables `fstrim.timer`",
            Setting::JournalInRam(_) | Setting::JournalSync(_) => {
                "a drop-in in `/etc/systemd/journald.conf.d`"
            }
            Setting::Buffered => "the unit `fonio-bfuse-FOLDER.service`",
            Setting::FolderOn { .. } | Setting::HotRange { .. } => {
                "a line in `/etc/fstab`, also with --apply"
            }
            Setting::SwapInRam(_) => "the unit `fonio-swap-in-ram.service`",
            Setting::DirtyLimit(_) | Setting::Swappiness(_) => "lines in `/etc/sysctl.d/90-fonio.conf`",
            _ => match self.scope() {
                Scope::Disk => "a rule in `/etc/udev/rules.d/90-fonio.rules`",
                Scope::Mount => "an option in `/etc/fstab`",
                Scope::Unit => "a drop-in in `/etc/systemd/system/UNIT.d`",
                Scope::Database => "the database's file itself",
                Scope::Folder => "the units `fonio-folder-in-ram-FOLDER.service` and `.timer`",
                Scope::Machine => unreachable!("each has its own place"),
            },
        }
    }

    /// What somebody has to do before the setting has its effect.
    pub fn remains_to_do(&self, path: &Path) -> Option<String> {
        if let (Setting::FolderInRam { .. }, Ok(dir)) = (self, folder::folder_at(path)) {
            return folder::in_ram::remains_to_do(&dir);
        }
        if let (Setting::HotRange { .. }, Ok(dir)) = (self, folder::folder_at(path)) {
            return folder::hot_range::remains_to_do(&dir);
        }
        let means = match self {
            Setting::FolderOn { .. } => Some("and what they write there is lost"),
            Setting::Buffered => Some("without the buffer"),
            _ => None,
        };
        if let (Some(means), Ok(dir)) = (means, folder::folder_at(path)) {
            return folder::left_below(&dir, means);
        }
        matches!(self, Setting::IoClass(_) | Setting::SyncPolicy).then(|| {
            let unit = path.display();
            format!("It holds for processes that the unit starts from now on: `systemctl restart {unit}`.")
        })
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Scheduler(name) => write!(f, "the scheduler {name}"),
            Setting::ReadAhead(bytes) => write!(f, "a read-ahead of {}", bytes.to_exact_text()),
            Setting::QueueRequests(number) => write!(f, "a queue of {number} requests"),
            Setting::RequestSize(bytes) => write!(f, "a limit of {} for requests", bytes.to_exact_text()),
            Setting::DiscardSize(bytes) => write!(f, "a largest discard of {}", bytes.to_exact_text()),
            Setting::Concurrency(numbers) => write!(f, "the concurrency parameters {numbers}"),
            Setting::IoCost => f.write_str("io.cost"),
            Setting::NoAccessTimes => f.write_str("noatime"),
            Setting::LazyTimes => f.write_str("lazytime"),
            Setting::TrimTimer => f.write_str("the weekly trimming"),
            Setting::JournalInRam(_) => f.write_str("a journal in memory"),
            Setting::JournalSync(seconds) => {
                write!(f, "an interval of {seconds} s between syncs of the journal")
            }
            Setting::IoWeight(weight) => write!(f, "an I/O weight of {weight}"),
            Setting::IoLimit(rate) => write!(f, "a limit of {}/s", rate.to_exact_text()),
            Setting::SwapInRam(_) => f.write_str("swap in compressed memory"),
            Setting::WriteAheadLog => f.write_str("a write-ahead log"),
            Setting::Buffered => f.write_str("bfuse"),
            Setting::HotRange { size: None, .. } => f.write_str("hot-range"),
            Setting::HotRange { size: Some(size), .. } => write!(f, "hot-range={}", size.to_exact_text()),
            Setting::FolderOn { to: None, .. } => f.write_str("folder-on"),
            Setting::FolderOn { to: Some(to), .. } => write!(f, "folder-on={}", to.display()),
            Setting::FolderInRam { size, .. } => write!(f, "folder-in-ram={}", size.to_exact_text()),
            Setting::IoClass(class) => write!(f, "the I/O class {}", class.name()),
            Setting::SyncPolicy => f.write_str("sync-policy"),
            Setting::CommitInterval(seconds) => write!(f, "a commit interval of {seconds} s"),
            Setting::DirtyLimit(bytes) => write!(f, "a limit of {} for dirty pages", bytes.to_exact_text()),
            Setting::Swappiness(number) => write!(f, "a swappiness of {number}"),
        }
    }
}
