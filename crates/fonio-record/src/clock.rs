//! Reads the clocks that the recorder uses.

use std::time::Duration;

use fonio_core::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// Returns the current time on the trace clock `mono`.
pub(crate) fn now() -> Timestamp {
    Timestamp(clock(ClockId::Monotonic))
}

/// Returns the processor time used by this process.
pub(crate) fn cpu_time() -> Duration {
    Duration::from_nanos(clock(ClockId::ProcessCPUTime))
}

/// Returns the current time on a clock, in nanoseconds.
pub(crate) fn clock(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

pub(crate) fn after(time: Timestamp, span: Duration) -> Timestamp {
    Timestamp(time.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
}

/// Returns the time from `now` until `then`; zero if `then` has passed.
pub(crate) fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::from_nanos(then.0.saturating_sub(now.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_the_kernels() {
        let before = clock_gettime(ClockId::Monotonic);
        let between = now().0;
        let after = clock_gettime(ClockId::Monotonic);
        let nanos = |time: rustix::time::Timespec| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        assert!((nanos(before)..=nanos(after)).contains(&between), "{between}");
    }
}
