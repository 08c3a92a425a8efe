//! Describes a kind of setting on its object: its name in records, and how to read, set and restore its
//! value.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use fonio_machine::Machine;
use fonio_system::ProcessId;
use serde::de::Error;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::kept::files::KeptFiles;
use super::kind::{KeptAs, Kind, SettingFix, Trial};
use super::kinds::recorded_as;
use super::object::{Object, Scope};
use super::places::{device_of, mount_of};
use super::refusal::Refusal;
use super::systemd;
use crate::error::HostError;

/// Why a setting of a unit cannot be switched.
const RESTARTS: &str = "the unit must be restarted for each change";

/// A kind of setting, with the disk, mount, unit, folder or other object that it applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    kind: &'static dyn Kind,
    object: Object,
}

impl Target {
    pub(super) fn new(kind: &'static dyn Kind, object: Object) -> Target {
        let facts = kind.facts();
        assert_eq!(object.scope(), facts.scope, "the object has the wrong scope for {}", facts.title);
        let has_content = matches!(object, Object::Folder { content: Some(_), .. });
        assert_eq!(
            has_content,
            facts.content.is_some(),
            "the content folder is missing or unexpected for {}",
            facts.title
        );
        Target { kind, object }
    }

    pub(super) fn kind(&self) -> &'static dyn Kind {
        self.kind
    }

    pub(super) fn object(&self) -> &Object {
        &self.object
    }

    /// Returns the path of the setting's object: a device node, mount point, unit, file, or folder of the
    /// machine's settings.
    pub fn path(&self) -> PathBuf {
        self.kind.path(&self.object)
    }

    /// Returns the kind of object that the setting applies to.
    pub fn scope(&self) -> Scope {
        self.kind.facts().scope
    }

    /// Returns whether `path` is the setting's object or lies on it.
    pub(super) fn is_on(&self, path: &Path) -> bool {
        path == self.path()
            || match &self.object {
                Object::Disk(device) => device_of(path).is_ok_and(|(found, _)| found == *device),
                Object::Mount(dir) => mount_of(path).is_ok_and(|found| found.dir == *dir),
                Object::Machine => true,
                // The path of a process was compared above.
                Object::Process(_) => false,
                Object::Unit(unit) => systemd::unit_named(path).is_ok_and(|found| found == *unit),
                Object::Group(own) | Object::Database(own) | Object::Folder { dir: own, .. } => {
                    std::fs::canonicalize(path).is_ok_and(|found| found == *own)
                }
            }
    }

    /// Returns whether the setting always survives a reboot, so that applying the setting also keeps it.
    pub fn lasts(&self) -> bool {
        self.kind.facts().lasts
    }

    /// Returns whether the setting must survive a reboot, because without it, programs would see older data.
    pub fn must_be_kept(&self) -> bool {
        self.kind.facts().must_be_kept
    }

    /// Returns whether undo restores the setting first and edits the configuration files afterwards. A folder
    /// in use needs the configuration files until the folder is restored. For other settings, the files could
    /// put the setting in force again.
    pub(super) fn is_restored_first(&self) -> bool {
        self.lasts() || self.scope() == Scope::Folder
    }

    /// Returns the reason why the setting cannot be switched back and forth while programs run; `None` if it
    /// can be switched.
    pub fn cannot_switch(&self) -> Option<&'static str> {
        let of_running_unit =
            matches!(self.object, Object::Unit(_)) && self.kind.facts().of_group().is_some();
        if of_running_unit { Some(RESTARTS) } else { self.kind.facts().cannot_switch }
    }

    /// Returns the name in `/sys/block` of the setting's disk, if the setting has a disk.
    pub fn disk(&self) -> Option<&str> {
        if let Object::Disk(device) = &self.object { Some(device) } else { None }
    }

    /// Returns the process id of the setting's process, if the setting has a process.
    pub fn process(&self) -> Option<u32> {
        if let Object::Process(id) = &self.object { Some(id.pid) } else { None }
    }

    /// Returns whether the setting's process and all its descendants have ended, so nothing is left to undo.
    pub(super) fn has_ended(&self) -> bool {
        self.process().is_some() && matches!(self.current(), Ok(None))
    }

    /// Returns whether the value `now` can come from a process that was killed while it changed `one` to
    /// `other`. This is the case if each part of `now` is a part of `one` or `other`.
    pub(super) fn is_half_set(&self, now: &str, one: &str, other: &str) -> bool {
        self.kind.facts().has_parts && is_between(now, one, other)
    }

    /// Returns the setting's value in force; `None` if its object is gone.
    pub(super) fn current(&self) -> Result<Option<String>, HostError> {
        match self.disk() {
            Some(device) if Machine::here().device_named(device.as_ref()).is_none() => Ok(None),
            _ => self.kind.current(&self.object),
        }
    }

    pub(super) fn set(&self, value: &str) -> Result<(), HostError> {
        self.kind.set(&self.object, value)
    }

    /// Fails if restoring the old value ([`Target::restore`]) would lose data. Does not change the setting.
    pub(super) fn check_restore(&self) -> Result<(), HostError> {
        self.kind.check_restore(&self.object)
    }

    /// Returns a sentence on the resources that restoring the old value needs.
    pub fn restore_needs(&self) -> Option<String> {
        self.kind.restore_needs(&self.object)
    }

    /// Restores the value from before a change, unless that value is already in force or the object no longer
    /// exists.
    pub(crate) fn restore(&self, was: &str) -> Result<(), HostError> {
        // Release the setting even if the old value is in force, because systemd may not have reread its
        // files.
        self.kind.release(&self.object)?;
        if self.scope() == Scope::Folder {
            // Set the value even if nothing is mounted, because units or an unfinished copy may remain.
            return self.set(was);
        }
        match self.current()? {
            // Processes may end at any time. Setting the old value checks that the others have moved.
            Some(now) if now != was && self.process().is_some() => self.set(was),
            Some(now) if now != was => self.set(was).and_then(|()| self.expect(was)),
            _ => Ok(()),
        }
    }

    /// Checks that a trial can change this setting, and that `old` can be its value before the trial. The error
    /// is the reason.
    pub(super) fn check_borrowed(&self, old: &str) -> Result<(), &'static str> {
        let is_tried =
            |fix: &SettingFix| !matches!(fix.trial, Trial::None(_) | Trial::Once(_) | Trial::WriteAheadLog);
        if self.kind.facts().cannot_switch.is_some() && !self.kind.facts().fixes.iter().any(is_tried) {
            return Err("no trial changes this setting");
        }
        self.kind.check_record(&self.object, old)
    }

    pub(super) fn kept_as(&self, value: &str, files: &KeptFiles) -> Result<KeptAs, Refusal> {
        self.kind.kept_as(&self.object, value, files)
    }

    /// Returns whether the setting must precede other kept settings of its object, because changing this
    /// setting changes them.
    pub(super) fn comes_first(&self) -> bool {
        self.kind.facts().comes_first
    }

    /// Checks that `value` is in force, because the kernel may accept one value and set another.
    pub(super) fn expect(&self, value: &str) -> Result<(), HostError> {
        match self.current()? {
            Some(now) if now == value => Ok(()),
            now => Err(HostError::NotSettable {
                setting: value.to_owned(),
                path: self.path(),
                reason: format!("the kernel set {}", now.as_deref().unwrap_or("nothing")),
            }),
        }
    }

    /// Checks that the setting still has `value`, which this process read or set. The error names `setting`.
    pub(super) fn expect_still(&self, value: &str, setting: &str) -> Result<(), HostError> {
        let reason = match self.current()? {
            Some(now) if now == value => return Ok(()),
            Some(now) => format!("the value was {value}, but another program has since changed it to {now}"),
            None => "the device or mount no longer exists".to_owned(),
        };
        Err(HostError::NotSettable { setting: setting.to_owned(), path: self.path(), reason })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind.describe(&self.object))
    }
}

