//! Keeps settings across reboots, in the files that Linux reads at boot.
//!
//! Invariant: a change is recorded before a file is changed. So even if the process is killed, the record
//! names every change that the files may contain. If the record is lost or damaged, the changes of the mount
//! table are found by their marks.

pub(super) mod files;
pub(super) mod fstab;
mod marks;
pub(super) mod own;
mod plan;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fonio_system::{TrustedFolder, say};
use serde::{Deserialize, Serialize};

use self::files::KeptFiles;
use self::marks::{Mark, MarkedOption, marks, without_marks};
use self::own::{HEADER, OwnFiles, body};
use super::applied::{Applied, Undone};
use super::record::PATIENCE;
use super::target::Target;
use crate::error::HostError;
use crate::files::{Record, lock_own_folder, read, read_record, remove, sync_folder};
use crate::replace;

/// A setting that is kept across reboots, or that a process is about to keep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The kept setting, with its value from before the first change.
    pub applied: Applied,
    /// The serial number of the setting's disk, which identifies the disk even if its name changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    serial: Option<String>,
    change: Change,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "in")]
enum Change {
    /// Lines were added to one of fonio's files.
    Lines { file: PathBuf, lines: Vec<String> },
    /// A mount option was added to the mount table. `original` has the options before fonio's first addition.
    MountOption { dir: String, option: String, original: String },
    /// A line was added to the mount table.
    Mount { line: String },
    /// Files that belong only to fonio were created.
    Files(OwnFiles),
    /// No file was changed, because the setting survives reboots by itself.
    Itself,
}

impl Kept {
    /// Returns the files that keep the setting, each with the added lines or option.
    pub fn places(&self, files: &KeptFiles) -> Vec<(PathBuf, Vec<String>)> {
        match &self.change {
            Change::Lines { file, lines } => vec![(file.clone(), lines.clone())],
            Change::MountOption { dir, option, .. } => {
                vec![(files.fstab.clone(), vec![format!("{option}, for {dir}")])]
            }
            Change::Mount { line } => vec![(files.fstab.clone(), vec![line.clone()])],
            Change::Files(own) => {
                own.files().iter().map(|file| (file.path.clone(), file.lines.clone())).collect()
            }
            Change::Itself => Vec::new(),
        }
    }
}

/// The name of the file with the line that findmnt checks, in the folder of the record.
const TABLE_TO_CHECK: &str = "fstab-line";

/// Returns the first entry for each setting. Only another program writes several.
fn once_each(entries: Vec<Kept>) -> Vec<Kept> {
    let mut kept: Vec<Kept> = Vec::new();
    for entry in entries {
        if !kept.iter().any(|known| known.applied.target == entry.applied.target) {
            kept.push(entry);
        }
    }
    kept
}

/// Returns whether several lines mount the folder of a mark, so that it is not certain which of them is marked.
fn is_twice(text: &str, mark: &Mark) -> bool {
    let dir = mark.applied.target.path();
    matches!(fstab::options_of(text, &dir.to_string_lossy()), Err(fstab::NoEntry::Twice(..)))
}

/// The record of kept settings, which is locked while it is open.
#[derive(Debug)]
pub struct Keeper {
    files: KeptFiles,
    kept: Vec<Kept>,
    /// The locked folder of the record.
    folder: Option<TrustedFolder>,
    /// The program that checks lines of the mount table. If it is not installed, they are not checked.
    findmnt: PathBuf,
}

impl Keeper {
    fn of(files: KeptFiles, kept: Vec<Kept>) -> Keeper {
        Keeper { files, kept, folder: None, findmnt: "findmnt".into() }
    }

    /// Opens the record of kept settings. Until a setting is kept, no file is created. A damaged record is set
    /// aside. Fails with [`HostError::System`].
    pub fn open(files: KeptFiles) -> Result<Keeper, HostError> {
        let mut keeper = Keeper::of(files, Vec::new());
        if keeper.files.state.exists() || !marks(&read(&keeper.files.fstab)?).is_empty() {
            keeper.lock()?;
        }
        Ok(keeper)
    }

