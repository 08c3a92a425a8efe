//! How the daemon finds the inode of a node: by an `O_PATH` descriptor or, if descriptors become scarce, by a
//! file handle.
//!
//! A descriptor keeps its inode, so the inode number cannot be reused while the node exists. A file handle needs
//! no descriptor, but the inode can be deleted, and another file can get its number. Then a lookup finds another
//! handle (`crate::node`), and the old handle cannot be opened, because handles of the file systems in
//! [`FILE_SYSTEMS`] contain a generation number. Directories always have a descriptor: names are looked up in
//! them, and a process may have a deleted directory as its working directory.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::kernel::FileHandle;

/// File systems whose handles stay valid for as long as the inode exists, and are never reused: ext2 to ext4, xfs,
/// btrfs, f2fs, tmpfs (`include/uapi/linux/magic.h`). A FUSE server can reuse handles, and vfat forgets them.
const FILE_SYSTEMS: [u32; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];

/// Where the inode of a node is found.
#[derive(Debug)]
pub(crate) enum Place {
    Descriptor(OwnedFd),
    Handle(FileHandle),
}

/// A descriptor of a node's inode: the node's own, that of an open file, or one that is closed after use.
#[derive(Debug)]
pub(crate) enum Opened<'a> {
    Held(BorrowedFd<'a>),
    Shared(Arc<OwnedFd>),
    Own(OwnedFd),
}

impl AsFd for Opened<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Held(file) => *file,
            Self::Shared(file) => file.as_fd(),
            Self::Own(file) => file.as_fd(),
        }
    }
}

/// The source's mount, through which inodes are opened by their handles.
#[derive(Debug)]
pub(crate) struct ByHandle {
    mount: OwnedFd,
    mount_id: i32,
}

impl ByHandle {
    /// Tries whether the source's root can be opened by its handle. Returns `None` for other file systems than
    /// [`FILE_SYSTEMS`], and if the daemon lacks the capability to open handles, `CAP_DAC_READ_SEARCH`.
    pub(crate) fn of_source(root: &OwnedFd) -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mount = rustix::fs::openat(root, c".", flags, Mode::empty()).ok()?;
        let below = rustix::fs::fstatfs(&mount).ok()?;
        // The width of `f_type` depends on the processor; all these numbers have 32 bits.
        if !FILE_SYSTEMS.contains(&(below.f_type as u32)) {
            return None;
        }
        let (handle, mount_id) = FileHandle::of(&mount).ok()?;
        let number = |file: &OwnedFd| rustix::fs::fstat(file).map(|stat| (stat.st_dev, stat.st_ino)).ok();
        let again = handle.open(&mount, OFlags::PATH | OFlags::CLOEXEC).ok()?;
        (number(&again)? == number(root)?).then_some(Self { mount, mount_id })
    }

    /// Returns the handle of a file, to be opened later; `None` for files of other mounts below the source, which
    /// have their own rules, such as `ro`.
    pub(crate) fn handle_of(&self, file: &OwnedFd) -> Option<FileHandle> {
        let (handle, mount_id) = FileHandle::of(file).ok()?;
        (mount_id == self.mount_id).then_some(handle)
    }

    pub(crate) fn open(&self, handle: &FileHandle, flags: OFlags) -> Result<OwnedFd, Errno> {
        handle.open(&self.mount, flags | OFlags::CLOEXEC | OFlags::LARGEFILE)
    }
}
