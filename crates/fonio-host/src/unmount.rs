//! Unmounts file systems, and waits while they are in use.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use fonio_system::MountTable;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::error::HostError;
use crate::program;

/// Number of attempts to unmount while the mount is in use.
const BUSY_TRIES: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// Unmounts `dir`, and waits up to one second until no process uses it.
pub(crate) fn unmount(dir: &Path) -> Result<(), HostError> {
    for _ in 0..BUSY_TRIES {
        match rustix::mount::unmount(dir, UnmountFlags::NOFOLLOW) {
            Ok(()) => return Ok(()),
            Err(Errno::BUSY) => thread::sleep(BUSY_PAUSE),
            Err(error) => return Err(HostError::system("unmount", dir)(error)),
        }
    }
    Err(HostError::system("unmount", dir)(Errno::BUSY))
}

/// Unmounts `dir` if `source` is mounted there. If the mount stays in use, it is detached lazily and
/// disappears when its last user ends.
pub(crate) fn undo(dir: &Path, source: &str) -> Result<(), HostError> {
    let mounts = MountTable::read()?;
    if mounts.at(dir).is_none_or(|mount| mount.source != source) {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        // Without root, fonio can have created only FUSE mounts.
        let arguments = [OsStr::new("-uz"), OsStr::new("--"), dir.as_os_str()];
        return program::run("fusermount3", "fuse3", &arguments).map(drop);
    }
    unmount(dir).or_else(|_| {
        rustix::mount::unmount(dir, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
            .map_err(HostError::system("unmount", dir))
    })
}

/// Returns the mount points at or below `dir`. Fails with [`HostError::System`] if `/proc` cannot be read
/// because it is not mounted.
pub fn mounts_under(dir: &Path) -> Result<Vec<PathBuf>, HostError> {
    Ok(MountTable::read()?.into_iter().map(|mount| mount.dir).filter(|at| at.starts_with(dir)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_is_mounted_at_the_root() {
        assert!(mounts_under(Path::new("/")).expect("mounts").contains(&PathBuf::from("/")));
    }
}
