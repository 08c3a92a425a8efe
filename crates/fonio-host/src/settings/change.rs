//! Makes and undoes changes of settings, and updates two records: the changes until the next boot
//! ([`Settings`]), and the settings kept across reboots ([`Keeper`]).
//!
//! These rules apply:
//!
//! 1. Only one process at a time may change a setting. The process first takes the lock, then checks that the
//!    setting still has the expected value.
//! 2. A change is put in force before it is written to configuration files, so no file contains a value that
//!    the kernel refuses. If a change cannot be written, it is reverted. A change that survives a reboot by
//!    itself is recorded first: if the process is then killed, the permanent record has the old value.
//! 3. Changes are undone in reverse order. For example, removing a scheduler also changes the maximum number
//!    of requests, so if that number was set after the scheduler, it is restored first.
//! 4. A kept setting is removed from its files before its old value is restored, because the files could put
//!    the setting in force again. There are two exceptions in which the old value is restored first: a
//!    folder, because it needs these files while programs use it, and a setting that survives a reboot by
//!    itself.
//! 5. A change that cannot be undone stays on record. All other changes are undone.
//!
//! Undoing restores the value from before the first change, even after several changes.

use std::path::{Path, PathBuf};

use super::applied::{Applied, Undone};
use super::kept::files::KeptFiles;
use super::kept::{Keeper, Kept};
use super::only::OnlyChanger;
use super::record::Settings;
use super::setting::Setting;
use crate::error::HostError;
use crate::ledger::Ledger;

/// A planned change of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The changed setting with its old and new value. The values are equal if the change only keeps the
    /// setting across reboots.
    pub change: Applied,
    /// Whether to keep the setting across reboots.
    pub keep: bool,
}

impl Planned {
    /// Plans a setting for `path`, kept across reboots if `keep` is set or the setting requires it. Fails
    /// with [`HostError::NotSettable`] with the reason; also if the setting already has this value.
    pub fn of(setting: &Setting, path: &Path, keep: bool) -> Result<Planned, HostError> {
        let change = setting.plan_or_current(path)?;
        let lasts = change.target.lasts();
        let keep = (keep || lasts || change.target.must_be_kept()) && (change.is_new() || !lasts);
        if keep || lasts || change.is_new() {
            return Ok(Planned { change, keep });
        }
        // The setting already has this value, which `plan` would return as an error.
        Ok(Planned { change: setting.plan(path)?, keep })
    }

    /// Returns how the change would be kept across reboots; `None` if it would not be kept. Changes no file.
    /// Fails with [`HostError::NotKept`] with the reason why the change cannot be kept.
    pub fn would_keep(&self, files: KeptFiles) -> Result<Option<Kept>, HostError> {
        if self.keep { Keeper::open(files)?.plan(&self.change).map(Some) } else { Ok(None) }
    }
}

/// A change of a setting that was made.
#[derive(Debug)]
pub struct Made {
    /// How the change is kept across reboots; `None` if it is not kept.
    pub kept: Option<Kept>,
    /// The value that undoing the change restores.
    pub brings_back: String,
}

/// A change of a setting that can be undone.
#[derive(Debug)]
pub struct Undoing {
    /// The change, with the setting's value from before the first change.
    pub change: Applied,
    /// How the change is kept across reboots; `None` if it is not kept.
    pub kept: Option<Kept>,
    /// Whether the change was made since the last boot.
    is_of_this_boot: bool,
}

/// The locked records of changes until the next boot and of kept settings.
#[derive(Debug)]
pub struct Changes {
    settings: Settings,
    keeper: Keeper,
    locks: PathBuf,
}

impl Changes {
    /// Opens and locks the records of this machine. Fails with [`HostError::System`], for example if a record
    /// cannot be parsed.
    pub fn of_machine() -> Result<Changes, HostError> {
        Changes::open(&Ledger::default_dir(), KeptFiles::of_machine())
    }

    fn open(dir: &Path, files: KeptFiles) -> Result<Changes, HostError> {
        Ok(Changes { settings: Settings::open(dir)?, keeper: Keeper::open(files)?, locks: dir.to_owned() })
    }

