//! Computes the critical path of a launch, and divides the launch time by cause.
//!
//! A launch is the span of the mark `launch`: a command from its start to its end, or until it became quiet.
//! The critical path is followed backwards from the end of the launch. Time in which a thread on the path ran
//! is processor time. Time in which the thread was blocked belongs to the cause of the wait. If another
//! thread of the launch ended the wait (a lock, a pipe, the end of a child), the path continues in that other
//! thread. At the start of a thread, the path continues in its creator. Every moment is thus counted once,
//! and the parts sum to the duration of the launch.
//!
//! Nguyen et al. (MobiSys 2015, section 7.4) divide a launch into user, system, storage and network time.
//! Equation (1) of that paper computes the storage part of an interval from the interval's own rates, which
//! yields the interval itself. This module uses the measured times of the waits instead.

use fonio_core::{Nanos, Timestamp, Unit, WaitReason};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figures::facts::Facts;
use crate::question::context::{Context, Ending};
use crate::question::threads::Threads;
use crate::question::{Question, Row};

const MARK: &str = "launch";
/// Maximum number of waits stored. If a launch has more waits, no critical path is computed.
const WAITS_MAX: usize = 4_000_000;
/// Maximum number of threads whose waits are stored; the same applies to them.
const THREADS_MAX: usize = 1 << 16;
/// The verdict mentions storage if its share is at least this value. Courville and Chen call smaller shares
/// light.
const LIGHT_BELOW: f64 = 0.09;
const THREADS_LISTED: usize = 20;

/// A launch and its critical path, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Launch {
    /// The result in one sentence.
    pub verdict: String,
    /// Start, in nanoseconds since the span began.
    pub began_ns: Nanos,
    /// The duration of the launch.
    pub duration_ns: Nanos,
    /// The parts of the critical path; they sum to `duration_ns`.
    pub path: Parts,
    /// Share of `path.running_ns` in user mode, taken from the kernel's accounting of the complete command.
    pub user_share: Option<f64>,
    /// The number of waits for storage on the critical path.
    pub storage_waits: u64,
    /// The number of waits for storage on the critical path whose ending request is known.
    pub storage_waits_with_request: u64,
    /// Waits summed over all threads. Threads wait in parallel, so the sum can exceed the duration of the
    /// launch. `running_ns` stays 0, because the `waits` table does not show when a thread ended.
    pub all_threads: Parts,
    /// The number of threads of the launch.
    pub threads: u64,
    /// Each program's part of the critical path, the largest part first.
    pub programs: Vec<ProgramTime>,
}

/// Time by the reason of the wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Parts {
    /// Time running on a processor.
    pub running_ns: Nanos,
    /// Time blocked on storage.
    pub storage_ns: Nanos,
    /// Time blocked on the network.
    pub network_ns: Nanos,
    /// Time blocked on a timer.
    pub timer_ns: Nanos,
    /// Time blocked on a lock held outside the launch.
    pub lock_ns: Nanos,
    /// Time blocked on a process outside the launch.
    pub thread_ns: Nanos,
    /// Time ready to run, but without a processor.
    pub cpu_ns: Nanos,
    /// Time blocked for an unknown reason.
    pub unknown_ns: Nanos,
}

/// A program's part of the critical path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramTime {
    /// The thread's name.
    pub name: String,
    /// The program's parts.
    pub path: Parts,
}

impl Launch {
    /// Adds a figure used only in comparisons.
    pub(crate) fn compared_figures(launch: Option<&Launch>, facts: &mut Facts) {
        let blocked = launch.map(|launch| launch.path.storage_ns.0 as f64);
        facts.felt("launch.storage", "time blocked on storage", Unit::Ns, blocked);
    }
}

impl Parts {
    /// Returns the part of the critical path to which waits for `reason` are added.
    fn of(&mut self, reason: WaitReason) -> &mut Nanos {
        match reason {
            WaitReason::Storage => &mut self.storage_ns,
            WaitReason::Network => &mut self.network_ns,
            WaitReason::Timer => &mut self.timer_ns,
            WaitReason::Lock => &mut self.lock_ns,
            WaitReason::Thread => &mut self.thread_ns,
            WaitReason::Cpu => &mut self.cpu_ns,
            WaitReason::Unknown => &mut self.unknown_ns,
        }
    }

