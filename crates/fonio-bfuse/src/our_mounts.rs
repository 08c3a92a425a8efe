//! The fonio mounts of the system.

use std::path::Path;

use fonio_system::{MountPoint, MountTable};

/// The file system type of our mounts; mount(8) and df show it.
pub(crate) const FILE_SYSTEM_TYPE: &str = "fuse.fonio";

/// Returns our mounts, in mount order.
pub(crate) fn all() -> Vec<MountPoint> {
    let table = MountTable::read().unwrap_or_default();
    table.into_iter().filter(|mount| mount.filesystem == FILE_SYSTEM_TYPE).collect()
}

/// Returns the latest of our mounts at `dir`.
pub(crate) fn at(dir: &Path) -> Option<MountPoint> {
    all().into_iter().rfind(|mount| mount.dir == dir)
}
