//! The marking of a database while its program syncs a file.
//!
//! Signal handlers can sync files. Therefore, no function of this file allocates memory or waits for a lock.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, CWD, Stat};

use crate::boots::Boots;
use crate::fault::Fault;
use crate::folder::is_regular;
use crate::place::{MARKER, PATH_BYTES_MAX, Place};

/// Identifies a file while it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The device of the file system.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
}

impl Identity {
    /// Returns the identity of an open regular file; `None` if it is not a regular file.
    pub fn of_open(file: BorrowedFd<'_>) -> Option<Identity> {
        let stat = rustix::fs::fstat(file).ok()?;
        is_regular(&stat).then(|| identity(&stat))
    }

    /// Returns the identity of the regular file at a path without symbolic links; `None` if there is none.
    pub fn of(path: &Path) -> Option<Identity> {
        at(path.as_os_str().as_bytes())
    }
}

/// Writes the id of this boot to the marker of a database, if needed, and returns the marker's identity. The
/// conditions are those of [`crate::Cache::mark`].
pub fn mark(database: &Path, boots: &Boots) -> Result<Identity, Fault> {
    Place::open(database.as_os_str().as_bytes())?.mark(boots).map(|marker| identity(&marker))
}

/// Returns whether the marker of a database is still the file that [`mark`] returned.
pub fn is_marked(database: &Path, marker: Identity) -> bool {
    marker_of(database) == Some(marker)
}

fn marker_of(database: &Path) -> Option<Identity> {
    let mut path = [0; PATH_BYTES_MAX + MARKER.len()];
    let database = database.as_os_str().as_bytes();
    let end = database.len() + MARKER.len();
    path.get_mut(..database.len())?.copy_from_slice(database);
    path.get_mut(database.len()..end)?.copy_from_slice(MARKER.as_bytes());
    at(&path[..end])
}

fn at(path: &[u8]) -> Option<Identity> {
    // rustix copies longer paths to the heap, so this function adds the final zero itself.
    let mut text = [0; PATH_BYTES_MAX + MARKER.len() + 1];
    text.get_mut(..path.len())?.copy_from_slice(path);
    let text = std::ffi::CStr::from_bytes_with_nul(text.get(..=path.len())?).ok()?;
    let stat = rustix::fs::statat(CWD, text, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    is_regular(&stat).then(|| identity(&stat))
}

fn identity(stat: &Stat) -> Identity {
    // Depending on the architecture, the numbers have 32 or 64 bits.
    #[allow(clippy::useless_conversion)]
    Identity { device: stat.st_dev.into(), inode: stat.st_ino.into() }
}
