//! Mounting and unmounting: directly as root, through `fusermount3` as a user.

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

/// Who may look, and who checks what they may do. Where others than who mounted may look, the kernel does, for which it asks
/// for a directory's attributes after each of its changes. Whoever is alone is also who the daemon acts as: what it may not do
/// the file system below refuses.
fn access(options: &Options) -> &'static str {
    if options.allow_other { ",default_permissions,allow_other" } else { "" }
}

/// Mounts at `dir`, and returns the kernel's side of it.
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
    let data = std::ffi::CString::new(data).expect("numbers and words hold no zero");
    rustix::mount::mount(name, dir, FILE_SYSTEM_TYPE, options.flags.bits(), Some(data.as_c_str()))
        .map_err(MountError::system("mount on", dir))?;
    Ok(session)
}

/// Gives what is mounted at `dir` other flags.
///
/// # Errors
/// The kernel's, `EBUSY` where files are open for writing and nothing is to be written any more.
pub(crate) fn remount(dir: &Path, options: &Options) -> Result<(), MountError> {
    rustix::mount::mount_remount(dir, options.flags.bits(), c"")
        .map_err(MountError::system("change the mount of", dir))
}

/// The helper is set-user-ID root: it checks that the user may, mounts, and sends the descriptor back.
fn mount_with_helper(name: &str, dir: &Path, options: &Options) -> Result<OwnedFd, MountError> {
    let failed = |errno: Errno| MountError::system("talk to fusermount3 about", dir)(errno);
    // Without the flag of close-on-exec, so that the helper inherits it.
    let (theirs, ours) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None)
            .map_err(failed)?;
    // A comma ends an option, unless a backslash stands before it.
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

/// Takes the mount away. Lazily: from the names at once, for good when nobody uses it any more.
///
/// # Errors
/// The kernel's, `EBUSY` where it is in use and this is not lazy; the helper's.
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

/// Detaches our mounts whose daemon is gone: what a `kill -9` leaves behind. Returns where they were.
pub(crate) fn detach_dead(is_served: impl Fn(&MountPoint) -> bool) -> Vec<std::path::PathBuf> {
    let unserved = our_mounts::all().into_iter().filter(|mount| !is_served(mount));
    let dead = unserved
        .filter(|mount| matches!(rustix::fs::statfs(&mount.dir), Err(Errno::NOTCONN | Errno::CONNABORTED)));
    // Another user's stays: only they and root may take it away.
    dead.filter(|mount| unmount(&mount.dir, true).is_ok()).map(|mount| mount.dir).collect()
}
