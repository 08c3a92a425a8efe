//! Finds the underlying file of an overlayfs file. Programs in containers use overlayfs files.
//!
//! Bios belong to the underlying file, whose path is in the upper folder of the overlay. Calls and waits show
//! the overlay file. If the overlay file was created or opened for writing, it has the device number of the
//! overlay, and the inode number of the file in the upper folder. A file of a lower layer has another inode
//! number, or is not in the upper folder.

use std::path::{Path, PathBuf};

use fonio_core::DeviceId;
use fonio_machine::Machine;
use fonio_system::MountTable;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Overlay {
    /// The upper folder of the overlay.
    pub upper: PathBuf,
    /// The file system that contains the upper folder.
    pub fs: DeviceId,
}

impl Overlay {
    /// Returns the overlay with this device number if the recorder sees its mount. The recorder sees the
    /// mounts of Docker and Podman.
    pub(super) fn of(machine: &Machine, id: DeviceId) -> Option<Overlay> {
        let mounts = machine.mounts();
        let overlay = mounts.iter().find(|mount| mount.device == id && mount.filesystem == "overlay")?;
        let mut options = overlay.filesystem_options.iter();
        let upper = PathBuf::from(options.find_map(|option| option.strip_prefix("upperdir="))?);
        // A relative path is relative to the working directory of the process that mounted the overlay.
        if !upper.is_absolute() {
            return None;
        }
        Overlay::with_upper(&mounts, upper)
    }

    /// Returns the overlay with this upper folder; `None` if the recorder cannot see the folder.
    pub(super) fn with_upper(mounts: &MountTable, upper: PathBuf) -> Option<Overlay> {
        let holding = mounts.iter().filter(|mount| upper.starts_with(&mount.dir));
        // If several mounts are on one folder, the last mount is visible.
        let below = holding.max_by_key(|mount| mount.dir.components().count())?;
        // The recorder cannot see the upper folder, because it runs in a container or on a system whose root
        // is an overlay.
        if below.filesystem == "overlay" {
            return None;
        }
        Some(Overlay { upper, fs: below.device })
    }

    /// Returns whether the file with this path is in the upper folder.
    pub(super) fn has(&self, path: &Path) -> bool {
        path.starts_with(&self.upper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlay_writes_into_its_upper_folder() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/self")).unwrap();
        let line = |id: &str, at: &str, fs: &str, options: &str| {
            format!("30 1 {id} / {at} rw,relatime shared:1 - {fs} {fs} rw,{options}\n")
        };
        let lines = [
            line("8:1", "/", "ext4", "errors=remount-ro"),
            line("8:2", "/var/lib", "xfs", "attr2"),
            line("0:50", "/var/lib/c/merged", "overlay", "lowerdir=/l,upperdir=/var/lib/c/diff,workdir=/w"),
            line("0:51", "/relative", "overlay", "lowerdir=l,upperdir=diff,workdir=w"),
            line("0:52", "/read-only", "overlay", "lowerdir=/l:/k"),
            line("0:54", "/container", "overlay", "lowerdir=/l,upperdir=/container/diff,workdir=/w"),
        ];
        std::fs::write(root.path().join("proc/self/mountinfo"), lines.concat()).unwrap();
        let machine = Machine::at(root.path());
        let of = |minor| Overlay::of(&machine, DeviceId::new(0, minor));
        let expected = Overlay { upper: "/var/lib/c/diff".into(), fs: DeviceId::new(8, 2) };
        assert_eq!((of(50).as_ref(), of(51), of(52), of(53)), (Some(&expected), None, None, None));
        // This overlay's upper folder would be inside the overlay itself.
        assert_eq!(of(54), None);
        assert!(
            expected.has(Path::new("/var/lib/c/diff/a")) && !expected.has(Path::new("/var/lib/c/merged/a"))
        );
    }
}
