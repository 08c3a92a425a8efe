//! Opens folders and files of fonio's own, and refuses those that another user could have made or changed.
//!
//! The rules are those of OpenSSH and sudo. They apply to every folder from the root down to fonio's folder:
//!
//! 1. The folder belongs to root or to this user.
//! 2. No other user can write to the folder. Exceptions: a sticky folder above fonio's own folder, such as
//!    `/tmp`, because other users cannot rename or remove this user's entries there; and a folder that only
//!    the user's private group can write to, because many systems give every user such a group.
//! 3. A symbolic link among these folders is followed only if it belongs to root or to this user.
//!
//! A file in fonio's own folder is a regular file, belongs to root or to this user, cannot be written by
//! others, and is not larger than its reader expects. A link in place of a file is never followed.
//!
//! Every check is made on an open descriptor, and the next name is opened relative to this descriptor.
//! Therefore nobody can exchange a folder between its check and its use. A path is used only for messages.
//! Opening never waits: named pipes and devices are recognised before they are opened.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, fsync, mkdirat, openat, readlinkat, renameat,
    statat, unlinkat,
};
use rustix::io::Errno;

use crate::error::SystemError;

/// Maximum number of symbolic links in a path, as in the kernel.
const LINKS_MAX: u32 = 40;

/// The end of the name of a file that is to replace another file.
const NEW: &str = ".new";

const SEEN: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const OPENED: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
const WRITABLE_BY_OTHERS: u32 = 0o022;
const GROUP_WRITABLE: u32 = 0o020;
const STICKY: u32 = 0o1000;

/// An open folder that only root and this user can change.
#[derive(Debug)]
pub struct TrustedFolder {
    path: PathBuf,
    fd: OwnedFd,
}

impl TrustedFolder {
    /// Opens the folder; returns `None` if it does not exist. Fails with [`SystemError`], which names the
    /// folder that is not trusted, or the failed system call.
    pub fn open(path: &Path) -> Result<Option<TrustedFolder>, SystemError> {
        walk(path, false)
    }

    /// Opens the folder. First creates the folder and its parents if they are missing, accessible only to
    /// this user. Fails with [`SystemError`], as [`TrustedFolder::open`] does.
    pub fn make(path: &Path) -> Result<TrustedFolder, SystemError> {
        walk(path, true)?.ok_or_else(|| SystemError::on("make", path)(Errno::NOENT))
    }

    /// Returns the absolute path of the folder, as its user named it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the names in the folder, sorted.
    pub fn names(&self) -> Result<Vec<OsString>, SystemError> {
        let list = || -> Result<Vec<OsString>, Errno> {
            let mut names = Vec::new();
            for entry in Dir::read_from(&self.fd)? {
                let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
                if name != "." && name != ".." {
                    names.push(name);
                }
            }
            names.sort();
            Ok(names)
        };
        list().map_err(SystemError::on("list", &self.path))
    }

    /// Opens a file for reading; returns `None` if it does not exist. Fails with [`SystemError`] if the file
    /// is not trusted.
    pub fn open_file(&self, name: impl AsRef<OsStr>) -> Result<Option<File>, SystemError> {
        self.open_with(name.as_ref(), OFlags::RDONLY)
    }

    /// Opens a file for reading and appending, as [`TrustedFolder::open_file`] does.
    pub fn open_for_append(&self, name: impl AsRef<OsStr>) -> Result<Option<File>, SystemError> {
        self.open_with(name.as_ref(), OFlags::RDWR | OFlags::APPEND)
    }

    /// Opens a file for reading and writing. Creates the file if it does not exist. Fails with
    /// [`SystemError`] if the file is not trusted.
    pub fn open_or_create(&self, name: impl AsRef<OsStr>) -> Result<File, SystemError> {
        let name = name.as_ref();
        loop {
            if let Some(file) = self.open_with(name, OFlags::RDWR)? {
                return Ok(file);
            }
            match self.create_new(name) {
                // Another process has created the file since.
                Err(error) if error.source.kind() == ErrorKind::AlreadyExists => {}
                created => return created,
            }
        }
    }

