//! Changes settings of the machine's own devices and file systems when a user asks for it, and restores them.
//!
//! Invariant: the old value is recorded before a setting is changed, so that it can always be restored. The record is a
//! file next to the ledgers; it lasts as long as the settings, until the next boot. It is not a ledger: these settings
//! are restored only on request.

mod kinds;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::HostError;
pub(crate) use kinds::disk_of;
pub use kinds::{Setting, Target};

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
        let applied = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map_err(|error| HostError::system("understand", &path)(error.into()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(HostError::system("read", path)(error)),
        };
        Ok(Settings { path, applied, _lock: lock })
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
        let target = setting.target(path)?;
        let new = setting.value();
        let old = target.current()?.ok_or_else(|| target.refused(setting, "it is not there"))?;
        if old == new {
            return Err(target.refused(setting, "it is in force already"));
        }
        setting.check(&target)?;
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
        let brings_back = match self.applied.iter_mut().find(|applied| applied.target == planned.target) {
            Some(earlier) => {
                earlier.new.clone_from(&planned.new);
                earlier.old.clone()
            }
            None => {
                self.applied.push(planned.clone());
                planned.old.clone()
            }
        };
        self.save()?;
        let set = planned.target.set(&planned.new).and_then(|()| planned.target.expect(&planned.new));
        if set.is_err() && planned.target.current().is_ok_and(|now| now.as_ref() == Some(&planned.old)) {
            self.applied = before;
            self.save()?;
        }
        set.map(|()| brings_back)
    }

    /// Restores the value from before `applied`, which must be one of [`Settings::applied`].
    ///
    /// # Errors
    ///
    /// [`HostError::System`]; it stays on record.
    pub fn undo(&mut self, applied: &Applied) -> Result<Undone, HostError> {
        let undone = match applied.target.current()? {
            Some(now) if now == applied.new => {
                applied.target.set(&applied.old)?;
                applied.target.expect(&applied.old)?;
                Undone::Restored
            }
            Some(now) if now != applied.old => return Ok(Undone::ChangedSince(now)),
            _ => Undone::NothingLeft,
        };
        self.applied.retain(|other| other != applied);
        self.save()?;
        Ok(undone)
    }

    /// Replaces the file atomically. Without entries, removes it.
    fn save(&self) -> Result<(), HostError> {
        if self.applied.is_empty() {
            return crate::ledger::remove_file(&self.path);
        }
        let beside = self.path.with_extension("new");
        let text = serde_json::to_vec_pretty(&self.applied).expect("paths of ours are UTF-8");
        let write = || {
            let mut file = File::create(&beside)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&beside, &self.path)
        };
        write().map_err(HostError::system("write", &self.path))
    }
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
        settings.save().expect("save");
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
        settings.save().expect("save");
        assert!(!state.join(RECORD).exists());
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
