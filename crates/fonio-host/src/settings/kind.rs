//! A kind of setting. Each kind has a file in [`super::kinds`] that defines its fixes, its requirements, and
//! how to read, set, keep and restore its value.

use std::fmt;
use std::path::{Path, PathBuf};

use super::drop_in::DropIn;
use super::folder::folder_at;
use super::kept::own::OwnFile;
use super::places::{disk_of, mount_on_device};
// Names that all kinds use.
pub(super) use super::drop_in::Keys;
pub(super) use super::kept::files::KeptFiles;
pub(super) use super::object::{Object, Scope};
pub(super) use super::refusal::Refusal;
pub(super) use super::sysctl::{self, assignments};
pub(super) use super::systemd;
pub(super) use super::value::{self, Value};
pub(super) use crate::error::HostError;
pub(super) use crate::filesystem::Filesystem;
pub(super) use crate::queue::Queue;
pub(super) use crate::schedulers::SMARTIO;

/// A kind of setting.
pub(super) trait Kind: Sync {
    fn facts(&self) -> &'static Facts;

    /// Parses the value of the fix `name`; without `text`, returns the default. Kinds without values return
    /// the name of the fix.
    fn parse(&self, name: &str, text: Option<&str>) -> Result<Value, String> {
        match text {
            None => Ok(Value::Word(self.facts().only_value.unwrap_or(name).to_owned())),
            Some(_) => Err("this fix has no value".to_owned()),
        }
    }

    /// Returns the object at `path` or containing it.
    fn object(&self, _wanted: &Wanted<'_>, path: &Path) -> Result<Object, Refusal> {
        Ok(match self.facts().scope {
            Scope::Disk => Object::Disk(disk_of(path)?),
            Scope::Mount => Object::Mount(mount_on_device(path)?),
            Scope::Machine => Object::Machine,
            Scope::Unit => Object::Unit(systemd::unit_named(path)?),
            Scope::Database => Object::Database(path.to_owned()),
            Scope::Folder => Object::Folder { dir: folder_at(path)?, content: None },
        })
    }

    /// Returns the value that the object gets, as recorded.
    fn value(&self, wanted: &Value, _on: &Object) -> Result<String, Refusal> {
        Ok(wanted.to_string())
    }

    /// Fails if the kernel would refuse the change, or if the change could not be undone.
    fn check(&self, _wanted: &Wanted<'_>, _on: &Object) -> Result<(), Refusal> {
        Ok(())
    }

    /// Returns the value in force; `None` if the object is gone.
    fn current(&self, on: &Object) -> Result<Option<String>, HostError> {
        match &self.facts().held {
            Held::QueueFile(file) => Queue::of(on.disk()).read(file).map(Some),
            Held::DropIn(keys) => DropIn::new(keys, on).current(),
            _ => unreachable!("the kind reads it"),
        }
    }

    /// Puts a value in force.
    fn set(&self, on: &Object, value: &str) -> Result<(), HostError> {
        match &self.facts().held {
            Held::QueueFile(file) => Queue::of(on.disk()).write(file, value),
            Held::DropIn(keys) => DropIn::new(keys, on).set(value),
            Held::Sysctl => {
                assignments(value).iter().try_for_each(|(name, value)| sysctl::write(name, value))
            }
            _ => unreachable!("the kind sets it"),
        }
    }

    /// Removes the mechanism that holds the new value, before the old value is restored.
    fn release(&self, on: &Object) -> Result<(), HostError> {
        match &self.facts().held {
            Held::DropIn(keys) => DropIn::new(keys, on).take_back(),
            _ => Ok(()),
        }
    }

    /// Fails if restoring would lose data. Called before anything is changed.
    fn check_restore(&self, _on: &Object) -> Result<(), HostError> {
        Ok(())
    }

    /// Returns a sentence on the resources that restoring needs.
    fn restore_needs(&self, _on: &Object) -> Option<String> {
        None
    }

