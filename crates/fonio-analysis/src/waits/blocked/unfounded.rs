//! Leaves out waits that nothing connects with storage.
//!
//! A thread can sleep uninterruptibly in a read or write of a file that is on no device: a pipe, a file of the
//! kernel, or a file of a FUSE server that computes or waits for the network. Such a file is on an anonymous
//! device, and neither the process nor the thread that ended the wait had a request during the wait. Either
//! the file has no path, or a thread of another program ended the wait. Files of btrfs, overlays and network
//! file systems are on anonymous devices too, but the kernel ends waits for them.
//!
//! The file and the end of a wait that is open at the end of the recording are unknown; such a wait is treated like the
//! thread's other reads and writes without requests. Waits that were only counted are left out in the same proportion as the
//! longest waits.

use fonio_core::{BlockedIn, Nanos};
use rustc_hash::{FxHashMap, FxHashSet};

use super::behind::Watch;
use super::count::{Count, Kept, Key};
use crate::causes::names::FileNames;
use crate::question::ratio::ratio;

/// Removes these waits. `is_of_program` returns whether a thread is known to belong to a program, not to the
/// kernel.
pub(super) fn remove(
    threads: &mut FxHashMap<Key, Count>,
    watch: &Watch,
    files: &FileNames,
    is_of_program: impl Fn(u32) -> bool,
) {
    // For the other threads, it is unknown whether there were requests.
    let watched: FxHashSet<Key> = watch.threads().collect();
    for (&key, count) in threads.iter_mut().filter(|(key, _)| watched.contains(key)) {
        let is_without_request = |kept: &Kept| {
            let is_on_file = matches!(kept.operation, BlockedIn::Read | BlockedIn::Write);
            kept.through.is_none() && is_on_file && watch.behind(key, kept.began).is_none()
        };
        let is_known = |kept: &Kept| {
            let of_program = kept.waker.is_some_and(&is_of_program);
            kept.file.map(|file| is_without_request(kept) && files.is_without_device(file, of_program))
        };
        let direct = count.kept.iter().filter(|kept| kept.through.is_none());
        let mut known = direct.clone().filter_map(is_known).peekable();
        let are_all = known.peek().is_some() && known.all(|unfounded| unfounded);
        let is_unfounded =
            |kept: &Kept| is_known(kept).unwrap_or_else(|| are_all && is_without_request(kept));
        let all: Nanos = direct.clone().map(Kept::time).sum();
        let unfounded: Nanos = direct.filter(|kept| is_unfounded(kept)).map(Kept::time).sum();
        if let Some(share) = ratio(unfounded, all).filter(|share| *share > 0.0) {
            let through: Nanos = count.through.iter().map(|(_, time)| *time).sum();
            let direct = count.time.0.saturating_sub(through.0);
            let unfounded = Nanos((direct as f64 * share) as u64);
            count.kept.retain(|kept| !is_unfounded(kept));
            count.server += unfounded;
            count.scale_to(Nanos(count.time.0 - unfounded.0));
        }
    }
    threads.retain(|_, count| count.time > Nanos(0));
}