/// Serializes the target as in records: `kind`, the object and, if several kinds have the same `kind`, a
/// second name.
impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let facts = self.kind.facts();
        let mut map = serializer.serialize_map(None)?;
        let tag = match &self.object {
            Object::Group(_) => facts.tag_of_group.unwrap_or(facts.tag),
            Object::Process(_) => facts.tag_of_process.unwrap_or(facts.tag),
            _ => facts.tag,
        };
        map.serialize_entry("kind", tag)?;
        match &self.object {
            Object::Disk(device) => map.serialize_entry("device", device)?,
            Object::Unit(unit) => map.serialize_entry("unit", unit)?,
            Object::Database(path) => map.serialize_entry("path", path)?,
            Object::Process(id) => {
                map.serialize_entry("pid", &id.pid.to_string())?;
                map.serialize_entry("started_ticks", &id.started_ticks.to_string())?;
            }
            Object::Mount(dir) | Object::Group(dir) | Object::Folder { dir, .. } => {
                map.serialize_entry("dir", dir)?;
            }
            Object::Machine => {}
        }
        if let (Object::Folder { content: Some(content), .. }, Some(name)) = (&self.object, facts.content) {
            map.serialize_entry(name, content)?;
        }
        if let (Some(of), true) = (facts.of, tag == facts.tag) {
            map.serialize_entry("of", of)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Target, D::Error> {
        let mut fields = BTreeMap::<Cow<'de, str>, String>::deserialize(deserializer)?;
        let tag = fields.remove("kind").ok_or_else(|| D::Error::missing_field("kind"))?;
        let of = fields.remove("of");
        let kind = recorded_as(&tag, of.as_deref()).ok_or_else(|| {
            D::Error::custom(format!(
                "this version of fonio has no setting {tag} {}",
                of.as_deref().unwrap_or_default()
            ))
        })?;
        let mut field = |name: &'static str| fields.remove(name).ok_or_else(|| D::Error::missing_field(name));
        let facts = kind.facts();
        let object = match facts.scope {
            Scope::Disk => Object::Disk(field("device")?),
            Scope::Mount => Object::Mount(field("dir")?.into()),
            Scope::Machine => Object::Machine,
            Scope::Unit if facts.tag_of_process == Some(&tag) => {
                let pid = field("pid")?.parse().map_err(D::Error::custom)?;
                let started_ticks = field("started_ticks")?.parse().map_err(D::Error::custom)?;
                Object::Process(ProcessId { pid, started_ticks })
            }
            Scope::Unit if tag != facts.tag => Object::Group(field("dir")?.into()),
            Scope::Unit => Object::Unit(field("unit")?),
            Scope::Database => Object::Database(field("path")?.into()),
            Scope::Folder => Object::Folder {
                dir: field("dir")?.into(),
                content: facts.content.map(|name| field(name).map(PathBuf::from)).transpose()?,
            },
        };
        Ok(Target::new(kind, object))
    }
}

