//! Reads files that decide whether data is synced or removed.
//!
//! Others than root and the user of this process must not be able to change such a file, or to replace it
//! through a folder above it.

use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::error::PolicyError;
use crate::fault::Fault;
use crate::folder::{Folder, Name, is_writable_by_others};

/// Reads a regular file with at most `bytes_max` bytes. The path can contain symbolic links; the folder of
/// the last link is checked too.
pub(crate) fn read(path: &Path, bytes_max: u64) -> Result<String, PolicyError> {
    let cannot_read = |error| PolicyError::system("read", path)(error);
    let path = &std::path::absolute(path).map_err(cannot_read)?;
    let real = fs::canonicalize(path).map_err(|error| PolicyError::system("read", path)(error))?;
    if let Some(folder) = path.parent().and_then(|folder| fs::canonicalize(folder).ok()) {
        open_folder(&folder).map_err(|fault| PolicyError::of(fault, &folder))?;
    }
    let file = open(&real, bytes_max).map_err(|fault| PolicyError::of(fault, &real))?;
    let mut text = String::new();
    file.take(bytes_max).read_to_string(&mut text).map_err(PolicyError::system("read", path))?;
    Ok(text)
}

fn open_folder(path: &Path) -> Result<Folder, Fault> {
    let folder = Folder::open(path.as_os_str().as_bytes())?;
    folder.check_owner(user())?;
    Ok(folder)
}

fn open(path: &Path, bytes_max: u64) -> Result<fs::File, Fault> {
    let name = path.file_name().ok_or(Fault::NotAFile)?.as_bytes();
    let folder = open_folder(path.parent().unwrap_or(Path::new("/")))?;
    let (file, stat) = folder.open_file(&Name::new(&[name])?, OFlags::RDONLY)?;
    if stat.st_uid != 0 && stat.st_uid != user() {
        return Err(Fault::FileOwner { uid: stat.st_uid });
    }
    if is_writable_by_others(&stat) {
        return Err(Fault::FileWritable { mode: stat.st_mode & 0o7777 });
    }
    if u64::try_from(stat.st_size).is_ok_and(|bytes| bytes > bytes_max) {
        return Err(Fault::TooLarge { most: bytes_max });
    }
    Ok(file.into())
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}