    /// Returns how the value is kept across reboots.
    fn kept_as(&self, on: &Object, value: &str, files: &KeptFiles) -> Result<KeptAs, Refusal> {
        Ok(match &self.facts().held {
            Held::QueueFile(file) => KeptAs::queue_files([(*file, value)]),
            Held::DropIn(keys) => KeptAs::Files(vec![DropIn::new(keys, on).kept_file(&files.systemd, value)]),
            Held::MountOption(key) => KeptAs::MountOption(format!("{key}{value}")),
            Held::Sysctl => KeptAs::Sysctl(assignments(value)),
            Held::Itself => KeptAs::Itself,
            Held::ByKind => unreachable!("the kind keeps it"),
        })
    }

    /// Describes the setting, as in `the scheduler of /dev/sda`.
    fn describe(&self, on: &Object) -> String {
        let title = self.facts().title;
        match on {
            Object::Machine => title.to_owned(),
            on => format!("{title} of {}", self.path(on).display()),
        }
    }

    /// Returns the device node, mount point, folder, file, unit, or path of a machine setting.
    fn path(&self, on: &Object) -> PathBuf {
        match on {
            Object::Disk(device) => Path::new("/dev").join(device),
            Object::Unit(unit) => unit.into(),
            Object::Machine => self.facts().of_machine.into(),
            on => on.path().to_owned(),
        }
    }

    /// Returns whether a fix with this value changed the object.
    fn is_of(&self, _wanted: &Value, _on: &Object) -> bool {
        true
    }

    /// If the device cannot have the wanted value, returns a clause that explains how `new` differs from it.
    fn difference(&self, _wanted: &Value, _on: &Object, _new: &str) -> Option<String> {
        None
    }

    /// Returns sentences on the steps that the user must take before the setting has its effect.
    fn remains_to_do(&self, _path: &Path) -> Option<String> {
        None
    }

    /// Returns the scheduler that the setting needs, if any.
    fn scheduler<'v>(&self, _wanted: &'v Value) -> Option<&'v str> {
        None
    }
}

impl PartialEq for dyn Kind {
    fn eq(&self, other: &dyn Kind) -> bool {
        let key = |kind: &dyn Kind| (kind.facts().tag, kind.facts().of);
        key(self) == key(other)
    }
}

impl Eq for dyn Kind {}

impl fmt::Debug for dyn Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.facts().title)
    }
}

pub(super) struct Facts {
    /// Its name in records. Some kinds have the same name, and differ in a second name, `of`. Neither name
    /// may ever change, because later versions of fonio must be able to read the records.
    pub tag: &'static str,
    pub of: Option<&'static str>,
    /// Its name in records if the object is a control group that is not a unit.
    pub tag_of_group: Option<&'static str>,
    /// Name in records of the folder or image that has the object's content.
    pub content: Option<&'static str>,
    pub scope: Scope,
    /// The setting in a sentence, as in `the scheduler of /dev/sda`.
    pub title: &'static str,
    /// For a machine setting, the path in errors.
    pub of_machine: &'static str,
    /// Storage of its value.
    pub held: Held,
    /// Storage of the kept value, as text for users.
    pub kept_in: &'static str,
    /// Effect of undoing, as text for users.
    pub undone: &'static str,
    /// Whether the setting always survives a reboot, so applying it also keeps it.
    pub lasts: bool,
    /// Whether the setting must survive a reboot, because otherwise programs would see older data after it.
    pub must_be_kept: bool,
    /// Why the setting cannot be switched back and forth while programs run; `None` if it can.
    pub cannot_switch: Option<&'static str>,
    /// Whether the value has parts, separated by blanks, that are set one after the other.
    pub has_parts: bool,
    /// Whether setting it changes other settings of its object, so it must precede them when kept settings
    /// are restored.
    pub comes_first: bool,
    /// The value of its fixes, if they take no argument.
    pub only_value: Option<&'static str>,
    /// Placeholder for a value that users must choose.
    pub needs_value: Option<&'static str>,
    pub fixes: &'static [SettingFix],
}

