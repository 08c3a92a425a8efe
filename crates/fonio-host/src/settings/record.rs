//! Keeps the record of settings that are changed until the next boot.
//!
//! Invariant: the old value is recorded before a setting is changed, so that it can always be restored. Each
//! setting is recorded once, with the value from before its first change.

use std::path::Path;
use std::time::Duration;

use fonio_system::{TrustedFolder, say};
use serde::{Deserialize, Serialize};

use super::applied::{Applied, Undone};
use crate::error::HostError;
use crate::files::{Record, lock_own_folder, read_record};

const RECORD: &str = "settings.json";
/// Maximum time to wait for another process that changes settings.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize, Deserialize)]
struct Recorded {
    #[serde(flatten)]
    applied: Applied,
    /// The first new value, while a second new value is being set. If the process is killed during this
    /// change, either value may be in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instead_of: Option<String>,
}

/// The record of changed settings, which is locked while it is open.
#[derive(Debug)]
pub struct Settings {
    /// The locked folder of the record.
    folder: TrustedFolder,
    applied: Vec<Applied>,
}

impl Settings {
    /// Opens the record in `dir`, which is created if it does not exist. A damaged record is set aside, and its
    /// readable entries stay on record. Fails with [`HostError::System`]; nothing is changed in this case.
    pub fn open(dir: &Path) -> Result<Settings, HostError> {
        // Lock the folder rather than the file, because every change replaces the record file.
        let folder = lock_own_folder(dir, PATIENCE)?;
        folder.remove_unfinished(RECORD)?;
        let Record { entries, damage } = read_record::<Recorded>(&folder, RECORD)?;
        let was_killed = entries.iter().any(|entry| entry.instead_of.is_some());
        let recorded = entries.len();
        let applied = in_force(entries)?;
        let has_ended = applied.len() < recorded;
        if let Some(damage) = &damage {
            let aside = folder.set_aside(RECORD)?;
            tell_damage(&folder.path().join(RECORD), damage, Some(&aside), applied.len());
        }
        let settings = Settings { folder, applied };
        if was_killed || has_ended || damage.is_some() {
            settings.save(None)?;
        }
        Ok(settings)
    }

    /// Reads the record in `dir` without locking it, so that it can be shown. Tells the user about damage, and
    /// returns the readable entries. Fails with [`HostError::System`] if the record cannot be read.
    pub fn on_record(dir: &Path) -> Result<Vec<Applied>, HostError> {
        let Some(folder) = TrustedFolder::open(dir)? else { return Ok(Vec::new()) };
        let Record { entries, damage } = read_record(&folder, RECORD)?;
        let applied = in_force(entries)?;
        if let Some(damage) = damage {
            tell_damage(&folder.path().join(RECORD), &damage, None, applied.len());
        }
        Ok(applied)
    }

    /// Returns the settings that were changed and have not been restored.
    pub fn applied(&self) -> &[Applied] {
        &self.applied
    }

    /// Applies a planned change and returns the value that `undo` would restore: the value before the first
    /// change. Fails with [`HostError::System`] if the change fails; the record still has the old value then.
    pub fn apply(&mut self, planned: &Applied) -> Result<String, HostError> {
        assert!(planned.is_new(), "{} is {} already", planned.target, planned.new);
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
        // The kernel may have refused one part of the value, or set another value.
        if set.is_err() && planned.target.restore(&planned.old).is_ok() {
            self.applied = before;
            self.save(None)?;
        } else if is_second && set.is_ok() {
            self.save(None)?;
        }
        set.map(|()| brings_back)
    }

    /// Restores the value from before `applied`, and removes the setting from the record. Fails with
    /// [`HostError::System`] if the value cannot be restored; the setting then stays on record.
    pub fn undo(&mut self, applied: &Applied) -> Result<Undone, HostError> {
        let undone = applied.would_undo()?;
        self.finish_undo(applied, &undone)?;
        Ok(undone)
    }

    /// Undoes a change as [`Settings::undo`] does, but uses an earlier result of [`Applied::would_undo`]. Get
    /// this result before you remove the setting from the files that keep it, because changing these files
    /// may change the value in force. Fails with [`HostError::System`] if the value cannot be restored; the
    /// setting then stays on record.
    pub fn finish_undo(&mut self, applied: &Applied, found: &Undone) -> Result<(), HostError> {
        applied.finish(found)?;
        if matches!(found, Undone::ChangedSince(_)) {
            return Ok(());
        }
        self.applied.retain(|other| other.target != applied.target);
        self.save(None)
    }

    /// Replaces the record file atomically, or removes it if the record has no entries. `second` is a change
    /// of a setting that is already on record.
    fn save(&self, second: Option<&Applied>) -> Result<(), HostError> {
        if self.applied.is_empty() {
            return Ok(self.folder.remove(RECORD)?);
        }
        let is_first =
            |at: usize| self.applied[..at].iter().all(|other| other.target != self.applied[at].target);
        assert!((0..self.applied.len()).all(is_first), "a setting is on record twice: {:?}", self.applied);
        let recorded = |applied: &Applied| Recorded {
            applied: applied.clone(),
            instead_of: second
                .filter(|second| second.target == applied.target)
                .map(|second| second.old.clone()),
        };
        let recorded: Vec<Recorded> = self.applied.iter().map(recorded).collect();
        let text = serde_json::to_string_pretty(&recorded).expect("fonio's own paths are UTF-8");
        Ok(self.folder.replace(RECORD, text.as_bytes())?)
    }
}

