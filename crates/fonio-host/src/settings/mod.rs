//! Changes settings of the machine's own devices and file systems when a user asks for it, and restores them.
//!
//! Invariant: the old value is recorded before a setting is changed, so that it can always be restored. The record is a
//! file next to the ledgers; it lasts as long as the settings, until the next boot. It is not a ledger: these settings
//! are restored only on request. [`Keeper`] keeps settings across reboots.

mod about;
mod cgroup;
mod concurrency;
mod database;
mod discard;
mod drop_in;
mod files;
mod folder;
mod io_cost;
mod kept;
mod only;
mod parts;
mod places;
mod setting;
mod sync_policy;
mod systemd;
mod target;
mod trim;
mod write_back;
mod zram;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::{Entry, HostError, Ledger, Step};
pub use concurrency::{Concurrency, SMARTIO};
pub use drop_in::{JournalKey, UnitKey};
pub use folder::Mirrored;
pub use folder::hot_range::SIZE_MIN as HOT_RANGE_MIN;
pub use folder::in_ram::{start as start_folder_in_ram, write_out as write_out_folder};
pub use kept::{Keeper, Kept, KeptFiles};
pub use only::OnlyChanger;
pub(crate) use only::{LOCK, remove_free_lock};
pub(crate) use places::disk_of;
pub use setting::{IoClass, Scope, Setting};
pub use target::{QueueSetting, Target};
pub use trim::{Trim, trim, trim_plan};
pub use write_back::WriteBack;

const RECORD: &str = "settings.json";

/// A setting that was changed, or is about to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// The kind of setting, and what it applies to.
    pub target: Target,
    /// The value before the change.
    pub old: String,
    /// The value now.
    pub new: String,
}

impl Applied {
    /// Returns what [`Applied::undo`] would do.
    ///
    /// # Errors
    ///
    /// [`HostError::System`].
    pub fn would_undo(&self) -> Result<Undone, HostError> {
        Ok(match self.target.current()? {
            Some(now) if now == self.old => Undone::NothingLeft,
            Some(now) if now == self.new => Undone::Restored,
            Some(now) if self.target.is_half_set(&now, &self.old, &self.new) => Undone::Restored,
            Some(now) => Undone::ChangedSince(now),
            None => Undone::NothingLeft,
        })
    }

    /// Refuses what undoing could not do without losing data, such as unmounting a file system that programs use. Changes
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`HostError::InUse`] with the programs.
    pub fn check_undo(&self) -> Result<(), HostError> {
        self.target.check_restore()
    }

    /// What undoing needs besides, as a sentence.
    pub fn undo_needs(&self) -> Option<String> {
        match &self.target {
            Target::FolderOn { dir, to } => folder::on::undo_needs(dir, to),
            Target::HotRange { dir, image } => folder::hot_range::undo_needs(dir, image),
            _ => None,
        }
    }

    /// Makes the planned change until the ledger undoes it. Restores the old value if the kernel refuses the new one, or keeps
    /// another one.
    ///
    /// # Errors
    ///
    /// [`HostError::System`], and [`HostError::NotSettable`] if the kernel kept another value, or if the old value is not in
    /// force any more: then nothing is changed.
    pub fn borrow(&self, ledger: &mut Ledger) -> Result<Entry, HostError> {
        let Applied { target, old, new } = self;
        target.expect_still(old, new)?;
        let entry = ledger.begin(Step::Borrowed { setting: self.clone() })?;
        if let Err(error) = target.set(new).and_then(|()| target.expect(new)) {
            target.restore(old)?;
            ledger.end(entry)?;
            return Err(error);
        }
        Ok(entry)
    }

    /// Checks that the new value is in force, as it is from [`Applied::borrow`] until the ledger undoes it.
    ///
    /// # Errors
    ///
    /// [`HostError::NotSettable`] if somebody else has changed the setting, or the device or mount is gone.
    pub fn expect_new(&self) -> Result<(), HostError> {
        self.target.expect_still(&self.new, &self.new)
    }

    /// Checks that the old value is in force.
    ///
    /// # Errors
    ///
    /// Those of [`Applied::expect_new`].
    pub fn expect_old(&self) -> Result<(), HostError> {
        self.target.expect_still(&self.old, &self.new)
    }

    /// Restores the old value, if the new one is in force.
    ///
    /// # Errors
    ///
    /// [`HostError::System`].
    pub fn undo(&self) -> Result<Undone, HostError> {
        let undone = self.would_undo()?;
        self.finish(&undone)?;
        Ok(undone)
    }

    /// Restores the old value unless another one is in force, as [`Applied::would_undo`] found.
    fn finish(&self, found: &Undone) -> Result<(), HostError> {
        match found {
            Undone::ChangedSince(_) => Ok(()),
            Undone::Restored | Undone::NothingLeft => self.target.restore(&self.old),
        }
    }
}