impl Facts {
    /// A disk setting whose former value is restored.
    pub(super) const DEFAULT: Facts = Facts {
        tag: "",
        of: None,
        tag_of_group: None,
        content: None,
        scope: Scope::Disk,
        title: "",
        of_machine: "",
        held: Held::ByKind,
        kept_in: "a rule in `/etc/udev/rules.d/90-fonio.rules`",
        undone: "the former value",
        lasts: false,
        must_be_kept: false,
        cannot_switch: None,
        has_parts: false,
        comes_first: false,
        only_value: None,
        needs_value: None,
        fixes: &[],
    };

    pub(super) const OF_UNIT: Facts = Facts {
        tag: "unit",
        scope: Scope::Unit,
        kept_in: "a drop-in in `/etc/systemd/system/UNIT.d`",
        ..Facts::DEFAULT
    };

    pub(super) const OF_MOUNT: Facts =
        Facts { scope: Scope::Mount, kept_in: "an option in `/etc/fstab`", ..Facts::DEFAULT };

    pub(super) const OF_SYSCTL: Facts = Facts {
        scope: Scope::Machine,
        of_machine: "/proc/sys/vm",
        kept_in: "lines in `/etc/sysctl.d/90-fonio.conf`",
        ..Facts::DEFAULT
    };

    pub(super) const OF_JOURNAL: Facts = Facts {
        tag: "journal",
        scope: Scope::Machine,
        of_machine: "systemd-journald",
        kept_in: "a drop-in in `/etc/systemd/journald.conf.d`",
        cannot_switch: Some("journald is restarted for each change"),
        ..Facts::DEFAULT
    };
}

/// Storage of a setting's value, now and across reboots. A kind can override how it is read and set.
pub(super) enum Held {
    /// In this file in a disk's `queue` folder in sysfs. A udev rule keeps the setting.
    QueueFile(&'static str),
    /// In a systemd drop-in, which also keeps the setting.
    DropIn(Keys),
    /// In the mount option with this prefix. The mount table keeps the setting.
    MountOption(&'static str),
    /// In sysctl settings: the value is their assignments.
    Sysctl,
    /// In its object, where it survives reboots.
    Itself,
    /// Elsewhere: the kind itself reads, sets and keeps it.
    ByKind,
}

/// A fix that is a setting.
#[derive(Clone, Copy, Debug)]
pub struct SettingFix {
    /// Its name on the command line.
    pub name: &'static str,
    /// The group of things that it changes.
    pub changes: Group,
    /// Its effect, in one line.
    pub does: &'static str,
    /// Requirements on the machine.
    pub needs: &'static str,
    /// Additional data that a power cut can lose with it.
    pub loses: Loss,
    /// The study of the fix, or a note that we measure it ourselves.
    pub source: &'static str,
    /// How a trial applies it.
    pub trial: Trial,
}

impl SettingFix {
    /// A fix of a disk's queue that loses no data at a power cut.
    pub(super) const DEFAULT: SettingFix = SettingFix {
        name: "",
        changes: Group::Scheduler,
        does: "",
        needs: "a disk",
        loses: Loss::Nothing,
        source: "the kernel's documentation",
        trial: Trial::AsMade,
    };
}

/// The part of the system that a fix changes, in the order of the printed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The scheduler or the queue of a disk.
    Scheduler,
    /// The file system or its mount.
    Filesystem,
    /// The page cache and swap.
    Memory,
    /// The system's logs.
    Logs,
    /// A systemd unit, or a container.
    Unit,
    /// An application and its files.
    Application,
    /// The device itself.
    Device,
}

impl Group {
    /// All groups.
    pub const ALL: [Group; 7] = [
        Group::Scheduler,
        Group::Filesystem,
        Group::Memory,
        Group::Logs,
        Group::Unit,
        Group::Application,
        Group::Device,
    ];