    /// Makes a planned change. If the change cannot be made and kept as planned, nothing is changed. Fails
    /// with [`HostError::BeingTested`] if another process is changing the setting; [`HostError::NotSettable`]
    /// if the setting has changed since it was planned or the kernel kept another value;
    /// [`HostError::NotKept`] and [`HostError::System`].
    pub fn make(&mut self, planned: &Planned) -> Result<Made, HostError> {
        let Planned { change, keep } = planned;
        let _only = OnlyChanger::begin(&self.locks, &change.target)?;
        // A trial may have changed the setting between the plan and the lock.
        change.expect_old()?;
        let first = |known: &Applied| (known.target == change.target).then(|| known.old.clone());
        let before = self.keeper.kept().iter().find_map(|kept| first(&kept.applied));
        let before = before.or_else(|| self.settings.applied().iter().find_map(first));
        let brings_back = before.unwrap_or_else(|| change.old.clone());
        if !keep {
            self.apply(change)?;
            return Ok(Made { kept: None, brings_back });
        }
        let from = Applied { old: brings_back.clone(), ..change.clone() };
        // This check fails before anything is changed.
        self.keeper.plan(&from)?;
        let kept = if change.target.lasts() {
            let kept = self.keeper.keep(&from)?;
            self.apply(change).inspect_err(|_| {
                // Report the first error rather than an error of this call.
                let _ = self.keeper.forget(&change.target);
            })?;
            kept
        } else {
            self.apply(change)?;
            self.keeper.keep(&from).inspect_err(|_| {
                // Report the first error rather than an error of undoing.
                if change.is_new() && self.settings.applied().contains(change) {
                    let _ = self.settings.undo(change);
                }
            })?
        };
        Ok(Made { kept: Some(kept), brings_back })
    }

    fn apply(&mut self, change: &Applied) -> Result<(), HostError> {
        if change.is_new() { self.settings.apply(change).map(drop) } else { Ok(()) }
    }

    /// Returns the changes of one or all settings, in undo order; with `path`, only changes of that object.
    pub fn to_undo(&self, setting: Option<&Setting>, path: Option<&Path>) -> Vec<Undoing> {
        let is_chosen = |change: &Applied| {
            setting.is_none_or(|setting| setting.undoes(change))
                && path.is_none_or(|path| change.target.is_on(path))
        };
        let of_this_boot = self.settings.applied().iter().filter(|change| is_chosen(change));
        let mut chosen: Vec<Undoing> = of_this_boot
            .map(|change| Undoing { change: change.clone(), kept: None, is_of_this_boot: true })
            .collect();
        for kept in self.keeper.kept().iter().filter(|kept| is_chosen(&kept.applied)) {
            match chosen.iter_mut().find(|undoing| undoing.change.target == kept.applied.target) {
                Some(undoing) => {
                    // The kept setting was put in force again after a reboot.
                    undoing.change.old.clone_from(&kept.applied.old);
                    undoing.kept = Some(kept.clone());
                }
                // After a reboot, only the record of kept settings lists this change.
                None => chosen.push(Undoing {
                    change: kept.applied.clone(),
                    kept: Some(kept.clone()),
                    is_of_this_boot: false,
                }),
            }
        }
        chosen.reverse();
        chosen
    }

    /// Returns whether the object is the one that was changed, rather than another disk that now has the same
    /// name.
    fn is_here(&self, undoing: &Undoing) -> bool {
        undoing.kept.as_ref().is_none_or(|kept| undoing.is_of_this_boot || self.keeper.is_same_disk(kept))
    }

    /// Returns the result that [`Changes::undo`] would have. Does not change the setting. Fails with
    /// [`HostError::InUse`] (naming the programs) or [`HostError::NotSettable`] if data would be lost;
    /// [`HostError::System`].
    pub fn would_undo(&self, undoing: &Undoing) -> Result<Undone, HostError> {
        if !self.is_here(undoing) {
            return Ok(Undone::NothingLeft);
        }
        let undone = undoing.change.would_undo()?;
        undoing.change.check_undo()?;
        Ok(undone)
    }

