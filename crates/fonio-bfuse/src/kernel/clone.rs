//! A view of a directory of our own, with other mount flags than the one that everybody sees.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::mount::{OpenTreeFlags, open_tree};

/// `dir` and what is mounted below, without changes of access times by reading; like `O_PATH`. It is in no mount namespace, and goes
/// when nobody uses it any more.
///
/// # Errors
/// Without root, and before Linux 5.12.
pub(crate) fn without_access_times(dir: &Path) -> io::Result<OwnedFd> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(rustix::fs::CWD, dir, flags)?;
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_NOATIME,
        attr_clr: libc::MOUNT_ATTR__ATIME,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the kernel reads one `struct mount_attr` and an empty path; both outlive the call.
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
