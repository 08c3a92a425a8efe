//! Reads and sets inode attributes that `stat` does not return: `struct fsxattr`.

use std::os::fd::AsFd;

use rustix::io::Result;
use rustix::ioctl::{Getter, Setter, ioctl, opcode};

/// `struct fsxattr` of `include/uapi/linux/fs.h`: flags, extent size hint, extents, project, padding.
pub(crate) type InodeAttributes = [u8; 28];

const GET: rustix::ioctl::Opcode = opcode::read::<InodeAttributes>(b'X', 31);
const SET: rustix::ioctl::Opcode = opcode::write::<InodeAttributes>(b'X', 32);

/// Reads the `fsxattr` attributes with `FS_IOC_FSGETXATTR`. Fails if the file system does not support the
/// ioctl.
pub(crate) fn inode_attributes(file: impl AsFd) -> Result<InodeAttributes> {
    // SAFETY: the kernel writes one `struct fsxattr` of 28 bytes, as encoded in the ioctl number.
    unsafe { ioctl(file, Getter::<GET, InodeAttributes>::new()) }
}

/// Sets the `fsxattr` attributes with `FS_IOC_FSSETXATTR`. Fails if the file system does not support the
/// ioctl, or the process lacks permission.
pub(crate) fn set_inode_attributes(file: impl AsFd, attributes: &InodeAttributes) -> Result<()> {
    // SAFETY: the kernel reads one `struct fsxattr` of 28 bytes, as encoded in the ioctl number.
    unsafe { ioctl(file, Setter::<SET, InodeAttributes>::new(*attributes)) }
}
