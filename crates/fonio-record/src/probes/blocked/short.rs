//! Sums up the waits that have no row of their own, per period and in bounded memory.
//!
//! The BPF program counts waits without their own row in periods of about a second. At first, a row of the
//! sums covers one period. Whenever there are more than [`SUMS_MAX`] rows, neighbouring periods are joined,
//! so that each row covers a period of twice the length.

use std::io;

use fonio_core::statistics::doublings;
use fonio_core::{BlockedCount, BlockedIn, Nanos, RowSink, Timestamp, WaitReason};
use rustc_hash::FxHashMap;

use super::judgement;
use super::layout::{IOWAIT, ShortKey};

/// Maximum number of sums kept: 12 MB at 48 bytes each.
const SUMS_MAX: usize = 1 << 18;

/// The key of a sum: waits with the same key are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    slot: u32,
    tid: u32,
    blocked_in: BlockedIn,
    reason: WaitReason,
    class: u8,
}

/// The number and total time of short waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub count: u64,
    pub total: Nanos,
}

/// The sums of waits that have no row of their own.
#[derive(Debug)]
pub(crate) struct ShortWaits {
    /// The time at which each slot began.
    slots: Vec<Timestamp>,
    /// The number of periods that one slot covers.
    width: u32,
    sums: FxHashMap<Key, Sum>,
    sums_max: usize,
    /// Number of waits that did not fit into the sums.
    beyond: u64,
}

impl Default for ShortWaits {
    fn default() -> ShortWaits {
        ShortWaits { slots: Vec::new(), width: 1, sums: FxHashMap::default(), sums_max: SUMS_MAX, beyond: 0 }
    }
}

impl ShortWaits {
    /// Begins the period with this number. Periods are numbered from 0 without gaps.
    pub(crate) fn begin(&mut self, period: u32, at: Timestamp) {
        if period.is_multiple_of(self.width) {
            self.slots.push(at);
        }
    }

    pub(super) fn add(&mut self, key: ShortKey, sum: Sum) {
        let is_iowait = u32::from(key.flags) & IOWAIT != 0;
        let reason = if is_iowait { WaitReason::Storage } else { WaitReason::Unknown };
        self.add_to(key.period, (key.tid, judgement::operation_of_call(key.call), reason, key.class), sum);
    }

    /// Adds one wait to the sum of its period.
    pub(crate) fn add_wait(
        &mut self,
        period: u32,
        (tid, blocked_in, reason): (u32, BlockedIn, WaitReason),
        lasted: Nanos,
    ) {
        let sum = Sum { count: 1, total: lasted };
        self.add_to(period, (tid, blocked_in, reason, class_of(lasted)), sum);
    }

    fn add_to(
        &mut self,
        period: u32,
        (tid, blocked_in, reason, class): (u32, BlockedIn, WaitReason, u8),
        sum: Sum,
    ) {
        let key = |width| Key { slot: period / width, tid, blocked_in, reason, class };
        while self.sums.len() >= self.sums_max && !self.sums.contains_key(&key(self.width)) {
            if self.slots.len() < 2 {
                self.beyond += sum.count;
                return;
            }
            self.join();
        }
        let known = self.sums.entry(key(self.width)).or_default();
        known.count += sum.count;
        known.total += sum.total;
    }

    /// Joins pairs of neighbouring slots, so that each slot covers twice the time.
    fn join(&mut self) {
        self.width *= 2;
        self.slots = self.slots.iter().copied().step_by(2).collect();
        for (key, sum) in std::mem::take(&mut self.sums) {
            let joined = self.sums.entry(Key { slot: key.slot / 2, ..key }).or_default();
            joined.count += sum.count;
            joined.total += sum.total;
        }
    }

    /// Takes all sums, each for the whole span instead of its period.
    pub(crate) fn take(&mut self, (from, until): (Timestamp, Timestamp)) -> Vec<BlockedCount> {
        self.slots.clear();
        let mut sums: Vec<(Key, Sum)> = self.sums.drain().collect();
        sums.sort_unstable_by_key(|(key, _)| *key);
        sums.into_iter()
            .map(|(key, sum)| BlockedCount {
                tid: key.tid,
                blocked_in: key.blocked_in,
                reason: key.reason,
                from,
                until,
                below: below(key.class),
                count: sum.count,
                total: sum.total,
            })
            .collect()
    }

