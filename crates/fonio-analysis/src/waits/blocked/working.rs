//! Computes the working time of programs: the time for which their threads ran or waited for something, but
//! not for work.
//!
//! A program is judged by the share of its working time for which it was blocked on storage. A server with a
//! thread or a process for each connection may have no thread that waits for long, although all its threads
//! together spend most of their working time in fsync.

use std::cmp::Reverse;

use fonio_core::{Metric, Nanos, Sample, Timestamp};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::named;
use crate::question::ratio::ratio;
use crate::question::threads::Threads;

/// Share of the working time from which storage is the problem (our choice).
pub(crate) const PROBLEM_FROM: f64 = 0.1;
/// Minimum working time for a judgement by the share (our choice). Programs that work less are judged by
/// their long waits.
const WORKING_MIN: Nanos = Nanos(200_000_000);
const WORK_LISTED: usize = 32;
/// Maximum number of processes with times.
const PROCESSES_MAX: usize = 1 << 16;

/// The working time of a program, summed over all its threads and processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Working {
    /// The working time: processor time, and waits for storage, locks, child processes and processor time.
    pub time_ns: Nanos,
    /// Processor time.
    pub processor_ns: Nanos,
    /// Waits for a lock, without waits for a thread that was itself blocked on storage.
    pub lock_ns: Nanos,
    /// Waits until a child process ended, without waits for a child that was itself blocked on storage.
    pub child_ns: Nanos,
    /// Waits for processor time, because the program's control group had used up its quota.
    #[serde(default, skip_serializing_if = "is_none")]
    pub quota_ns: Nanos,
    /// Waits for an answer in operations on files, mostly of a FUSE server that did not wait for storage.
    #[serde(default, skip_serializing_if = "is_none")]
    pub server_ns: Nanos,
    /// The share of the working time for which the program was blocked on storage.
    pub storage_share: f64,
}

/// The times of a program that are not waits for storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramWork {
    /// The program's name.
    pub name: String,
    /// The systemd unit or container, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Whether these processes are those of the recorded command, and of its children. The field is false if
    /// no command was recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_of_command: bool,
    /// Processor time of all processes of the program.
    pub processor_ns: Nanos,
    /// Sleeps of the program's threads while another thread held a lock.
    pub lock_ns: Nanos,
    /// Sleeps of the program's threads until a child process ended.
    pub child_ns: Nanos,
    /// Waits for processor time, because the program's control group had used up its quota.
    #[serde(default, skip_serializing_if = "is_none")]
    pub quota_ns: Nanos,
    /// Sleeps of the program's threads until a peer sent data or accepted a connection. Idle servers have such
    /// sleeps too.
    #[serde(default, skip_serializing_if = "is_none")]
    pub peer_ns: Nanos,
    /// Sleeps of the program's threads for a fixed time.
    #[serde(default, skip_serializing_if = "is_none")]
    pub timer_ns: Nanos,
}

/// A program: its name, its unit, and whether it belongs to the recorded command.
pub(super) type Worker = (u32, Option<u32>, bool);

fn is_none(time: &Nanos) -> bool {
    *time == Nanos(0)
}

impl ProgramWork {
    /// Returns the program's name, with its unit if known.
    pub fn full_name(&self) -> String {
        named(&self.name, self.unit.as_deref())
    }
}

/// Lists the programs with the most processor time and the longest waits.
pub(super) fn work(times: &FxHashMap<Worker, Times>, threads: &Threads) -> Vec<ProgramWork> {
    let mut sorted: Vec<(&Worker, &Times)> = times.iter().collect();
    // Sleeps for peers and timers are listed only for the command, because idle programs have them too.
    let weight = |(worker, times): &(&Worker, &Times)| match worker.2 {
        true => times.working() + times.peer + times.timer,
        false => times.working(),
    };
    sorted.sort_by_key(|row| (Reverse(weight(row)), *row.0));
    let told = |(program, times): (&Worker, &Times)| ProgramWork {
        name: threads.name(program.0).to_owned(),
        unit: program.1.map(|unit| threads.unit(unit).to_owned()),
        is_of_command: program.2,
        processor_ns: times.processor,
        lock_ns: times.lock,
        child_ns: times.child,
        quota_ns: times.quota,
        peer_ns: times.peer,
        timer_ns: times.timer,
    };
    sorted.into_iter().take(WORK_LISTED).map(told).collect()
}

