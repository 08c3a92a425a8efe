//! Atomically replaces small configuration files, and reads record files in trusted folders.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fonio_system::{TrustedFolder, lock};
use serde::de::DeserializeOwned;

use crate::error::HostError;

/// Reads a text file; a missing file counts as empty.
pub(crate) fn read(path: &Path) -> Result<String, HostError> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        text => text.map_err(HostError::system("read", path)),
    }
}

/// Returns the path of the temporary file, next to `path`, that receives the new content of a file. A killed
/// process can leave this file behind; the next write overwrites it.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".fonio-new");
    path.with_file_name(name)
}

/// Writes the new content of `path` to a temporary file with the same owner and mode. If `check` accepts the
/// temporary file, that file replaces `path`.
pub(crate) fn replace(
    path: &Path,
    text: &str,
    check: impl FnOnce(&Path) -> Result<(), HostError>,
) -> Result<(), HostError> {
    // Replace the target of a symbolic link, not the link.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let new = beside(path);
    let write = || {
        let known = fs::metadata(path).ok();
        let mode = known.as_ref().map_or(0o644, |known| known.mode() & 0o7777);
        match fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = File::options().write(true).create_new(true).mode(mode).open(&new)?;
        file.write_all(text.as_bytes())?;
        if let Some(known) = known {
            std::os::unix::fs::fchown(&file, Some(known.uid()), Some(known.gid()))?;
        }
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))?;
        file.sync_all()
    };
    let put = || {
        write().map_err(HostError::system("write", &new))?;
        check(&new)?;
        fs::rename(&new, path).map_err(HostError::system("replace", path))?;
        sync_folder(path)
    };
    put().inspect_err(|_| {
        let _ = fs::remove_file(&new);
    })
}

pub(crate) fn remove(path: &Path) -> Result<(), HostError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(HostError::system("remove", path)(error)),
        _ => Ok(()),
    }
}

pub(crate) fn remove_empty_folder(path: &Path) -> Result<(), HostError> {
    match fs::remove_dir(path) {
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty) => {
            Err(HostError::system("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Maximum size of a record file; a record of thousands of settings is far smaller.
const RECORD_BYTES_MAX: u64 = 16 << 20;

/// Opens a folder that only this user and root can change, and waits at most `patience` for its lock. Creates
/// the folder if it does not exist. Dropping the returned folder releases the lock.
pub(crate) fn lock_own_folder(dir: &Path, patience: Duration) -> Result<TrustedFolder, HostError> {
    let folder = TrustedFolder::make(dir)?;
    lock::wait(&folder, dir, patience)?;
    Ok(folder)
}

/// Reads a record file; a missing file counts as empty.
pub(crate) fn read_record<T: DeserializeOwned>(
    folder: &TrustedFolder,
    name: &str,
) -> Result<Vec<T>, HostError> {
    match folder.read(name, RECORD_BYTES_MAX)? {
        None => Ok(Vec::new()),
        Some(text) if text.is_empty() => Ok(Vec::new()),
        Some(text) => {
            serde_json::from_slice(&text).map_err(HostError::system("understand", folder.path().join(name)))
        }
    }
}

/// Syncs the directory that contains `path`.
pub(crate) fn sync_folder(path: &Path) -> Result<(), HostError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(HostError::system("sync", folder))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_replaced_file_keeps_its_mode_and_its_link() {
        let dir = tempfile::tempdir().expect("dir");
        let (file, link) = (dir.path().join("fstab"), dir.path().join("link"));
        fs::write(&file, "old").expect("write");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("chmod");
        std::os::unix::fs::symlink(&file, &link).expect("link");
        fs::write(beside(&file), "left by a killed process").expect("write");
        replace(&link, "new", |new| {
            assert_eq!(fs::read_to_string(new).expect("it is written"), "new");
            assert_eq!(fs::read_to_string(&file).expect("it is there"), "old");
            Ok(())
        })
        .expect("replaced");
        assert_eq!(fs::read_to_string(&file).expect("it is there"), "new");
        assert_eq!(file.metadata().expect("it is there").permissions().mode() & 0o777, 0o640);
        assert!(link.is_symlink() && !beside(&file).exists());
    }

    #[test]
    fn a_text_that_does_not_pass_the_check_is_not_put_there() {
        let dir = tempfile::tempdir().expect("dir");
        let file = dir.path().join("fstab");
        fs::write(&file, "old").expect("write");
        let refused = || HostError::system("check", "x")(ErrorKind::InvalidData);
        assert!(replace(&file, "new", |_| Err(refused())).is_err());
        assert_eq!(fs::read_to_string(&file).expect("it is there"), "old");
        assert!(!beside(&file).exists());
    }
}