/// An entry of the record.
#[derive(Debug, Serialize, Deserialize)]
struct Recorded {
    #[serde(flatten)]
    applied: Applied,
    /// While a second value is being set: the one in force until then. A process that is killed meanwhile leaves it, and one of
    /// both values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instead_of: Option<String>,
}

/// The result of restoring a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// The old value is in force again.
    Restored,
    /// The old value was in force already, or the device or mount is gone: there was nothing to do.
    NothingLeft,
    /// Another user or program has changed the setting since, to this value. It was left alone, and stays on record.
    ChangedSince(String),
}

/// Applies a setting to `path` until the ledger undoes it. The setting is then as it was before. The lock, in the ledger's
/// folder, must last until then.
///
/// # Errors
///
/// Those of [`Settings::plan`], [`OnlyChanger::begin`] and [`Applied::borrow`].
pub fn borrow_setting(
    setting: &Setting,
    path: &Path,
    ledger: &mut Ledger,
) -> Result<(Entry, OnlyChanger), HostError> {
    let only = OnlyChanger::begin(ledger.dir(), &setting.target(path)?)?;
    let entry = Settings::plan(setting, path)?.borrow(ledger)?;
    Ok((entry, only))
}

/// The record of changed settings. While open, it is locked.
#[derive(Debug)]
pub struct Settings {
    path: PathBuf,
    applied: Vec<Applied>,
    _lock: File,
}

