//! Defines what a kind of setting is. Each kind has a file in [`super::kinds`] that defines its fixes, its
//! requirements, and how to read, set, keep and restore its value.

use std::fmt;
use std::path::{Path, PathBuf};

use fonio_machine::Machine;

use super::cgroup;
use super::drop_in::{COMMA, DropIn, UNSET};
use super::folder::folder_at;
use super::kept::own::OwnFile;
use super::own_group;
use super::places::{disk_of, mount_on_device};
// All kinds of settings use these names.
pub(super) use super::drop_in::Keys;
pub(super) use super::kept::files::KeptFiles;
pub(super) use super::object::{Object, Scope};
pub(super) use super::own_group::Property;
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

    /// Parses the value of the fix `name`; without `text`, returns the default value. A kind without values
    /// returns the name of the fix.
    fn parse(&self, name: &str, text: Option<&str>) -> Result<Value, String> {
        match text {
            None => Ok(Value::Word(self.facts().only_value.unwrap_or(name).to_owned())),
            Some(_) => Err("this fix takes no value".to_owned()),
        }
    }

    /// Returns the object at `path`, or the object that contains `path`.
    fn object(&self, _wanted: &Wanted<'_>, path: &Path) -> Result<Object, Refusal> {
        Ok(match self.facts().scope {
            Scope::Disk => Object::Disk(disk_of(path)?),
            Scope::Mount => Object::Mount(mount_on_device(path)?),
            Scope::Machine => Object::Machine,
            Scope::Unit if self.facts().of_group().is_some() => own_group::object_at(path)?,
            Scope::Unit => Object::Unit(systemd::unit_named(path)?),
            Scope::Database => Object::Database(path.to_owned()),
            Scope::Folder => Object::Folder { dir: folder_at(path)?, content: None },
        })
    }

    /// Returns the value that the object gets, in the form in which it is recorded.
    fn value(&self, wanted: &Value, _on: &Object) -> Result<String, Refusal> {
        Ok(wanted.to_string())
    }

    /// Fails if the kernel would refuse the change, or if the change could not be undone.
    fn check(&self, wanted: &Wanted<'_>, on: &Object) -> Result<(), Refusal> {
        match (self.facts().of_group(), on) {
            (None, _) => Ok(()),
            (Some(group), Object::Process(id)) => {
                own_group::check(*id, group.property, &wanted.value.to_string())
            }
            (Some(group), _) => Ok((group.check)(&Machine::here())?),
        }
    }

    /// Returns the setting's value in force; `None` if its object is gone.
    fn current(&self, on: &Object) -> Result<Option<String>, HostError> {
        match &self.facts().held {
            Held::QueueFile(file) => Queue::of(on.disk()).read(file).map(Some),
            Held::DropIn(keys) => DropIn::new(keys, on).current(),
            Held::Group(group) => match on {
                Object::Group(dir) => (group.read)(dir),
                Object::Process(id) => own_group::current(*id, group.property),
                unit => DropIn::new(&group.keys, unit).current(),
            },
            _ => unreachable!("the kind reads it"),
        }
    }

    /// Puts a value of the setting in force.
    fn set(&self, on: &Object, value: &str) -> Result<(), HostError> {
        match &self.facts().held {
            Held::QueueFile(file) => Queue::of(on.disk()).write(file, value),
            Held::DropIn(keys) => DropIn::new(keys, on).set(value),
            Held::Group(group) => match on {
                Object::Group(dir) => (group.write)(dir, value),
                Object::Process(id) => own_group::set(*id, group.property, value),
                unit => DropIn::new(&group.keys, unit).set(value),
            },
            Held::Sysctl => {
                assignments(value).iter().try_for_each(|(name, value)| sysctl::write(name, value))
            }
            _ => unreachable!("the kind sets it"),
        }
    }

    /// Removes the mechanism that keeps the new value in force. Called before the old value is restored.
    fn release(&self, on: &Object) -> Result<(), HostError> {
        match &self.facts().held {
            Held::DropIn(keys) => DropIn::new(keys, on).take_back(),
            Held::Group(group) => match on {
                Object::Group(_) => Ok(()),
                Object::Process(id) => {
                    own_group::remove_if_empty(*id);
                    Ok(())
                }
                unit => DropIn::new(&group.keys, unit).take_back(),
            },
            _ => Ok(()),
        }
    }

    /// Fails if restoring the old value would lose data. This method is called before anything is changed.
    fn check_restore(&self, _on: &Object) -> Result<(), HostError> {
        Ok(())
    }

    /// Returns a sentence on the resources that restoring the old value needs.
    fn restore_needs(&self, _on: &Object) -> Option<String> {
        None
    }

    /// Checks that a record of a change names an object and an old value as this kind records them. The error
    /// is the reason why fonio did not write the record.
    fn check_record(&self, on: &Object, old: &str) -> Result<(), &'static str> {
        match on {
            Object::Disk(name) if name.contains('/') || name == ".." => {
                Err("the name is not the name of a disk")
            }
            Object::Disk(_) if old.contains('/') => Err("the value is not a value of a disk"),
            Object::Machine if !assignments(old).iter().all(|(name, _)| sysctl::is_known(name)) => {
                Err("fonio does not change this kernel setting")
            }
            Object::Mount(dir) | Object::Folder { dir, .. } if !dir.is_absolute() => {
                Err("the path is not absolute")
            }
            Object::Unit(unit) if !is_unit_name(unit) => Err("the name is not the name of a unit"),
            Object::Group(dir) if !cgroup::is_group_path(dir) => Err("the path is not a control group"),
            Object::Process(_) if own_group::is_origin(old) => Ok(()),
            Object::Unit(_) | Object::Group(_) | Object::Process(_) if !is_unit_value(old) => {
                Err("the value is not a value of a unit")
            }
            _ => Ok(()),
        }
    }

    /// Returns how a value of the setting is kept across reboots.
    fn kept_as(&self, on: &Object, value: &str, files: &KeptFiles) -> Result<KeptAs, Refusal> {
        Ok(match &self.facts().held {
            Held::QueueFile(file) => KeptAs::queue_files([(*file, value)]),
            Held::DropIn(keys) => KeptAs::Files(vec![DropIn::new(keys, on).kept_file(&files.systemd, value)]),
            Held::Group(_) if matches!(on, Object::Group(_) | Object::Process(_)) => {
                return Err(Refusal::Reason(own_group::IS_NOT_KEPT.to_owned()));
            }
            Held::Group(group) => {
                KeptAs::Files(vec![DropIn::new(&group.keys, on).kept_file(&files.systemd, value)])
            }
            Held::MountOption(key) => KeptAs::MountOption(format!("{key}{value}")),
            Held::Sysctl => KeptAs::Sysctl(assignments(value)),
            Held::Itself => KeptAs::Itself,
            Held::ByKind => unreachable!("the kind keeps it"),
        })
    }

    /// Describes the setting with its object, as in `the scheduler of /dev/sda`.
    fn describe(&self, on: &Object) -> String {
        let title = self.facts().title;
        match on {
            Object::Machine => title.to_owned(),
            Object::Process(id) => format!("{title} of process {}", id.pid),
            on => format!("{title} of {}", self.path(on).display()),
        }
    }

    /// Returns the path of the object: a device node, mount point, folder, file, unit or machine setting.
    fn path(&self, on: &Object) -> PathBuf {
        match on {
            Object::Disk(device) => Path::new("/dev").join(device),
            Object::Unit(unit) => unit.into(),
            Object::Process(id) => Path::new("/proc").join(id.pid.to_string()),
            Object::Machine => self.facts().of_machine.into(),
            on => on.path().to_owned(),
        }
    }

    /// Returns whether a change of this object can come from a fix with this value.
    fn is_of(&self, _wanted: &Value, _on: &Object) -> bool {
        true
    }

    /// If the device cannot have the wanted value, returns a clause that explains how `new` differs from the
    /// wanted value.
    fn difference(&self, _wanted: &Value, _on: &Object, _new: &str) -> Option<String> {
        None
    }

    /// Returns sentences on the steps that the user must take before the setting has its effect.
    fn remains_to_do(&self, _path: &Path) -> Option<String> {
        None
    }

    /// Returns the scheduler that the wanted value needs, if any.
    fn scheduler<'v>(&self, _wanted: &'v Value) -> Option<&'v str> {
        None
    }
}