    /// Restores the value from before a change and removes the change from the files that keep it. Returns
    /// the errors of [`Changes::would_undo`], and [`HostError::BeingTested`]. If an error occurs, the change
    /// stays on record.
    pub fn undo(&mut self, undoing: &Undoing) -> Result<Undone, HostError> {
        let Undoing { change, kept, .. } = undoing;
        let _only = OnlyChanger::begin(&self.locks, &change.target)?;
        // Check before the files change, because changing the files may alter the value in force.
        let undone = self.would_undo(undoing)?;
        let is_first = change.target.is_restored_first();
        if kept.is_some() && !is_first {
            self.keeper.forget(&change.target)?;
        }
        if self.is_here(undoing) {
            self.settings.finish_undo(change, &undone)?;
        }
        if kept.is_some() && is_first {
            self.keeper.forget(&change.target)?;
        }
        let is_kept = self.keeper.kept().iter().any(|kept| kept.applied.target == change.target);
        assert!(!is_kept, "{} is still in the record of kept settings", change.target);
        Ok(undone)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use super::*;
    use crate::settings::kept::own::OwnFile;
    use crate::settings::kind::{Facts, KeptAs, Kind};
    use crate::settings::object::{Object, Scope};
    use crate::settings::refusal::Refusal;
    use crate::settings::target::Target;
    use crate::settings::value::Value;

    /// A setting for tests, stored in a file. This setting logs its values and whether it is kept. If the
    /// file `refuse` exists, the setting refuses changes; if the file `in-use` exists, its object is busy.
    struct Logged(Facts);

    static MOUNT: Logged = Logged(Facts { tag: "logged_mount", title: "a mount", ..Facts::OF_MOUNT });
    static FOLDER: Logged =
        Logged(Facts { tag: "logged_folder", title: "a folder", scope: Scope::Folder, ..Facts::DEFAULT });
    static LASTING: Logged =
        Logged(Facts { tag: "logged_lasting", title: "what lasts", lasts: true, ..Facts::OF_MOUNT });

    fn kept_file(on: &Object) -> PathBuf {
        on.path().join("etc/kept")
    }

    impl Kind for Logged {
        fn facts(&self) -> &'static Facts {
            match self.0.tag {
                "logged_mount" => &MOUNT.0,
                "logged_folder" => &FOLDER.0,
                _ => &LASTING.0,
            }
        }

        fn value(&self, _wanted: &Value, _on: &Object) -> Result<String, Refusal> {
            unreachable!("the tests plan changes themselves")
        }

        fn current(&self, on: &Object) -> Result<Option<String>, HostError> {
            Ok(fs::read_to_string(on.path().join("value")).ok())
        }

        fn set(&self, on: &Object, value: &str) -> Result<(), HostError> {
            let dir = on.path();
            if dir.join("refuse").exists() {
                return Err(HostError::system("set", dir)(std::io::ErrorKind::PermissionDenied));
            }
            let kept = if kept_file(on).exists() { "kept" } else { "not kept" };
            let log = OpenOptions::new().create(true).append(true).open(dir.join("log"));
            writeln!(log.expect("log"), "{value}, {kept}").expect("written");
            fs::write(dir.join("value"), value).expect("written");
            Ok(())
        }

        fn check_restore(&self, on: &Object) -> Result<(), HostError> {
            match on.path().join("in-use").exists() {
                true => Err(HostError::InUse { path: on.path().to_owned(), by: "a test".to_owned() }),
                false => Ok(()),
            }
        }

        fn kept_as(&self, on: &Object, value: &str, _files: &KeptFiles) -> Result<KeptAs, Refusal> {
            if on.path().join("unkept").exists() {
                return Err(Refusal::Reason("the test refuses it".to_owned()));
            }
            Ok(KeptAs::Files(vec![OwnFile { path: kept_file(on), lines: vec![value.to_owned()] }]))
        }
    }

    fn machine() -> (tempfile::TempDir, Changes) {
        let dir = tempfile::tempdir().expect("dir");
        let files = KeptFiles { state: dir.path().join("kept"), ..KeptFiles::of_machine() };
        let changes = Changes::open(&dir.path().join("state"), files).expect("records");
        (dir, changes)
    }

    fn target(kind: &'static Logged, dir: &Path, name: &str) -> Target {
        let dir = dir.join(name);
        fs::create_dir(&dir).expect("mkdir");
        fs::write(dir.join("value"), "old").expect("written");
        Target::new(
            kind,
            match kind.0.scope {
                Scope::Folder => Object::Folder { dir, content: None },
                _ => Object::Mount(dir),
            },
        )
    }

    fn planned(target: &Target, new: &str, keep: bool) -> Planned {
        let old = target.current().expect("read").expect("it is there");
        Planned { change: Applied { target: target.clone(), old, new: new.to_owned() }, keep }
    }

    fn read(target: &Target, name: &str) -> String {
        fs::read_to_string(target.path().join(name)).unwrap_or_default()
    }

    #[test]
    fn files_go_first_unless_a_folder_may_be_in_use_or_the_change_lasts() {
        for (kind, expected) in [
            (&MOUNT, "new, not kept\nold, not kept\n"),
            (&FOLDER, "new, not kept\nold, kept\n"),
            (&LASTING, "new, kept\nold, kept\n"),
        ] {
            let (dir, mut changes) = machine();
            let target = target(kind, dir.path(), "it");
            let made = changes.make(&planned(&target, "new", true)).expect("made");
            assert!(made.kept.is_some() && read(&target, "etc/kept").ends_with("new\n"));
            let to_undo = changes.to_undo(None, None);
            assert_eq!(to_undo.len(), 1);
            assert_eq!(changes.undo(&to_undo[0]).expect("undone"), Undone::Restored);
            assert_eq!(read(&target, "log"), expected, "{target}");
            assert!(!kept_file(target.object()).exists());
            assert!(changes.to_undo(None, None).is_empty());
        }
    }