    /// Reads the record of kept settings without locking it, so that it can be shown. Tells the user about
    /// damage, and returns the settings that can still be undone. Fails with [`HostError::System`] if the
    /// record cannot be read.
    pub fn on_record(files: &KeptFiles) -> Result<Vec<Kept>, HostError> {
        let record = match TrustedFolder::open(&files.state)? {
            Some(folder) => read_record(&folder, KeptFiles::RECORD)?,
            None => Record { entries: Vec::new(), damage: None },
        };
        let mut keeper = Keeper::of(files.clone(), once_each(record.entries));
        keeper.add_marked(&read(&files.fstab)?)?;
        if let Some(damage) = record.damage {
            keeper.tell_damage(&damage, None);
        }
        Ok(std::mem::take(&mut keeper.kept))
    }

    /// Creates the record's folder, locks the record and reads it. Ends what a killed process began.
    fn lock(&mut self) -> Result<(), HostError> {
        if self.folder.is_some() {
            return Ok(());
        }
        let folder = lock_own_folder(&self.files.state, PATIENCE)?;
        folder.remove_unfinished(KeptFiles::RECORD)?;
        folder.remove_unfinished(TABLE_TO_CHECK)?;
        folder.remove(TABLE_TO_CHECK)?;
        for file in [&self.files.fstab, &self.backup(), &self.files.udev_rules, &self.files.sysctl] {
            replace::finish(file)?;
        }
        let record = read_record(&folder, KeptFiles::RECORD)?;
        let was_damaged = record.damage.is_some();
        self.kept = once_each(record.entries);
        let stale = self.drop_missing()?;
        let text = read(&self.files.fstab)?;
        let found = self.add_marked(&text)?;
        if let Some(damage) = record.damage {
            let aside = folder.set_aside(KeptFiles::RECORD)?;
            self.tell_damage(&damage, Some(&aside));
        }
        self.folder = Some(folder);
        let is_known = |mark: &Mark| self.kept.iter().any(|kept| kept.applied.target == mark.applied.target);
        let without = without_marks(&text, |mark| !is_known(mark) && !is_twice(&text, mark));
        if without != text {
            replace::replace(&self.files.fstab, &without)?;
        }
        if was_damaged || stale || found {
            self.save()?;
        }
        Ok(())
    }

    /// Drops entries of the record that are not in the files: a user removed these settings, or a process was
    /// killed before it wrote the file or updated the record. Returns whether there were such entries.
    fn drop_missing(&mut self) -> Result<bool, HostError> {
        let mut there = Vec::new();
        for kept in &self.kept {
            if self.is_in_file(kept)? {
                there.push(kept.clone());
            } else if let Change::Files(own) = &kept.change {
                own.take()?;
            }
        }
        let is_stale = there.len() < self.kept.len();
        self.kept = there;
        Ok(is_stale)
    }

    /// Adds the settings that are marked in the mount table but not on record. Returns whether there were such
    /// settings.
    fn add_marked(&mut self, text: &str) -> Result<bool, HostError> {
        let before = self.kept.len();
        for Mark { applied, option } in marks(text) {
            if self.kept.iter().any(|kept| kept.applied.target == applied.target) {
                continue;
            }
            let dir = applied.target.path().to_string_lossy().into_owned();
            let change = match option {
                Some(MarkedOption { added: option, original }) => {
                    Change::MountOption { dir, option, original }
                }
                None => match fstab::options_of(text, &dir) {
                    Ok(options) => {
                        Change::Mount { line: text[fstab::line_at(text, options.start)].to_owned() }
                    }
                    Err(_) => continue,
                },
            };
            let kept = Kept { applied, serial: None, change };
            if self.is_in_file(&kept)? {
                self.kept.push(kept);
            }
        }
        Ok(self.kept.len() > before)
    }