/// The keys of the settings of units that a trial changes.
const UNIT_KEYS: [&str; 3] = ["IOWeight=", "IOReadBandwidthMax=", "IOWriteBandwidthMax="];

fn is_unit_name(name: &str) -> bool {
    let parts = name.rsplit_once('.');
    name.is_ascii() && !name.contains('/') && parts.is_some_and(|(_, kind)| !kind.is_empty())
}

/// Returns whether a value consists only of assignments of [`UNIT_KEYS`]. A drop-in contains the value, so other
/// assignments could start programs.
fn is_unit_value(value: &str) -> bool {
    let is_known = |assignment: &str| UNIT_KEYS.iter().any(|key| assignment.starts_with(key));
    !value.contains('\n') && (value == UNSET || value.split(COMMA).all(is_known))
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
    /// The name of this kind of setting in records. Kinds with the same name differ in a second name, `of`.
    /// Neither name may ever change, because later versions of fonio must be able to read the records.
    pub tag: &'static str,
    pub of: Option<&'static str>,
    /// The name of this kind in records if the object is a control group that is not a unit.
    pub tag_of_group: Option<&'static str>,
    /// The name of this kind in records if the object is a process.
    pub tag_of_process: Option<&'static str>,
    /// The name under which records store the folder or image that has the object's content.
    pub content: Option<&'static str>,
    pub scope: Scope,
    /// The name of the setting in a sentence, such as `the scheduler` in `the scheduler of /dev/sda`.
    pub title: &'static str,
    /// The path that errors show for a setting of the machine.
    pub of_machine: &'static str,
    /// Where the setting's value is stored.
    pub held: Held,
    /// Where the kept value is stored, as text for users.
    pub kept_in: &'static str,
    /// The effect of undoing the setting, as text for users.
    pub undone: &'static str,
    /// Whether the setting always survives a reboot, so that applying the setting also keeps it.
    pub lasts: bool,
    /// Whether the setting must survive a reboot, because without it, programs would see older data.
    pub must_be_kept: bool,
    /// Why the setting cannot be switched back and forth while programs run; `None` if it can be switched.
    pub cannot_switch: Option<&'static str>,
    /// Whether the value has parts, separated by blanks, that are set one after the other.
    pub has_parts: bool,
    /// Whether a change of this setting also changes other settings of its object. If so, this setting must
    /// be restored before the others.
    pub comes_first: bool,
    /// The value of the setting's fixes, if these fixes have no argument.
    pub only_value: Option<&'static str>,
    /// The placeholder for a value that users must choose.
    pub needs_value: Option<&'static str>,
    pub fixes: &'static [SettingFix],
}