    /// Creates a file that only this user can read, and opens it for reading and writing. Fails with
    /// [`SystemError`]; the kind of its source is [`ErrorKind::AlreadyExists`] if the name is taken.
    pub fn create_new(&self, name: impl AsRef<OsStr>) -> Result<File, SystemError> {
        let name = plain(name.as_ref());
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OPENED;
        let made = openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR);
        made.map(File::from).map_err(SystemError::on("create", self.path.join(name)))
    }

    /// Reads a file of at most `max` bytes; returns `None` if it does not exist. Fails with [`SystemError`]
    /// if the file is larger or not trusted.
    pub fn read(&self, name: impl AsRef<OsStr>, max: u64) -> Result<Option<Vec<u8>>, SystemError> {
        let name = name.as_ref();
        match self.open_file(name)? {
            Some(file) => read_from(&file, &self.path.join(name), max).map(Some),
            None => Ok(None),
        }
    }

    /// Replaces a file atomically and durably. Only this user can read the new file. Fails with
    /// [`SystemError`]; the former file then stays.
    pub fn replace(&self, name: impl AsRef<OsStr>, content: &[u8]) -> Result<(), SystemError> {
        self.put(plain(name.as_ref()), content, true)
    }

    /// Replaces a file that need not survive a power cut, as [`TrustedFolder::replace`] does, but without a
    /// sync.
    pub fn replace_without_sync(&self, name: impl AsRef<OsStr>, content: &[u8]) -> Result<(), SystemError> {
        self.put(plain(name.as_ref()), content, false)
    }

    fn put(&self, name: &OsStr, content: &[u8], syncs: bool) -> Result<(), SystemError> {
        let mut new = name.to_owned();
        new.push(format!(".{}{NEW}", std::process::id()));
        // A killed process with the same id may have left this file.
        self.remove(&new)?;
        let mut file = self.create_new(&new)?;
        let mut put = || {
            file.write_all(content)?;
            if syncs {
                file.sync_all()?;
            }
            renameat(&self.fd, &new, &self.fd, name)?;
            if syncs {
                self.sync()?;
            }
            Ok(())
        };
        put()
            .inspect_err(|_: &io::Error| {
                let _ = self.remove(&new);
            })
            .map_err(SystemError::on("write", self.path.join(name)))
    }

    /// Removes what [`TrustedFolder::replace`] leaves when it is killed. The caller must hold a lock that keeps
    /// other processes from replacing the file.
    pub fn remove_unfinished(&self, name: &str) -> Result<(), SystemError> {
        let is_unfinished = |found: &OsStr| {
            let rest = found.to_str().and_then(|found| found.strip_prefix(name)?.strip_prefix('.'));
            rest.and_then(|rest| rest.strip_suffix(NEW)).is_some_and(|pid| pid.parse::<u32>().is_ok())
        };
        self.names()?.iter().filter(|found| is_unfinished(found)).try_for_each(|found| self.remove(found))
    }

    /// Renames a damaged file to `NAME.damaged-N`, with the first free number, and returns the new path. The
    /// caller must hold a lock that keeps other processes from renaming the file.
    pub fn set_aside(&self, name: &str) -> Result<PathBuf, SystemError> {
        for number in 1_u32.. {
            let aside = format!("{name}.damaged-{number}");
            match statat(&self.fd, plain(aside.as_ref()), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => continue,
                Err(Errno::NOENT) => {}
                Err(error) => return Err(SystemError::on("look at", self.path.join(aside))(error)),
            }
            let moved = renameat(&self.fd, plain(name.as_ref()), &self.fd, &aside).and_then(|()| self.sync());
            moved.map_err(SystemError::on("set aside", self.path.join(name)))?;
            return Ok(self.path.join(aside));
        }
        unreachable!("a folder holds fewer than 2³² files")
    }

    /// Removes a file, or a link in its place. Succeeds if it does not exist.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> Result<(), SystemError> {
        self.unlink(plain(name.as_ref()), AtFlags::empty())
    }

    /// Removes a folder if it is empty. Succeeds if it does not exist or is not empty.
    pub fn remove_empty_folder(&self, name: impl AsRef<OsStr>) -> Result<(), SystemError> {
        match self.unlink(plain(name.as_ref()), AtFlags::REMOVEDIR) {
            Err(error) if error.source.kind() == ErrorKind::DirectoryNotEmpty => Ok(()),
            done => done,
        }
    }

    /// Returns whether `file` is still the file with this name.
    pub fn is_still(&self, name: impl AsRef<OsStr>, file: &File) -> bool {
        let at = statat(&self.fd, plain(name.as_ref()), AtFlags::SYMLINK_NOFOLLOW);
        let same = |at: Stat, own: Stat| (at.st_dev, at.st_ino) == (own.st_dev, own.st_ino);
        at.and_then(|at| Ok(same(at, fstat(file)?))).unwrap_or(false)
    }

    fn sync(&self) -> Result<(), Errno> {
        match fsync(&self.fd) {
            // Some file systems do not support fsync on a folder.
            Err(Errno::INVAL) => Ok(()),
            done => done,
        }
    }

    fn unlink(&self, name: &OsStr, flags: AtFlags) -> Result<(), SystemError> {
        match unlinkat(&self.fd, name, flags) {
            Err(error) if error != Errno::NOENT => {
                Err(SystemError::on("remove", self.path.join(name))(error))
            }
            _ => Ok(()),
        }
    }

    fn open_with(&self, name: &OsStr, flags: OFlags) -> Result<Option<File>, SystemError> {
        let name = plain(name);
        let path = self.path.join(name);
        // Look at the file first, because opening a device can have effects.
        let seen = match openat(&self.fd, name, SEEN, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            seen => seen.map_err(SystemError::on("open", &path))?,
        };
        check_file(&seen, &path)?;
        let file = match openat(&self.fd, name, flags | OPENED, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened.map_err(SystemError::on("open", &path))?,
        };
        check_file(&file, &path)?;
        Ok(Some(file.into()))
    }
}

