//! Requests to `/dev/fuse` itself: one more descriptor of a connection, and files that the kernel reads and writes
//! without us.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// `FUSE_DEV_IOC_CLONE`, `include/uapi/linux/fuse.h`.
const CLONE: libc::c_ulong = 0x8004_e500;
/// `FUSE_DEV_IOC_BACKING_OPEN`, since Linux 6.9.
const BACKING_OPEN: libc::c_ulong = 0x4010_e501;
/// `FUSE_DEV_IOC_BACKING_CLOSE`.
const BACKING_CLOSE: libc::c_ulong = 0x4004_e502;

/// `struct fuse_backing_map`.
#[repr(C)]
struct BackingMap {
    fd: i32,
    flags: u32,
    padding: u64,
}

/// A second descriptor of the same connection, with a queue of answers of its own, so that threads do not meet on
/// one lock.
///
/// # Errors
/// The kernel's.
pub(crate) fn clone_device(session: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let device = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let original = session.as_raw_fd();
    // SAFETY: the request reads one u32 through the pointer, which lives across the call.
    let outcome = unsafe { libc::ioctl(device.as_raw_fd(), CLONE, &raw const original) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(device) }
}

/// A file of the source that the kernel knows as a backing file of the connection, until this value is dropped.
#[derive(Debug)]
pub(crate) struct Backing {
    device: Arc<OwnedFd>,
    id: i32,
}

impl Backing {
    /// Registers `file`. Only a thread with `CAP_SYS_ADMIN` may; what is written through it is written with the
    /// thread's credentials of this moment.
    ///
    /// # Errors
    /// `EPERM` without the capability, `ELOOP` where the source is itself stacked, `EOPNOTSUPP` where the kernel
    /// was built without.
    pub(crate) fn open(device: &Arc<OwnedFd>, file: BorrowedFd<'_>) -> io::Result<Self> {
        let map = BackingMap { fd: file.as_raw_fd(), flags: 0, padding: 0 };
        // SAFETY: the request reads one `fuse_backing_map` through the pointer, which lives across the call.
        let id = unsafe { libc::ioctl(device.as_raw_fd(), BACKING_OPEN, &raw const map) };
        if id < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { device: Arc::clone(device), id })
    }

    /// What an answer to an open names it by; positive.
    pub(crate) fn id(&self) -> i32 {
        self.id
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        let id = self.id.cast_unsigned();
        // A connection that is gone has forgotten its backing files already.
        // SAFETY: the request reads one u32 through the pointer, which lives across the call.
        let _ = unsafe { libc::ioctl(self.device.as_fd().as_raw_fd(), BACKING_CLOSE, &raw const id) };
    }
}