    /// Returns the sum of all parts of the critical path.
    pub fn sum_ns(&self) -> Nanos {
        let Parts { running_ns, storage_ns, network_ns, timer_ns, lock_ns, thread_ns, cpu_ns, unknown_ns } =
            *self;
        [running_ns, storage_ns, network_ns, timer_ns, lock_ns, thread_ns, cpu_ns, unknown_ns]
            .into_iter()
            .sum()
    }

    /// Returns the verdict as a sentence that names the largest part of the launch.
    pub fn verdict(&self) -> String {
        let whole = self.sum_ns().0.max(1) as f64;
        let parts = [
            ("waiting for storage", self.storage_ns),
            ("running", self.running_ns),
            ("waiting for the network", self.network_ns),
            ("waiting for a processor", self.cpu_ns),
            ("waiting for its own timers", self.timer_ns),
            ("waiting for other processes and locks", self.thread_ns + self.lock_ns),
            ("waiting for an unknown reason", self.unknown_ns),
        ];
        let percent = |ns: Nanos| format!("{:.0} %", ns.0 as f64 / whole * 100.0);
        let (storage_ns, storage) = (self.storage_ns, percent(self.storage_ns));
        // If several parts are largest, use the first of them.
        let (what, most) = parts.iter().rev().max_by_key(|(_, ns)| *ns).expect("there are seven");
        if *most == storage_ns {
            format!("{storage} of the launch is spent waiting for storage.")
        } else if (storage_ns.0 as f64) < LIGHT_BELOW * whole {
            format!(
                "Storage is not the problem of this launch ({storage} of it): {} is spent {what}.",
                percent(*most)
            )
        } else {
            format!(
                "{storage} of the launch is spent waiting for storage, but the largest part, {}, is spent {what}.",
                percent(*most)
            )
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Interval {
    began: Timestamp,
    ended: Timestamp,
    reason: WaitReason,
    waker: Option<u32>,
    has_request: bool,
}

#[derive(Debug, Default)]
pub(crate) struct LaunchTally {
    mark: Option<(Timestamp, Option<Timestamp>, Option<u32>)>,
    threads: FxHashMap<u32, Vec<Interval>>,
    count: usize,
}

impl Question for LaunchTally {
    type Answer = Option<Launch>;

    fn row(&mut self, row: Row, _: &mut Context) {
        match row {
            Row::Mark(row) if row.name == MARK && self.mark.is_none() => {
                self.mark = Some((row.at, row.until, row.tid));
            }
            // A trace of the scheduler shows only the waits in state D; its marks are those of other programs.
            Row::Wait(row) if row.io_wait.is_none() => {
                self.count += 1;
                if self.count == WAITS_MAX + 1 || self.threads.len() > THREADS_MAX {
                    self.count = self.count.max(WAITS_MAX + 1);
                    self.threads = FxHashMap::default();
                }
                if self.count <= WAITS_MAX {
                    self.threads.entry(row.tid).or_default().push(Interval {
                        began: row.began,
                        ended: row.ended.unwrap_or(Timestamp::MAX),
                        reason: row.reason,
                        waker: row.waker_tid,
                        has_request: row.request_id.is_some(),
                    });
                }
            }
            _ => {}
        }
    }

    /// Returns `None` if there is no launch, or if the launch has too many waits.
    fn finish(mut self, end_of_rows: &mut Ending) -> Option<Launch> {
        let (meta, span_began) = (end_of_rows.meta, end_of_rows.began());
        let names = &mut end_of_rows.context.threads;
        let (began, until, root) = self.mark?;
        let (until, root) = (until?, root?);
        if self.count > WAITS_MAX || until <= began || !self.threads.contains_key(&root) {
            return None;
        }
        for intervals in self.threads.values_mut() {
            intervals.sort_by_key(|interval| (interval.began, interval.ended));
        }
        let user_share = meta
            .command_user_ns
            .zip(meta.command_system_ns)
            .and_then(|(user, system)| (user + system > 0).then(|| user as f64 / (user + system) as f64));
        let (end, last) = self.last_active(root, began, until);
        let mut launch = Launch {
            began_ns: began - span_began,
            duration_ns: end - began,
            user_share,
            threads: self.threads.len() as u64,
            ..Launch::default()
        };
        for interval in self.threads.values().flatten() {
            let covered = interval.ended.min(end) - interval.began.max(began);
            *launch.all_threads.of(interval.reason) += covered;
        }
        self.follow(&mut launch, (began, end), last, names);
        launch.verdict = launch.path.verdict();
        Some(launch)
    }
}

impl LaunchTally {
    /// Returns the end of the critical path. If the launch's first thread ended, the path ends at the end of
    /// this thread. Otherwise, the path ends when the last active thread of the launch began to wait.
    fn last_active(&self, root: u32, began: Timestamp, until: Timestamp) -> (Timestamp, u32) {
        let waits_at_end = self.threads[&root].iter().any(|i| i.began < until && until < i.ended);
        if !waits_at_end {
            return (until, root);
        }
        // The `waits` table does not show when a thread ended. A thread that still exists has a later wait,
        // at the latest when it ends.
        let lives = |intervals: &[Interval]| intervals.iter().any(|i| i.ended > until);
        let last =
            self.threads.iter().filter(|(_, intervals)| lives(intervals)).filter_map(|(tid, intervals)| {
                let before = intervals[..intervals.partition_point(|i| i.began <= until)].last()?;
                // A thread that runs at the end of the launch was active until the end.
                let active = if before.ended < until { until } else { before.began };
                Some((active, std::cmp::Reverse(*tid)))
            });
        last.max().map_or((until, root), |(at, tid)| (at.max(began + Nanos(1)), tid.0))
    }

    fn follow(
        &self,
        launch: &mut Launch,
        (began, end): (Timestamp, Timestamp),
        last: u32,
        names: &mut Threads,
    ) {
        let mut programs: FxHashMap<u32, Parts> = FxHashMap::default();
        let (mut at, mut tid) = (end, last);
        // Stop a path that keeps switching between threads without moving back in time.
        let mut jumps = 0;
        while at > began {
            let program = names.name_at(Some(tid), at);
            let parts = programs.entry(program).or_default();
            let mut spend = |part: &dyn Fn(&mut Parts) -> &mut Nanos, from: Timestamp, at: &mut Timestamp| {
                let from = from.max(began);
                *part(&mut launch.path) += *at - from;
                *part(parts) += *at - from;
                *at = from;
            };
            let intervals = self.threads.get(&tid).map_or(&[][..], Vec::as_slice);
            let place = intervals.partition_point(|interval| interval.began < at);
            let Some(interval) = place.checked_sub(1).map(|place| intervals[place]) else {
                // The path has reached the start of the thread, or the recording shows nothing about the
                // thread.
                match intervals.first().and_then(|first| first.waker) {
                    Some(maker) if jumps <= self.threads.len() && self.threads.contains_key(&maker) => {
                        tid = maker;
                        jumps += 1;
                    }
                    _ => spend(&|parts| &mut parts.unknown_ns, began, &mut at),
                }
                continue;
            };
            if interval.ended < at {
                spend(&|parts| &mut parts.running_ns, interval.ended, &mut at);
                jumps = 0;
                continue;
            }
            let goes_on =
                matches!(interval.reason, WaitReason::Lock | WaitReason::Thread | WaitReason::Unknown);
            if let Some(waker) = interval.waker
                && goes_on
                && interval.ended == at
                && jumps <= self.threads.len()
                && self.threads.contains_key(&waker)
            {
                tid = waker;
                jumps += 1;
                continue;
            }
            if interval.reason == WaitReason::Storage {
                launch.storage_waits += 1;
                launch.storage_waits_with_request += u64::from(interval.has_request);
            }
            spend(&|parts| parts.of(interval.reason), interval.began, &mut at);
            jumps = 0;
        }
        assert!(launch.path.sum_ns() == launch.duration_ns, "the path covers the launch exactly once");
        let mut programs: Vec<ProgramTime> = programs
            .into_iter()
            .map(|(program, path)| ProgramTime { name: names.name(program).to_owned(), path })
            .filter(|program| program.path.sum_ns() > Nanos(0))
            .collect();
        programs.sort_by(|a, b| b.path.sum_ns().cmp(&a.path.sum_ns()).then_with(|| a.name.cmp(&b.name)));
        programs.truncate(THREADS_LISTED);
        launch.programs = programs;
    }
}

#[cfg(test)]
mod tests;
