//! How the daemon finds the inode of a node: by an `O_PATH` descriptor or, if descriptors become scarce, by a
//! file handle.
//!
//! A descriptor keeps its inode, so the inode number cannot be reused while the node exists. A file handle needs
//! no descriptor, but the inode can be deleted, and another file can get its number; `crate::node` compares the
//! handles. Directories always have a descriptor: names are looked up in them, and a process may have a deleted
//! directory as its working directory.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::kernel::FileHandle;

/// Where the inode of a node is found.
#[derive(Debug)]
pub(crate) enum Place {
    Descriptor(OwnedFd),
    Handle(FileHandle),
}

/// A descriptor of a node's inode (`O_PATH`), which is closed after use if the node has only a handle.
#[derive(Debug)]
pub(crate) enum Opened<'a> {
    Held(BorrowedFd<'a>),
    Own(OwnedFd),
}

impl AsFd for Opened<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Held(file) => *file,
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
    /// Tries whether the source's root can be opened by its handle. Returns `None` if the file system has no
    /// handles, or the daemon lacks the capability to open them.
    pub(crate) fn of_source(root: &OwnedFd) -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mount = rustix::fs::openat(root, c".", flags, Mode::empty()).ok()?;
        let (handle, mount_id) = FileHandle::of(&mount).ok()?;
        let number = |file: &OwnedFd| rustix::fs::fstat(file).map(|stat| (stat.st_dev, stat.st_ino)).ok();
        let again = handle.open(&mount, OFlags::PATH | OFlags::CLOEXEC).ok()?;
        (number(&again)? == number(root)?).then_some(Self { mount, mount_id })
    }

    /// Returns the handle of a file; `None` for files of other mounts below the source, which have their own
    /// rules, such as `ro`.
    pub(crate) fn handle_of(&self, file: &OwnedFd) -> Option<FileHandle> {
        let (handle, mount_id) = FileHandle::of(file).ok()?;
        (mount_id == self.mount_id).then_some(handle)
    }

    pub(crate) fn open(&self, handle: &FileHandle, flags: OFlags) -> Result<OwnedFd, Errno> {
        handle.open(&self.mount, flags | OFlags::CLOEXEC)
    }
}
