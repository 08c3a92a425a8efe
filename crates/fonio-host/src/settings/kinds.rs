//! The kinds of settings: how to read each one, set it and make it permanent.

use std::fmt;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use fonio_system::{MountPoint, MountTable};
use rustix::fs::CWD;
use rustix::mount::{
    FsPickFlags, MountFlags, fsconfig_reconfigure, fsconfig_set_string, fspick, mount_remount,
};
use serde::{Deserialize, Serialize};

use crate::{HostError, Queue};

/// ext4's default interval between journal commits (`JBD2_DEFAULT_MAX_COMMIT_AGE`).
const COMMIT_DEFAULT_S: &str = "5";

/// `MS_NOSYMFOLLOW` of Linux 5.10.
const NOSYMFOLLOW: MountFlags = MountFlags::from_bits_retain(256);

/// A setting with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The I/O scheduler of a device.
    Scheduler(String),
    /// Reading a file does not update its access time.
    NoAccessTimes,
    /// The interval in seconds between ext4's journal commits.
    CommitInterval(u32),
}

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
    /// How access times are updated: `relatime`, `noatime` or `strictatime`.
    AccessTimes {
        /// The mount point. Other mounts of the file system are not affected.
        dir: PathBuf,
    },
    /// ext4's commit interval in seconds.
    CommitInterval {
        /// The mount point. The setting applies to the file system, at all its mount points.
        dir: PathBuf,
    },
}

impl Setting {
    pub(super) fn value(&self) -> String {
        match self {
            Setting::Scheduler(name) => name.clone(),
            Setting::NoAccessTimes => "noatime".to_owned(),
            Setting::CommitInterval(seconds) => seconds.to_string(),
        }
    }

    /// Whether `applied` sets the same kind of setting to this value.
    pub fn is_in_force_as(&self, applied: &super::Applied) -> bool {
        let same_kind = matches!(
            (self, &applied.target),
            (Setting::Scheduler(_), Target::Scheduler { .. })
                | (Setting::NoAccessTimes, Target::AccessTimes { .. })
                | (Setting::CommitInterval(_), Target::CommitInterval { .. })
        );
        same_kind && self.value() == applied.new
    }

    /// The target that `path` means for this setting: the path is a device, or a file or folder on it.
    pub(super) fn target(&self, path: &Path) -> Result<Target, HostError> {
        if let Setting::Scheduler(_) = self {
            return Ok(Target::Scheduler { device: disk_of(path, self)? });
        }
        let mounted = mount_of(path)?;
        match self {
            Setting::NoAccessTimes => Ok(Target::AccessTimes { dir: mounted.dir }),
            _ if matches!(mounted.filesystem.as_str(), "ext3" | "ext4") => {
                Ok(Target::CommitInterval { dir: mounted.dir })
            }
            _ => {
                Err(self.refused(&mounted.dir, format!("it is {}, and only ext4 has it", mounted.filesystem)))
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
        }
    }

    fn refused(&self, path: &Path, reason: String) -> HostError {
        HostError::NotSettable { setting: self.to_string(), path: path.to_owned(), reason }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Scheduler(name) => write!(f, "the scheduler {name}"),
            Setting::NoAccessTimes => f.write_str("noatime"),
            Setting::CommitInterval(seconds) => write!(f, "a commit interval of {seconds} s"),
        }
    }
}

impl Target {
    pub(super) fn refused(&self, setting: &Setting, reason: &str) -> HostError {
        setting.refused(&self.path(), reason.to_owned())
    }

    /// The device's node, or the mount point.
    pub fn path(&self) -> PathBuf {
        match self {
            Target::Scheduler { device } => Path::new("/dev").join(device),
            Target::AccessTimes { dir } | Target::CommitInterval { dir } => dir.clone(),
        }
    }

    /// The value in force; `None` if the device or the mount is gone.
    pub(super) fn current(&self) -> Result<Option<String>, HostError> {
        let mounted = |dir: &Path| MountTable::read().map(|table| table.at(dir).cloned());
        match self {
            Target::Scheduler { device } => {
                if !Path::new("/sys/block").join(device).exists() {
                    return Ok(None);
                }
                Ok(Some(Queue::of(device).schedulers()?.0))
            }
            Target::AccessTimes { dir } => Ok(mounted(dir)?.map(|mounted| access_times(&mounted.options))),
            Target::CommitInterval { dir } => Ok(mounted(dir)?.map(|mounted| {
                let mut options = mounted.filesystem_options.iter();
                let seconds = options.find_map(|option| option.strip_prefix("commit="));
                seconds.unwrap_or(COMMIT_DEFAULT_S).to_owned()
            })),
        }
    }

