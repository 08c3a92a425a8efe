//! Copies the running program, for use in guests.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::archive::Archive;
use crate::error::LabError;
use crate::programs::stripped;

/// A copy of this program without its debug information, which would make the copy several times larger.
#[derive(Debug)]
pub struct OwnProgram {
    path: PathBuf,
    /// The copy's file, locked as long as this value exists, so that no other process removes it.
    _file: fs::File,
}

impl OwnProgram {
    /// Creates the copy if there is no copy, and removes copies of earlier versions. Fails if the program
    /// cannot be read, or the copy cannot be written.
    pub fn copied(archive: &Archive) -> Result<OwnProgram, LabError> {
        let program = std::env::current_exe().map_err(LabError::system("find", "this program"))?;
        let metadata = fs::metadata(&program).and_then(|metadata| metadata.modified());
        let modified = metadata.map_err(LabError::system("read", &program))?;
        let modified = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        let path = archive.folder().join(format!("fonio-{}", modified.as_nanos()));
        loop {
            if let Ok(file) = fs::File::open(&path) {
                file.lock_shared().map_err(LabError::system("lock", &path))?;
                // Another process may have removed the copy before we locked it.
                if path.exists() {
                    return Ok(OwnProgram { path, _file: file });
                }
            }
            let folder = archive.folder();
            for old in fs::read_dir(folder).map_err(LabError::system("list", folder))?.flatten() {
                let is_free = || fs::File::open(old.path()).is_ok_and(|file| file.try_lock().is_ok());
                if old.file_name().to_string_lossy().starts_with("fonio-") && is_free() {
                    // Another process may already have removed the old copy.
                    let _ = fs::remove_file(old.path());
                }
            }
            let scratch = tempfile::Builder::new().prefix("fonio-").tempfile_in(folder);
            let scratch = scratch.map_err(LabError::system("write in", folder))?;
            // Without the lock, another process could remove the copy as an earlier version.
            scratch.as_file().lock().map_err(LabError::system("lock", scratch.path()))?;
            stripped(&program, scratch.path())?;
            scratch.persist(&path).map_err(|error| LabError::system("write", &path)(error.error))?;
        }
    }
    /// Returns the path of the copy.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