    /// Returns the number of waits of a thread, and their total time in nanoseconds.
    #[cfg(test)]
    pub(crate) fn sum_of(&self, tid: u32) -> (u64, u64) {
        let sums = self.sums.iter().filter(|(key, _)| key.tid == tid).map(|(_, sum)| sum);
        sums.fold((0, 0), |(count, time), sum| (count + sum.count, time + sum.total.0))
    }

    /// Returns the number of waits that did not fit into the sums.
    pub(crate) fn beyond(&self) -> u64 {
        self.beyond
    }

    /// Returns the threads that have a sum, each once.
    pub(crate) fn threads(&self) -> Vec<u32> {
        let mut threads: Vec<u32> = self.sums.keys().map(|key| key.tid).collect();
        threads.sort_unstable();
        threads.dedup();
        threads
    }

    /// Writes the rows, ordered by their start.
    pub(crate) fn write(&self, ended: Timestamp, sink: &mut dyn RowSink) -> io::Result<()> {
        let mut sums: Vec<(Key, Sum)> = self.sums.iter().map(|(key, sum)| (*key, *sum)).collect();
        sums.sort_unstable_by_key(|(key, _)| *key);
        for (key, sum) in sums {
            let slot = key.slot as usize;
            let Some(from) = self.slots.get(slot) else { continue };
            sink.blocked_count(&BlockedCount {
                tid: key.tid,
                blocked_in: key.blocked_in,
                reason: key.reason,
                from: *from,
                until: self.slots.get(slot + 1).copied().unwrap_or(ended),
                below: below(key.class),
                count: sum.count,
                total: sum.total,
            })?;
        }
        Ok(())
    }
}

/// Returns the class of a duration: 0 below 1 µs, else 1 + ⌊log2(µs)⌋.
fn class_of(lasted: Nanos) -> u8 {
    u8::try_from(doublings::class_of(lasted.0 / 1000)).expect("there are 65 classes")
}

/// Returns the exclusive upper bound of a class of wait lengths.
pub(super) fn below(class: u8) -> Nanos {
    // The bound must fit into a signed column.
    let ns = 1_u64.checked_shl(class.into()).and_then(|us| us.checked_mul(1000));
    Nanos(ns.unwrap_or(u64::MAX).min(i64::MAX as u64))
}

#[cfg(test)]
mod tests {
    use fonio_core::CollectedRows;

    use super::*;

    fn rows(short: &ShortWaits) -> Vec<BlockedCount> {
        let mut rows = CollectedRows::default();
        short.write(Timestamp(99), &mut rows).unwrap();
        rows.blocked_counts
    }

    #[test]
    fn a_duration_is_in_its_class() {
        for (ns, class, below_ns) in [
            (0, 0, 1000),
            (999, 0, 1000),
            (1000, 1, 2000),
            (1999, 1, 2000),
            (2000, 2, 4000),
            (1_000_000, 10, 1_024_000),
            (u64::MAX, 55, i64::MAX as u64),
        ] {
            assert_eq!((class_of(Nanos(ns)), below(class).0), (class, below_ns), "{ns}");
        }
    }

    #[test]
    fn periods_are_joined_when_there_are_too_many_sums() {
        let mut short = ShortWaits { sums_max: 4, ..ShortWaits::default() };
        let key = |period, tid| ShortKey { period, tid, call: -1, flags: 1, class: 3, zero: 0 };
        let sum = Sum { count: 2, total: Nanos(10_000) };
        for period in 0..8 {
            short.begin(period, Timestamp(u64::from(period) * 10));
            short.add(key(period, 7), sum);
        }
        assert_eq!(short.threads(), [7]);
        let found = rows(&short);
        assert!(found.len() <= 4);
        assert_eq!(found.iter().map(|row| row.count).sum::<u64>(), 16);
        assert_eq!(found.iter().map(|row| row.total.0).sum::<u64>(), 80_000);
        let spans: Vec<_> = found.iter().map(|row| (row.from.0, row.until.0)).collect();
        assert_eq!(spans, [(0, 20), (20, 40), (40, 60), (60, 99)]);
        assert_eq!((found[0].below, found[0].reason), (Nanos(8000), WaitReason::Storage));
        // If there are more threads than sums, the waits of the remaining threads are counted as lost.
        (0..6).for_each(|tid| short.add(key(7, tid), sum));
        assert_eq!((rows(&short).len(), short.beyond()), (4, 6));
    }
}
