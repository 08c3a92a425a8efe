//! Syncs the file systems on which a command changed files, after the command has ended.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fonio_machine::Machine;
use fonio_machine::mounts::block_device;
use rustc_hash::FxHashSet;
use rustix::fs::{Mode, OFlags, fstat, open, syncfs};
use rustix::io::Errno;

/// The file system of containers, whose files are on the disks of other mounts.
const OVERLAY: &str = "overlay";

/// Syncs each file system with a disk once. Returns a remark for each that failed: a stable name, a sentence, and 1.
pub(super) fn sync(machine: &Machine, folders: BTreeSet<PathBuf>) -> Vec<(&'static str, String, u64)> {
    let mounts = machine.mounts();
    let mut synced = FxHashSet::default();
    let mut remarks = Vec::new();
    for folder in folders {
        let Some(mount) = mounts.holding(&folder) else { continue };
        // A file system that a program serves may never answer.
        if block_device(mount).is_none() && mount.filesystem != OVERLAY {
            continue;
        }
        if let Err(errno) = sync_at(&folder, &mut synced) {
            let message = format!(
                "the file system of {} could not be synced after the command ({errno}), so some of its writes may come \
                 later",
                folder.display()
            );
            remarks.push(("not-synced", message, 1));
        }
    }
    remarks
}

/// Syncs the file system of a folder, or of the nearest folder above it that still exists.
fn sync_at(folder: &Path, synced: &mut FxHashSet<u64>) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    for folder in folder.ancestors() {
        let opened = match open(folder, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR) => continue,
            opened => opened?,
        };
        if synced.insert(fstat(&opened)?.st_dev) {
            syncfs(&opened)?;
        }
        return Ok(());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_folder_is_synced_with_the_folder_above() {
        let dir = tempfile::tempdir().expect("a folder");
        let folders = [dir.path().join("gone/deeper"), dir.path().to_owned()];
        let mut synced = FxHashSet::default();
        for folder in &folders {
            assert_eq!(sync_at(folder, &mut synced), Ok(()), "{folder:?}");
        }
        assert_eq!(synced.len(), 1);
        assert!(sync(&Machine::here(), BTreeSet::from(folders)).is_empty());
    }
}