    /// Tells the user that the record was damaged, and which files may contain settings that are not on record.
    fn tell_damage(&self, damage: &str, aside: Option<&Path>) {
        let what = match aside {
            Some(aside) => format!("it was set aside as {}", aside.display()),
            None => "the next `fonio fix undo` sets it aside".to_owned(),
        };
        say!(
            "warning: {} is damaged ({damage}): {what}. fonio still finds {} of its kept settings, which \
             `fonio fix undo` can undo.",
            self.files.state.join(KeptFiles::RECORD).display(),
            self.kept.len()
        );
        let files = self.files_off_record();
        if !files.is_empty() {
            let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
            say!(
                "warning: fonio wrote these files, but does not know all their settings any more: {}. To end \
                 these settings, remove the files, then reboot.",
                files.join(", ")
            );
        }
    }

    /// Returns the files with fonio's first line that contain settings which are not on record.
    fn files_off_record(&self) -> Vec<PathBuf> {
        let mut found = vec![self.files.udev_rules.clone(), self.files.sysctl.clone()];
        let list = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
        for folder in [&self.files.systemd, &self.files.systemd.join("system")] {
            let units: Vec<PathBuf> = list(folder).collect();
            found.extend(units.iter().filter(|path| path.is_dir()).flat_map(|dir| list(dir)));
            found.extend(units.into_iter().filter(|path| path.is_file()));
        }
        let on_record: Vec<(PathBuf, Vec<String>)> =
            self.kept.iter().flat_map(|kept| kept.places(&self.files)).collect();
        let known = |file: &Path, line: &str| {
            on_record.iter().any(|(path, lines)| path == file && lines.iter().any(|known| known == line))
        };
        found.retain(|file| {
            let text = fs::read_to_string(file).unwrap_or_default();
            let own = body(&text);
            own.len() < text.len() && own.lines().any(|line| !known(file, line))
        });
        found.sort();
        found.dedup();
        found
    }

    fn is_in_file(&self, kept: &Kept) -> Result<bool, HostError> {
        match &kept.change {
            Change::Files(own) => own.are_there(),
            Change::Itself => Ok(true),
            Change::Mount { line } => Ok(read(&self.files.fstab)?.lines().any(|known| known == line)),
            Change::Lines { file, lines } => {
                let text = read(file)?;
                Ok(text.lines().any(|line| lines.iter().any(|own| own == line)))
            }
            Change::MountOption { dir, option, .. } => {
                let text = read(&self.files.fstab)?;
                // If the line is commented out or duplicated, a user may be editing the table, and the line
                // with the option may come back.
                let place = fstab::options_of(&text, dir);
                Ok(place.map_or(true, |place| text[place].split(',').any(|other| other == option)))
            }
        }
    }

    /// Writes the record, or removes the record if it has no entries. Removes the backup of the mount table
    /// when the backup is not needed.
    fn save(&self) -> Result<(), HostError> {
        let is_in_fstab =
            |kept: &Kept| matches!(kept.change, Change::MountOption { .. } | Change::Mount { .. });
        if !self.kept.iter().any(is_in_fstab) {
            remove(&self.backup())?;
        }
        let folder = self.folder.as_ref().expect("the record is locked before it is changed");
        if self.kept.is_empty() {
            return Ok(folder.remove(KeptFiles::RECORD)?);
        }
        let is_first = |at: usize| {
            self.kept[..at].iter().all(|other| other.applied.target != self.kept[at].applied.target)
        };
        assert!((0..self.kept.len()).all(is_first), "a setting is kept twice: {:?}", self.kept);
        let text = serde_json::to_string_pretty(&self.kept).expect("fonio's own paths are UTF-8");
        Ok(folder.replace(KeptFiles::RECORD, text.as_bytes())?)
    }

    /// Returns the settings that are kept across reboots.
    pub fn kept(&self) -> &[Kept] {
        &self.kept
    }

