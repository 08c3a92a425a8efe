//! Mirrors the content of one folder to another folder. If the process is killed or the power is cut, no data
//! are lost.
//!
//! 1. Each object that differs is written under a temporary name in the target folder, synced, and renamed.
//!    So at any time, an object has either its complete old or its complete new content.
//! 2. After all objects are written, objects that the source does not have are removed. So a file that was
//!    moved within the source appears under its new path before its old path disappears.
//!
//! The temporary names begin with [`BESIDE`]. A killed process leaves objects with such names; the next run
//! removes these objects and never copies them. Symbolic links are never followed out of the folder
//! ([`super::copy`]). If a file changes during the copy, the copy mixes old and new content; the next run
//! copies the file again.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::{Errno, Result};

use super::copy::{self, times};
use crate::error::HostError;

/// Prefix of the names of incomplete objects.
const BESIDE: &[u8] = b".fonio-write-out-";
/// Marks a folder whose files are only a copy (`kinds::folder_on`). The marker is neither copied nor removed.
pub(in crate::settings) const COPY: &CStr = c".fonio-copy";
const FAILURES_MAX: usize = 5;

/// Counts the changes that mirroring made in the target folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mirrored {
    /// Number of objects written to the target.
    pub written: u64,
    /// Total size of the written files in bytes.
    pub bytes: u64,
    /// Number of objects removed from the target.
    pub removed: u64,
}

/// Makes the content of the folder `to` equal to the content of `from`. `place` is the target's path. Fails
/// with [`HostError::NotCopied`] if a part could not be written. In this case, the other parts were written,
/// and nothing was removed.
pub(in crate::settings) fn mirror(
    from: &OwnedFd,
    to: &OwnedFd,
    place: &Path,
) -> std::result::Result<Mirrored, HostError> {
    let mut run = Run {
        root: to,
        place,
        done: Mirrored::default(),
        linked: BTreeMap::new(),
        gone: Vec::new(),
        failures: Vec::new(),
        serial: 0,
    };
    run.folder(from.as_fd(), to.as_fd(), &mut Vec::new());
    if run.failures.is_empty() {
        run.remove_gone();
    }
    if let Err(error) = rustix::fs::syncfs(to) {
        run.failures.push(format!("{}: {error}", place.display()));
    }
    if run.failures.is_empty() {
        return Ok(run.done);
    }
    let more = run.failures.len().saturating_sub(FAILURES_MAX);
    run.failures.truncate(FAILURES_MAX);
    if more > 0 {
        run.failures.push(format!("and {more} more"));
    }
    Err(HostError::NotCopied { place: place.to_owned(), failures: run.failures })
}

pub(in crate::settings) fn names(dir: BorrowedFd<'_>) -> Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Returns whether a name is the temporary name of an incomplete copy.
pub(in crate::settings) fn is_beside(name: &CStr) -> bool {
    name.to_bytes().starts_with(BESIDE)
}

/// Removes an object with its contents, and returns the number of removed objects.
pub(in crate::settings) fn remove(dir: BorrowedFd<'_>, name: &CStr) -> Result<u64> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) => return Ok(1),
        Err(Errno::NOENT) => return Ok(0),
        Err(Errno::ISDIR) => {}
        Err(error) => return Err(error),
    }
    let folder = copy::open_folder(dir, name)?;
    let mut removed = 1;
    for inner in names(folder.as_fd())? {
        removed += remove(folder.as_fd(), &inner)?;
    }
    rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)?;
    Ok(removed)
}

struct Run<'r> {
    root: &'r OwnedFd,
    place: &'r Path,
    done: Mirrored,
    /// For each source file with several hard links, its paths in the target.
    linked: BTreeMap<(u64, u64), Vec<CString>>,
    /// Paths that exist only in the target, and are therefore removed.
    gone: Vec<Vec<CString>>,
    failures: Vec<String>,
    serial: u64,
}

