//! Creates files and folders for results. Only their user can read them.
//!
//! If a person runs fonio through sudo, new files and folders belong to this person, not to root. The owner is
//! changed on the open descriptor of what this process has just created, never by path.

use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{Dir, OFlags};

/// The person who ran this process through sudo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The number of the user.
    pub user: u32,
    /// The number of the user's group.
    pub group: u32,
}

impl Caller {
    /// Returns the person who ran this process through sudo; `None` if this process does not run as root, or
    /// if root ran it.
    pub fn through_sudo() -> Option<Caller> {
        let variable = |name: &str| std::env::var(name).ok();
        let is_root = rustix::process::geteuid().is_root();
        Caller::of(is_root, variable("SUDO_UID").as_deref(), variable("SUDO_GID").as_deref())
    }

    fn of(is_root: bool, user: Option<&str>, group: Option<&str>) -> Option<Caller> {
        // The largest number means "no change" in chown(2).
        let number = |text: Option<&str>| text?.parse::<u32>().ok().filter(|number| *number < u32::MAX);
        let caller = Caller { user: number(user)?, group: number(group)? };
        (is_root && caller.user != 0).then_some(caller)
    }

    /// Makes this person the owner of an open file or folder, which this process must have created.
    pub fn own(self, file: impl AsFd) -> io::Result<()> {
        std::os::unix::fs::fchown(file, Some(self.user), Some(self.group))
    }
}

/// Creates a file for a result, or empties an existing file. Only its user can read a new file. Fails if a
/// system call fails.
pub fn create_file(path: &Path) -> io::Result<File> {
    match create_new_file(path) {
        // The path can also be a device, such as /dev/stdout.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => File::create(path),
        created => created,
    }
}

/// Creates a file for a result, as [`create_file`] does. Fails if the file exists, or if a system call fails.
pub fn create_new_file(path: &Path) -> io::Result<File> {
    let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    give(&file)?;
    Ok(file)
}

/// Writes a file for a result, as [`create_file`] creates it.
pub fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    io::Write::write_all(&mut create_file(path)?, content)
}

/// Creates a folder for results that only its user can read. Fails if it exists, or if a system call fails.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    if Caller::through_sudo().is_some() {
        give(&open_new_folder(path)?)?;
    }
    Ok(())
}

/// Creates a folder and its missing parents, as [`create_folder`] does. An existing folder stays unchanged.
pub fn create_folders(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_folders(parent)?;
    }
    match create_folder(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        created => created,
    }
}

/// Opens a folder that this process has just created. Fails if another process has exchanged the folder, or
/// has put something in it.
fn open_new_folder(path: &Path) -> io::Result<File> {
    let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits().cast_signed();
    let folder = File::options().read(true).custom_flags(flags).open(path)?;
    let found = folder.metadata()?;
    let is_own = found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o777 == 0o700;
    let mut entries = Dir::read_from(&folder)?;
    let is_empty = entries.all(|entry| entry.is_ok_and(|entry| [c".", c".."].contains(&entry.file_name())));
    if is_own && is_empty {
        return Ok(folder);
    }
    Err(io::Error::other("another process has replaced the new folder"))
}

fn give(file: impl AsFd) -> io::Result<()> {
    Caller::through_sudo().map_or(Ok(()), |caller| caller.own(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_is_the_person_who_called_sudo() {
        for (is_root, user, group, expected) in [
            (true, Some("1000"), Some("100"), Some(Caller { user: 1000, group: 100 })),
            (false, Some("1000"), Some("100"), None),
            (true, Some("0"), Some("0"), None),
            (true, Some("1000"), None, None),
            (true, Some("u"), Some("100"), None),
            (true, Some("4294967295"), Some("100"), None),
            (true, None, None, None),
        ] {
            assert_eq!(Caller::of(is_root, user, group), expected, "{is_root} {user:?} {group:?}");
        }
    }

    #[test]
    fn results_are_private() {
        let dir = tempfile::tempdir().expect("a folder");
        let (folder, file) = (dir.path().join("a/b"), dir.path().join("a/b/result"));
        create_folders(&folder).expect("it can be made");
        create_folders(&folder).expect("it is there");
        assert!(create_folder(&folder).is_err());
        write_file(&file, b"a long result").expect("it can be written");
        write_file(&file, b"short").expect("it can be emptied");
        assert_eq!(std::fs::read(&file).expect("it is there"), b"short");
        for (path, mode) in [(dir.path().join("a"), 0o700), (folder, 0o700), (file, 0o600)] {
            assert_eq!(path.metadata().expect("it is there").mode() & 0o777, mode, "{path:?}");
        }
    }

    #[test]
    fn a_folder_with_something_in_it_is_not_new() {
        let dir = tempfile::tempdir().expect("a folder");
        let (folder, link) = (dir.path().join("folder"), dir.path().join("link"));
        create_folder(&folder).expect("it can be made");
        drop(open_new_folder(&folder).expect("it is new"));
        std::os::unix::fs::symlink(&folder, &link).expect("a new link");
        assert!(open_new_folder(&link).is_err());
        std::fs::write(folder.join("file"), "").expect("a new file");
        assert!(open_new_folder(&folder).is_err());
    }
}
