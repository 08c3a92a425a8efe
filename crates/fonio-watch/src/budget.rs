//! Limits the bytes that a watch writes to the medium in 24 hours.

use std::collections::VecDeque;
use std::time::Duration;

use fonio_core::ByteCount;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Bytes that a file system writes at each history write, in addition to the history's data: the inode and
/// its journal record. Measured on ext4 by `cargo xtask bench watch`.
const FILE_SYSTEM: ByteCount = ByteCount(16 << 10);

/// Counts the watch's writes against its budget.
#[derive(Debug)]
pub struct Budget {
    at_most: u64,
    began: Duration,
    /// Monotonic time and size of each write.
    writes: VecDeque<(Duration, u64)>,
    /// Bytes that the history's own writes need per day.
    history: u64,
}

impl Budget {
    /// Creates a budget of `at_most` bytes in 24 hours, starting at `began`. Of these bytes, the history
    /// needs about `history_write` at each write, once every `write_every`.
    pub fn new(
        began: Duration,
        at_most: ByteCount,
        write_every: Duration,
        history_write: ByteCount,
    ) -> Budget {
        let writes = (DAY.as_secs_f64() / write_every.as_secs_f64().max(1.0)).ceil() as u64;
        let history = writes.saturating_mul(history_write.0 + FILE_SYSTEM.0);
        Budget { at_most: at_most.0, began, writes: VecDeque::new(), history }
    }

    /// Records that the watch wrote the history or a kept stall.
    pub fn note(&mut self, now: Duration, bytes: ByteCount) {
        self.forget(now);
        self.writes.push_back((now, bytes.0 + FILE_SYSTEM.0));
    }

    fn forget(&mut self, now: Duration) {
        while self.writes.front().is_some_and(|(at, _)| *at + DAY < now) {
            self.writes.pop_front();
        }
    }

    /// Returns whether a kept stall of this size may be written now without endangering the history's own
    /// writes.
    ///
    /// On its first day, a watch may write only the part of `at_most` that is proportional to its run time,
    /// so that many short watches together write no more than one long watch.
    pub fn allows(&mut self, now: Duration, bytes: ByteCount) -> bool {
        self.forget(now);
        let spent: u64 = self.writes.iter().map(|(_, bytes)| bytes).sum();
        let part = (now.saturating_sub(self.began).as_secs_f64() / DAY.as_secs_f64()).min(1.0);
        let of_part = |bytes: u64| (bytes as f64 * part) as u64;
        // The spent bytes already include history writes, so use the larger of the two values instead of
        // their sum.
        let needed = spent.max(of_part(self.history)).saturating_add(bytes.0 + FILE_SYSTEM.0);
        needed <= of_part(self.at_most)
    }

    /// Returns the bytes that the watch wrote in the last 24 hours.
    pub fn spent(&mut self, now: Duration) -> ByteCount {
        self.forget(now);
        ByteCount(self.writes.iter().map(|(_, bytes)| bytes).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_stalls_leave_room_for_the_history() {
        let hour = Duration::from_secs(3600);
        // 24 history writes of 8 + 16 KiB are 576 KiB.
        let mut budget = Budget::new(hour, ByteCount(1 << 20), hour, ByteCount(8 << 10));
        assert!(budget.allows(hour * 25, ByteCount(432 << 10)));
        assert!(!budget.allows(hour * 25, ByteCount(433 << 10)));
        // After a quarter of a day, the watch may use a quarter of the budget.
        assert!(budget.allows(hour * 7, ByteCount((432 / 4 - 12) << 10)));
        assert!(!budget.allows(hour * 7, ByteCount((432 / 4 - 11) << 10)));
        assert!(!budget.allows(hour, ByteCount(1)));
        for n in 1..=24 {
            budget.note(hour * n, ByteCount(8 << 10));
        }
        budget.note(hour * 24, ByteCount(400 << 10));
        assert!(!budget.allows(hour * 24, ByteCount(20 << 10)));
        assert_eq!(budget.spent(hour * 24), ByteCount((24 * 24 + 416) << 10));
        assert_eq!(budget.spent(hour * 100), ByteCount(0));
    }
}
