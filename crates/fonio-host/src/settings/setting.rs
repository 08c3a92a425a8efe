//! The kinds of settings, with their values.

use std::fmt;
use std::fs;
use std::path::Path;

use fonio_core::ByteCount;
use fonio_system::MountPoint;

use super::places::{disk_of, mount_of, mounted_at};
use super::target::{QueueSetting, Target, mount_flags};
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
    /// Reading a file does not update its access time.
    NoAccessTimes,
    /// The interval in seconds between ext4's journal commits.
    CommitInterval(u32),
    /// The dirty pages at which the kernel makes writers wait, on the whole machine. Write-back begins at half of them.
    DirtyLimit(ByteCount),
    /// How readily the kernel swaps out memory of programs instead of dropping cached files, from 0 to 200.
    Swappiness(u32),
}

impl Setting {
    pub(super) fn value(&self) -> String {
        match self {
            Setting::Scheduler(name) => name.clone(),
            Setting::ReadAhead(bytes) => (bytes.0 / 1024).to_string(),
            Setting::NoAccessTimes => "noatime".to_owned(),
            Setting::QueueRequests(number)
            | Setting::CommitInterval(number)
            | Setting::Swappiness(number) => number.to_string(),
            Setting::DirtyLimit(bytes) => {
                format!("vm.dirty_background_bytes={} vm.dirty_bytes={}", bytes.0 / 2, bytes.0)
            }
        }
    }

    /// Whether `target` is what this setting sets.
    pub fn is_of(&self, target: &Target) -> bool {
        matches!(
            (self, target),
            (Setting::Scheduler(_), Target::Scheduler { .. })
                | (Setting::ReadAhead(_), Target::Queue { of: QueueSetting::ReadAhead, .. })
                | (Setting::QueueRequests(_), Target::Queue { of: QueueSetting::Requests, .. })
                | (Setting::NoAccessTimes, Target::AccessTimes { .. })
                | (Setting::CommitInterval(_), Target::CommitInterval { .. })
                | (Setting::DirtyLimit(_), Target::DirtyLimits)
                | (Setting::Swappiness(_), Target::Swappiness)
        )
    }

    /// Whether `applied` sets the same kind of setting to this value.
    pub fn is_in_force_as(&self, applied: &super::Applied) -> bool {
        self.is_of(&applied.target) && self.value() == applied.new
    }

    /// Whether the setting applies to the whole machine, whatever the path.
    pub fn is_of_machine(&self) -> bool {
        matches!(self, Setting::DirtyLimit(_) | Setting::Swappiness(_))
    }

    /// The target that `path` means for this setting: the path is a device, or a file or folder on it.
    pub(super) fn target(&self, path: &Path) -> Result<Target, HostError> {
        let queue = |of| Ok(Target::Queue { device: disk_of(path, self)?, of });
        match self {
            Setting::Scheduler(_) => Ok(Target::Scheduler { device: disk_of(path, self)? }),
            Setting::ReadAhead(_) => queue(QueueSetting::ReadAhead),
            Setting::QueueRequests(_) => queue(QueueSetting::Requests),
            Setting::DirtyLimit(_) => Ok(Target::DirtyLimits),
            Setting::Swappiness(_) => Ok(Target::Swappiness),
            Setting::NoAccessTimes => {
                let mounted = mount_of(path)?;
                if !is_on_device(&mounted.filesystem) {
                    let reason = format!("it is {}, which is not on a device", mounted.filesystem);
                    return Err(self.refused(&mounted.dir, reason));
                }
                Ok(Target::AccessTimes { dir: mounted.dir })
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
                if offered.contains(&wanted) {
                    return Ok(());
                }
                Err(HostError::NoScheduler { device: device.clone(), wanted, offered })
            }
            Target::AccessTimes { dir } => mount_flags(&mounted_at(dir)?.options)
                .map(|_| ())
                .map_err(|option| self.refused(dir, format!("its option {option} could not be kept"))),
            Target::CommitInterval { dir } => {
                let mounted = mounted_at(dir)?;
                let read_only = |options: &[String]| options.iter().any(|option| option == "ro");
                if read_only(&mounted.filesystem_options) {
                    return Err(self.refused(dir, "it is read-only".to_owned()));
                }
                Ok(())
            }
            Target::Queue { .. } | Target::DirtyLimits | Target::Swappiness => Ok(()),
        }
    }

    pub(super) fn refused(&self, path: &Path, reason: String) -> HostError {
        HostError::NotSettable { setting: self.to_string(), path: path.to_owned(), reason }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Scheduler(name) => write!(f, "the scheduler {name}"),
            Setting::ReadAhead(bytes) => write!(f, "a read-ahead of {}", bytes.to_exact_text()),
            Setting::QueueRequests(number) => write!(f, "a queue of {number} requests"),
            Setting::NoAccessTimes => f.write_str("noatime"),
            Setting::CommitInterval(seconds) => write!(f, "a commit interval of {seconds} s"),
            Setting::DirtyLimit(bytes) => write!(f, "a limit of {} for dirty pages", bytes.to_exact_text()),
            Setting::Swappiness(number) => write!(f, "a swappiness of {number}"),
        }
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
