//! Opens and creates the watch's own files, in folders that other users cannot change.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;

use fonio_system::TrustedFolder;

use crate::error::WatchError;

/// Opens one of the watch's own files; `None` if it does not exist and `makes` is not set. With `makes`, the
/// file and its folder are created if they are missing.
///
/// # Errors
/// Returns [`WatchError::File`], for example if other users can change the file.
pub(crate) fn open(path: &Path, makes: bool) -> Result<Option<File>, WatchError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or(OsStr::new("."));
    let opened = if makes {
        TrustedFolder::make(folder).and_then(|folder| folder.open_or_create(name)).map(Some)
    } else {
        TrustedFolder::open(folder).and_then(|folder| match folder {
            Some(folder) => folder.open_file(name),
            None => Ok(None),
        })
    };
    opened.map_err(WatchError::used(path, "opened"))
}

/// Creates a file in one of the watch's own folders, in place of an earlier file with this name. Only the user
/// of the watch can read it.
///
/// # Errors
/// Returns errors of the file system, or an error if other users can change the folder.
pub(crate) fn create(folder: &Path, name: &str) -> io::Result<File> {
    let folder = TrustedFolder::make(folder)?;
    folder.remove(name)?;
    Ok(folder.create_new(name)?)
}