/// Returns whether each part of `now` equals the same part of `one` or `other`. Blanks separate the parts.
fn is_between(now: &str, one: &str, other: &str) -> bool {
    let [now, one, other] = [now, one, other].map(|value| value.split(' ').collect::<Vec<_>>());
    now.len() == one.len()
        && now.len() == other.len()
        && now.iter().zip(one.iter().zip(&other)).all(|(now, (one, other))| now == one || now == other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::kinds::{KINDS, fix_named};

    #[test]
    fn a_half_set_value_has_parts_of_both() {
        let (old, new) = ("vm.a_ratio=10 vm.b_ratio=20", "vm.a_bytes=1 vm.b_bytes=2");
        for (now, expected) in [
            ("vm.a_bytes=1 vm.b_ratio=20", true),
            ("vm.a_ratio=10 vm.b_bytes=2", true),
            (old, true),
            (new, true),
            ("vm.a_bytes=1 vm.b_ratio=30", false),
            ("vm.b_ratio=20 vm.a_bytes=1", false),
            ("vm.a_bytes=1", false),
            ("", false),
        ] {
            assert_eq!(is_between(now, old, new), expected, "{now}");
        }
    }

    #[test]
    fn what_disturbs_programs_is_not_switched() {
        let unit =
            |fix: &str| Target::new(fix_named(fix).expect("listed").0, Object::Unit("a.service".to_owned()));
        let machine = |fix: &str| Target::new(fix_named(fix).expect("listed").0, Object::Machine);
        let group = |fix: &str| {
            let dir = "/sys/fs/cgroup/a".into();
            Target::new(fix_named(fix).expect("listed").0, Object::Group(dir))
        };
        for target in [machine("swappiness"), machine("dirty-limit"), group("io-weight"), group("io-rate")] {
            assert_eq!(target.cannot_switch(), None, "{target}");
        }
        let of_units = ["io-class", "io-weight", "io-rate", "sync-policy"].map(unit);
        for target in of_units.into_iter().chain([machine("fstrim"), machine("swap-in-ram")]) {
            assert!(target.cannot_switch().is_some(), "{target}");
        }
    }

    #[test]
    fn every_kind_is_read_from_its_record() {
        for kind in KINDS {
            let facts = kind.facts();
            let object = match facts.scope {
                Scope::Disk => Object::Disk("sda".to_owned()),
                Scope::Mount => Object::Mount("/mnt".into()),
                Scope::Machine => Object::Machine,
                Scope::Unit => Object::Unit("a.service".to_owned()),
                Scope::Database => Object::Database("/a.db".into()),
                Scope::Folder => {
                    Object::Folder { dir: "/a".into(), content: facts.content.map(|_| "/b".into()) }
                }
            };
            let mut objects = vec![object];
            objects.extend(facts.tag_of_group.map(|_| Object::Group("/sys/fs/cgroup/a".into())));
            objects.extend(
                facts.tag_of_process.map(|_| Object::Process(ProcessId { pid: 7, started_ticks: 900 })),
            );
            for object in objects {
                let target = Target::new(*kind, object);
                let text = serde_json::to_string(&target).expect("JSON");
                assert_eq!(serde_json::from_str::<Target>(&text).expect("it is read"), target);
            }
        }
    }

    #[test]
    fn records_with_other_kinds_or_without_an_object_are_refused() {
        for (text, expected) in [
            (r#"{"kind": "warp_drive"}"#, "this version of fonio has no setting warp_drive"),
            (r#"{"kind": "queue", "device": "sda"}"#, "this version of fonio has no setting queue"),
            (r#"{"kind": "scheduler"}"#, "missing field `device`"),
            (r#"{"kind": "folder_on", "dir": "/a"}"#, "missing field `to`"),
        ] {
            let error = serde_json::from_str::<Target>(text).expect_err("refused").to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