    pub(super) fn set(&self, value: &str) -> Result<(), HostError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |errno: rustix::io::Errno| HostError::system("remount", path)(errno.into())
        };
        match self {
            Target::Scheduler { device } => Queue::of(device).set_scheduler(value),
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
            Target::CommitInterval { dir } => {
                // Changes one parameter of the file system and keeps all others.
                let reconfigure = || {
                    let picked = fspick(CWD, dir, FsPickFlags::FSPICK_CLOEXEC)?;
                    fsconfig_set_string(&picked, "commit", value)?;
                    fsconfig_reconfigure(&picked)
                };
                reconfigure().map_err(failed(dir))
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

    /// How to keep `value` across reboots: the beginning of a sentence, and a line of configuration.
    pub fn permanent(&self, value: &str) -> (String, String) {
        match self {
            Target::Scheduler { device } => (
                "in /etc/udev/rules.d/60-scheduler.rules".to_owned(),
                format!("ACTION==\"add|change\", KERNEL==\"{device}\", ATTR{{queue/scheduler}}=\"{value}\""),
            ),
            Target::AccessTimes { dir } => fstab(dir, value),
            Target::CommitInterval { dir } => fstab(dir, &format!("commit={value}")),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Target::Scheduler { .. } => "the scheduler",
            Target::AccessTimes { .. } => "access times",
            Target::CommitInterval { .. } => "ext4's commit interval in seconds",
        };
        write!(f, "{what} of {}", self.path().display())
    }
}

fn access_times(options: &[String]) -> String {
    let known =
        ["noatime", "relatime"].into_iter().find(|known| options.iter().any(|option| option == known));
    known.unwrap_or("strictatime").to_owned()
}

/// The flags of a mount except those for access times; the error is the first unknown option.
fn mount_flags(options: &[String]) -> Result<MountFlags, String> {
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

fn mounted_at(dir: &Path) -> Result<MountPoint, HostError> {
    let found = MountTable::read()?.at(dir).cloned();
    found.ok_or_else(|| HostError::system("find the mount", dir)(std::io::ErrorKind::NotFound.into()))
}

/// The mount that contains a path or, if the path is a device, a mount of that device.
fn mount_of(path: &Path) -> Result<MountPoint, HostError> {
    let path = fs::canonicalize(path).map_err(HostError::system("find", path))?;
    let is_device = fs::metadata(&path).is_ok_and(|metadata| metadata.file_type().is_block_device());
    let mounts = MountTable::read()?;
    let found = if is_device {
        let of_device = mounts.iter().filter(|mount| Path::new(&mount.source) == path);
        of_device.max_by_key(|mount| mount.dir.components().count())
    } else {
        mounts.holding(&path)
    };
    found
        .cloned()
        .ok_or_else(|| HostError::system("find the mount of", &path)(std::io::ErrorKind::NotFound.into()))
}

/// The name in `/sys/block` of the disk that contains a path, or whose node or partition the path is.
pub(crate) fn disk_of(path: &Path, setting: &Setting) -> Result<String, HostError> {
    let numbers = |rdev: u64| format!("{}:{}", rustix::fs::major(rdev), rustix::fs::minor(rdev));
    let node = |path: &Path| {
        let metadata = fs::metadata(path).ok()?;
        metadata.file_type().is_block_device().then(|| numbers(metadata.rdev()))
    };
    let bare = Path::new("/dev").join(path);
    let number = match node(path).or_else(|| (!path.exists()).then(|| node(&bare)).flatten()) {
        Some(number) => number,
        None => {
            let mounted = mount_of(path)?;
            // Some file systems show a number that does not belong to a device.
            node(Path::new(&mounted.source)).unwrap_or_else(|| mounted.device.to_string())
        }
    };
    let link = Path::new("/sys/dev/block").join(&number);
    let Ok(mut dir) = fs::canonicalize(&link) else {
        return Err(setting.refused(path, "it is on no block device".to_owned()));
    };
    if dir.join("partition").exists() {
        dir.pop();
    }
    let below: Vec<String> = fs::read_dir(dir.join("slaves"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    if !below.is_empty() {
        let reason = format!("it is mapped to {}, which have the scheduler", below.join(", "));
        return Err(setting.refused(path, reason));
    }
    Ok(dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default())
}

/// The line of `/etc/fstab` with the option added.
fn fstab(dir: &Path, option: &str) -> (String, String) {
    let table = fs::read_to_string("/etc/fstab").unwrap_or_default();
    let place = dir.to_string_lossy().into_owned();
    let entry = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|fields| fields.len() >= 4 && !fields[0].starts_with('#') && fields[1] == place);
    let fields: Vec<String> = match (entry, mounted_at(dir)) {
        (Some(fields), _) => fields.into_iter().map(str::to_owned).collect(),
        (None, Ok(mounted)) => {
            [mounted.source, place, mounted.filesystem, "defaults".to_owned(), "0".to_owned(), "0".to_owned()]
                .into()
        }
        (None, Err(_)) => return ("in /etc/fstab, the option".to_owned(), option.to_owned()),
    };
    let mut fields = fields;
    fields[3] = with_option(&fields[3], option);
    ("in /etc/fstab".to_owned(), fields.join(" "))
}

/// Adds `option` to `options`, in place of options that contradict it.
fn with_option(options: &str, option: &str) -> String {
    const TIMES: [&str; 3] = ["noatime", "relatime", "strictatime"];
    let contradicts = |other: &&str| {
        let same_key = option.split_once('=').is_some_and(|(key, _)| other.split('=').next() == Some(key));
        same_key || (TIMES.contains(&option) && TIMES.contains(other))
    };
    let mut kept: Vec<&str> = options.split(',').filter(|other| !contradicts(other)).collect();
    kept.push(option);
    kept.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_take_the_place_of_what_they_contradict() {
        for (options, option, expected) in [
            ("defaults", "noatime", "defaults,noatime"),
            ("rw,relatime,nosuid", "noatime", "rw,nosuid,noatime"),
            ("commit=5,ro", "commit=30", "ro,commit=30"),
        ] {
            assert_eq!(with_option(options, option), expected);
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
    fn a_file_lies_in_the_deepest_mount() {
        assert_eq!(mount_of(Path::new("/proc/self/status")).expect("mount").dir, Path::new("/proc"));
        assert!(mount_of(Path::new("/no/such/file")).is_err());
        let refused =
            Setting::CommitInterval(30).target(Path::new("/proc/self")).expect_err("it is not ext4");
        let expected = "a commit interval of 30 s cannot be set on /proc: it is proc, and only ext4 has it";
        assert_eq!(refused.to_string(), expected);
    }
}
