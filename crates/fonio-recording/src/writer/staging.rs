//! Manages the directory in which a recording is written. It is next to the final path of the recording.
//!
//! Lifecycle: `.NAME.partial-PID` is created and locked (`flock` on the directory), filled, made durable, given
//! to its owner and renamed to NAME. Until it is given to its owner, only the user of this process can enter the
//! directory, so everything in it was created by this process. To replace a recording, the two directories exchange names atomically. On file systems
//! without this operation, the old recording is temporarily renamed to `.NAME.replaced-PID`. A directory with
//! such a name is a leftover if the process with this id no longer exists *and* no process holds the lock on
//! the directory. The process id alone is not sufficient, because the same few ids occur again and again in
//! containers.

use std::ffi::{CString, OsStr};
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::fs::{CWD, Dir, Mode, OFlags, RenameFlags, openat, renameat_with};
use rustix::process::{Pid, test_kill_process};

use super::{DIAGNOSTICS_FILE, META_FILE};
use crate::error::RecordingError;
use crate::table::Table;

pub(super) struct Staging {
    /// The path that the caller gave. It may be a symbolic link.
    asked: PathBuf,
    target: PathBuf,
    partial: PathBuf,
    overwrite: bool,
    other_name_if_taken: bool,
    owner: Option<(u32, u32)>,
    /// The open directory. Its lock is held while this process uses the directory, except on file systems
    /// without locks.
    folder: File,
}

/// A lock that is held between the creation and the locking of a directory. It prevents another writer in
/// this process from removing the directory as a leftover.
static CREATION: Mutex<()> = Mutex::new(());

impl Staging {
    pub(super) fn create(
        dir: &Path,
        overwrite: bool,
        other_name_if_taken: bool,
        owner: Option<(u32, u32)>,
    ) -> Result<Staging, RecordingError> {
        // If the path is a symbolic link to a recording, the link is kept, and its target is replaced.
        let target = match fs::symlink_metadata(dir) {
            Ok(found) if found.is_symlink() => {
                fs::canonicalize(dir).map_err(RecordingError::io("follow the link", dir))?
            }
            _ => dir.to_owned(),
        };
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            let why = "the path does not end in a name".to_owned();
            return Err(RecordingError::NotOurs { path: dir.to_owned(), why });
        };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let _creation = CREATION.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        clear_leftovers(parent, name, &target);
        match check_target(&target, overwrite) {
            Err(error) if other_name_if_taken && is_taken(&error) => {}
            checked => checked?,
        }
        for attempt in 0_u32.. {
            let suffix = if attempt == 0 { String::new() } else { format!("-{attempt}") };
            let partial = parent.join(beside(name, "partial", &suffix));
            match fs::DirBuilder::new().mode(0o700).create(&partial) {
                Ok(()) => {
                    let folder = open_new(&partial).map_err(|error| {
                        // A directory that replaced this one is not ours.
                        if error.kind() != ErrorKind::Other {
                            let _ = fs::remove_dir(&partial);
                        }
                        RecordingError::io("open", &partial)(error)
                    })?;
                    // Some file systems do not support locks.
                    let _ = folder.try_lock();
                    return Ok(Staging {
                        asked: dir.to_owned(),
                        target,
                        partial,
                        overwrite,
                        other_name_if_taken,
                        owner,
                        folder,
                    });
                }
                // Another writer of this process uses this directory, or it is not certain that the directory
                // is a leftover.
                Err(error) if error.kind() == ErrorKind::AlreadyExists && attempt < 1000 => {}
                Err(error) => return Err(RecordingError::io("create", &partial)(error)),
            }
        }
        unreachable!("the loop ends with an error")
    }

    pub(super) fn path(&self) -> &Path {
        &self.partial
    }

    /// Makes the directory durable, renames it to its final name, and returns its path, if possible in the
    /// form that the caller gave. The directory's files must already be durable.
    pub(super) fn install(mut self) -> Result<PathBuf, RecordingError> {
        sync_dir(&self.partial).map_err(RecordingError::io("write", &self.partial))?;
        if let Some((user, group)) = self.owner {
            give(&self.folder, user, group)
                .map_err(RecordingError::io("give to its owner", &self.partial))?;
        }
        let named = self.target.clone();
        for number in 2_u32.. {
            match self.take_name() {
                Err(error) if self.other_name_if_taken && is_taken(&error) => {
                    let mut name = named.file_name().unwrap_or_default().to_owned();
                    name.push(format!("-{number}"));
                    self.target = named.with_file_name(name);
                    self.asked.clone_from(&self.target);
                }
                taken => {
                    taken?;
                    break;
                }
            }
        }
        if let Some(parent) = self.target.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            sync_dir(parent).map_err(RecordingError::io("write", parent))?;
        }
        Ok(std::mem::take(&mut self.asked))
    }

    /// Renames the directory. If two writers rename directories to the same name at once, only one of them
    /// succeeds, because a rename does not replace a directory that is not empty.
    fn take_name(&self) -> Result<(), RecordingError> {
        // Check again: the target may have changed since `create`.
        check_target(&self.target, self.overwrite)?;
        self.rename().map_err(RecordingError::io("create", &self.target))
    }

    fn rename(&self) -> io::Result<()> {
        match fs::rename(&self.partial, &self.target) {
            Err(error) if self.overwrite && error.kind() == ErrorKind::DirectoryNotEmpty => {}
            done => return done,
        }
        // The old recording now has the name of the partial directory, so it is removed in place of this
        // directory.
        if renameat_with(CWD, &self.partial, CWD, &self.target, RenameFlags::EXCHANGE).is_ok() {
            return Ok(());
        }
        let name = self.target.file_name().unwrap_or_default();
        let replaced = self.partial.with_file_name(beside(name, "replaced", ""));
        fs::rename(&self.target, &replaced)?;
        if let Err(error) = fs::rename(&self.partial, &self.target) {
            fs::rename(&replaced, &self.target)?;
            return Err(error);
        }
        fs::remove_dir_all(&replaced)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // If removal fails, the next writer removes the directory.
        let _ = fs::remove_dir_all(&self.partial);
    }
}

