//! A folder that only one user and root can change, as a descriptor.
//!
//! The checks are those that OpenSSH makes for a user's keys (`StrictModes`). No function of this file
//! allocates memory or waits for another process, because `fonio-sqlite-sync` calls these functions in signal
//! handlers.

use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::{self, Errno};

use crate::fault::Fault;

/// The longest name of a file.
const NAME_BYTES_MAX: usize = 255;

const WRITABLE_BY_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// An open folder. No symbolic link led to the folder, and only root and at most one other user can change
/// the folder, or replace it or a folder above it.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
    /// The only user besides root who owns the folder or a folder above it, and the length of the path of
    /// the first folder that this user owns.
    owner: Option<(u32, usize)>,
}

impl Folder {
    /// Opens the folder with this absolute path.
    ///
    /// A folder above may be writable by everybody if it is sticky, like `/tmp`: others can then replace
    /// neither the next folder nor the files in it.
    pub(crate) fn open(path: &[u8]) -> Result<Folder, Fault> {
        if !path.starts_with(b"/") {
            return Err(Fault::Link { length: path.len() });
        }
        let is_last = |length: usize| path[length..].iter().all(|byte| *byte == b'/');
        let to_open = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut at = fs::openat(CWD, c"/", to_open, Mode::empty()).map_err(Fault::system("open"))?;
        let mut owner = None;
        check(&at, 0, is_last(0), &mut owner)?;
        let mut length = 0;
        for name in path.split(|byte| *byte == b'/').skip(1) {
            length += 1 + name.len();
            match name {
                b"" => continue,
                b"." | b".." => return Err(Fault::Link { length }),
                _ => {}
            }
            at = fs::openat(&at, name, to_open, Mode::empty()).map_err(|error| match error {
                Errno::NOTDIR | Errno::LOOP => Fault::Link { length },
                error => Fault::System { action: "open", error },
            })?;
            check(&at, length, is_last(length), &mut owner)?;
        }
        let to_read = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd =
            fs::openat(&at, c".", to_read, Mode::empty()).map_err(Fault::system("open the folder of"))?;
        Ok(Folder { fd, owner })
    }

    /// Fails if a user other than root and `user` can change the folder or a folder above it.
    pub(crate) fn check_owner(&self, user: u32) -> Result<(), Fault> {
        match self.owner {
            Some((uid, length)) if uid != user => Err(Fault::FolderOwner { length, uid }),
            _ => Ok(()),
        }
    }

    /// Returns the attributes of a file in the folder, without following a symbolic link; `None` if there is
    /// no such file.
    pub(crate) fn stat(&self, name: &Name) -> Result<Option<Stat>, Fault> {
        match fs::statat(&self.fd, name.get(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(Fault::System { action: "look at", error }),
        }
    }

    /// Opens a regular file of the folder. Does not wait for a FIFO, a device or a lease.
    pub(crate) fn open_file(&self, name: &Name, access: OFlags) -> Result<(OwnedFd, Stat), Fault> {
        match self.stat(name)? {
            Some(stat) if is_regular(&stat) => {}
            Some(_) => return Err(Fault::NotAFile),
            None => return Err(Fault::System { action: "open", error: Errno::NOENT }),
        }
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = fs::openat(&self.fd, name.get(), flags, Mode::empty()).map_err(Fault::system("open"))?;
        let stat = fs::fstat(&file).map_err(Fault::system("look at"))?;
        if is_regular(&stat) { Ok((file, stat)) } else { Err(Fault::NotAFile) }
    }

    /// Replaces a small file durably: after a power cut, either the old or the new file exists.
    pub(crate) fn replace(&self, name: &Name, content: &[u8], mode: Mode) -> Result<(), Fault> {
        // Two threads or processes can replace the file at the same time.
        let new = name.with_number(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs())?;
        self.remove(&new)?;
        let written = self.write(&new, content, mode).and_then(|()| {
            fs::renameat(&self.fd, new.get(), &self.fd, name.get()).map_err(Fault::system("rename"))?;
            self.sync()
        });
        if written.is_err() {
            let _ = self.remove(&new);
        }
        written
    }

    fn write(&self, name: &Name, mut content: &[u8], mode: Mode) -> Result<(), Fault> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(&self.fd, name.get(), flags, mode).map_err(Fault::system("create"))?;
        while !content.is_empty() {
            match io::write(&file, content) {
                Ok(0) => return Err(Fault::System { action: "write", error: Errno::IO }),
                Ok(written) => content = &content[written..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(Fault::System { action: "write", error }),
            }
        }
        // The umask must not take permissions away.
        fs::fchmod(&file, mode).map_err(Fault::system("set the permissions of"))?;
        // This is a direct system call, so the file is synced even in a program whose fsync calls are dropped.
        fs::fsync(&file).map_err(Fault::system("sync"))
    }

    /// Removes a file, if it exists.
    pub(crate) fn remove(&self, name: &Name) -> Result<bool, Fault> {
        match fs::unlinkat(&self.fd, name.get(), AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(Fault::System { action: "remove", error }),
        }
    }

    pub(crate) fn sync(&self) -> Result<(), Fault> {
        fs::fsync(&self.fd).map_err(Fault::system("sync the folder of"))
    }
}

pub(crate) fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_file()
}

/// Returns whether users other than the owner can write to the file.
pub(crate) fn is_writable_by_others(stat: &Stat) -> bool {
    stat.st_mode & WRITABLE_BY_OTHERS != 0
}

