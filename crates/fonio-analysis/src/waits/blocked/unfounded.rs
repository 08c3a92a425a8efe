//! Leaves out long waits that nothing connects with storage.
//!
//! A thread can sleep uninterruptibly in a read of a file that is on no device: a pipe, a file of the kernel, a
//! console. The file is then on an anonymous device and has no path, and neither the process nor the thread
//! that ended the wait had a request. Files of btrfs, overlays and network file systems are on anonymous
//! devices too, but they have paths.

use fonio_core::{BlockedIn, Nanos};
use rustc_hash::FxHashMap;

use super::behind::Watch;
use super::count::{Count, Kept, Key};
use crate::causes::names::FileNames;

/// Removes these waits.
pub(super) fn remove(threads: &mut FxHashMap<Key, Count>, watch: &Watch, files: &FileNames) {
    for (&key, count) in threads.iter_mut() {
        let is_unfounded = |kept: &Kept| {
            let is_direct = kept.through.is_none();
            let is_read = matches!(kept.operation, BlockedIn::Read | BlockedIn::Write);
            let is_of_kernel = || kept.file.is_some_and(|file| files.is_without_device(file));
            is_direct && is_read && is_of_kernel() && watch.behind(key, kept.began).is_none()
        };
        let time: Nanos = count.kept.iter().filter(|kept| is_unfounded(kept)).map(Kept::time).sum();
        if time > Nanos(0) {
            count.kept.retain(|kept| !is_unfounded(kept));
            count.scale_to(Nanos(count.time.0.saturating_sub(time.0)));
        }
    }
    threads.retain(|_, count| count.time > Nanos(0));
}