/// The times of processes, from the samples at the end of a recording.
#[derive(Debug, Default)]
pub(super) struct ProcessTimes {
    times: FxHashMap<u32, Times>,
    at: Timestamp,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    processor: Nanos,
    lock: Nanos,
    child: Nanos,
    quota: Nanos,
    peer: Nanos,
    timer: Nanos,
}

impl Times {
    fn working(&self) -> Nanos {
        self.processor + self.lock + self.child + self.quota
    }

    fn add(&mut self, other: &Times) {
        self.processor += other.processor;
        self.lock += other.lock;
        self.child += other.child;
        self.quota += other.quota;
        self.peer += other.peer;
        self.timer += other.timer;
    }
}

impl ProcessTimes {
    pub(super) fn sample(&mut self, sample: &Sample) {
        let pid = sample.subject.as_ref().and_then(|subject| subject.parse().ok());
        let Some(pid) = pid.filter(|_| sample.metric.is_of_process()) else { return };
        if self.times.len() >= PROCESSES_MAX && !self.times.contains_key(&pid) {
            return;
        }
        self.at = sample.time;
        let times = self.times.entry(pid).or_default();
        let value = Nanos(u64::try_from(sample.value).unwrap_or(0));
        match sample.metric {
            Metric::ProcessCpuNs => times.processor = value,
            Metric::ProcessLockNs => times.lock = value,
            Metric::ProcessChildNs => times.child = value,
            Metric::ProcessQuotaNs => times.quota = value,
            Metric::ProcessPeerNs => times.peer = value,
            Metric::ProcessTimerNs => times.timer = value,
            _ => {}
        }
    }

    /// Returns the times of each program; `None` if the recording has no times. `is_of_command` returns whether
    /// a process belongs to the recorded command.
    pub(super) fn by_program(
        &self,
        threads: &mut Threads,
        is_of_command: &dyn Fn(u32) -> bool,
    ) -> Option<FxHashMap<Worker, Times>> {
        if self.times.is_empty() {
            return None;
        }
        let mut sums: FxHashMap<Worker, Times> = FxHashMap::default();
        for (&pid, times) in &self.times {
            let (name, unit) = (threads.program_at(Some(pid), self.at), threads.unit_at(pid, self.at));
            sums.entry((name, unit, is_of_command(pid))).or_default().add(times);
        }
        Some(sums)
    }
}

impl Working {
    pub(super) fn of(storage: Nanos, through: Nanos, server: Nanos, times: Times) -> Working {
        // While the program waited for a blocked thread, it waited for a lock, a child or an answer.
        let others = times.lock + times.child;
        let beyond = Nanos(others.0.saturating_sub(through.0));
        let lock = Nanos(times.lock.0.min(beyond.0));
        let child = Nanos(beyond.0 - lock.0);
        let working = times.processor + storage + beyond + times.quota + server;
        Working {
            time_ns: working,
            processor_ns: times.processor,
            lock_ns: lock,
            child_ns: child,
            quota_ns: times.quota,
            server_ns: server,
            storage_share: ratio(storage, working).unwrap_or(0.0),
        }
    }

    /// Returns whether storage is the problem of a program that has this working time and was blocked on
    /// storage for `storage`.
    pub(super) fn is_problem(&self, storage: Nanos) -> bool {
        self.storage_share >= PROBLEM_FROM
            && self.time_ns >= WORKING_MIN
            && storage >= self.lock_ns.max(self.child_ns).max(self.quota_ns).max(self.server_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_largest_kind_of_wait_decides() {
        let judged = |storage: u64, processor: u64, lock: u64, child: u64, quota: u64| {
            let nanos = |ms: u64| Nanos(ms * MS);
            let (processor, lock, child, quota) = (nanos(processor), nanos(lock), nanos(child), nanos(quota));
            let times = Times { processor, lock, child, quota, ..Times::default() };
            let working = Working::of(nanos(storage), Nanos(0), Nanos(0), times);
            (working.time_ns.0 / MS, working.is_problem(nanos(storage)))
        };
        assert_eq!(judged(20, 180, 0, 0, 0), (200, true));
        assert_eq!(judged(19, 181, 0, 0, 0), (200, false), "below a tenth");
        assert_eq!(judged(100, 99, 0, 0, 0), (199, false), "too little work");
        assert_eq!(judged(300, 100, 299, 0, 0), (699, true));
        assert_eq!(judged(300, 100, 301, 0, 0), (701, false), "the lock is the larger wait");
        assert_eq!(judged(300, 100, 0, 400, 0), (800, false), "the child is the larger wait");
        assert_eq!(judged(300, 100, 0, 0, 400), (800, false), "the quota is the larger wait");
    }
}