impl Facts {
    /// The properties that most kinds share: the setting belongs to a disk, and undoing it restores the
    /// former value.
    pub(super) const DEFAULT: Facts = Facts {
        tag: "",
        of: None,
        tag_of_group: None,
        tag_of_process: None,
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

    /// Returns how the setting changes a control group; `None` if it changes none.
    pub(super) fn of_group(&self) -> Option<&OfGroup> {
        if let Held::Group(group) = &self.held { Some(group) } else { None }
    }

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

/// Where a setting's value is stored, now and across reboots. A kind can override how the value is read and
/// set.
pub(super) enum Held {
    /// The value is in this file in a disk's `queue` folder in sysfs. A udev rule keeps the setting.
    QueueFile(&'static str),
    /// The value is in a systemd drop-in, which also keeps the setting.
    DropIn(Keys),
    /// The value belongs to a control group: that of a unit, any other, or one that a process gets for itself.
    Group(OfGroup),
    /// The value is in the mount option with this prefix. The mount table keeps the setting.
    MountOption(&'static str),
    /// The value is a list of assignments to sysctl settings.
    Sysctl,
    /// The value is stored in the setting's object, where it survives reboots.
    Itself,
    /// The value is stored elsewhere: the kind itself reads, sets and keeps the value.
    ByKind,
}

/// A value of a control group. A unit gets it by a systemd drop-in, which also keeps it.
pub(super) struct OfGroup {
    /// The assignments in the drop-in of a unit.
    pub keys: Keys,
    /// The value of the control group that a process gets for itself.
    pub property: Property,
    /// Fails if this machine's control groups cannot have the value.
    pub check: fn(&Machine) -> Result<(), String>,
    /// Reads the value of a control group that is not a unit; `None` if the group is gone.
    pub read: fn(&Path) -> Result<Option<String>, HostError>,
    /// Sets the value of such a control group.
    pub write: fn(&Path, &str) -> Result<(), HostError>,
}

/// A fix that is a setting.
#[derive(Clone, Copy, Debug)]
pub struct SettingFix {
    /// The name of the fix on the command line.
    pub name: &'static str,
    /// The part of the system that the fix changes.
    pub changes: Group,
    /// The effect of the fix, in one line.
    pub does: &'static str,
    /// The fix's requirements on the machine.
    pub needs: &'static str,
    /// The additional data that a power cut can lose with the fix.
    pub loses: Loss,
    /// The study of the fix, or a note that only fonio measures it.
    pub source: &'static str,
    /// How a trial applies the fix.
    pub trial: Trial,
}

impl SettingFix {
    /// A fix of a disk's queue. A power cut loses no more data with this fix than without it.
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

/// The part of the system that a fix changes, in the order in which fixes are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The fix changes the scheduler or the queue of a disk.
    Scheduler,
    /// The fix changes a file system or its mount.
    Filesystem,
    /// The fix changes the page cache or swap.
    Memory,
    /// The fix changes how the system writes its logs.
    Logs,
    /// The fix changes a systemd unit or a container.
    Unit,
    /// The fix changes an application or its files.
    Application,
    /// The fix changes the device itself.
    Device,
}

impl Group {
    /// All groups of fixes, in the order of the list.
    pub const ALL: [Group; 7] = [
        Group::Scheduler,
        Group::Filesystem,
        Group::Memory,
        Group::Logs,
        Group::Unit,
        Group::Application,
        Group::Device,
    ];

    /// Returns the heading above the group's fixes in the list.
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

/// The data that a power cut can lose with a fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// A power cut loses no more data than without the fix.
    Nothing,
    /// A power cut loses the writes of the last seconds; the text says how many seconds. Older data stay
    /// intact.
    Recent(&'static str),
    /// A power cut loses data that were moved or are no longer synced, so the fix is only for caches. The
    /// text names these data.
    Content(&'static str),
}

impl Loss {
    /// Returns the sentence that tells users which data can be lost.
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
    /// The trial applies the fix as on a machine in use.
    AsMade,
    /// A trial in a directory applies the fix as on a machine in use. A file system that the trial creates
    /// is mounted with this option if it supports the option.
    MountOption(&'static str, fn(Filesystem) -> bool),
    /// A trial in a directory applies the fix as on a machine in use. A device created for the trial gets
    /// the scheduler from the start.
    Scheduler,
    /// The trial applies the fix as on a machine in use if the device has this scheduler.
    WithScheduler(&'static str),
    /// The trial applies the fix as on a machine in use if the file system supports discards.
    Discards,
    /// The trial runs a workload that opens its databases with a write-ahead log.
    WriteAheadLog,
    /// The trial applies the fix to the workload's own folder, which no other program uses.
    OwnFolder,
    /// A trial cannot apply the fix, because the fix changes the device permanently; the text says how. Only
    /// the regular repetition of the fix is a setting.
    Once(&'static str),
    /// A trial cannot apply the fix, for this reason.
    None(&'static str),
}

/// The reason why settings of system services cannot be tried with a workload or a command.
pub(super) const OF_SERVICES: Trial = Trial::None(
    "it changes system services; record them with `fonio record` before and after applying it, then run `fonio compare`",
);

/// The reason why a mount over a folder cannot be tried: no other program may use the folder during the
/// trial.
pub(super) const OF_FOLDERS: Trial = Trial::None(
    "it mounts something over a folder that programs use; record them with `fonio record` before and after applying it, then run `fonio compare`",
);

/// A requested value, and whether the change may disturb running programs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'v> {
    pub value: &'v Value,
    /// Whether to apply the setting even if programs have files open and would continue to use the covered
    /// files.
    pub despite_writers: bool,
}

/// How a setting is kept across reboots.
pub(super) enum KeptAs {
    /// The setting is kept by udev rules for its disk, with one action each.
    Rules(Vec<String>),
    /// The setting is kept by an option of its mount.
    MountOption(String),
    /// The setting is kept by a line of the mount table that covers its folder with a mount.
    MountLine(String),
    /// The setting is kept by files that belong only to fonio.
    Files(Vec<OwnFile>),
    /// The setting is kept by sysctl assignments.
    Sysctl(Vec<(String, String)>),
    /// The setting survives reboots by itself.
    Itself,
}

impl KeptAs {
    /// Returns udev rules that write these contents to files in a disk's `queue` folder in sysfs.
    pub(super) fn queue_files<'f>(files: impl IntoIterator<Item = (&'f str, &'f str)>) -> KeptAs {
        let action = |(file, value): (&str, &str)| {
            // The files of a scheduler exist only while the disk uses that scheduler.
            let there = if file.contains('/') { format!("TEST==\"queue/{file}\", ") } else { String::new() };
            format!("{there}ATTR{{queue/{file}}}=\"{value}\"")
        };
        KeptAs::Rules(files.into_iter().map(action).collect())
    }
}