/// Returns the recorded changes that are in force, without those of processes that have ended. Of two entries for one setting, which only another program
/// writes, the first one has the oldest value.
fn in_force(recorded: Vec<Recorded>) -> Result<Vec<Applied>, HostError> {
    let mut applied: Vec<Applied> = Vec::new();
    for entry in recorded {
        let is_known = applied.iter().any(|known| known.target == entry.applied.target);
        if !is_known && !entry.applied.target.has_ended() {
            applied.push(now_in_force(entry)?);
        }
    }
    Ok(applied)
}

/// Tells the user about a damaged record of settings until the next boot.
fn tell_damage(record: &Path, damage: &str, aside: Option<&Path>, readable: usize) {
    let what = match aside {
        Some(aside) => format!("it was set aside as {}", aside.display()),
        None => "the next `fonio fix undo` sets it aside".to_owned(),
    };
    say!(
        "warning: {} is damaged ({damage}): {what}. fonio can still read {readable} of its settings, which \
         `fonio fix undo` can undo; a reboot restores the others.",
        record.display()
    );
}

/// Returns the recorded change that is in force. If a process was killed while it set a second value, the
/// value in force is the first value, the second value, or a mixture of parts of both.
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
    use std::fs;

    use super::*;
    use crate::settings::target::Target;

    fn change(target: &str, old: &str, new: &str) -> Applied {
        let target: Target = serde_json::from_str(target).expect("a target");
        Applied { target, old: old.to_owned(), new: new.to_owned() }
    }

    const LIMITS: &str = r#"{"kind": "dirty_limits"}"#;
    const SWAPPINESS: &str = r#"{"kind": "swappiness"}"#;

    fn now(target: &str) -> String {
        change(target, "", "").target.current().expect("procfs").expect("every machine has it")
    }

    #[test]
    fn a_record_reads_like_this_and_goes_when_it_is_empty() {
        let dir = tempfile::tempdir().expect("dir");
        let state = dir.path().join("state");
        let mut settings = Settings::open(&state).expect("settings");
        settings.applied.push(change(r#"{"kind": "scheduler", "device": "mmcblk0"}"#, "none", "bfq"));
        settings.save(None).expect("save");
        let text = fs::read_to_string(state.join(RECORD)).expect("record");
        expect_test::expect_file!["record_expected.txt"].assert_eq(&text);
        drop(settings);
        let mut settings = Settings::open(&state).expect("settings");
        assert_eq!(settings.applied().len(), 1);
        settings.applied.clear();
        settings.save(None).expect("save");
        assert!(!state.join(RECORD).exists());
    }

    #[test]
    fn a_value_that_a_killed_process_set_in_part_can_be_undone() {
        let now = now(LIMITS);
        let (first, second) = now.split_once(' ').expect("two parts");
        let change = |old: String, new: String| change(LIMITS, &old, &new);
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
        let now = now(SWAPPINESS);
        let change = |old: &str, new: &str| change(SWAPPINESS, old, new);
        // The value in force is the first value, the second value, or one set by another program.
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
    fn a_damaged_record_is_set_aside_and_its_readable_settings_stay() {
        let dir = tempfile::tempdir().expect("dir");
        let state = dir.path().join("state");
        let mut settings = Settings::open(&state).expect("settings");
        let first = change(r#"{"kind": "scheduler", "device": "mmcblk0"}"#, "none", "bfq");
        let second = change(r#"{"kind": "queue", "device": "mmcblk0", "of": "read_ahead"}"#, "128", "512");
        settings.applied = vec![first.clone(), second.clone()];
        settings.save(None).expect("save");
        drop(settings);
        let complete = fs::read_to_string(state.join(RECORD)).expect("record");
        let cut = &complete[..complete.len() - 9];
        let twice = complete.replace(']', &format!(",{}]", serde_json::to_string(&first).expect("JSON")));
        for (text, expected) in [
            (cut, vec![first.clone()]),
            ("", vec![]),
            ("[{", vec![]),
            (&twice, vec![first.clone(), second.clone()]),
        ] {
            fs::write(state.join(RECORD), text).expect("write");
            assert_eq!(Settings::on_record(&state).expect("shown"), expected, "{text}");
            assert_eq!(fs::read_to_string(state.join(RECORD)).expect("it stays"), text);
            let settings = Settings::open(&state).expect("opened");
            assert_eq!(settings.applied(), expected, "{text}");
            drop(settings);
            assert_eq!(Settings::on_record(&state).expect("it is complete again"), expected, "{text}");
        }
        let aside = |number: u32| fs::read_to_string(state.join(format!("{RECORD}.damaged-{number}")));
        assert_eq!([1, 2, 3].map(|number| aside(number).expect("it is kept")), [cut, "", "[{"]);
        aside(4).expect_err("the last record was not damaged");
    }
}