    #[test]
    fn the_value_from_before_the_first_change_comes_back() {
        let (dir, mut changes) = machine();
        let target = target(&MOUNT, dir.path(), "it");
        changes.make(&planned(&target, "second", false)).expect("made");
        let made = changes.make(&planned(&target, "third", true)).expect("made");
        assert_eq!(made.brings_back, "old");
        // The value is already in force, so `make` only keeps it across reboots.
        let made = changes.make(&planned(&target, "third", true)).expect("kept");
        assert_eq!(made.brings_back, "old");
        let to_undo = changes.to_undo(None, None);
        assert_eq!((to_undo.len(), to_undo[0].change.old.as_str()), (1, "old"));
        changes.undo(&to_undo[0]).expect("undone");
        assert_eq!(read(&target, "value"), "old");
    }

    #[test]
    fn the_latest_change_is_undone_first_and_one_in_use_does_not_stop_the_others() {
        let (dir, mut changes) = machine();
        let targets = ["first", "second", "third"].map(|name| target(&FOLDER, dir.path(), name));
        for target in &targets {
            changes.make(&planned(target, "new", true)).expect("made");
        }
        fs::write(targets[1].path().join("in-use"), "").expect("written");
        let to_undo = changes.to_undo(None, None);
        let of_second = changes.to_undo(None, Some(&targets[1].path()));
        assert!(of_second.len() == 1 && of_second[0].change.target == targets[1]);
        let order: Vec<&Target> = to_undo.iter().map(|undoing| &undoing.change.target).collect();
        assert_eq!(order, [&targets[2], &targets[1], &targets[0]]);
        let undone: Vec<bool> = to_undo.iter().map(|undoing| changes.undo(undoing).is_ok()).collect();
        assert_eq!(undone, [true, false, true]);
        // The setting is unchanged, in force and kept.
        assert_eq!(read(&targets[1], "value"), "new");
        assert!(kept_file(targets[1].object()).exists());
        let left = changes.to_undo(None, None);
        assert_eq!(left.len(), 1);
        fs::remove_file(targets[1].path().join("in-use")).expect("removed");
        assert_eq!(changes.undo(&left[0]).expect("undone"), Undone::Restored);
    }

    #[test]
    fn what_fails_in_part_is_taken_back() {
        for kind in [&MOUNT, &LASTING] {
            let (dir, mut changes) = machine();
            let target = target(kind, dir.path(), "it");
            // The setting now refuses to be set.
            fs::write(target.path().join("refuse"), "").expect("written");
            changes.make(&planned(&target, "new", true)).expect_err("refused");
            fs::remove_file(target.path().join("refuse")).expect("removed");
            // The setting cannot be kept: first because planning fails, then because writing the files fails.
            fs::write(target.path().join("unkept"), "").expect("written");
            changes.make(&planned(&target, "new", true)).expect_err("refused");
            fs::remove_file(target.path().join("unkept")).expect("removed");
            fs::write(target.path().join("etc"), "in place of the folder").expect("written");
            changes.make(&planned(&target, "new", true)).expect_err("refused");
            assert_eq!(read(&target, "value"), "old");
            assert!(changes.settings.applied().is_empty());
        }
    }

    #[test]
    fn what_somebody_else_has_changed_is_left_alone() {
        let (dir, mut changes) = machine();
        let target = target(&MOUNT, dir.path(), "it");
        changes.make(&planned(&target, "new", false)).expect("made");
        fs::write(target.path().join("value"), "theirs").expect("written");
        let to_undo = changes.to_undo(None, None);
        let theirs = Undone::ChangedSince("theirs".to_owned());
        assert_eq!(changes.would_undo(&to_undo[0]).expect("looked"), theirs);
        assert_eq!(changes.undo(&to_undo[0]).expect("left"), theirs);
        assert_eq!(read(&target, "value"), "theirs");
        assert_eq!(changes.to_undo(None, None).len(), 1, "it stays on record");
        // A change that was planned before the failure cannot be made either.
        let late = Planned { change: to_undo[0].change.clone(), keep: false };
        assert!(matches!(changes.make(&late), Err(HostError::NotSettable { .. })));
    }
}
