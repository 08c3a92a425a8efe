//! Tracks the wall clock and its changes. A Raspberry Pi has no real-time clock: it boots with a time in the
//! past, and the network sets the clock minutes later.

use fonio_core::Timestamp;
use rustix::time::{ClockId, clock_gettime};

use crate::summary::UnixSeconds;

/// A jump of the wall clock by at least this many seconds is reported; smaller jumps are normal corrections.
const JUMP_S: i64 = 2;

/// Offset of the wall clock from the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallClock {
    unix_ns_at_zero: i64,
}

impl WallClock {
    /// Reads the present offset of the wall clock from the monotonic clock.
    pub fn now() -> WallClock {
        let (wall, monotonic) = (clock_gettime(ClockId::Realtime), clock_gettime(ClockId::Monotonic));
        let ns = |time: rustix::time::Timespec| time.tv_sec * 1_000_000_000 + time.tv_nsec;
        WallClock { unix_ns_at_zero: ns(wall) - ns(monotonic) }
    }

    #[cfg(test)]
    pub(crate) fn at(seconds: i64) -> WallClock {
        WallClock { unix_ns_at_zero: seconds * 1_000_000_000 }
    }

    /// Converts a monotonic time to wall-clock time.
    pub fn of(self, at: Timestamp) -> UnixSeconds {
        self.unix_ns_at_zero.saturating_add(i64::try_from(at.0).unwrap_or(i64::MAX)).div_euclid(1_000_000_000)
    }

    /// Returns the wall-clock time at monotonic time 0, in nanoseconds since 1970.
    pub fn unix_ns_at_zero(self) -> i64 {
        self.unix_ns_at_zero
    }

    /// Returns the number of seconds by which the wall clock was set since `before`; `None` if the clock was
    /// not set.
    pub fn set_since(self, before: WallClock) -> Option<i64> {
        let by = (self.unix_ns_at_zero - before.unix_ns_at_zero) / 1_000_000_000;
        (by.abs() >= JUMP_S).then_some(by)
    }
}

/// Reads the monotonic clock.
pub fn monotonic() -> Timestamp {
    let time = clock_gettime(ClockId::Monotonic);
    Timestamp(
        u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_are_told_and_corrections_are_not() {
        let clock = WallClock::at(100);
        assert_eq!(clock.of(Timestamp(2_500_000_000)), 102);
        assert_eq!(WallClock::at(101).set_since(clock), None);
        assert_eq!(WallClock::at(7300).set_since(clock), Some(7200));
        assert_eq!(WallClock::at(-7300).set_since(clock), Some(-7400));
        assert!(WallClock::now().of(monotonic()) > 1_700_000_000);
    }
}