impl Run<'_> {
    fn failed(&mut self, path: &[CString], error: Errno) {
        let path: PathBuf = std::iter::once(self.place.to_owned())
            .chain(path.iter().map(|name| PathBuf::from(name.to_string_lossy().into_owned())))
            .collect();
        self.failures.push(format!("{}: {error}", path.display()));
    }

    /// Copies the content of the folder at `path`, relative to the root.
    fn folder(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>, path: &mut Vec<CString>) {
        let before = self.done;
        let listed = names(from).and_then(|from| Ok((from, names(to)?)));
        let (source, target) = match listed {
            Ok(listed) => listed,
            Err(error) => return self.failed(path, error),
        };
        for name in source.iter().filter(|name| !is_beside(name) && name.as_c_str() != COPY) {
            path.push(name.clone());
            match self.object(from, to, path) {
                // The object was removed or replaced during the copy; the next run copies the new state.
                Ok(()) | Err(Errno::NOENT | Errno::LOOP) => {}
                Err(error) => self.failed(path, error),
            }
            path.pop();
        }
        for name in target.into_iter().filter(|name| name.as_c_str() != COPY) {
            if is_beside(&name) || source.binary_search(&name).is_err() {
                self.gone.push(path.iter().cloned().chain([name]).collect());
            }
        }
        let finish = || {
            copy::copy_properties(from, to)?;
            if self.done == before { Ok(()) } else { rustix::fs::fsync(to) }
        };
        if let Err(error) = finish() {
            self.failed(path, error);
        }
    }

    #[allow(clippy::unnecessary_cast, reason = "the types of the fields differ between architectures")]
    fn object(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>, path: &mut Vec<CString>) -> Result<()> {
        let name = path.last().expect("it has a name").clone();
        let Some(source) = copy::look(from, &name)? else { return Ok(()) };
        let now = copy::look(to, &name)?;
        match copy::kind(&source) {
            FileType::Directory => {
                let inner = copy::open_folder(from, &name)?;
                if now.as_ref().is_none_or(|now| copy::kind(now) != FileType::Directory) {
                    let beside = self.beside(|beside| rustix::fs::mkdirat(to, beside, Mode::RWXU))?;
                    self.put(to, &beside, path, &source, now.as_ref())?;
                }
                let target = copy::open_folder(to, &name)?;
                self.folder(inner.as_fd(), target.as_fd(), path);
                Ok(())
            }
            _ => {
                let known = (source.st_dev as u64, source.st_ino as u64);
                if source.st_nlink > 1
                    && let Some(first) = self.linked.get(&known)
                {
                    return self.link(&first.clone(), to, path, &source, now.as_ref());
                }
                self.single(from, to, path, &source, now.as_ref())?;
                if source.st_nlink > 1 {
                    self.linked.insert(known, path.clone());
                }
                Ok(())
            }
        }
    }

    /// Copies an object that is not a folder, under the first of its names.
    fn single(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        path: &[CString],
        source: &Stat,
        now: Option<&Stat>,
    ) -> Result<()> {
        let (name, kind) = (path.last().expect("it has a name").as_c_str(), copy::kind(source));
        let object = copy::open_object(from, name)?;
        // Two names can belong to one file in the target but to two files in the source, so the target needs
        // a new file.
        let alike = now.filter(|now| {
            now.st_mode & libc::S_IFMT == source.st_mode & libc::S_IFMT
                && (now.st_nlink == 1 || source.st_nlink > 1)
        });
        let file = match kind {
            FileType::RegularFile => Some(copy::open_file(from, name)?),
            _ => None,
        };
        let is_same = match (alike, &file) {
            (None, _) => false,
            (Some(now), Some(file)) => {
                now.st_size == source.st_size && copy::same_content(file, &copy::open_file(to, name)?)?
            }
            (Some(_), None) if kind == FileType::Symlink => target(from, name)? == target(to, name)?,
            (Some(now), None) => now.st_rdev == source.st_rdev,
        };
        if is_same {
            self.done.written +=
                u64::from(copy::copy_properties(object.as_fd(), copy::open_object(to, name)?.as_fd())?);
            return Ok(());
        }
        let beside = match &file {
            Some(file) => {
                let mut new = None;
                let beside = self.beside(|beside| {
                    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                    new = Some(rustix::fs::openat(to, beside, flags, Mode::RUSR | Mode::WUSR)?);
                    Ok(())
                })?;
                let new = new.expect("it was made");
                let write = || {
                    let bytes = copy::copy_content(file, &new)?;
                    copy::copy_properties(object.as_fd(), new.as_fd())?;
                    rustix::fs::fsync(&new)?;
                    Ok(bytes)
                };
                self.done.bytes += write().inspect_err(|_| {
                    let _ = remove(to, &beside);
                })?;
                beside
            }
            None => {
                let beside = match kind {
                    FileType::Symlink => {
                        let target = target(from, name)?;
                        self.beside(|beside| rustix::fs::symlinkat(target.as_c_str(), to, beside))?
                    }
                    _ => self.beside(|beside| {
                        rustix::fs::mknodat(to, beside, kind, Mode::RUSR | Mode::WUSR, source.st_rdev)
                    })?,
                };
                let new = copy::open_object(to, &beside)?;
                copy::copy_properties(object.as_fd(), new.as_fd()).inspect_err(|_| {
                    let _ = remove(to, &beside);
                })?;
                beside
            }
        };
        self.put(to, &beside, path, source, now)
    }

    /// Adds another hard link to a file that was already copied.
    fn link(
        &mut self,
        first: &[CString],
        to: BorrowedFd<'_>,
        path: &[CString],
        source: &Stat,
        now: Option<&Stat>,
    ) -> Result<()> {
        let (holder, first) = self.find(first)?;
        let known = copy::look(holder.as_fd(), first)?.ok_or(Errno::NOENT)?;
        if now.is_some_and(|now| (now.st_dev, now.st_ino) == (known.st_dev, known.st_ino)) {
            return Ok(());
        }
        let beside =
            self.beside(|beside| rustix::fs::linkat(&holder, first, to, beside, AtFlags::empty()))?;
        self.put(to, &beside, path, source, now)
    }

    /// Renames a complete object to its final name. If exactly one of the old and the new object is a folder,
    /// the two exchange names, and the old object is removed later.
    fn put(
        &mut self,
        to: BorrowedFd<'_>,
        beside: &CStr,
        path: &[CString],
        source: &Stat,
        now: Option<&Stat>,
    ) -> Result<()> {
        let (name, folders) = path.split_last().expect("it has a name");
        let is_folder = |stat: &Stat| copy::kind(stat) == FileType::Directory;
        match now {
            Some(now) if is_folder(now) != is_folder(source) => {
                rustix::fs::renameat_with(to, beside, to, name, RenameFlags::EXCHANGE)?;
                self.gone.push(folders.iter().cloned().chain([beside.to_owned()]).collect());
            }
            _ => rustix::fs::renameat(to, beside, to, name)?,
        }
        self.done.written += 1;
        Ok(())
    }

    /// Returns the parent folder of an object in the target, and the object's name.
    fn find<'p>(&self, path: &'p [CString]) -> Result<(OwnedFd, &'p CStr)> {
        let (last, folders) = path.split_last().expect("it has a name");
        let mut holder = self.root.try_clone().map_err(|_| Errno::MFILE)?;
        for folder in folders {
            holder = copy::open_folder(holder.as_fd(), folder)?;
        }
        Ok((holder, last))
    }

    /// Creates an object under a free temporary name in its folder.
    fn beside(&mut self, mut make: impl FnMut(&CStr) -> Result<()>) -> Result<CString> {
        loop {
            self.serial += 1;
            let name = [BESIDE, self.serial.to_string().as_bytes()].concat();
            let name = CString::new(name).expect("it has no zero");
            match make(&name) {
                Err(Errno::EXIST) => {}
                made => return made.map(|()| name),
            }
        }
    }

    fn remove_gone(&mut self) {
        for path in std::mem::take(&mut self.gone) {
            let removed = self.find(&path).and_then(|(holder, name)| {
                let times = times(&rustix::fs::fstat(&holder)?);
                let removed = remove(holder.as_fd(), name)?;
                // Restore the folder's timestamps, which were already equal to the source's.
                rustix::fs::futimens(&holder, &times)?;
                Ok(removed)
            });
            match removed {
                Ok(removed) => self.done.removed += removed,
                // The parent folder of the object is gone as well.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(error) => self.failed(&path, error),
            }
        }
    }
}

fn target(dir: BorrowedFd<'_>, name: &CStr) -> Result<CString> {
    rustix::fs::readlinkat(dir, name, Vec::new())
}

#[cfg(test)]
mod tests;
