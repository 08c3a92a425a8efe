//! Keeps settings across reboots, in the files that Linux reads at its start.
//!
//! | setting | file |
//! |---|---|
//! | of a device's queue | a rule of udev, in a file of fonio's |
//! | of the machine | a line of sysctl, in a file of fonio's |
//! | of a mount | an option in the mount's line of `/etc/fstab` |
//! | a folder on another device, or in an image | a line of `/etc/fstab` |
//! | of journald, or of a unit of systemd | a drop-in of fonio's |
//! | swap in memory, a folder in memory or with a write buffer | units of systemd |
//! | of a database | its file keeps it by itself |
//! | of the weekly trimming | systemd keeps it by itself; the record tells what was there before |
//!
//! Invariant: a change is in the record before it is in the file. After a kill, the record thus names every change that
//! may be there.

mod fstab;
pub(super) mod own;
mod plan;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use self::own::OwnFiles;
use super::{Applied, Target, Undone, files};
use crate::HostError;

/// The first line of files that are fonio's own.
pub(super) const HEADER: &str =
    "# Written by `fonio fix --keep`; `fonio fix --undo` takes the lines out again.\n";

/// The files in which settings are kept.
#[derive(Clone, Debug)]
pub struct KeptFiles {
    /// The table of mounts; the file with `.before-fonio` added to its name is its backup while fonio has options in it.
    pub fstab: PathBuf,
    /// fonio's rules of udev. The folder must exist.
    pub udev_rules: PathBuf,
    /// The socket of udev, which exists if udev runs.
    pub udev_control: PathBuf,
    /// udev's notes on each device, with its serial number.
    pub udev_data: PathBuf,
    /// The folder with the numbers of block devices.
    pub sys_block: PathBuf,
    /// fonio's settings of sysctl. The folder must exist. Settings in files that sort after it come later.
    pub sysctl: PathBuf,
    /// The other folders with settings of sysctl. A file in an earlier one hides those with its name in later ones.
    pub sysctl_folders: Vec<PathBuf>,
    /// The file whose settings of sysctl come last, if the system has one.
    pub sysctl_last: Option<PathBuf>,
    /// Exists if systemd runs.
    pub systemd_runs: PathBuf,
    /// The folder of systemd's configuration.
    pub systemd: PathBuf,
    /// The program that units run.
    pub program: PathBuf,
    /// The folder of the record.
    pub state: PathBuf,
}

impl KeptFiles {
    /// The files of this machine.
    pub fn of_machine() -> KeptFiles {
        KeptFiles {
            fstab: "/etc/fstab".into(),
            udev_rules: "/etc/udev/rules.d/90-fonio.rules".into(),
            udev_control: "/run/udev/control".into(),
            udev_data: "/run/udev/data".into(),
            sys_block: "/sys/block".into(),
            sysctl: "/etc/sysctl.d/90-fonio.conf".into(),
            sysctl_folders: ["/run", "/usr/local/lib", "/usr/lib", "/lib"]
                .map(|folder| Path::new(folder).join("sysctl.d"))
                .into(),
            // systemd reads it only if it is linked into a folder.
            sysctl_last: (!Path::new("/run/systemd/system").exists()).then(|| "/etc/sysctl.conf".into()),
            systemd_runs: super::systemd::RUNS.into(),
            systemd: "/etc/systemd".into(),
            // Without a name, units with it are refused.
            program: std::env::current_exe().unwrap_or_default(),
            state: "/var/lib/fonio".into(),
        }
    }

    fn record(&self) -> PathBuf {
        self.state.join("kept.json")
    }
}

/// A setting that is kept, or is about to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The setting, and the value from before the first change.
    pub applied: Applied,
    /// The serial number of its disk, by which the disk is known if it has another name later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    serial: Option<String>,
    change: Change,
}

