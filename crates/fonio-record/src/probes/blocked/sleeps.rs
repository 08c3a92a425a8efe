//! Sorts the interruptible sleeps of processes by their system calls.

use fonio_core::{Metric, Nanos, Timestamp};
use fonio_machine::{Machine, read_text};
use fonio_system::Task;
use rustc_hash::FxHashMap;

use super::layout::{LOCK, PERHAPS_LOCK, SleepKey};

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
    /// `is_musl` returns whether a process uses the C library musl.
    pub(super) fn new(
        ran: impl Iterator<Item = (u32, u64)>,
        slept: impl Iterator<Item = (SleepKey, u64)>,
        is_musl: impl Fn(u32) -> bool,
    ) -> ProcessesSeen {
        let mut sums: FxHashMap<(u32, Metric), Nanos> = FxHashMap::default();
        for (key, time) in slept {
            let is_lock = match key.lock {
                LOCK => true,
                PERHAPS_LOCK => !is_musl(key.tgid),
                _ => false,
            };
            if let Some(metric) = metric(key.call, is_lock) {
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
    } else if is(&[libc::SYS_flock, libc::SYS_fcntl]) {
        // Of the operations of fcntl, only a lock of a file sleeps.
        Some(Metric::ProcessLockNs)
    } else if is(&[libc::SYS_nanosleep, libc::SYS_clock_nanosleep]) {
        Some(Metric::ProcessTimerNs)
    } else if is(&[libc::SYS_recvfrom, libc::SYS_recvmsg, libc::SYS_recvmmsg, libc::SYS_connect]) {
        Some(Metric::ProcessPeerNs)
    } else {
        None
    }
}

/// Commands and values of futexes, as in `bpf/blocked.bpf.c`.
const FUTEX_COMMAND: u64 = 0x7f;
const FUTEX_WAIT: u64 = 0;
const FUTEX_LOCKS: [u64; 2] = [6, 13];
const LOCK_WAITED_FOR: u64 = 2;
const LOCK_WAITED_FOR_MUSL: u64 = 0x8000_0010;

/// Returns whether a process uses the C library musl; `false` if the process has ended.
pub(super) fn is_musl(machine: &Machine, pid: u32) -> bool {
    read_text(&machine.proc(format!("{pid}/maps"))).is_some_and(|maps| maps.contains("ld-musl"))
}

/// Returns the sleeps that have not ended, by process and system call. `since` has the time at which a thread
/// last went to sleep; a thread without such a time has slept since the beginning of the recording.
pub(super) fn still_asleep(
    machine: &Machine,
    since: &FxHashMap<u32, Timestamp>,
    (began, ended): (Timestamp, Timestamp),
) -> Vec<(SleepKey, u64)> {
    let proc = machine.proc("");
    let mut found = Vec::new();
    for pid in Task::all_below(&proc).filter(|pid| *pid != std::process::id()) {
        for tid in Task::all_below(&machine.proc(format!("{pid}/task"))) {
            let task = Task::below(&proc, tid);
            // The kernel has no system call of its own threads.
            let Some((call, lock)) = read_text(&task.file("syscall")).and_then(|text| asleep_in(&text))
            else {
                continue;
            };
            if task.stat().is_none_or(|stat| stat.state != 'S') {
                continue;
            }
            let from = since.get(&tid).copied().unwrap_or(began).max(began);
            let key = SleepKey { tgid: pid, call, lock };
            found.push((key, ended.since(from).unwrap_or_default().0));
        }
    }
    found
}

/// Parses `/proc/TID/syscall`, such as `202 0x7f0 0x80 0x2 …`: the number of the system call, and the class of a
/// wait for a lock, as [`SleepKey`] has it. Returns `None` for a thread that runs or has no call.
fn asleep_in(text: &str) -> Option<(i32, u32)> {
    let mut words = text.split_ascii_whitespace();
    let call: i32 = words.next()?.parse().ok().filter(|call| *call >= 0)?;
    let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (_, operation, value) = (argument()?, argument()?, argument()?);
    let lock = match (operation & FUTEX_COMMAND, value & 0xffff_ffff) {
        _ if libc::c_long::from(call) != libc::SYS_futex => 0,
        (FUTEX_WAIT, LOCK_WAITED_FOR) => PERHAPS_LOCK,
        (FUTEX_WAIT, LOCK_WAITED_FOR_MUSL) => LOCK,
        (command, _) if FUTEX_LOCKS.contains(&command) => LOCK,
        _ => 0,
    };
    Some((call, lock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_told_from_an_idle_thread() {
        let futex = libc::SYS_futex;
        for (text, expected) in [
            (
                format!("{futex} 0x7f01 0x80 0x2 0x0 0x0 0x0 0x7ffe 0x7f02\n"),
                Some((futex as i32, PERHAPS_LOCK)),
            ),
            (format!("{futex} 0x7f01 0x189 0x0 0x0 0x0 0xffffffff 0x7ffe 0x7f02\n"), Some((futex as i32, 0))),
            // A condition variable of Rust has any value.
            (format!("{futex} 0x7f01 0x89 0x2 0x0 0x0 0xffffffff 0x7ffe 0x7f02\n"), Some((futex as i32, 0))),
            (
                format!("{futex} 0x7f01 0x80 0x80000010 0x0 0x0 0x0 0x7ffe 0x7f02\n"),
                Some((futex as i32, LOCK)),
            ),
            ("61 0xffffffff 0x7ffd 0x0 0x0 0x0 0x0 0x7ffd 0x7f\n".to_owned(), Some((61, 0))),
            ("running\n".to_owned(), None),
            ("-1 0x7ffd 0x7f\n".to_owned(), None),
        ] {
            assert_eq!(asleep_in(&text), expected, "{text}");
        }
    }

    #[test]
    fn a_sleep_that_has_not_ended_counts_from_its_beginning() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(200));
        let span = (Timestamp(1_000), Timestamp(9_000));
        let of_child = |since: &FxHashMap<u32, Timestamp>| {
            let found = still_asleep(&Machine::here(), since, span);
            found
                .into_iter()
                .filter(|(key, _)| key.tgid == child.id())
                .map(|(_, time)| time)
                .collect::<Vec<_>>()
        };
        assert_eq!(of_child(&FxHashMap::default()), [8_000]);
        assert_eq!(of_child(&[(child.id(), Timestamp(4_000))].into_iter().collect()), [5_000]);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn sleeps_are_summed_by_kind() {
        let key = |tgid, call: libc::c_long, lock| SleepKey { tgid, call: call as i32, lock };
        let slept = [
            (key(7, libc::SYS_futex, PERHAPS_LOCK), 5),
            (key(9, libc::SYS_futex, PERHAPS_LOCK), 50),
            (key(7, libc::SYS_wait4, 0), 6),
            (key(7, libc::SYS_waitid, 0), 7),
            (key(7, libc::SYS_futex, 0), 8),
            (key(8, libc::SYS_recvmsg, 0), 9),
            (key(8, libc::SYS_clock_nanosleep, 0), 10),
        ];
        let seen = ProcessesSeen::new([(7, 3)].into_iter(), slept.into_iter(), |pid| pid == 9);
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
