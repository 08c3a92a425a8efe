//! A kind of setting. Each has a file of its own in [`super::kinds`] with everything that fonio knows about
//! it: the fixes that set it, its requirements, and how its value is read, set, kept and restored.

use std::fmt;
use std::path::{Path, PathBuf};

use super::drop_in::DropIn;
use super::folder::folder_at;
use super::kept::own::OwnFile;
use super::places::{disk_of, mount_on_device};
// The vocabulary of all kinds.
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

    /// Parses the value of the fix `name`; without `text`, it is the default. If the kind has no other
    /// values, the fix itself is the value.
    fn parse(&self, name: &str, text: Option<&str>) -> Result<Value, String> {
        match text {
            None => Ok(Value::Word(self.facts().only_value.unwrap_or(name).to_owned())),
            Some(_) => Err("it takes no value".to_owned()),
        }
    }

    /// Returns the object that `path` means: the path is the object, or lies on it.
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

    /// Returns the value that the object gets, in the words of the record.
    fn value(&self, wanted: &Value, _on: &Object) -> Result<String, Refusal> {
        Ok(wanted.to_string())
    }

    /// Refuses a change that the kernel would refuse, or that could not be undone.
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

    /// Removes the holder of the new value before the old one is restored.
    fn release(&self, on: &Object) -> Result<(), HostError> {
        match &self.facts().held {
            Held::DropIn(keys) => DropIn::new(keys, on).take_back(),
            _ => Ok(()),
        }
    }

    /// Refuses a restoration that would lose data, before anything is changed.
    fn check_restore(&self, _on: &Object) -> Result<(), HostError> {
        Ok(())
    }

    /// Returns a sentence on what restoring needs.
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

    /// Returns the object as in `the scheduler of /dev/sda`.
    fn describe(&self, on: &Object) -> String {
        let title = self.facts().title;
        match on {
            Object::Machine => title.to_owned(),
            on => format!("{title} of {}", self.path(on).display()),
        }
    }

    /// Returns the device's node, the mount point, the folder, the file, the unit, or the place of a setting
    /// of the machine.
    fn path(&self, on: &Object) -> PathBuf {
        match on {
            Object::Disk(device) => Path::new("/dev").join(device),
            Object::Unit(unit) => unit.into(),
            Object::Machine => self.facts().of_machine.into(),
            on => on.path().to_owned(),
        }
    }

    /// Whether a fix with this value is the one that changed the object.
    fn is_of(&self, _wanted: &Value, _on: &Object) -> bool {
        true
    }

    /// Returns a clause on how the value `new` differs from the wanted one, if the device cannot have the
    /// wanted one.
    fn difference(&self, _wanted: &Value, _on: &Object, _new: &str) -> Option<String> {
        None
    }

    /// Returns sentences on what the user must do before the setting has its effect.
    fn remains_to_do(&self, _path: &Path) -> Option<String> {
        None
    }

    /// Returns the scheduler that the kernel must have for it.
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

/// The properties of a kind that need no code.
pub(super) struct Facts {
    /// Its name in records, and for some kinds a second name that distinguishes kinds with the same first
    /// name. Records outlive programs: neither name may ever change.
    pub tag: &'static str,
    pub of: Option<&'static str>,
    /// Its name in records where the object is a control group that is not a unit.
    pub tag_of_group: Option<&'static str>,
    /// The name in records of the folder or image that has the content of the object.
    pub content: Option<&'static str>,
    pub scope: Scope,
    /// The setting in a sentence, as in `the scheduler of /dev/sda`.
    pub title: &'static str,
    /// For a setting of the machine, the place that errors name.
    pub of_machine: &'static str,
    /// The place of its value.
    pub held: Held,
    /// The place in which it is kept across reboots.
    pub kept_in: &'static str,
    /// The thing that undoing restores.
    pub undone: &'static str,
    /// Whether it always outlasts a reboot, so that applying it also keeps it.
    pub lasts: bool,
    /// Whether it may not end with a reboot, because older data would come back.
    pub must_be_kept: bool,
    /// Why it cannot be switched back and forth while programs run; `None` if it can.
    pub cannot_switch: Option<&'static str>,
    /// Whether its value has parts, between blanks, which are set one after the other.
    pub has_parts: bool,
    /// Whether it changes other settings of the same object, and must therefore precede those that are kept.
    pub comes_first: bool,
    /// The value of all its fixes, if they take none.
    pub only_value: Option<&'static str>,
    /// The word for a value that users must choose.
    pub needs_value: Option<&'static str>,
    pub fixes: &'static [SettingFix],
}

impl Facts {
    /// A setting of a disk with a fix that takes its value back.
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

    /// The facts of a setting of systemd's units.
    pub(super) const OF_UNIT: Facts = Facts {
        tag: "unit",
        scope: Scope::Unit,
        kept_in: "a drop-in in `/etc/systemd/system/UNIT.d`",
        ..Facts::DEFAULT
    };

    /// The facts of a setting of a mount's options.
    pub(super) const OF_MOUNT: Facts =
        Facts { scope: Scope::Mount, kept_in: "an option in `/etc/fstab`", ..Facts::DEFAULT };