    /// Returns the options that fonio added to a mount: for each option, its index in the record, the option
    /// itself, and the options before the first addition.
    fn options_of<'k>(&'k self, of: &str) -> impl Iterator<Item = (usize, &'k str, &'k str)> {
        self.kept.iter().enumerate().filter_map(move |(at, kept)| match &kept.change {
            Change::MountOption { dir, option, original } if dir == of => {
                Some((at, option.as_str(), original.as_str()))
            }
            _ => None,
        })
    }

    /// Keeps a setting across reboots. If the setting is already kept, replaces its value. Returns the errors
    /// of [`Keeper::plan`], and [`HostError::System`].
    pub fn keep(&mut self, applied: &Applied) -> Result<Kept, HostError> {
        self.lock()?;
        self.plan(applied)?;
        let mut applied = applied.clone();
        if let Some(earlier) = self.kept.iter().find(|kept| kept.applied.target == applied.target) {
            applied.old.clone_from(&earlier.applied.old);
            self.forget(&applied.target)?;
        }
        let kept = self.plan(&applied)?;
        self.kept.push(kept.clone());
        self.save().and_then(|()| self.put(&kept)).inspect_err(|_| {
            // Report the first error rather than an error of this call.
            let _ = self.forget(&applied.target);
        })?;
        Ok(kept)
    }

    /// Writes a setting, which is already on record, to the files that keep it.
    fn put(&self, kept: &Kept) -> Result<(), HostError> {
        let mark = |option| Mark { applied: kept.applied.clone(), option };
        match &kept.change {
            Change::Lines { file, lines } => {
                let mut text = read(file)?;
                if text.is_empty() {
                    text.push_str(HEADER);
                }
                let new: String = lines.iter().map(|line| format!("{line}\n")).collect();
                let after_header = text.len() - body(&text).len();
                if kept.applied.target.comes_first() && after_header > 0 {
                    text.insert_str(after_header, &new);
                } else {
                    if !text.ends_with('\n') {
                        text.push('\n');
                    }
                    text.push_str(&new);
                }
                replace::replace(file, &text)
            }
            Change::MountOption { dir, option, original } => {
                let mut text = read(&self.files.fstab)?;
                self.back_up(&text)?;
                let Ok(place) = fstab::options_of(&text, dir) else { return Ok(()) };
                let before = text[fstab::line_at(&text, place.start)].to_owned();
                let option = MarkedOption { added: option.clone(), original: original.clone() };
                mark(Some(option)).add_option(&mut text, place);
                let place = fstab::options_of(&text, dir).expect("its line is still there");
                self.check_line(&before, &text[fstab::line_at(&text, place.start)])?;
                replace::replace(&self.files.fstab, &text)
            }
            Change::Mount { line } => {
                let mut text = read(&self.files.fstab)?;
                self.back_up(&text)?;
                mark(None).add_line(&mut text, line);
                self.check_line("", line)?;
                replace::replace(&self.files.fstab, &text)
            }
            Change::Files(own) => own.put(),
            Change::Itself => Ok(()),
        }
    }

    /// Removes a setting from the files that keep it. Does nothing if the setting is not kept. Fails with
    /// [`HostError::System`] if a file cannot be changed; the setting then stays on record.
    pub fn forget(&mut self, target: &Target) -> Result<Undone, HostError> {
        let Some(at) = self.kept.iter().position(|kept| kept.applied.target == *target) else {
            return Ok(Undone::NothingLeft);
        };
        let was_there = match &self.kept[at].change {
            Change::Lines { file, lines } => take_lines(file, lines)?,
            Change::MountOption { dir, .. } => self.take_option(dir, at)?,
            Change::Mount { line } => self.take_line(line, target)?,
            Change::Files(own) => own.take()?,
            Change::Itself => true,
        };
        self.kept.remove(at);
        self.save()?;
        Ok(if was_there { Undone::Restored } else { Undone::NothingLeft })
    }

    fn take_option(&self, dir: &str, at: usize) -> Result<bool, HostError> {
        let mut text = read(&self.files.fstab)?;
        let added: Vec<(usize, &str, &str)> = self.options_of(dir).collect();
        let place = added.iter().position(|(of, _, _)| *of == at).expect("the mount has the added option");
        let (options, original) =
            (added.iter().map(|(_, option, _)| *option).collect::<Vec<_>>(), added[0].2);
        let mut was_there = false;
        if let Ok(range) = fstab::options_of(&text, dir)
            && let Some(without) = fstab::without(&text[range.clone()], original, &options, place)
        {
            text.replace_range(range, &without);
            was_there = true;
        }
        self.replace_unmarked(&text, &self.kept[at].applied.target)?;
        Ok(was_there)
    }

    /// Removes a line from the mount table. Returns whether the table contained this line.
    fn take_line(&self, line: &str, target: &Target) -> Result<bool, HostError> {
        let text = read(&self.files.fstab)?;
        let mut left: Vec<&str> = text.split_inclusive('\n').collect();
        let at = left.iter().rposition(|known| known.trim_end_matches('\n') == line);
        if let Some(at) = at {
            left.remove(at);
        }
        self.replace_unmarked(&left.concat(), target)?;
        Ok(at.is_some())
    }

    /// Replaces the mount table with a text, without the marks of a setting.
    fn replace_unmarked(&self, text: &str, target: &Target) -> Result<(), HostError> {
        let text = without_marks(text, |mark| mark.applied.target == *target);
        if text == read(&self.files.fstab)? {
            return Ok(());
        }
        replace::replace(&self.files.fstab, &text)
    }

    fn backup(&self) -> PathBuf {
        let mut name = self.files.fstab.file_name().unwrap_or_default().to_owned();
        name.push(".before-fonio");
        self.files.fstab.with_file_name(name)
    }

    fn back_up(&self, text: &str) -> Result<(), HostError> {
        let backup = self.backup();
        if backup.exists() { Ok(()) } else { replace::replace(&backup, text) }
    }

    /// Fails with [`HostError::NotKept`] if `findmnt` reports more errors in the new line of the mount table than
    /// in the line before. findmnt reads only this line, because its time grows with the square of the lines.
    fn check_line(&self, before: &str, new: &str) -> Result<(), HostError> {
        let folder = self.folder.as_ref().expect("the record is locked before it is changed");
        let errors = |line: &str| -> Result<Vec<String>, HostError> {
            folder.replace_without_sync(TABLE_TO_CHECK, format!("{line}\n").as_bytes())?;
            let errors = errors_in(&folder.path().join(TABLE_TO_CHECK), &self.findmnt);
            folder.remove(TABLE_TO_CHECK)?;
            Ok(errors)
        };
        let new = errors(new)?;
        if new.is_empty() || new.len() <= errors(before)?.len() {
            return Ok(());
        }
        Err(HostError::NotKept {
            value: "the new option".to_owned(),
            path: self.files.fstab.clone(),
            reason: format!("`findmnt --verify` reports in the new line: {}", new.join("; ")),
        })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if self.folder.is_some() && self.kept.is_empty() {
            // This call fails if the folder is not empty.
            let _ = fs::remove_dir(&self.files.state);
        }
    }
}

/// Removes lines from one of fonio's files, and removes the file if it becomes empty. Returns whether the
/// file contained all these lines.
fn take_lines(file: &Path, lines: &[String]) -> Result<bool, HostError> {
    let text = read(file)?;
    let mut left: Vec<&str> = text.split_inclusive('\n').collect();
    let mut were_there = true;
    for line in lines {
        match left.iter().position(|known| known.trim_end_matches('\n') == line) {
            Some(at) => drop(left.remove(at)),
            None => were_there = false,
        }
    }
    let left = left.concat();
    if body(&left).is_empty() {
        replace::remove_file(file)?;
        if !text.is_empty() {
            sync_folder(file)?;
        }
    } else if left != text {
        replace::replace(file, &left)?;
    }
    Ok(were_there)
}

/// Returns the errors that `findmnt` reports in a mount table; no errors if `findmnt` is not installed.
fn errors_in(table: &Path, findmnt: &Path) -> Vec<String> {
    let mut command = Command::new(findmnt);
    let out = command.args(["--verify", "--tab-file"]).arg(table).stdin(Stdio::null()).output();
    let said = out.map(|out| out.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&said).into_owned();
    let errors = said.lines().map(str::trim).filter(|line| line.starts_with("[E]"));
    errors.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