/// Checks a folder with a path of this length, and notes its owner.
fn check(
    folder: &OwnedFd,
    length: usize,
    is_last: bool,
    owner: &mut Option<(u32, usize)>,
) -> Result<(), Fault> {
    let stat = fs::fstat(folder).map_err(Fault::system("look at the folders of"))?;
    match owner {
        _ if stat.st_uid == 0 => {}
        None => *owner = Some((stat.st_uid, length)),
        Some((known, _)) if *known == stat.st_uid => {}
        Some(_) => return Err(Fault::FolderOwner { length, uid: stat.st_uid }),
    }
    let is_protected = stat.st_mode & STICKY != 0 && !is_last;
    if is_writable_by_others(&stat) && !is_protected {
        return Err(Fault::FolderWritable { length, mode: stat.st_mode & 0o7777 });
    }
    Ok(())
}

/// The name of a file, without memory on the heap.
pub(crate) struct Name {
    bytes: [u8; NAME_BYTES_MAX],
    length: usize,
}

impl Name {
    /// Joins the parts of a name.
    pub(crate) fn new(parts: &[&[u8]]) -> Result<Name, Fault> {
        let mut name = Name { bytes: [0; NAME_BYTES_MAX], length: 0 };
        for part in parts {
            let end = name.length + part.len();
            let too_long = Fault::System { action: "name", error: Errno::NAMETOOLONG };
            name.bytes.get_mut(name.length..end).ok_or(too_long)?.copy_from_slice(part);
            name.length = end;
        }
        Ok(name)
    }

    fn with_number(&self, mut number: u32) -> Result<Name, Fault> {
        let mut digits = [b'0'; 10];
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        Name::new(&[self.get(), b".", &digits])
    }

    pub(crate) fn get(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    use super::*;

    fn opened(path: &Path) -> Result<(), Fault> {
        Folder::open(path.as_os_str().as_bytes()).map(drop)
    }

    #[test]
    fn a_folder_that_others_can_change_is_refused() {
        let dir = tempfile::tempdir().expect("dir");
        let dir = fs::canonicalize(dir.path()).expect("path");
        let (above, below) = (dir.join("above"), dir.join("above/below"));
        fs::create_dir_all(&below).expect("mkdir");
        let above_length = above.as_os_str().len();
        let below_length = below.as_os_str().len();
        for (of_above, of_below, expected) in [
            (0o755, 0o755, None),
            (0o700, 0o750, None),
            // In a sticky folder, others cannot replace the next folder, but they can add files.
            (0o1777, 0o755, None),
            (0o755, 0o1777, Some((below_length, 0o1777))),
            (0o755, 0o775, Some((below_length, 0o775))),
            (0o777, 0o755, Some((above_length, 0o777))),
            (0o772, 0o777, Some((above_length, 0o772))),
        ] {
            fs::set_permissions(&above, Permissions::from_mode(of_above)).expect("chmod");
            fs::set_permissions(&below, Permissions::from_mode(of_below)).expect("chmod");
            let expected = expected.map(|(length, mode)| Fault::FolderWritable { length, mode });
            assert_eq!(opened(&below).err(), expected, "{of_above:o}, {of_below:o}");
        }
    }

    #[test]
    fn a_folder_behind_a_link_is_refused() {
        let dir = tempfile::tempdir().expect("dir");
        let dir = fs::canonicalize(dir.path()).expect("path");
        fs::create_dir_all(dir.join("real/below")).expect("mkdir");
        symlink(dir.join("real"), dir.join("link")).expect("link");
        assert_eq!(opened(&dir.join("real/below")), Ok(()));
        let length = dir.join("link").as_os_str().len();
        assert_eq!(opened(&dir.join("link/below")), Err(Fault::Link { length }));
        assert!(matches!(opened(&dir.join("real/../real")), Err(Fault::Link { .. })));
        assert!(matches!(opened(Path::new("real")), Err(Fault::Link { .. })));
        assert!(matches!(opened(&dir.join("missing")), Err(Fault::System { .. })));
    }

    #[test]
    fn a_folder_of_another_user_is_refused() {
        let dir = tempfile::tempdir().expect("dir");
        let dir = fs::canonicalize(dir.path()).expect("path");
        let us = rustix::process::geteuid();
        let folder = Folder::open(dir.as_os_str().as_bytes()).expect("open");
        assert_eq!(folder.check_owner(us.as_raw()), Ok(()));
        if !us.is_root() {
            assert!(matches!(folder.check_owner(us.as_raw() + 1), Err(Fault::FolderOwner { .. })));
            return;
        }
        let (above, below) = (dir.join("above"), dir.join("above/below"));
        fs::create_dir_all(&below).expect("mkdir");
        std::os::unix::fs::chown(&above, Some(1000), None).expect("chown");
        let folder = Folder::open(below.as_os_str().as_bytes()).expect("open");
        assert_eq!(folder.check_owner(1000), Ok(()));
        let length = above.as_os_str().len();
        for user in [0, 1001] {
            assert_eq!(folder.check_owner(user), Err(Fault::FolderOwner { length, uid: 1000 }));
        }
        std::os::unix::fs::chown(&below, Some(1001), None).expect("chown");
        let length = below.as_os_str().len();
        assert_eq!(opened(&below), Err(Fault::FolderOwner { length, uid: 1001 }));
    }
}
