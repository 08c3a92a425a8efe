//! Creates a private clone of a mount, with other mount flags.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::mount::{MountFlags, OpenTreeFlags, open_tree};

/// Rules for updating access times on reads: `MOUNT_ATTR_*` of `include/uapi/linux/mount.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccessTimes(u64);

impl AccessTimes {
    /// Returns the access-time rule that flags of `mount(2)` contain; `None` if they contain no rule.
    pub(crate) fn of(flags: MountFlags) -> Option<Self> {
        let kinds = [
            (MountFlags::NOATIME, libc::MOUNT_ATTR_NOATIME),
            (MountFlags::STRICTATIME, libc::MOUNT_ATTR_STRICTATIME),
            (MountFlags::RELATIME, libc::MOUNT_ATTR_RELATIME),
        ];
        let kind = kinds.iter().find(|(flag, _)| flags.contains(*flag)).map(|(_, kind)| *kind);
        let directories = flags.contains(MountFlags::NODIRATIME).then_some(libc::MOUNT_ATTR_NODIRATIME);
        (kind.is_some() || directories.is_some())
            .then(|| Self(kind.unwrap_or(libc::MOUNT_ATTR_RELATIME) | directories.unwrap_or(0)))
    }
}

/// Clones `dir` and its submounts with the access-time rules `times`, and returns an `O_PATH` descriptor. The
/// clone is not in any mount namespace, and disappears after its last use. Fails if the process is not root,
/// or the kernel is older than Linux 5.12.
pub(crate) fn with_access_times(dir: &Path, times: AccessTimes) -> io::Result<OwnedFd> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(rustix::fs::CWD, dir, flags)?;
    let attributes = libc::mount_attr {
        attr_set: times.0,
        attr_clr: libc::MOUNT_ATTR__ATIME | libc::MOUNT_ATTR_NODIRATIME,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the kernel reads one `struct mount_attr` and an empty path; both are valid during the call.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if outcome == 0 { Ok(tree) } else { Err(io::Error::last_os_error()) }
}
