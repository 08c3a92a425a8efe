//! A table of files that signal handlers can read and extend: it takes no lock and allocates no memory.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use fonio_sync_policy::Identity;

/// A file at a path, with a number of the path instead of the path itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key {
    file: Identity,
    path: u64,
}

impl Key {
    pub fn new(file: Identity, path: &Path) -> Key {
        // FNV-1a, 64 bits.
        let path = path.as_os_str().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Key { file, path }
    }
}

/// Files, each with the identity of another file.
pub struct Known([Slot; SLOTS]);

/// A program with more databases than this syncs the others.
const SLOTS: usize = 128;

struct Slot {
    stage: AtomicU8,
    key: [AtomicU64; 3],
    value: [AtomicU64; 2],
}

impl Slot {
    const fn new() -> Slot {
        Slot {
            stage: AtomicU8::new(FREE),
            key: [const { AtomicU64::new(0) }; 3],
            value: [const { AtomicU64::new(0) }; 2],
        }
    }
}

const FREE: u8 = 0;
const TAKEN: u8 = 1;
const FILLED: u8 = 2;

impl Known {
    pub const fn new() -> Known {
        Known([const { Slot::new() }; SLOTS])
    }

    /// Returns whether the table contains the file with a value for which `is_right` is true.
    pub fn has(&self, key: Key, is_right: impl Fn(Identity) -> bool) -> bool {
        let wanted = [key.file.device, key.file.inode, key.path];
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        self.0.iter().any(|slot| {
            slot.stage.load(Ordering::Acquire) == FILLED
                && slot.key.each_ref().map(load) == wanted
                && is_right(Identity { device: load(&slot.value[0]), inode: load(&slot.value[1]) })
        })
    }

    /// Adds a file; returns false if the table is full.
    pub fn add(&self, key: Key, value: Identity) -> bool {
        // If a signal handler or a fork interrupts this function, one slot stays unused.
        let take = |slot: &&Slot| {
            slot.stage.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let Some(slot) = self.0.iter().find(take) else { return false };
        for (place, number) in slot.key.iter().zip([key.file.device, key.file.inode, key.path]) {
            place.store(number, Ordering::Relaxed);
        }
        for (place, number) in slot.value.iter().zip([value.device, value.inode]) {
            place.store(number, Ordering::Relaxed);
        }
        slot.stage.store(FILLED, Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_number_and_its_path() {
        let known = Known::new();
        let file = |inode| Identity { device: 1, inode };
        let key = |inode, path: &str| Key::new(file(inode), Path::new(path));
        assert!(known.add(key(2, "/a"), file(7)));
        assert!(known.has(key(2, "/a"), |value| value == file(7)));
        assert!(!known.has(key(2, "/a"), |value| value == file(8)));
        assert!(!known.has(key(2, "/b"), |_| true) && !known.has(key(3, "/a"), |_| true));
        for inode in 0..SLOTS as u64 {
            known.add(key(inode, "/c"), file(1));
        }
        assert!(!known.add(key(1000, "/c"), file(1)), "it is full");
    }
}
