//! Surveys a folder: the memory that its content needs, and the objects that cannot be copied.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use fonio_core::ByteCount;
use rustix::fs::{FileType, IFlags, Stat};

use super::copy;
use super::mirror::{is_beside, names};
use crate::error::HostError;

/// Minimum memory that an object in a tmpfs needs for its inode and name, besides its pages (mm/shmem.c).
const OBJECT_BYTES: u64 = 1 << 10;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::settings) struct Survey {
    /// The memory that the folder's content needs: its pages, without holes.
    pub memory: ByteCount,
    /// The number of bytes that are allocated for the folder's content.
    pub bytes: ByteCount,
    /// The sockets in the folder.
    pub sockets: Vec<PathBuf>,
    /// The first object in the folder that cannot be copied, and why.
    pub obstacle: Option<(PathBuf, &'static str)>,
    /// The state of each object in the folder. Comparing these states detects changes.
    states: Vec<(PathBuf, [i64; 5])>,
}

impl Survey {
    pub(in crate::settings) fn objects(&self) -> u64 {
        self.states.len() as u64
    }

    /// Returns whether nothing changed in the folder between two surveys.
    pub(in crate::settings) fn is_same_as(&self, other: &Survey) -> bool {
        self.states == other.states
    }
}

/// Surveys the complete content of a folder. `place` is the path of the folder.
pub(in crate::settings) fn survey(folder: &OwnedFd, place: &Path) -> Result<Survey, HostError> {
    let mut found = Survey::default();
    let mut linked = BTreeMap::new();
    walk(folder.as_fd(), place, &mut found, &mut linked)?;
    let elsewhere = linked.into_values().find(|(_, names, links)| names < links);
    if let (None, Some((path, _, _))) = (&found.obstacle, elsewhere) {
        found.obstacle = Some((path, "a hard link outside the folder would not be updated"));
    }
    Ok(found)
}

/// Files with several hard links, each with the first path found, the number of links found, and the file's
/// total number of links.
type Linked = BTreeMap<u64, (PathBuf, u64, u64)>;

fn walk(dir: BorrowedFd<'_>, place: &Path, found: &mut Survey, linked: &mut Linked) -> Result<(), HostError> {
    let failed = |error: rustix::io::Errno| HostError::system("look at", place)(error);
    for name in names(dir).map_err(failed)?.iter().filter(|name| !is_beside(name)) {
        let path = place.join(name.to_string_lossy().as_ref());
        let Some(stat) = copy::look(dir, name).map_err(failed)? else { continue };
        note(&stat, &path, found, linked);
        match copy::kind(&stat) {
            FileType::Directory => {
                let inner = copy::open_folder(dir, name).map_err(failed)?;
                walk(inner.as_fd(), &path, found, linked)?;
            }
            FileType::RegularFile => look_at_flags(dir, name, &path, found),
            FileType::Socket => found.sockets.push(path),
            _ => {}
        }
    }
    Ok(())
}

#[allow(clippy::unnecessary_cast, reason = "the types of the fields differ between architectures")]
fn note(stat: &Stat, path: &Path, found: &mut Survey, linked: &mut Linked) {
    let page = rustix::param::page_size() as u64;
    let state = [
        stat.st_ino as i64,
        stat.st_size,
        stat.st_mtime as i64,
        stat.st_mtime_nsec as i64,
        stat.st_mode.into(),
    ];
    found.states.push((path.to_owned(), state));
    if stat.st_nlink > 1 && copy::kind(stat) != FileType::Directory {
        let known = linked.entry(stat.st_ino).or_insert((path.to_owned(), 0, stat.st_nlink as u64));
        known.1 += 1;
        if known.1 > 1 {
            return;
        }
    }
    let allocated = (stat.st_blocks as u64).saturating_mul(512);
    // A compressed file can need more memory than its allocated size. In this case, the copy fails, and
    // nothing is changed.
    let pages = (stat.st_size as u64).div_ceil(page).min(allocated.div_ceil(page).max(1)) * page;
    let is_file = copy::kind(stat) == FileType::RegularFile;
    found.memory.0 += OBJECT_BYTES + if is_file { pages } else { 0 };
    found.bytes.0 += allocated;
}

/// Records an obstacle if a file is immutable or append-only. Such a file can be copied from the disk, but
/// not written back to it.
fn look_at_flags(dir: BorrowedFd<'_>, name: &CString, path: &Path, found: &mut Survey) {
    // File systems without these flags fail the ioctl.
    let Ok(file) = copy::open_file(dir, name) else { return };
    let flags = rustix::fs::ioctl_getflags(&file).unwrap_or(IFlags::empty());
    if flags.intersects(IFlags::IMMUTABLE | IFlags::APPEND) && found.obstacle.is_none() {
        found.obstacle = Some((
            path.to_owned(),
            "this file's attributes forbid replacing it (`lsattr`); remove them with `chattr -ai`",
        ));
    }
}
