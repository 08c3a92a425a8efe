//! Keeps settings across reboots, in the files that Linux reads at boot.
//!
//! Invariant: a change is recorded before a file is changed. So even if the process is killed, the record
//! names every change that the files may contain.

pub(super) mod files;
pub(super) mod fstab;
pub(super) mod own;
mod plan;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fonio_system::TrustedFolder;
use serde::{Deserialize, Serialize};

use self::files::KeptFiles;
use self::own::{HEADER, OwnFiles, body};
use super::applied::{Applied, Undone};
use super::record::PATIENCE;
use super::target::Target;
use crate::error::HostError;
use crate::files::{lock_own_folder, read, read_record, remove, replace, sync_folder};

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

/// The record of kept settings, which is locked while it is open.
#[derive(Debug)]
pub struct Keeper {
    files: KeptFiles,
    kept: Vec<Kept>,
    /// The locked folder of the record.
    folder: Option<TrustedFolder>,
}

impl Keeper {
    /// Opens the record of kept settings. Until a setting is kept, no file is created. Fails with
    /// [`HostError::System`], for example if the record cannot be parsed.
    pub fn open(files: KeptFiles) -> Result<Keeper, HostError> {
        let mut keeper = Keeper { files, kept: Vec::new(), folder: None };
        if keeper.files.state.exists() {
            keeper.lock()?;
        }
        Ok(keeper)
    }

    /// Reads the record of kept settings without locking it, so that it can be shown. Fails with
    /// [`HostError::System`] if the record cannot be read or parsed.
    pub fn on_record(files: &KeptFiles) -> Result<Vec<Kept>, HostError> {
        match TrustedFolder::open(&files.state)? {
            Some(folder) => read_record(&folder, KeptFiles::RECORD),
            None => Ok(Vec::new()),
        }
    }

    /// Creates the record's folder, locks the record and reads it.
    fn lock(&mut self) -> Result<(), HostError> {
        if self.folder.is_some() {
            return Ok(());
        }
        let folder = lock_own_folder(&self.files.state, PATIENCE)?;
        folder.remove_unfinished(KeptFiles::RECORD)?;
        self.kept = read_record(&folder, KeptFiles::RECORD)?;
        self.folder = Some(folder);
        // Drop entries of the record that are not in the files: a user removed these settings, or a process
        // was killed before it wrote the file or updated the record.
        let mut is_there = Vec::new();
        for kept in &self.kept {
            is_there.push(self.is_in_file(kept)?);
        }
        if is_there.contains(&false) {
            for (kept, _) in self.kept.iter().zip(&is_there).filter(|(_, is_there)| !**is_there) {
                if let Change::Files(own) = &kept.change {
                    own.take()?;
                }
            }
            let mut is_there = is_there.into_iter();
            self.kept.retain(|_| is_there.next() == Some(true));
            self.save()?;
        }
        Ok(())
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
        self.save()?;
        match &kept.change {
            Change::Lines { file, lines } => {
                let mut text = read(file)?;
                if text.is_empty() {
                    text.push_str(HEADER);
                }
                let new: String = lines.iter().map(|line| format!("{line}\n")).collect();
                let after_header = text.len() - body(&text).len();
                if applied.target.comes_first() && after_header > 0 {
                    text.insert_str(after_header, &new);
                } else {
                    if !text.ends_with('\n') {
                        text.push('\n');
                    }
                    text.push_str(&new);
                }
                replace(file, &text, |_| Ok(()))?;
            }
            Change::MountOption { dir, option, .. } => {
                let mut text = read(&self.files.fstab)?;
                self.back_up(&text)?;
                if let Ok(place) = fstab::options_of(&text, dir) {
                    let options = fstab::with_option(&text[place.clone()], option);
                    text.replace_range(place, &options);
                    self.replace_fstab(&text)?;
                }
            }
            Change::Mount { line } => {
                let mut text = read(&self.files.fstab)?;
                self.back_up(&text)?;
                if !text.is_empty() && !text.ends_with('\n') {
                    text.push('\n');
                }
                self.replace_fstab(&format!("{text}{line}\n"))?;
            }
            Change::Files(own) => own.put()?,
            Change::Itself => {}
        }
        Ok(kept)
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
            Change::Mount { line } => self.take_line(line)?,
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
            self.replace_fstab(&text)?;
            was_there = true;
        }
        Ok(was_there)
    }

    /// Removes a line from the mount table. Returns whether the table contained this line.
    fn take_line(&self, line: &str) -> Result<bool, HostError> {
        let text = read(&self.files.fstab)?;
        let mut left: Vec<&str> = text.split_inclusive('\n').collect();
        let Some(at) = left.iter().rposition(|known| known.trim_end_matches('\n') == line) else {
            return Ok(false);
        };
        left.remove(at);
        self.replace_fstab(&left.concat())?;
        Ok(true)
    }

    fn backup(&self) -> PathBuf {
        let mut name = self.files.fstab.file_name().unwrap_or_default().to_owned();
        name.push(".before-fonio");
        self.files.fstab.with_file_name(name)
    }

    fn back_up(&self, text: &str) -> Result<(), HostError> {
        let backup = self.backup();
        if backup.exists() { Ok(()) } else { replace(&backup, text, |_| Ok(())) }
    }

    /// Replaces the mount table unless `findmnt` reports a new error in the new mount table.
    fn replace_fstab(&self, text: &str) -> Result<(), HostError> {
        replace(&self.files.fstab, text, |new| match (errors_in(&self.files.fstab), errors_in(new)) {
            (old, new) if new.len() > old.len() => Err(HostError::NotKept {
                value: "the new option".to_owned(),
                path: self.files.fstab.clone(),
                reason: format!("`findmnt --verify` reports in the new table: {}", new.join("; ")),
            }),
            _ => Ok(()),
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
        remove(file)?;
        if !text.is_empty() {
            sync_folder(file)?;
        }
    } else if left != text {
        replace(file, &left, |_| Ok(()))?;
    }
    Ok(were_there)
}

/// Returns the errors that `findmnt` reports in a mount table; no errors if `findmnt` is not installed.
fn errors_in(table: &Path) -> Vec<String> {
    let mut findmnt = Command::new("findmnt");
    let out = findmnt.args(["--verify", "--tab-file"]).arg(table).stdin(Stdio::null()).output();
    let said = out.map(|out| out.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&said).into_owned();
    let errors = said.lines().map(str::trim).filter(|line| line.starts_with("[E]"));
    errors.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