/// A change of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "in")]
enum Change {
    /// Lines in a file of fonio's.
    Lines { file: PathBuf, lines: Vec<String> },
    /// An option of a mount; `original` are the options from before the first one that fonio added.
    MountOption { dir: String, option: String, original: String },
    /// A line of the table of mounts.
    Mount { line: String },
    /// Files that are fonio's alone.
    Files(OwnFiles),
    /// None: the setting lasts by itself.
    Itself,
}

impl Kept {
    /// The files that are changed, and what each gets: lines, or an option.
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

/// The record of kept settings. While open, it is locked.
#[derive(Debug)]
pub struct Keeper {
    files: KeptFiles,
    kept: Vec<Kept>,
    _lock: Option<File>,
}

impl Keeper {
    /// Opens the record. Nothing is made as long as nothing is kept.
    ///
    /// # Errors
    ///
    /// [`HostError::System`], also if the record cannot be parsed.
    pub fn open(files: KeptFiles) -> Result<Keeper, HostError> {
        let mut keeper = Keeper { files, kept: Vec::new(), _lock: None };
        if keeper.files.state.exists() {
            keeper.lock()?;
        }
        Ok(keeper)
    }

    /// Reads the record without locking it, to show it.
    ///
    /// # Errors
    ///
    /// [`HostError::System`] if it cannot be read or parsed.
    pub fn on_record(files: &KeptFiles) -> Result<Vec<Kept>, HostError> {
        let record = files.record();
        match files::read(&record)? {
            text if text.is_empty() => Ok(Vec::new()),
            text => serde_json::from_str(&text)
                .map_err(|error| HostError::system("understand", record)(error.into())),
        }
    }

    fn record(&self) -> PathBuf {
        self.files.record()
    }