impl Settings {
    /// Opens the record in `dir`, which is created if it is missing.
    ///
    /// # Errors
    ///
    /// [`HostError::System`], also if the record cannot be parsed; then nothing is changed.
    pub fn open(dir: &Path) -> Result<Settings, HostError> {
        crate::ledger::make_private_dir(dir)?;
        let path = dir.join(RECORD);
        // Every change replaces the record's file, so the lock is on the folder.
        let lock = File::open(dir).map_err(HostError::system("open", dir))?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)
            .map_err(|error| HostError::system("lock", dir)(error.into()))?;
        let recorded = Settings::recorded(dir)?;
        let was_killed = recorded.iter().any(|entry| entry.instead_of.is_some());
        let applied = recorded.into_iter().map(now_in_force).collect::<Result<_, _>>()?;
        let settings = Settings { path, applied, _lock: lock };
        if was_killed {
            settings.save(None)?;
        }
        Ok(settings)
    }

    /// Reads the record in `dir` without locking it, to show it.
    ///
    /// # Errors
    ///
    /// [`HostError::System`] if it cannot be read or parsed.
    pub fn on_record(dir: &Path) -> Result<Vec<Applied>, HostError> {
        Settings::recorded(dir)?.into_iter().map(now_in_force).collect()
    }

    fn recorded(dir: &Path) -> Result<Vec<Recorded>, HostError> {
        let path = dir.join(RECORD);
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map_err(|error| HostError::system("understand", &path)(error.into())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(HostError::system("read", path)(error)),
        }
    }

    /// The settings that were changed and not restored.
    pub fn applied(&self) -> &[Applied] {
        &self.applied
    }

    /// Returns the change that applying `setting` to `path` would make; changes nothing.
    ///
    /// # Errors
    ///
    /// [`HostError::NotSettable`] with the reason, also if the value is in force already.
    pub fn plan(setting: &Setting, path: &Path) -> Result<Applied, HostError> {
        let planned = Settings::plan_or_current(setting, path)?;
        if planned.old == planned.new {
            let why = setting.fitted_to(&planned).map(|how| format!("{how}, and that is in force already"));
            return Err(planned.target.refused(setting, why.as_deref().unwrap_or("it is in force already")));
        }
        Ok(planned)
    }

    /// Like [`Settings::plan`], but a value that is already in force is not an error: `old` and `new` are then equal.
    ///
    /// # Errors
    ///
    /// [`HostError::NotSettable`] with the reason.
    pub fn plan_or_current(setting: &Setting, path: &Path) -> Result<Applied, HostError> {
        let target = setting.target(path)?;
        let new = setting.value_on(&target)?;
        let old = target.current()?.ok_or_else(|| target.refused(setting, "it is not there"))?;
        if old != new {
            setting.check(&target)?;
        }
        Ok(Applied { target, old, new })
    }

    /// Applies a planned change, and returns the value that `undo` would restore: the one before the first change,
    /// however often the setting is changed.
    ///
    /// # Errors
    ///
    /// [`HostError::System`]; by then the record has the old value.
    pub fn apply(&mut self, planned: &Applied) -> Result<String, HostError> {
        let before = self.applied.clone();
        let earlier = self.applied.iter_mut().find(|applied| applied.target == planned.target);
        let is_second = earlier.is_some();
        let brings_back = match earlier {
            Some(earlier) => {
                earlier.new.clone_from(&planned.new);
                earlier.old.clone()
            }
            None => {
                self.applied.push(planned.clone());
                planned.old.clone()
            }
        };
        self.save(is_second.then_some(planned))?;
        let set = planned.target.set(&planned.new).and_then(|()| planned.target.expect(&planned.new));
        // The kernel may have refused one part of it, or kept another value.
        if set.is_err() && planned.target.restore(&planned.old).is_ok() {
            self.applied = before;
            self.save(None)?;
        } else if is_second && set.is_ok() {
            self.save(None)?;
        }
        set.map(|()| brings_back)
    }

    /// Restores the value from before `applied`, and takes it out of the record.
    ///
    /// # Errors
    ///
    /// [`HostError::System`]; it stays on record.
    pub fn undo(&mut self, applied: &Applied) -> Result<Undone, HostError> {
        let undone = applied.would_undo()?;
        self.finish_undo(applied, &undone)?;
        Ok(undone)
    }

    /// Like [`Settings::undo`], with what [`Applied::would_undo`] found before the setting was taken out of the files that
    /// keep it: some settings are in force by these files.
    ///
    /// # Errors
    ///
    /// [`HostError::System`]; it stays on record.
    pub fn finish_undo(&mut self, applied: &Applied, found: &Undone) -> Result<(), HostError> {
        applied.finish(found)?;
        if matches!(found, Undone::ChangedSince(_)) {
            return Ok(());
        }
        self.applied.retain(|other| other.target != applied.target);
        self.save(None)
    }

    /// Replaces the file atomically. Without entries, removes it. `second` is a change of a setting that was changed before.
    fn save(&self, second: Option<&Applied>) -> Result<(), HostError> {
        if self.applied.is_empty() {
            return crate::ledger::remove_file(&self.path);
        }
        let beside = self.path.with_extension("new");
        let recorded: Vec<Recorded> = self
            .applied
            .iter()
            .map(|applied| Recorded {
                applied: applied.clone(),
                instead_of: second
                    .filter(|second| second.target == applied.target)
                    .map(|second| second.old.clone()),
            })
            .collect();
        let text = serde_json::to_vec_pretty(&recorded).expect("paths of ours are UTF-8");
        let write = || {
            let mut file = File::create(&beside)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&beside, &self.path)
        };
        write().map_err(HostError::system("write", &self.path))
    }
}