    /// Returns the heading above its fixes.
    pub fn heading(self) -> &'static str {
        match self {
            Group::Scheduler => "Scheduler and queue",
            Group::Filesystem => "File system",
            Group::Memory => "Memory and swap",
            Group::Logs => "Logs",
            Group::Unit => "Units and containers",
            Group::Application => "Applications",
            Group::Device => "Devices",
        }
    }
}

/// The data that a power cut can lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Nothing more than before.
    Nothing,
    /// The last seconds of writes; the text gives their number. Older data are intact.
    Recent(&'static str),
    /// Data that were moved or are no longer synced: for caches only. The text names the data.
    Content(&'static str),
}

impl Loss {
    /// Returns the sentence for users.
    pub fn sentence(self) -> &'static str {
        match self {
            Loss::Nothing => "A power cut loses no more data than without the fix.",
            Loss::Recent(text) | Loss::Content(text) => text,
        }
    }

    /// Returns whether a power cut can lose only recent writes and leaves older data intact.
    pub fn is_safe(self) -> bool {
        !matches!(self, Loss::Content(_))
    }
}

/// How a trial applies a fix to a workload or a command.
#[derive(Clone, Copy, Debug)]
pub enum Trial {
    /// In the same way as the fix.
    AsMade,
    /// In a directory, in the same way as the fix. If the trial creates a file system, it uses this mount
    /// option, if the file system supports it.
    MountOption(&'static str, fn(Filesystem) -> bool),
    /// In a directory, in the same way as the fix. A device created for the trial gets the scheduler from the
    /// start.
    Scheduler,
    /// In the same way as the fix, if the device has this scheduler.
    WithScheduler(&'static str),
    /// In the same way as the fix, if the file system supports discards.
    Discards,
    /// The workload opens its databases with a write-ahead log.
    WriteAheadLog,
    /// On the workload's folder, which nothing else uses.
    OwnFolder,
    /// Not at all, because the fix changes the device permanently; the text says how. Only its regular
    /// repetition is a setting.
    Once(&'static str),
    /// Not at all, for this reason.
    None(&'static str),
}

/// Reason why settings of system services cannot be tried with a workload or a command.
pub(super) const OF_SERVICES: Trial = Trial::None(
    "it changes system services; record them with `fonio record` before and after applying it, then run `fonio compare`",
);

/// Reason why a mount over a folder cannot be tried: no other program may use the folder during the trial.
pub(super) const OF_FOLDERS: Trial = Trial::None(
    "it mounts something over a folder that programs use; record them with `fonio record` before and after applying it, then run `fonio compare`",
);

/// A requested value, and whether the change may disturb running programs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'v> {
    pub value: &'v Value,
    /// Applies the setting even if programs have files open and would continue to use the covered files.
    pub despite_writers: bool,
}

/// How a setting is kept across reboots.
pub(super) enum KeptAs {
    /// Udev rules for its disk, with one action each.
    Rules(Vec<String>),
    /// An option of its mount.
    MountOption(String),
    /// A line of the mount table that mounts something over its folder.
    MountLine(String),
    /// Files that belong only to fonio.
    Files(Vec<OwnFile>),
    /// Sysctl assignments.
    Sysctl(Vec<(String, String)>),
    /// It survives reboots by itself.
    Itself,
}

impl KeptAs {
    /// Returns udev rules that write these contents to files in a disk's `queue` folder in sysfs.
    pub(super) fn queue_files<'f>(files: impl IntoIterator<Item = (&'f str, &'f str)>) -> KeptAs {
        let action = |(file, value): (&str, &str)| {
            // A scheduler's own files exist only with that scheduler.
            let there = if file.contains('/') { format!("TEST==\"queue/{file}\", ") } else { String::new() };
            format!("{there}ATTR{{queue/{file}}}=\"{value}\"")
        };
        KeptAs::Rules(files.into_iter().map(action).collect())
    }
}
