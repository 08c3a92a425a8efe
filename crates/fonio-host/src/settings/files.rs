//! Replaces small files of configuration, so that each is always either the old or the new one.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::HostError;

/// Reads a text; an absent file is empty.
pub(super) fn read(path: &Path) -> Result<String, HostError> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        text => text.map_err(HostError::system("read", path)),
    }
}

/// The file next to `path` in which its next content is written. A killed process can leave it; the next one overwrites
/// it.
pub(super) fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".fonio-new");
    path.with_file_name(name)
}

/// Writes the next content of `path`, with the same owner and mode, and calls `check` on it. If `check`
/// accepts the content, it replaces the file.
pub(super) fn replace(
    path: &Path,
    text: &str,
    check: impl FnOnce(&Path) -> Result<(), HostError>,
) -> Result<(), HostError> {
    // Replacing a symbolic link would leave the file that it names as it is.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let new = beside(path);
    let write = || {
        let known = fs::metadata(path).ok();
        let mode = known.as_ref().map_or(0o644, |known| known.mode() & 0o7777);
        remove(&new)?;
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

/// Removes a file, if it is there.
pub(super) fn remove(path: &Path) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes the names in the folder of a file durable.
pub(super) fn sync_folder(path: &Path) -> Result<(), HostError> {
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
        let refused = || HostError::system("check", "x")(ErrorKind::InvalidData.into());
        assert!(replace(&file, "new", |_| Err(refused())).is_err());
        assert_eq!(fs::read_to_string(&file).expect("it is there"), "old");
        assert!(!beside(&file).exists());
    }
}
