//! Decides how long a capture sleeps between two wake-ups.

use std::time::Duration;

use fonio_core::ByteCount;

/// Maximum sleep between two wake-ups, for buffers that fill slowly.
const WAKE_MAX: Duration = Duration::from_millis(200);
/// Minimum sleep between two wake-ups, for buffers that fill fast.
const WAKE_MIN: Duration = Duration::from_millis(5);

/// Chooses the time to sleep between two wake-ups according to the rate at which the kernel's buffers fill.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The size of one processor's ring buffer.
    ring: ByteCount,
    pub sleep: Duration,
}

impl Pace {
    pub(crate) fn new(ring: ByteCount) -> Pace {
        // Start with a short sleep, because a command may start with a burst of I/O.
        Pace { ring, sleep: WAKE_MAX / 4 }
    }

    /// Adapts the sleep to the amount of data in the fullest processor buffer at a wake-up.
    pub(crate) fn note(&mut self, most: ByteCount) {
        // Leave room for a late wake-up on a busy machine.
        if most.0 > self.ring.0 / 4 {
            self.sleep = (self.sleep / 2).max(WAKE_MIN);
        } else if most.0 < self.ring.0 / 16 {
            self.sleep = (self.sleep * 2).min(WAKE_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_follows_how_fast_the_buffers_fill() {
        let mut pace = Pace::new(ByteCount(1600));
        let mut sleeps = |bytes_max| {
            pace.note(ByteCount(bytes_max));
            pace.sleep.as_micros()
        };
        assert_eq!(sleeps(100), 50_000, "a sixteenth changes nothing");
        assert_eq!(sleeps(99), 100_000);
        assert_eq!((sleeps(0), sleeps(0)), (200_000, 200_000), "the longest");
        assert_eq!(sleeps(400), 200_000, "a quarter changes nothing");
        assert_eq!((sleeps(401), sleeps(1600)), (100_000, 50_000));
        assert_eq!(
            [0; 6].map(|_| sleeps(1600)),
            [25_000, 12_500, 6_250, 5_000, 5_000, 5_000],
            "the shortest"
        );
    }
}