    /// The facts of a setting of sysctl.
    pub(super) const OF_SYSCTL: Facts = Facts {
        scope: Scope::Machine,
        of_machine: "/proc/sys/vm",
        kept_in: "lines in `/etc/sysctl.d/90-fonio.conf`",
        ..Facts::DEFAULT
    };

    /// The facts of a setting of journald.
    pub(super) const OF_JOURNAL: Facts = Facts {
        tag: "journal",
        scope: Scope::Machine,
        of_machine: "systemd-journald",
        kept_in: "a drop-in in `/etc/systemd/journald.conf.d`",
        cannot_switch: Some("journald is restarted for each change"),
        ..Facts::DEFAULT
    };
}

/// The place of a setting's value, now and across reboots. A kind can still read and set it in its own way.
pub(super) enum Held {
    /// In this file of the folder `queue` of a disk in sysfs; kept by a rule of udev.
    QueueFile(&'static str),
    /// In a drop-in of systemd, which also keeps it.
    DropIn(Keys),
    /// Among the options of a mount, with this before it; kept in the table of mounts.
    MountOption(&'static str),
    /// In settings of sysctl: the value is their assignments.
    Sysctl,
    /// In its object, which keeps it.
    Itself,
    /// Elsewhere: the kind itself reads, sets and keeps it.
    ByKind,
}

/// A fix that is a setting.
#[derive(Clone, Copy, Debug)]
pub struct SettingFix {
    /// Its name on the command line.
    pub name: &'static str,
    /// The kind of thing that it changes.
    pub changes: Group,
    /// One line on its effect.
    pub does: &'static str,
    /// The requirements on the machine.
    pub needs: &'static str,
    /// The additional data that a power cut can lose with it.
    pub loses: Loss,
    /// The study of the fix, or a note that we measure it ourselves.
    pub source: &'static str,
    /// How it is tried before it is made.
    pub trial: Trial,
}

impl SettingFix {
    /// A fix of a disk's queue that costs nothing at a power cut.
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

/// The kinds of thing that fixes change, in the order of the printed list.
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
    /// A unit of systemd, or a container.
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

    /// The heading above its fixes.
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
    /// The last seconds of writes; the older data are intact. The text says how many seconds.
    Recent(&'static str),
    /// Data that were moved or are no longer synced: for caches only. The text says which.
    Content(&'static str),
}

impl Loss {
    /// Returns the loss as a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Loss::Nothing => "A power cut loses no more data than without the fix.",
            Loss::Recent(text) | Loss::Content(text) => text,
        }
    }

    /// Returns whether all data reported as durable to an app survive, or only recent writes are lost and the rest is
    /// intact.
    pub fn is_safe(self) -> bool {
        !matches!(self, Loss::Content(_))
    }
}

/// How a fix is tried with a workload or a command before it is made.
#[derive(Clone, Copy, Debug)]
pub enum Trial {
    /// In the same way as it is made.
    AsMade,
    /// In a directory as it is made; on a file system that was made for the trial, with this mount option, if it has it.
    MountOption(&'static str, fn(Filesystem) -> bool),
    /// In a directory as it is made; a device that was made for the trial gets the scheduler from the start.
    Scheduler,
    /// In the same way as it is made, if the device has this scheduler.
    WithScheduler(&'static str),
    /// In the same way as it is made, if the file system discards.
    Discards,
    /// The workload opens its databases with a write-ahead log.
    WriteAheadLog,
    /// On the workload's folder, which nothing else uses.
    OwnFolder,
    /// It changes the device permanently, as a trial and as a fix; only its regular repetition is a setting.
    Once(&'static str),
    /// Not at all, for this reason.
    None(&'static str),
}

/// Why settings of services cannot be tried with a workload or a command, which are not services.
pub(super) const OF_SERVICES: Trial = Trial::None(
    "it changes services of the machine; record them with `fonio record` before and after it, and use `fonio compare`",
);

/// Why a mount over a folder cannot be tried: nothing else may use the folder meanwhile.
pub(super) const OF_FOLDERS: Trial = Trial::None(
    "it mounts something over a folder that programs use; record them with `fonio record` before and after it, and use `fonio compare`",
);

/// A value that a user wants, and whether it may disturb running programs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'v> {
    pub value: &'v Value,
    /// Makes the setting even if programs have files open, which they would continue to use as before.
    pub despite_writers: bool,
}

/// How a setting is kept across reboots.
pub(super) enum KeptAs {
    /// Rules of udev for its disk: an action each.
    Rules(Vec<String>),
    /// An option of its mount.
    MountOption(String),
    /// A line of the table of mounts, which mounts something over its folder.
    MountLine(String),
    /// Files that belong only to fonio.
    Files(Vec<OwnFile>),
    /// Assignments of sysctl.
    Sysctl(Vec<(String, String)>),
    /// It lasts by itself.
    Itself,
}

impl KeptAs {
    /// Files in the folder `queue` of a disk in sysfs, with their contents.
    pub(super) fn queue_files<'f>(files: impl IntoIterator<Item = (&'f str, &'f str)>) -> KeptAs {
        let action = |(file, value): (&str, &str)| {
            // A scheduler's own files are there only with that scheduler.
            let there = if file.contains('/') { format!("TEST==\"queue/{file}\", ") } else { String::new() };
            format!("{there}ATTR{{queue/{file}}}=\"{value}\"")
        };
        KeptAs::Rules(files.into_iter().map(action).collect())
    }
}