impl AsFd for TrustedFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Reads an open file from its start. Fails with [`SystemError`] if the file has more than `max` bytes. The
/// error names `path`.
pub fn read_from(file: &File, path: &Path, max: u64) -> Result<Vec<u8>, SystemError> {
    let too_large = |bytes: u64| {
        refusal(path, format!("it has {bytes} bytes, but fonio writes at most {max} there; remove it"))
    };
    let length = file.metadata().map_err(SystemError::on("look at", path))?.len();
    if length > max {
        return Err(too_large(length));
    }
    let read = || -> io::Result<Vec<u8>> {
        io::Seek::rewind(&mut &*file)?;
        let mut content = Vec::new();
        file.take(max + 1).read_to_end(&mut content)?;
        Ok(content)
    };
    let content = read().map_err(SystemError::on("read", path))?;
    // The file may have grown since.
    if content.len() as u64 > max { Err(too_large(content.len() as u64)) } else { Ok(content) }
}

/// A name that cannot leave its folder.
fn plain(name: &OsStr) -> &OsStr {
    let mut components = Path::new(name).components();
    let is_plain = matches!((components.next(), components.next()), (Some(Component::Normal(only)), None) if only == name);
    assert!(is_plain, "{name:?} is not the name of an entry");
    name
}

/// A folder on the way to fonio's own folder.
struct Place {
    path: PathBuf,
    fd: OwnedFd,
}

impl Place {
    fn root() -> Result<Place, SystemError> {
        let path = PathBuf::from("/");
        let fd = openat(CWD, &path, SEEN, Mode::empty()).map_err(SystemError::on("open", &path))?;
        Ok(Place { path, fd })
    }

    /// Opens an entry; returns `None` if it does not exist and is not to be made.
    fn entry(&self, name: &OsStr, makes: bool) -> Result<Option<OwnedFd>, Errno> {
        match openat(&self.fd, name, SEEN, Mode::empty()) {
            Err(Errno::NOENT) if makes => {}
            Err(Errno::NOENT) => return Ok(None),
            found => return found.map(Some),
        }
        match mkdirat(&self.fd, name, Mode::RWXU) {
            // Another process has made the folder since.
            Ok(()) | Err(Errno::EXIST) => openat(&self.fd, name, SEEN, Mode::empty()).map(Some),
            Err(error) => Err(error),
        }
    }
}

fn walk(path: &Path, makes: bool) -> Result<Option<TrustedFolder>, SystemError> {
    let named = std::path::absolute(path).map_err(SystemError::on("find", path))?;
    let mut at = Place::root()?;
    let mut left = names_reversed(&named);
    check_folder(&at.fd, &at.path, left.is_empty())?;
    let mut links = 0;
    while let Some(name) = left.pop() {
        let path =
            if name == ".." { at.path.parent().unwrap_or(&at.path).to_owned() } else { at.path.join(&name) };
        let entry = at.entry(&name, makes).map_err(SystemError::on("open", &path))?;
        let Some(fd) = entry else { return Ok(None) };
        let stat = fstat(&fd).map_err(SystemError::on("look at", &path))?;
        if kind(&stat) != FileType::Symlink {
            check_folder(&fd, &path, left.is_empty())?;
            at = Place { path, fd };
            continue;
        }
        if !is_trusted(stat.st_uid) {
            let why = format!("it is a symbolic link of {}; remove the link", user(stat.st_uid));
            return Err(refusal(&path, why));
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(SystemError::on("follow", path)(Errno::LOOP));
        }
        let target = readlinkat(&fd, "", Vec::new()).map_err(SystemError::on("follow", &path))?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            at = Place::root()?;
        }
        left.extend(names_reversed(&target));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = openat(&at.fd, ".", flags, Mode::empty()).map_err(SystemError::on("open", &named))?;
    Ok(Some(TrustedFolder { path: named, fd }))
}

