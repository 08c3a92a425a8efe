//! Describes mounts, and finds the block device below a file system.

use fonio_core::meta::Mount;
use fonio_core::{ByteCount, DeviceId};
use fonio_system::{MountPoint, device};
use rustix::fs::FileType;

/// Returns the block device of the file system, if the mount table shows it.
pub fn block_device(mount: &MountPoint) -> Option<DeviceId> {
    if mount.device.major() != 0 {
        return Some(mount.device);
    }
    if !mount.source.starts_with("/dev/") {
        return None;
    }
    let stat = rustix::fs::stat(mount.source.as_str()).ok()?;
    let is_block = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    is_block.then(|| device::from_dev(stat.st_rdev))
}

/// Describes the mount. `is_here` says whether it is a mount of this machine, whose free space is known.
pub(crate) fn describe(mount: &MountPoint, device: DeviceId, is_here: bool) -> Mount {
    // If a FUSE daemon hangs, statvfs(2) on its mount would block forever.
    let is_fuse = mount.filesystem.starts_with("fuse");
    let space = if is_fuse || !is_here { None } else { rustix::fs::statvfs(&mount.dir).ok() };
    let bytes = |blocks: u64, size: u64| ByteCount(blocks.saturating_mul(size));
    Mount {
        device,
        at: mount.dir.to_string_lossy().into_owned(),
        fs: mount.filesystem.clone(),
        options: mount.all_options(),
        size_bytes: space.as_ref().map(|space| bytes(space.f_blocks, space.f_frsize)),
        available_bytes: space.as_ref().map(|space| bytes(space.f_bavail, space.f_frsize)),
    }
}