    /// Locks and reads the record; makes its folder.
    fn lock(&mut self) -> Result<(), HostError> {
        if self._lock.is_some() {
            return Ok(());
        }
        let state = self.files.state.clone();
        crate::ledger::make_private_dir(&state)?;
        let lock = File::open(&state).map_err(HostError::system("open", &state))?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)
            .map_err(|error| HostError::system("lock", &state)(error.into()))?;
        self.kept = Keeper::on_record(&self.files)?;
        self._lock = Some(lock);
        // Somebody has taken these out of the files; or a process was killed before it put them there, or before it removed
        // them from the record.
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
            Change::Mount { line } => Ok(files::read(&self.files.fstab)?.lines().any(|known| known == line)),
            Change::Lines { file, lines } => {
                let text = files::read(file)?;
                Ok(text.lines().any(|line| lines.iter().any(|own| own == line)))
            }
            Change::MountOption { dir, option, .. } => {
                let text = files::read(&self.files.fstab)?;
                // Somebody may be editing the table: a line that is commented out, or there twice, can come back with the option.
                let place = fstab::options_of(&text, dir);
                Ok(place.map_or(true, |place| text[place].split(',').any(|other| other == option)))
            }
        }
    }

    /// Writes the record; without entries, removes it. Removes the backup of the table of mounts when it is not needed.
    fn save(&self) -> Result<(), HostError> {
        let is_in_fstab =
            |kept: &Kept| matches!(kept.change, Change::MountOption { .. } | Change::Mount { .. });
        if !self.kept.iter().any(is_in_fstab) {
            crate::ledger::remove_file(&self.backup())?;
        }
        if self.kept.is_empty() {
            return crate::ledger::remove_file(&self.record());
        }
        let text = serde_json::to_string_pretty(&self.kept).expect("paths of ours are UTF-8");
        files::replace(&self.record(), &text, |_| Ok(()))
    }

    /// The settings that are kept.
    pub fn kept(&self) -> &[Kept] {
        &self.kept
    }

    /// The options that were added to a mount: their places in the record, themselves, and the original options.
    fn options_of<'k>(&'k self, of: &str) -> impl Iterator<Item = (usize, &'k str, &'k str)> {
        self.kept.iter().enumerate().filter_map(move |(at, kept)| match &kept.change {
            Change::MountOption { dir, option, original } if dir == of => {
                Some((at, option.as_str(), original.as_str()))
            }
            _ => None,
        })
    }

    /// Keeps a setting. If it is kept already, with this value or another, this value replaces it.
    ///
    /// # Errors
    ///
    /// Those of [`Keeper::plan`], and [`HostError::System`].
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
                let mut text = files::read(file)?;
                if text.is_empty() {
                    text.push_str(HEADER);
                }
                let new: String = lines.iter().map(|line| format!("{line}\n")).collect();
                match applied.target {
                    // A new scheduler sets the number of requests, so that it comes first.
                    Target::Scheduler { .. } if text.starts_with(HEADER) => {
                        text.insert_str(HEADER.len(), &new)
                    }
                    _ => {
                        if !text.ends_with('\n') {
                            text.push('\n');
                        }
                        text.push_str(&new);
                    }
                }
                files::replace(file, &text, |_| Ok(()))?;
            }
            Change::MountOption { dir, option, .. } => {
                let mut text = files::read(&self.files.fstab)?;
                self.back_up(&text)?;
                if let Ok(place) = fstab::options_of(&text, dir) {
                    let options = fstab::with_option(&text[place.clone()], option);
                    text.replace_range(place, &options);
                    self.replace_fstab(&text)?;
                }
            }
            Change::Mount { line } => {
                let mut text = files::read(&self.files.fstab)?;
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

    /// Takes a setting out of the files. Does nothing if it is not kept.
    ///
    /// # Errors
    ///
    /// [`HostError::System`]; it stays on record.
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
        let mut text = files::read(&self.files.fstab)?;
        let added: Vec<(usize, &str, &str)> = self.options_of(dir).collect();
        let place = added.iter().position(|(of, _, _)| *of == at).expect("it is one of them");
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

    /// Takes a line out of the table of mounts. Returns whether it was there.
    fn take_line(&self, line: &str) -> Result<bool, HostError> {
        let text = files::read(&self.files.fstab)?;
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
        if backup.exists() { Ok(()) } else { files::replace(&backup, text, |_| Ok(())) }
    }

    /// Replaces the table of mounts, unless `findmnt` finds an error in the new one that the old one does not have.
    fn replace_fstab(&self, text: &str) -> Result<(), HostError> {
        files::replace(&self.files.fstab, text, |new| match (errors_in(&self.files.fstab), errors_in(new)) {
            (old, new) if new.len() > old.len() => Err(HostError::NotKept {
                value: "the new option".to_owned(),
                path: self.files.fstab.clone(),
                reason: format!("`findmnt --verify` says of the new table: {}", new.join("; ")),
            }),
            _ => Ok(()),
        })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if self._lock.is_some() && self.kept.is_empty() {
            // Fails if something else is in it.
            let _ = fs::remove_dir(&self.files.state);
        }
    }
}

/// Takes lines out of a file of fonio's; removes the file if nothing else is in it. Returns whether all were there.
fn take_lines(file: &Path, lines: &[String]) -> Result<bool, HostError> {
    let text = files::read(file)?;
    let mut left: Vec<&str> = text.split_inclusive('\n').collect();
    let mut were_there = true;
    for line in lines {
        match left.iter().position(|known| known.trim_end_matches('\n') == line) {
            Some(at) => drop(left.remove(at)),
            None => were_there = false,
        }
    }
    let left = left.concat();
    if left == HEADER || left.is_empty() {
        files::remove(file).map_err(HostError::system("remove", file))?;
        if !text.is_empty() {
            files::sync_folder(file)?;
        }
    } else if left != text {
        files::replace(file, &left, |_| Ok(()))?;
    }
    Ok(were_there)
}

/// The errors that `findmnt` finds in a table of mounts. Without `findmnt`, nothing is checked.
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
