//! Packs a file's number and generation into a file handle, as file systems do, and opens files by their
//! handles.

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use fonio_core::lives::Generation;

/// `FILEID_INO32_GEN` of `include/linux/exportfs.h`: inode number and generation in 32 bits each.
pub(super) const HANDLE: i32 = 1;
/// `FILEID_INO32_GEN` with `XFS_FILEID_TYPE_64FLAG` of xfs: the inode number has 64 bits.
pub(super) const HANDLE_64: i32 = 0x81;
/// `FILEID_BTRFS_WITHOUT_PARENT`: inode number and subvolume, 64 bits each, and generation
/// (`fs/btrfs/export.h`).
pub(super) const HANDLE_BTRFS: i32 = 0x4d;
/// `FILEID_NILFS_WITHOUT_PARENT`: checkpoint (0 for the present files) and inode number, 64 bits each, and
/// generation (`fs/nilfs2/export.h`).
pub(super) const HANDLE_NILFS: i32 = 0x61;
/// Maximum size of a handle in bytes (`MAX_HANDLE_SZ`).
const BYTES_MAX: usize = 128;

/// `struct file_handle`.
#[repr(C)]
#[derive(Debug)]
struct Handle<T> {
    bytes: u32,
    kind: i32,
    content: T,
}

/// The file to which a handle belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub inode: u64,
    /// On btrfs, the subvolume of the file.
    pub subvolume: Option<u64>,
    pub generation: Option<Generation>,
}

/// Opens a file by its handle, without access to its data. Returns the error number if there is no such file.
pub(super) fn open_by_handle<const WORDS: usize>(
    folder: &OwnedFd,
    kind: i32,
    words: [u32; WORDS],
) -> Result<OwnedFd, i32> {
    let mut handle = Handle { bytes: size_of_val(&words) as u32, kind, content: words };
    let flags = libc::O_PATH | libc::O_CLOEXEC;
    // SAFETY: `handle` has the layout of `struct file_handle`, has the announced size, and outlives the call.
    let fd =
        unsafe { libc::syscall(libc::SYS_open_by_handle_at, folder.as_raw_fd(), &raw mut handle, flags) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or_default());
    }
    // SAFETY: the kernel returned a new descriptor, which no other code owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Returns the generation of an open file.
pub(super) fn generation_of(file: &OwnedFd) -> Option<Generation> {
    ask(file.as_raw_fd(), c"", libc::AT_EMPTY_PATH)?.generation
}

/// Returns the numbers of the file at a path, also if the last component of the path is a symbolic link.
pub(crate) fn numbers_at(path: &Path) -> Option<Numbers> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    ask(libc::AT_FDCWD, &path, libc::AT_SYMLINK_FOLLOW)
}

/// Asks the kernel for the handle of a file.
fn ask(folder: i32, path: &CStr, flags: i32) -> Option<Numbers> {
    let mut handle = Handle { bytes: BYTES_MAX as u32, kind: 0, content: [0_u8; BYTES_MAX] };
    let mut mount = 0_i32;
    let (path, mount) = (path.as_ptr(), &raw mut mount);
    // SAFETY: `handle` has the layout of `struct file_handle` with room for the announced size; all pointers
    // refer to memory that outlives the call.
    let asked =
        unsafe { libc::syscall(libc::SYS_name_to_handle_at, folder, path, &raw mut handle, mount, flags) };
    let content = handle.content.get(..handle.bytes as usize)?;
    numbers(handle.kind as u32, content).filter(|_| asked == 0)
}

/// Returns the numbers in a handle; `None` for other types of handles.
pub(super) fn numbers(kind: u32, handle: &[u8]) -> Option<Numbers> {
    let long = |at| Some(u64::from(word(handle, at)?) | u64::from(word(handle, at + 4)?) << 32);
    let (inode, subvolume, generation) = match kind {
        // File handle type FILEID_INO32_GEN, without and with the parent folder.
        1 | 2 => (u64::from(word(handle, 0)?), None, word(handle, 4)?),
        // The same two types with xfs's XFS_FILEID_TYPE_64FLAG.
        0x81 | 0x82 => (long(0)?, None, word(handle, 8)?),
        // File handle types FILEID_BTRFS_*. btrfs never reuses an inode number.
        0x4d..=0x4f => (long(0)?, Some(long(8)?), word(handle, 16)?),
        // File handle types FILEID_NILFS_*.
        0x61 | 0x62 => (long(8)?, None, word(handle, 16)?),
        _ => return None,
    };
    Some(Numbers { inode, subvolume, generation: Generation::new(generation) })
}

/// Reads a 32-bit number in native byte order.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
