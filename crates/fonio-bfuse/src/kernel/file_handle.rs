//! Names and opens inodes by their file handles (`open_by_handle_at(2)`).

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use rustix::fs::OFlags;
use rustix::io::{Errno, Result};

/// Maximum size of a handle. Handles of ext4, f2fs, xfs, tmpfs and btrfs have 8 to 20 bytes; the kernel allows
/// up to 128 (`MAX_HANDLE_SZ`).
const BYTES_MAX: usize = 24;

/// `struct file_handle`: identifies an inode in its file system. How long it stays valid, and whether it can be
/// reused, depends on the file system.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHandle {
    bytes: u32,
    kind: i32,
    /// Zeros after the handle's bytes.
    content: [u8; BYTES_MAX],
}

impl FileHandle {
    /// Returns the handle of an open file, and the ID of the mount through which the file was opened. Fails
    /// with `EOPNOTSUPP` if the file system has no handles, and with `EOVERFLOW` if the handle is too long.
    pub(crate) fn of(file: impl AsFd) -> Result<(Self, i32)> {
        let mut handle = Self { bytes: BYTES_MAX as u32, kind: 0, content: [0; BYTES_MAX] };
        let mut mount = 0_i32;
        let (file, path, flags) = (file.as_fd().as_raw_fd(), CStr::as_ptr(c""), libc::AT_EMPTY_PATH);
        // SAFETY: `handle` has the layout of `struct file_handle` with room for the announced size; all pointers
        // refer to memory that outlives the call.
        let outcome = unsafe {
            libc::syscall(libc::SYS_name_to_handle_at, file, path, &raw mut handle, &raw mut mount, flags)
        };
        if outcome == 0 { Ok((handle, mount)) } else { Err(last_error()) }
    }

    /// Opens the inode through the mount of `mount`, which must not be an `O_PATH` descriptor. Fails with
    /// `ESTALE` if the inode has been deleted, and with `EPERM` without `CAP_DAC_READ_SEARCH`.
    pub(crate) fn open(&self, mount: impl AsFd, flags: OFlags) -> Result<OwnedFd> {
        let mut handle = *self;
        let (mount, flags) = (mount.as_fd().as_raw_fd(), flags.bits() as libc::c_int);
        // SAFETY: `handle` has the layout of `struct file_handle`, has the announced size, and outlives the call.
        let file = unsafe { libc::syscall(libc::SYS_open_by_handle_at, mount, &raw mut handle, flags) };
        match RawFd::try_from(file) {
            // SAFETY: the kernel returned a new descriptor, which no other code owns.
            Ok(file) if file >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(file) }),
            _ => Err(last_error()),
        }
    }
}

fn last_error() -> Errno {
    let error = std::io::Error::last_os_error();
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
