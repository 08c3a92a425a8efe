//! Finds the fonio mounts of the system.

use std::path::Path;

use fonio_system::{MountPoint, MountTable};

/// The file system type of fonio mounts, which mount(8) and df show.
pub(crate) const FILE_SYSTEM_TYPE: &str = "fuse.fonio";

/// Returns all fonio mounts, in the order in which they were mounted.
pub(crate) fn all() -> Vec<MountPoint> {
    let table = MountTable::read().unwrap_or_default();
    table.into_iter().filter(|mount| mount.filesystem == FILE_SYSTEM_TYPE).collect()
}

/// Returns the fonio mount at `dir` that was mounted last.
pub(crate) fn at(dir: &Path) -> Option<MountPoint> {
    all().into_iter().rfind(|mount| mount.dir == dir)
}