/// The change that is in force. If a process was killed while it set a second value, that is one of two, or has parts of both.
fn now_in_force(recorded: Recorded) -> Result<Applied, HostError> {
    let Recorded { mut applied, instead_of } = recorded;
    if let Some(earlier) = instead_of
        && let Some(now) = applied.target.current()?
        && (now == earlier || applied.target.is_half_set(&now, &earlier, &applied.new))
    {
        applied.new = now;
    }
    Ok(applied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_like_this_and_goes_when_it_is_empty() {
        let dir = tempfile::tempdir().expect("dir");
        let state = dir.path().join("state");
        let mut settings = Settings::open(&state).expect("settings");
        settings.applied.push(Applied {
            target: Target::Scheduler { device: "mmcblk0".to_owned() },
            old: "none".to_owned(),
            new: "bfq".to_owned(),
        });
        settings.save(None).expect("save");
        let text = fs::read_to_string(state.join(RECORD)).expect("record");
        expect_test::expect![[r#"
            [
              {
                "target": {
                  "kind": "scheduler",
                  "device": "mmcblk0"
                },
                "old": "none",
                "new": "bfq"
              }
            ]"#]]
        .assert_eq(&text);
        drop(settings);
        let mut settings = Settings::open(&state).expect("settings");
        assert_eq!(settings.applied().len(), 1);
        settings.applied.clear();
        settings.save(None).expect("save");
        assert!(!state.join(RECORD).exists());
    }

    #[test]
    fn a_value_that_a_killed_process_set_in_part_can_be_undone() {
        let now = Target::DirtyLimits.current().expect("procfs").expect("every machine has them");
        let (first, second) = now.split_once(' ').expect("two parts");
        let change = |old: String, new: String| Applied { target: Target::DirtyLimits, old, new };
        let set_first = change(format!("vm.x=1 {second}"), format!("{first} vm.y=1"));
        let set_second = change(format!("{first} vm.y=1"), format!("vm.x=1 {second}"));
        for half_set in [set_first, set_second] {
            assert_eq!(half_set.would_undo().expect("procfs"), Undone::Restored);
            let recorded = Recorded {
                instead_of: Some(half_set.old.clone()),
                applied: change("vm.x=2 vm.y=2".to_owned(), half_set.new),
            };
            assert_eq!(now_in_force(recorded).expect("procfs").new, now);
        }
        let foreign = change("vm.x=1 vm.y=1".to_owned(), format!("{first} vm.y=2"));
        assert_eq!(foreign.would_undo().expect("procfs"), Undone::ChangedSince(now));
    }

    #[test]
    fn a_second_value_that_a_killed_process_did_not_set_is_not_on_record() {
        let dir = tempfile::tempdir().expect("dir");
        let state = dir.path().join("state");
        let now = Target::Swappiness.current().expect("procfs").expect("every machine has it");
        let change = |old: &str, new: &str| Applied {
            target: Target::Swappiness,
            old: old.to_owned(),
            new: new.to_owned(),
        };
        // What was set first is in force, the second value is, or somebody else's.
        for (first, second, expected) in
            [(now.as_str(), "201", now.as_str()), ("201", &now, &now), ("201", "202", "202")]
        {
            let mut settings = Settings::open(&state).expect("settings");
            settings.applied = vec![change("60", second)];
            settings.save(Some(&change(first, second))).expect("save");
            drop(settings);
            for known in
                [Settings::on_record(&state), Settings::open(&state).map(|open| open.applied.clone())]
            {
                assert_eq!(known.expect("record"), [change("60", expected)]);
            }
            let text = fs::read_to_string(state.join(RECORD)).expect("record");
            assert!(!text.contains("instead_of"), "{text}");
        }
    }

    #[test]
    fn a_damaged_record_is_refused() {
        let dir = tempfile::tempdir().expect("dir");
        let state = dir.path().join("state");
        drop(Settings::open(&state).expect("settings"));
        fs::write(state.join(RECORD), "[{").expect("write");
        let error = Settings::open(&state).expect_err("damaged");
        assert!(error.to_string().starts_with("cannot understand"), "{error}");
    }
}