/// Opens a directory that this process has just created. Fails if another process has exchanged it.
fn open_new(dir: &Path) -> io::Result<File> {
    let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits().cast_signed();
    let folder = File::options().read(true).custom_flags(flags).open(dir)?;
    if folder.metadata()?.uid() == rustix::process::geteuid().as_raw() && entries(&folder)?.is_empty() {
        return Ok(folder);
    }
    Err(io::Error::other("another process has replaced this directory"))
}

fn entries(folder: &File) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_owned();
        if ![c".", c".."].contains(&name.as_c_str()) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Gives the files of a directory and then the directory to another user. Every file is opened relative to the
/// directory, which no other user could enter until now.
fn give(folder: &File, user: u32, group: u32) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    for name in entries(folder)? {
        fchown(openat(folder, name, flags, Mode::empty())?, Some(user), Some(group))?;
    }
    fchown(folder, Some(user), Some(group))
}

fn beside(name: &OsStr, what: &str, suffix: &str) -> std::ffi::OsString {
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{what}-{}{suffix}", std::process::id()));
    beside
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    match File::open(dir)?.sync_all() {
        // Some file systems do not support fsync on a directory.
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        done => done,
    }
}

/// Returns whether the error means that the name is in use.
fn is_taken(error: &RecordingError) -> bool {
    match error {
        RecordingError::Exists { .. } | RecordingError::NotOurs { .. } => true,
        RecordingError::Io { source, .. } => {
            matches!(source.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists)
        }
        _ => false,
    }
}

fn check_target(target: &Path, overwrite: bool) -> Result<(), RecordingError> {
    let entries = match fs::read_dir(target) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            return Err(RecordingError::NotOurs { path: target.to_owned(), why: "it is a file".to_owned() });
        }
        Err(error) => return Err(RecordingError::io("read", target)(error)),
    };
    let (mut files, mut has_meta) = (0, false);
    for entry in entries {
        let name = entry.map_err(RecordingError::io("read", target))?.file_name();
        let ours = Table::ALL.iter().any(|table| name.to_str() == Some(&table.file_name()))
            || name == META_FILE
            || name == DIAGNOSTICS_FILE;
        if !ours {
            let why = format!("the directory contains {name:?}, which is not part of a recording");
            return Err(RecordingError::NotOurs { path: target.to_owned(), why });
        }
        files += 1;
        has_meta |= name == META_FILE;
    }
    if files == 0 {
        Ok(())
    } else if !has_meta {
        let why = format!("the directory has no {META_FILE}");
        Err(RecordingError::NotOurs { path: target.to_owned(), why })
    } else if !overwrite {
        Err(RecordingError::Exists { path: target.to_owned() })
    } else {
        Ok(())
    }
}

/// Removes the leftovers of killed writers of the same recording. If a writer was killed while the old
/// recording was named `.NAME.replaced-PID`, restores the old recording. Ignores errors.
fn clear_leftovers(parent: &Path, name: &OsStr, target: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        match leftover(entry.file_name().as_bytes(), name.as_bytes()) {
            Some(("replaced", pid)) if is_gone(pid, &path) && !target.exists() => {
                let _ = fs::rename(&path, target);
            }
            Some((_, pid)) if is_gone(pid, &path) => {
                let _ = fs::remove_dir_all(&path);
            }
            _ => {}
        }
    }
}

/// Parses the name of a leftover of the recording `name`: its kind, and the process id of its writer.
fn leftover(entry: &[u8], name: &[u8]) -> Option<(&'static str, i32)> {
    let rest = entry.strip_prefix(b".")?.strip_prefix(name)?;
    let (what, rest) = [("partial", &b".partial-"[..]), ("replaced", &b".replaced-"[..])]
        .into_iter()
        .find_map(|(what, prefix)| Some((what, rest.strip_prefix(prefix)?)))?;
    let mut numbers = str::from_utf8(rest).ok()?.split('-').map(str::parse::<i32>);
    let pid = numbers.next()?.ok().filter(|pid| *pid > 0)?;
    numbers.all(|number| number.is_ok()).then_some((what, pid))
}

fn is_gone(pid: i32, dir: &Path) -> bool {
    let alive = pid as u32 != std::process::id()
        && Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH));
    let locked = || match File::open(dir).map(|file| file.try_lock()) {
        Ok(Ok(())) => false,
        Ok(Err(TryLockError::WouldBlock)) => true,
        // On file systems without locks, only a directory with another process id can be a leftover.
        Ok(Err(TryLockError::Error(_))) | Err(_) => pid as u32 == std::process::id(),
    };
    dir.is_dir() && !alive && !locked()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_these_names_are_leftovers() {
        let check = |entry: &str, expected| {
            assert_eq!(leftover(entry.as_bytes(), b"run"), expected, "{entry}");
        };
        check(".run.partial-12", Some(("partial", 12)));
        check(".run.partial-12-3", Some(("partial", 12)));
        check(".run.replaced-12", Some(("replaced", 12)));
        for entry in
            ["run", "run.partial-12", ".run.partial-", ".run.partial-x", ".run.partial-0", ".run2.partial-1"]
        {
            check(entry, None);
        }
        check(".run.partial-1-x", None);
        check(".run.partial--1", None);
    }
}
