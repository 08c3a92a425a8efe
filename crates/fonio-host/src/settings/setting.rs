//! Represents a setting with the value that the user requests.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use fonio_core::ByteCount;
use fonio_system::ProcessId;

use super::applied::Applied;
use super::kind::{Kind, SettingFix, Wanted};
use super::kinds::{KINDS, fix_named};
use super::object::{Object, Scope};
use super::of_command::OfCommand;
use super::places::disk_of;
use super::refusal::Refusal;
use super::target::Target;
use super::value::Value;
use crate::error::HostError;

/// A setting with the requested value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    kind: &'static dyn Kind,
    /// The fix as the user wrote it, such as `read-ahead=1MiB`.
    name: String,
    value: Value,
    despite_writers: bool,
}

impl Setting {
    /// Returns all fixes that are settings.
    pub fn fixes() -> impl Iterator<Item = &'static SettingFix> {
        KINDS.iter().flat_map(|kind| kind.facts().fixes)
    }

    /// Parses a fix that is a setting, such as `noatime` or `read-ahead=1MiB`. The error is a sentence that
    /// tells the user what to write instead.
    pub fn parse(text: &str) -> Result<Setting, String> {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let (kind, _) = fix_named(name).ok_or_else(|| format!("{name} is not a setting"))?;
        Ok(Setting { kind, name: text.to_owned(), value: kind.parse(name, value)?, despite_writers: false })
    }

    /// Returns the setting for the number of requests in a queue. To restore old values, the setting accepts
    /// numbers that users cannot write.
    pub fn requests(number: u32) -> Setting {
        Setting::with_value("requests", Value::Number(number))
    }

    pub(super) fn with_value(name: &str, value: Value) -> Setting {
        let (kind, _) = fix_named(name).expect("the table of fixes has this name");
        Setting { kind, name: format!("{name}={value}"), value, despite_writers: false }
    }

    /// Returns the fix to which the setting belongs.
    pub fn fix(&self) -> &'static SettingFix {
        let name = self.name.split_once('=').map_or(self.name.as_str(), |(name, _)| name);
        fix_named(name).expect("each setting belongs to a fix").1
    }

    /// Returns the kind of object that the setting applies to.
    pub fn scope(&self) -> Scope {
        self.kind.facts().scope
    }

    /// Returns whether the setting can apply to a process with its descendants. The path of a process is its
    /// folder in `/proc`.
    pub fn is_of_processes(&self) -> bool {
        self.kind.facts().of_group().is_some()
    }

    /// Returns the rate in bytes per second to which the setting limits reads and writes, if it does that.
    pub fn rate(&self) -> Option<ByteCount> {
        match self.value {
            Value::Rate { per_s, .. } => Some(per_s),
            _ => None,
        }
    }

    /// Limits a rate only on the disk that contains `path`. Fails with [`HostError::NotSettable`] if the setting
    /// is not a rate, or if the path is not on a disk.
    pub fn on_disk_of(self, path: &Path) -> Result<Setting, HostError> {
        let Value::Rate { per_s, .. } = self.value else {
            let reason = "it applies to all disks: name only the process".to_owned();
            return Err(HostError::NotSettable { setting: self.name, path: path.to_owned(), reason });
        };
        let disk = Some(disk_of(path).map_err(|refusal| refusal.of(&self.name, path))?);
        Ok(Setting { value: Value::Rate { per_s, disk }, ..self })
    }

    /// Returns how a command runs with this setting. Fails with [`HostError::NotSettable`] with the reason why the
    /// setting cannot be applied to a command.
    pub fn for_command(&self, words: &[OsString]) -> Result<OfCommand, HostError> {
        self.in_group(words, true)
    }

    /// Returns how a command runs in a control group of its own as with this setting, but without its value. Fails as
    /// [`Setting::for_command`] does.
    pub fn without_value_for_command(&self, words: &[OsString]) -> Result<OfCommand, HostError> {
        self.in_group(words, false)
    }

    fn in_group(&self, words: &[OsString], with_value: bool) -> Result<OfCommand, HostError> {
        let property = self.kind.facts().of_group().expect("it is a setting of processes").property;
        let path = Path::new(words.first().expect("a command has a word"));
        let refused = |refusal: Refusal| refusal.of(&self.name, path);
        property.check().map_err(|reason| refused(reason.into()))?;
        let value = if with_value {
            // Settings of processes have the same value on each process.
            let fonio = Object::Process(ProcessId::own());
            self.kind.value(&self.value, &fonio).map_err(refused)?
        } else {
            property.usual().to_owned()
        };
        OfCommand::new(property, value, words).map_err(|reason| refused(reason.into()))
    }

    /// Returns whether the setting applies to the complete machine, regardless of the path.
    pub fn is_of_machine(&self) -> bool {
        self.scope() == Scope::Machine
    }

    /// Returns where the setting is kept across reboots.
    pub fn kept_in(&self) -> &'static str {
        self.kind.facts().kept_in
    }

    /// Returns the effect of undoing the setting, as text for users.
    pub fn undone(&self) -> &'static str {
        self.kind.facts().undone
    }

    /// Returns whether applying the setting also keeps it across reboots.
    pub fn is_kept_when_applied(&self) -> bool {
        let facts = self.kind.facts();
        facts.lasts || facts.must_be_kept
    }

    /// If the user must choose a value and has not, returns the placeholder for this value.
    pub fn missing_value(&self) -> Option<&'static str> {
        self.kind.facts().needs_value.filter(|_| self.value == Value::None)
    }

    /// Returns the scheduler that the setting needs, if any.
    pub fn scheduler(&self) -> Option<&str> {
        self.kind.scheduler(&self.value)
    }

    /// Returns sentences on the steps that the user must take before the setting has its effect.
    pub fn remains_to_do(&self, path: &Path) -> Option<String> {
        self.kind.remains_to_do(path)
    }

    /// Allows the setting even if programs have files open and would continue to use the covered files. Most
    /// settings ignore this permission.
    #[must_use]
    pub fn despite_writers(self) -> Setting {
        Setting { despite_writers: true, ..self }
    }

    /// If the device cannot have this setting's value, returns a clause that explains how the planned value
    /// differs from this value.
    pub fn fitted_to(&self, planned: &Applied) -> Option<String> {
        self.kind.difference(&self.value, planned.target.object(), &planned.new)
    }

    /// Returns whether this setting changes the value of `target`.
    pub fn is_of(&self, target: &Target) -> bool {
        *self.kind == *target.kind() && self.kind.is_of(&self.value, target.object())
    }

    /// Returns whether `applied` sets this kind of setting to this setting's value.
    pub fn is_in_force_as(&self, applied: &Applied) -> bool {
        self.is_of(&applied.target) && self.value_on(&applied.target).is_ok_and(|value| value == applied.new)
    }

    /// Returns whether undoing this fix undoes the change `applied`. A fix without a value, such as
    /// `read-ahead`, undoes any value. If a setting has several fixes, each undoes only its own value.
    pub(super) fn undoes(&self, applied: &Applied) -> bool {
        let is_any = !self.name.contains('=') && self.kind.facts().fixes.len() == 1;
        if is_any { self.is_of(&applied.target) } else { self.is_in_force_as(applied) }
    }

    fn wanted(&self) -> Wanted<'_> {
        Wanted { value: &self.value, despite_writers: self.despite_writers }
    }

    /// Returns the target of this setting for `path`, which is a device, or a file or folder on a device.
    pub(super) fn target(&self, path: &Path) -> Result<Target, HostError> {
        let object = self.kind.object(&self.wanted(), path);
        object.map(|object| Target::new(self.kind, object)).map_err(|refusal| refusal.of(&self.name, path))
    }

    /// Returns the value to set on this target; fails if the target cannot have this value.
    fn value_on(&self, target: &Target) -> Result<String, HostError> {
        self.kind
            .value(&self.value, target.object())
            .map_err(|refusal| refusal.of(&self.name, &target.path()))
    }

    /// Returns the change that applying the setting to `path` would make. Does not change the setting. Fails
    /// with [`HostError::NotSettable`] with the reason, for example if the value is already in force.
    pub fn plan(&self, path: &Path) -> Result<Applied, HostError> {
        let planned = self.plan_or_current(path)?;
        if planned.is_new() {
            return Ok(planned);
        }
        let why = self.fitted_to(&planned).map(|how| format!("{how}, and this value is already in force"));
        Err(self.refused(&planned.target, why.as_deref().unwrap_or("this value is already in force")))
    }

    /// Like [`Setting::plan`], but a value that is already in force is not an error: `old` and `new` are then
    /// equal. Fails with [`HostError::NotSettable`] with the reason why the setting cannot be applied.
    pub fn plan_or_current(&self, path: &Path) -> Result<Applied, HostError> {
        let target = self.target(path)?;
        let new = self.value_on(&target)?;
        let old = target.current()?.ok_or_else(|| self.refused(&target, "it does not exist"))?;
        if old != new {
            let checked = self.kind.check(&self.wanted(), target.object());
            checked.map_err(|refusal| refusal.of(&self.name, &target.path()))?;
        }
        Ok(Applied { target, old, new })
    }

    fn refused(&self, target: &Target, reason: &str) -> HostError {
        HostError::NotSettable { setting: self.name.clone(), path: target.path(), reason: reason.to_owned() }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::kind::Facts;

    #[test]
    fn what_a_path_cannot_have_is_refused_with_the_reason() {
        let refused = |fix: &str, path| {
            let setting = Setting::parse(fix).expect("a setting");
            setting.target(Path::new(path)).expect_err("refused").to_string()
        };
        assert_eq!(
            refused("commit-30s", "/proc/self"),
            "commit-30s cannot be set on /proc: the file system is proc, and only ext4 has a commit interval"
        );
        assert_eq!(
            refused("noatime", "/proc/self"),
            "noatime cannot be set on /proc: the file system proc is not on a device"
        );
        assert_eq!(
            refused("read-ahead=128KiB", "/proc/self"),
            "read-ahead=128KiB cannot be set on /proc/self: this path is not on a block device"
        );
        assert!(refused("noatime", "/no/such/file").contains("/no/such/file"));
    }

    #[test]
    fn settings_of_the_machine_need_no_path() {
        let limit = Setting::parse("dirty-limit").expect("a setting");
        let target = limit.target(Path::new("/no/such/file")).expect("a machine setting needs no path");
        assert_eq!(*target.object(), Object::Machine);
        assert!(limit.is_of_machine() && !Setting::parse("noatime").expect("a setting").is_of_machine());
    }

    /// Checks the table of kinds, so that a mistake in a new line is found before a user encounters it.
    #[test]
    fn the_table_is_complete_and_has_nothing_twice() {
        let mut names: Vec<&str> = Setting::fixes().map(|fix| fix.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "two fixes have the same name");
        for (at, kind) in KINDS.iter().enumerate() {
            let Facts { tag, of, scope, title, of_machine, kept_in, fixes, .. } = kind.facts();
            assert!(!tag.is_empty() && !kept_in.is_empty() && !fixes.is_empty(), "{tag} {of:?}");
            assert!(!title.is_empty() || kind.facts().content.is_some(), "{tag} {of:?}");
            assert_eq!(*scope == Scope::Machine, !of_machine.is_empty(), "{tag} {of:?}");
            assert!(KINDS[..at].iter().all(|other| **other != **kind), "{tag} {of:?} twice");
            for SettingFix { name, does, needs, source, .. } in *fixes {
                assert!([name, does, needs, source].into_iter().all(|text| !text.is_empty()), "{name}");
                let setting = Setting::parse(name).expect("the setting has a default value");
                assert!(*setting.kind == **kind);
                assert!(Setting::parse(&format!("{name}=nonsense")).is_err(), "{name}");
            }
        }
    }
}
