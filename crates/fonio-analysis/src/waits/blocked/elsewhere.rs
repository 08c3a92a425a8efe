//! Leaves out waits for devices that were not recorded.
//!
//! The recorder sees the waits of all threads, even if it records the requests of only some devices. A wait
//! belongs to a recorded device if a request of the waiting process, or of the thread that ended the wait,
//! was outstanding on this device during the wait. A thread's other waits are left out; waits that were only
//! counted are left out in the same proportion.

use fonio_core::{BlockedIn, Nanos};
use rustc_hash::{FxHashMap, FxHashSet};

use super::behind::Watch;
use super::chain::Place;
use super::count::{Count, Kept, Key};
use super::is_felt;
use crate::question::ratio::ratio;
use crate::waits::outstanding::LONG;

/// Removes the waits for devices that were not recorded. `has_requests` returns whether a thread had requests
/// on a recorded device. Returns the removed time of each thread.
pub(super) fn remove(
    threads: &mut FxHashMap<Key, Count>,
    watch: &Watch,
    has_requests: impl Fn(u32) -> bool,
) -> FxHashMap<Key, Nanos> {
    let here = |key: Key, kept: &Kept| watch.behind(key, kept.began).is_some();
    let watched: FxHashSet<Key> = watch.threads().collect();
    let mut removed: FxHashMap<Key, Nanos> = FxHashMap::default();
    let mut shares: FxHashMap<Key, f64> = FxHashMap::default();
    // The programs and threads that waited for a recorded device.
    let mut waited: FxHashSet<(u32, u32, Option<u32>)> = FxHashSet::default();
    for (&key, count) in threads.iter() {
        let direct = count.kept.iter().filter(|kept| kept.through.is_none());
        let all: Nanos = direct.clone().map(Kept::time).sum();
        let of_recorded: Nanos = direct.filter(|kept| here(key, kept)).map(Kept::time).sum();
        let share = ratio(of_recorded, all).filter(|_| watched.contains(&key));
        let share = share.unwrap_or(if has_requests(key.0) { 1.0 } else { 0.0 });
        shares.insert(key, share);
        if share > 0.0 {
            waited.insert((key.1, count.thread, count.unit));
        }
    }
    let is_through_recorded = |place: &Place| waited.contains(&(place.name, place.thread, place.unit));
    for (&key, count) in threads.iter_mut() {
        let before = count.time;
        let through: Nanos = count.through.iter().map(|(_, time)| *time).sum();
        count.through.retain(|(place, _)| is_through_recorded(place));
        let kept_through: Nanos = count.through.iter().map(|(_, time)| *time).sum();
        let direct = Nanos(before.0.saturating_sub(through.0));
        let after = Nanos((direct.0 as f64 * shares[&key]) as u64) + kept_through;
        if after < before {
            count.kept.retain(|kept| match &kept.through {
                Some((_, place)) => is_through_recorded(place),
                None => here(key, kept),
            });
            count.scale_to(after);
            removed.insert(key, Nanos(before.0 - after.0));
        }
    }
    removed
}

impl Count {
    /// Reduces the sums in proportion to a smaller blocked time.
    pub(super) fn scale_to(&mut self, time: Nanos) {
        let share = ratio(time, self.time).unwrap_or(0.0);
        let scaled = |number: u64| (number as f64 * share).round() as u64;
        self.time = time;
        self.waits = scaled(self.waits);
        self.rows = scaled(self.rows).max(self.kept.len() as u64);
        self.longest = self.kept.iter().map(Kept::felt).max().unwrap_or_default();
        let is_long = |kept: &&Kept| kept.felt() >= LONG && is_felt(kept.operation);
        self.long = self.kept.iter().filter(is_long).count() as u64;
        let scale =
            |(waits, time): &mut (u64, Nanos)| (*waits, *time) = (scaled(*waits), Nanos(scaled(time.0)));
        self.operations.values_mut().for_each(scale);
        let operations: FxHashSet<BlockedIn> = self.kept.iter().map(|kept| kept.operation).collect();
        if !operations.is_empty() {
            self.operations.retain(|operation, _| operations.contains(operation));
        }
        for file in self.files.values_mut() {
            (file.waits, file.time) = (scaled(file.waits), Nanos(scaled(file.time.0)));
        }
        self.files.retain(|_, file| file.time > Nanos(0));
        if let Some(timeline) = &mut self.timeline {
            timeline.scale_to(share);
        }
    }
}