fn names_reversed(path: &Path) -> Vec<OsString> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    let mut names: Vec<OsString> = names.collect();
    names.reverse();
    names
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

fn user(number: u32) -> String {
    format!("user {number}")
}

fn check_folder(fd: impl AsFd, path: &Path, is_own: bool) -> Result<(), SystemError> {
    let stat = fstat(fd).map_err(SystemError::on("look at", path))?;
    if kind(&stat) != FileType::Directory {
        return Err(refusal(path, format!("it is {}, not a folder; remove it", words(kind(&stat)))));
    }
    let mode = stat.st_mode & 0o7777;
    // Nobody but the owner of an entry, the owner of the folder and root can exchange an entry of a sticky
    // folder.
    let is_protected = mode & STICKY != 0 && !is_own;
    check_owner(&stat, path, is_own)?;
    if is_protected { Ok(()) } else { check_mode(&stat, path) }
}

fn check_file(fd: impl AsFd, path: &Path) -> Result<(), SystemError> {
    let stat = fstat(fd).map_err(SystemError::on("look at", path))?;
    if kind(&stat) != FileType::RegularFile {
        return Err(refusal(path, format!("it is {}, not a file; remove it", words(kind(&stat)))));
    }
    check_owner(&stat, path, true)?;
    check_mode(&stat, path)
}

fn check_owner(stat: &Stat, path: &Path, is_own: bool) -> Result<(), SystemError> {
    if is_trusted(stat.st_uid) {
        return Ok(());
    }
    let (owner, own) = (user(stat.st_uid), rustix::process::geteuid().as_raw());
    let only = if own == 0 { "root".to_owned() } else { format!("root or {}", user(own)) };
    let way = if is_own {
        "remove it or move it away"
    } else {
        "set TMPDIR, XDG_RUNTIME_DIR or XDG_STATE_HOME to a folder of your own"
    };
    Err(refusal(path, format!("it belongs to {owner}, but only {only} may own it; {way}")))
}

fn check_mode(stat: &Stat, path: &Path) -> Result<(), SystemError> {
    let mode = stat.st_mode & 0o7777;
    match mode & WRITABLE_BY_OTHERS {
        0 => return Ok(()),
        GROUP_WRITABLE if is_private_group(stat.st_gid) => return Ok(()),
        _ => {}
    }
    let way = format!("run `chmod go-w {}`", path.display());
    Err(refusal(
        path,
        format!("other users can write to it (mode {mode:04o}); check its contents, then {way}"),
    ))
}

/// Returns whether this user is the only member of a group. Only groups in `/etc/group` are known.
fn is_private_group(group: u32) -> bool {
    let user = rustix::process::geteuid();
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    !user.is_root() && has_only(&read("/etc/passwd"), &read("/etc/group"), user.as_raw(), group)
}

/// Returns whether a user is the only member of a group, according to `passwd` and `group` (passwd(5),
/// group(5)).
fn has_only(passwd: &str, groups: &str, user: u32, group: u32) -> bool {
    let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
    let number = |text: Option<&String>| text.and_then(|text| text.parse::<u32>().ok());
    let mut of_group = passwd.lines().map(fields).filter(|user| number(user.get(3)) == Some(group));
    let (Some(only), None) = (of_group.next(), of_group.next()) else { return false };
    let mut named = groups.lines().map(fields).filter(|found| number(found.get(2)) == Some(group));
    let (Some(found), None) = (named.next(), named.next()) else { return false };
    let members = found.get(3).map_or("", String::as_str);
    number(only.get(2)) == Some(user) && (members.is_empty() || members == only[0])
}

/// The error is not of the kind [`ErrorKind::PermissionDenied`], because callers excuse a folder that this
/// user may not read.
fn refusal(path: &Path, why: String) -> SystemError {
    SystemError::on("use", path)(io::Error::other(why))
}

fn words(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "a file",
    }
}

#[cfg(test)]
mod tests;
