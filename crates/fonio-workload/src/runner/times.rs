//! Measures where the time of a thread goes.

use std::fs::File;

use fonio_system::procfs::Schedule;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::clock::monotonic_ns;
use crate::outcome::ThreadTimes;

/// Reads the clocks of the thread that opened it. Without the kernel's counts of waits for a processor, a thread's
/// sleep cannot be known.
#[derive(Debug)]
pub(super) struct ThreadClock {
    schedule: Option<File>,
}

/// What a thread did since it began, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    at_ns: u64,
    user_ns: u64,
    system_ns: u64,
    queued_ns: u64,
}

impl ThreadClock {
    pub(super) fn of_this_thread() -> ThreadClock {
        ThreadClock { schedule: File::open("/proc/thread-self/schedstat").ok() }
    }

    /// Returns `None` if the kernel does not count the waits of threads for a processor.
    pub(super) fn read(&self) -> Option<Reading> {
        let mut line = [0; 80];
        let length = rustix::io::pread(self.schedule.as_ref()?, &mut line, 0).ok()?;
        let schedule = Schedule::parse(std::str::from_utf8(&line[..length]).ok()?)?;
        let usage = getrusage(UsageWho::RUSAGE_THREAD).ok()?;
        Some(Reading {
            at_ns: monotonic_ns(),
            user_ns: usage.user_time().num_nanoseconds() as u64,
            system_ns: usage.system_time().num_nanoseconds() as u64,
            queued_ns: schedule.waited.as_nanos() as u64,
        })
    }
}

impl Reading {
    /// Returns the times between two readings of a thread. All of its sleep counts as blocked.
    pub(super) fn until(&self, later: &Reading) -> ThreadTimes {
        let times = ThreadTimes {
            count: 1,
            wall_ns: later.at_ns.saturating_sub(self.at_ns),
            user_ns: later.user_ns.saturating_sub(self.user_ns),
            system_ns: later.system_ns.saturating_sub(self.system_ns),
            queued_ns: later.queued_ns.saturating_sub(self.queued_ns),
            ..ThreadTimes::default()
        };
        let awake_ns = times.user_ns + times.system_ns + times.queued_ns;
        ThreadTimes { blocked_ns: times.wall_ns.saturating_sub(awake_ns), ..times }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_a_thread_add_up() {
        let at = |at_ns, user_ns, system_ns, queued_ns| Reading { at_ns, user_ns, system_ns, queued_ns };
        for (from, to, blocked_ns) in [
            (at(100, 1, 2, 3), at(200, 11, 22, 33), 100 - 60),
            (at(100, 0, 0, 0), at(200, 0, 0, 0), 100),
            // The clocks are not read at the same instant.
            (at(100, 0, 0, 0), at(200, 90, 20, 0), 0),
        ] {
            let times = from.until(&to);
            assert_eq!((times.count, times.wall_ns, times.blocked_ns), (1, 100, blocked_ns), "{to:?}");
        }
    }
}
