//! The bytes that a watch has written to the medium in the last 24 hours, and those that it may still write.

use std::collections::VecDeque;
use std::time::Duration;

use fonio_core::ByteCount;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// The bytes that a file system writes in addition to the data of one write: the inode, and its journal's
/// record of it. Measured on ext4 by `cargo xtask bench watch`.
const FILE_SYSTEM: ByteCount = ByteCount(16 << 10);

/// Counts writes.
#[derive(Debug)]
pub struct Budget {
    at_most: u64,
    /// The beginning of the watch, by the monotonic clock.
    began: Duration,
    /// The time of each write by the monotonic clock, and its bytes.
    writes: VecDeque<(Duration, u64)>,
    /// The bytes that the history needs in a day.
    history: u64,
}

impl Budget {
    /// Allows at most `at_most` in 24 hours from `began` on. The history takes a write of about
    /// `history_write` of this each `write_every`.
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

    /// Notes a write of the history or of a kept stall.
    pub fn note(&mut self, now: Duration, bytes: ByteCount) {
        self.forget(now);
        self.writes.push_back((now, bytes.0 + FILE_SYSTEM.0));
    }

    fn forget(&mut self, now: Duration) {
        while self.writes.front().is_some_and(|(at, _)| *at + DAY < now) {
            self.writes.pop_front();
        }
    }

    /// Returns whether a kept stall of this size may be written now, so that the history can still be written
    /// all day.
    ///
    /// On its first day, a watch may write the part of `at_most` that belongs to the time since its beginning, so that many short
    /// ones write no more than one long one.
    pub fn allows(&mut self, now: Duration, bytes: ByteCount) -> bool {
        self.forget(now);
        let spent: u64 = self.writes.iter().map(|(_, bytes)| bytes).sum();
        let part = (now.saturating_sub(self.began).as_secs_f64() / DAY.as_secs_f64()).min(1.0);
        let of_part = |bytes: u64| (bytes as f64 * part) as u64;
        // The bytes already spent include the history's own writes; its share is needed in any case.
        let needed = spent.max(of_part(self.history)).saturating_add(bytes.0 + FILE_SYSTEM.0);
        needed <= of_part(self.at_most)
    }

    /// The bytes written in the last 24 hours, as counted here.
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
        // 24 writes of 8 + 16 KiB are 576 KiB.
        let mut budget = Budget::new(hour, ByteCount(1 << 20), hour, ByteCount(8 << 10));
        assert!(budget.allows(hour * 25, ByteCount(432 << 10)));
        assert!(!budget.allows(hour * 25, ByteCount(433 << 10)));
        // A quarter of a day after its beginning, a quarter of the budget is allowed.
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
