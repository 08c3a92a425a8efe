//! Wraps ioctls on `/dev/fuse`: opening another descriptor of a connection, and registering backing files for
//! passthrough.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// `FUSE_DEV_IOC_CLONE`, `include/uapi/linux/fuse.h`.
const CLONE: libc::Ioctl = 0x8004_e500_u32 as libc::Ioctl;
/// `FUSE_DEV_IOC_BACKING_OPEN`, since Linux 6.9.
const BACKING_OPEN: libc::Ioctl = 0x4010_e501_u32 as libc::Ioctl;
/// `FUSE_DEV_IOC_BACKING_CLOSE`.
const BACKING_CLOSE: libc::Ioctl = 0x4004_e502_u32 as libc::Ioctl;

/// `struct fuse_backing_map`.
#[repr(C)]
struct BackingMap {
    fd: i32,
    flags: u32,
    padding: u64,
}

/// Opens another descriptor of the same FUSE connection. The new descriptor has its own queue of pending
/// replies, so threads do not contend for one lock. Returns errors of the kernel.
pub(crate) fn clone_device(session: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let device = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let original = session.as_raw_fd();
    // SAFETY: the ioctl reads one u32 through the pointer, which is valid during the call.
    let outcome = unsafe { libc::ioctl(device.as_raw_fd(), CLONE, &raw const original) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(device) }
}

/// A source file registered as a backing file of the connection. Dropping this value deregisters the file.
#[derive(Debug)]
pub(crate) struct Backing {
    device: Arc<OwnedFd>,
    id: i32,
}

impl Backing {
    /// Registers `file` as a backing file. The calling thread needs `CAP_SYS_ADMIN`. The kernel uses the
    /// thread's current credentials for all writes to this file. Fails with `EPERM` without the capability,
    /// `ELOOP` if the source is on a stacked file system, `EOPNOTSUPP` if the kernel was built without
    /// passthrough.
    pub(crate) fn open(device: &Arc<OwnedFd>, file: BorrowedFd<'_>) -> io::Result<Self> {
        let map = BackingMap { fd: file.as_raw_fd(), flags: 0, padding: 0 };
        // SAFETY: the ioctl reads one `fuse_backing_map` through the pointer, which is valid during the call.
        let id = unsafe { libc::ioctl(device.as_raw_fd(), BACKING_OPEN, &raw const map) };
        if id < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { device: Arc::clone(device), id })
    }

    /// Returns the positive ID of the backing file, for the reply to an open.
    pub(crate) fn id(&self) -> i32 {
        self.id
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        let id = self.id.cast_unsigned();
        // If the connection has ended, the kernel has already released its backing files. SAFETY: the ioctl
        // reads one u32 through the pointer, which is valid during the call.
        let _ = unsafe { libc::ioctl(self.device.as_fd().as_raw_fd(), BACKING_CLOSE, &raw const id) };
    }
}
