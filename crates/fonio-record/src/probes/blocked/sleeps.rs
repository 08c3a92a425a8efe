//! Sorts the interruptible sleeps of processes by their system calls.

use fonio_core::{Metric, Nanos};
use rustc_hash::FxHashMap;

use super::layout::SleepKey;

/// The times of processes that procfs does not show.
#[derive(Debug, Default)]
pub(crate) struct ProcessesSeen {
    /// The processor time of threads that ended during the recording, by process.
    pub ran: FxHashMap<u32, Nanos>,
    /// The sleeps of processes, by process and kind.
    pub slept: Vec<Slept>,
}

/// All sleeps of one kind in a process, summed over the process's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slept {
    pub pid: u32,
    /// The metric for this kind of sleep.
    pub metric: Metric,
    pub time: Nanos,
}

impl ProcessesSeen {
    pub(super) fn new(
        ran: impl Iterator<Item = (u32, u64)>,
        slept: impl Iterator<Item = (SleepKey, u64)>,
    ) -> ProcessesSeen {
        let mut sums: FxHashMap<(u32, Metric), Nanos> = FxHashMap::default();
        for (key, time) in slept {
            if let Some(metric) = metric(key.call, key.is_for_lock != 0) {
                *sums.entry((key.tgid, metric)).or_default() += Nanos(time);
            }
        }
        let mut slept: Vec<Slept> =
            sums.into_iter().map(|((pid, metric), time)| Slept { pid, metric, time }).collect();
        slept.sort_unstable_by_key(|slept| (slept.pid, slept.metric.name()));
        ProcessesSeen { ran: ran.map(|(pid, time)| (pid, Nanos(time))).collect(), slept }
    }
}

/// Returns the metric of sleeps in a system call. A futex without a held lock is usually a thread of a pool
/// that waits for work.
fn metric(call: i32, is_for_lock: bool) -> Option<Metric> {
    if is_for_lock {
        return Some(Metric::ProcessLockNs);
    }
    let is = |numbers: &[libc::c_long]| numbers.contains(&libc::c_long::from(call));
    if is(&[libc::SYS_wait4, libc::SYS_waitid]) {
        Some(Metric::ProcessChildNs)
    } else if is(&[libc::SYS_nanosleep, libc::SYS_clock_nanosleep]) {
        Some(Metric::ProcessTimerNs)
    } else if is(&[libc::SYS_recvfrom, libc::SYS_recvmsg, libc::SYS_recvmmsg, libc::SYS_connect]) {
        Some(Metric::ProcessPeerNs)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_are_summed_by_kind() {
        let key = |tgid, call: libc::c_long, is_for_lock| SleepKey { tgid, call: call as i32, is_for_lock };
        let slept = [
            (key(7, libc::SYS_futex, 1), 5),
            (key(7, libc::SYS_wait4, 0), 6),
            (key(7, libc::SYS_waitid, 0), 7),
            (key(7, libc::SYS_futex, 0), 8),
            (key(8, libc::SYS_recvmsg, 0), 9),
            (key(8, libc::SYS_clock_nanosleep, 0), 10),
        ];
        let seen = ProcessesSeen::new([(7, 3)].into_iter(), slept.into_iter());
        let found: Vec<(u32, &str, u64)> =
            seen.slept.iter().map(|slept| (slept.pid, slept.metric.name(), slept.time.0)).collect();
        assert_eq!(
            found,
            [
                (7, "process_child_ns", 13),
                (7, "process_lock_ns", 5),
                (8, "process_peer_ns", 9),
                (8, "process_timer_ns", 10)
            ]
        );
        assert_eq!(seen.ran[&7], Nanos(3));
    }
}
