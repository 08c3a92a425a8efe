//! Mounts and unmounts: directly for root, through `fusermount3` for other users.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

use fonio_system::MountPoint;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};

use crate::error::MountError;
use crate::options::Options;
use crate::our_mounts::{self, FILE_SYSTEM_TYPE};

const HELPER: &str = "fusermount3";

/// Returns the mount options that determine who has access. If other users have access, the kernel checks
/// permissions. For these checks, it requests a directory's attributes after each change of the directory. If
/// only the mounting user has access, the daemon acts as this user, and the source file system checks
/// permissions; root's daemon may do everything.
fn access(options: &Options) -> &'static str {
    match (options.allow_other, options.has_kernel_checks()) {
        (true, _) => ",default_permissions,allow_other",
        (false, true) => ",default_permissions",
        (false, false) => "",
    }
}

/// Mounts `source` at `dir`, and returns the descriptor of `/dev/fuse`.
pub(crate) fn mount(source: &Path, dir: &Path, options: &Options) -> Result<OwnedFd, MountError> {
    let name = options.name.clone().unwrap_or_else(|| source.display().to_string());
    if rustix::process::geteuid().is_root() {
        mount_directly(&name, dir, options)
    } else {
        mount_with_helper(&name, dir, options)
    }
}

fn mount_directly(name: &str, dir: &Path, options: &Options) -> Result<OwnedFd, MountError> {
    let device = Path::new("/dev/fuse");
    let session = rustix::fs::open(device, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(MountError::system("open", device))?;
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={}",
        session.as_raw_fd(),
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    data.push_str(access(options));
    let data = std::ffi::CString::new(data).expect("the options contain no zero byte");
    rustix::mount::mount(name, dir, FILE_SYSTEM_TYPE, options.flags.bits(), Some(data.as_c_str()))
        .map_err(MountError::system("mount on", dir))?;
    Ok(session)
}

/// Changes the flags of the existing mount at `dir`. Returns errors of the kernel, such as `EBUSY` for a
/// change to read-only while files are open for writing.
pub(crate) fn remount(dir: &Path, options: &Options) -> Result<(), MountError> {
    rustix::mount::mount_remount(dir, options.flags.bits(), c"")
        .map_err(MountError::system("change the mount of", dir))
}

/// Mounts with the set-user-ID program `fusermount3`. This program checks the user's permission, mounts, and
/// sends the descriptor back.
fn mount_with_helper(name: &str, dir: &Path, options: &Options) -> Result<OwnedFd, MountError> {
    let failed = |errno: Errno| MountError::system("talk to fusermount3 about", dir)(errno);
    // Do not set close-on-exec, because `fusermount3` inherits the socket.
    let (theirs, ours) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None)
            .map_err(failed)?;
    // A comma ends an option unless a backslash precedes it.
    let name = name.replace('\\', "\\\\").replace(',', "\\,");
    let mut list = format!("fsname={name},subtype=fonio{}", access(options));
    for word in options.flags.users_words() {
        list.push(',');
        list.push_str(word);
    }
    let status = Command::new(HELPER)
        .args(["-o", &list, "--"])
        .arg(dir)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .status()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => MountError::HelperMissing,
            _ => MountError::system("start fusermount3 for", dir)(error),
        })?;
    if !status.success() {
        return Err(MountError::HelperRefused { path: dir.to_owned(), status: status.to_string() });
    }
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    rustix::net::recvmsg(&ours, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)
        .map_err(failed)?;
    let received = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    received.ok_or_else(|| failed(Errno::PROTO))
}

/// Unmounts the file system at `dir`. A lazy unmount removes the mount from the directory tree at once, and
/// ends the mount when no process uses it any more. Returns errors of the kernel or of `fusermount3`, such as
/// `EBUSY` for a mount in use without a lazy unmount.
pub(crate) fn unmount(dir: &Path, lazy: bool) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        let mut flags = UnmountFlags::NOFOLLOW;
        flags.set(UnmountFlags::DETACH, lazy);
        return Ok(rustix::mount::unmount(dir, flags)?);
    }
    let mut helper = Command::new(HELPER);
    helper.arg("-u").args(lazy.then_some("-z")).args(["-q", "--"]).arg(dir);
    let status = helper.stdin(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{HELPER}: {status}"))) }
}

/// Detaches fonio mounts whose daemon has ended, for example after `kill -9`. Returns the directories of the
/// detached mounts.
pub(crate) fn detach_dead(is_served: impl Fn(&MountPoint) -> bool) -> Vec<std::path::PathBuf> {
    let unserved = our_mounts::all().into_iter().filter(|mount| !is_served(mount));
    let dead = unserved
        .filter(|mount| matches!(rustix::fs::statfs(&mount.dir), Err(Errno::NOTCONN | Errno::CONNABORTED)));
    // Mounts of other users stay, because only these users and root may unmount such mounts.
    dead.filter(|mount| unmount(&mount.dir, true).is_ok()).map(|mount| mount.dir).collect()
}
