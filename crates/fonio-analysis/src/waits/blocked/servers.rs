//! Finds the programs that the verdict is not about: the servers of file systems and of emulated devices, which wait
//! for storage on behalf of other programs, and the workload in the background.

use rustc_hash::{FxHashMap, FxHashSet};

use super::Role;
use super::count::{Count, Key};
use crate::question::threads::{BACKGROUND, EMULATOR, MOUNT, Threads};

/// Servers of FUSE file systems.
const FUSE: [&str; 14] = [
    "bindfs",
    "mergerfs",
    "sshfs",
    "rclone",
    "s3fs",
    "ntfs-3g",
    "mount.ntfs",
    "mount.ntfs-3g",
    "fuse-overlayfs",
    "glusterfs",
    "gocryptfs",
    "encfs",
    "unionfs",
    MOUNT,
];

/// Returns whether a program is a server of FUSE file systems.
pub(crate) fn is_fuse(program: &str) -> bool {
    FUSE.contains(&program)
}

/// Returns whether a program is a server of fonio itself.
pub(crate) fn is_own(program: &str) -> bool {
    [MOUNT, EMULATOR].contains(&program)
}

/// Gives the servers and the workload in the background their role. Other servers than fonio's must have delayed a program: programs such as
/// rclone also work for themselves.
pub(super) fn assign(roles: &mut FxHashMap<Key, Role>, counts: &FxHashMap<Key, Count>, threads: &Threads) {
    let mut delaying: FxHashSet<u32> = FxHashSet::default();
    for (key, count) in counts {
        let others = count.through.iter().filter(|(place, _)| place.name != key.1);
        delaying.extend(others.map(|(place, _)| place.name));
    }
    for (key, role) in roles.iter_mut().filter(|(_, role)| **role != Role::Kernel) {
        let name = threads.name(key.1);
        if name == BACKGROUND {
            *role = Role::Background;
        }
        if is_own(name) || (is_fuse(name) && delaying.contains(&key.1)) {
            *role = Role::Server;
        }
    }
}
