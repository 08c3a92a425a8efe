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

pub(crate) mod path;

use fonio_core::meta::SHOWS_SCHEDULER;
use fonio_core::{Nanos, Timestamp, Unit, WaitReason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figures::facts::Facts;
use crate::question::context::{Context, Ending};
use crate::question::{Question, Row};
pub use path::CriticalPath;

const MARK: &str = "launch";
/// The verdict mentions storage if its share is at least this value. Courville and Chen call smaller shares
/// light.
const LIGHT_BELOW: f64 = 0.09;

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

#[derive(Debug, Default)]
pub(crate) struct LaunchTally {
    mark: Option<(Timestamp, Option<Timestamp>, Option<u32>)>,
}

impl Question for LaunchTally {
    type Answer = Option<Launch>;

    fn row(&mut self, row: Row, context: &mut Context) {
        match row {
            Row::Mark(row) if row.name == MARK && self.mark.is_none() => {
                self.mark = Some((row.at, row.until, row.tid));
            }
            Row::Wait(row) => context.intervals.add(row),
            _ => {}
        }
    }

    /// Returns `None` if there is no launch, or if the launch has too many waits.
    fn finish(self, end_of_rows: &mut Ending) -> Option<Launch> {
        let (meta, span_began) = (end_of_rows.meta, end_of_rows.began());
        // The marks of a foreign trace are those of other programs.
        if meta.source.shows.iter().any(|shown| shown == SHOWS_SCHEDULER) {
            return None;
        }
        let Context { intervals, threads: names, .. } = &mut end_of_rows.context;
        let (began, until, root) = self.mark?;
        let (until, root) = (until?, root?);
        if until <= began || !intervals.has(root) {
            return None;
        }
        intervals.sort();
        let user_share = meta
            .command_user_ns
            .zip(meta.command_system_ns)
            .and_then(|(user, system)| (user + system > 0).then(|| user as f64 / (user + system) as f64));
        let (end, last) = intervals.last_active(root, began, until);
        let CriticalPath { path, storage_waits, storage_waits_with_request, programs } =
            intervals.follow((began, end), last, names);
        Some(Launch {
            verdict: path.verdict(),
            began_ns: began - span_began,
            duration_ns: end - began,
            path,
            user_share,
            storage_waits,
            storage_waits_with_request,
            all_threads: intervals.all_threads(began, end),
            threads: intervals.threads(),
            programs,
        })
    }
}

#[cfg(test)]
mod tests;
