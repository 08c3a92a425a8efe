//! Follows the critical path of a launch through the waits of all threads.

use std::cmp::Reverse;

use fonio_core::{Nanos, Timestamp, Wait, WaitReason};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Parts, ProgramTime};
use crate::question::threads::Threads;

/// Maximum number of waits stored. If a launch has more waits, no critical path is computed.
const WAITS_MAX: usize = 4_000_000;
/// Maximum number of threads whose waits are stored; the same applies to them.
const THREADS_MAX: usize = 1 << 16;
const THREADS_LISTED: usize = 20;

/// The critical path of a launch: where each moment of it was spent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CriticalPath {
    /// The parts of the path; they sum to the duration of the launch.
    pub path: Parts,
    /// The number of waits for storage on the path.
    pub storage_waits: u64,
    /// The number of waits for storage on the path whose ending request is known.
    pub storage_waits_with_request: u64,
    /// Each program's part of the path, the largest part first; at most 20.
    pub programs: Vec<ProgramTime>,
}

#[derive(Clone, Copy, Debug)]
struct Interval {
    began: Timestamp,
    ended: Timestamp,
    reason: WaitReason,
    waker: Option<u32>,
    has_request: bool,
    /// Whether the source records the threads in all states from this row on. Other rows of a trace of the scheduler
    /// show only waits in state D.
    is_of_launch: bool,
}

/// The waits of all threads.
#[derive(Debug, Default)]
pub(crate) struct Intervals {
    threads: FxHashMap<u32, Vec<Interval>>,
    count: usize,
    is_sorted: bool,
}

impl Intervals {
    /// Adds a wait. After too many waits, there are none.
    pub fn add(&mut self, row: &Wait) {
        self.count += 1;
        if self.count == WAITS_MAX + 1 || self.threads.len() > THREADS_MAX {
            self.count = self.count.max(WAITS_MAX + 1);
            self.threads = FxHashMap::default();
        }
        if self.count <= WAITS_MAX {
            self.is_sorted = false;
            self.threads.entry(row.tid).or_default().push(Interval {
                began: row.began,
                ended: row.ended.unwrap_or(Timestamp::MAX),
                reason: row.reason,
                waker: row.waker_tid,
                has_request: row.request_id.is_some(),
                is_of_launch: row.io_wait.is_none(),
            });
        }
    }

    /// Sorts the waits; the other methods need sorted waits.
    pub fn sort(&mut self) {
        if !std::mem::replace(&mut self.is_sorted, true) {
            for intervals in self.threads.values_mut() {
                intervals.sort_by_key(|interval| (interval.began, interval.ended));
            }
        }
    }

    /// Returns whether a thread has waits.
    pub fn has(&self, tid: u32) -> bool {
        self.threads.contains_key(&tid)
    }

    /// Returns whether all states of a thread are known within a span.
    pub fn has_all_states(&self, tid: u32, (from, until): (Timestamp, Timestamp)) -> bool {
        let intervals = self.threads.get(&tid).map_or(&[][..], Vec::as_slice);
        intervals.iter().any(|one| one.is_of_launch && one.began < until && from < one.ended)
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> u64 {
        self.threads.len() as u64
    }

    /// Returns the waits of all threads within a span, summed.
    pub fn all_threads(&self, began: Timestamp, end: Timestamp) -> Parts {
        let mut all = Parts::default();
        for interval in self.threads.values().flatten() {
            *all.of(interval.reason) += interval.ended.min(end) - interval.began.max(began);
        }
        all
    }

    /// Returns the end of the critical path. If the launch's first thread ended, the path ends at the end of
    /// this thread. Otherwise, the path ends when the last active thread of the launch began to wait.
    pub fn last_active(&self, root: u32, began: Timestamp, until: Timestamp) -> (Timestamp, u32) {
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
                Some((active, Reverse(*tid)))
            });
        last.max().map_or((until, root), |(at, tid)| (at.max(began + Nanos(1)), tid.0))
    }

    /// Returns the first of these threads that is active at `at` or, if none is, the one that was active last.
    pub fn last_active_of(&self, tids: &[u32], at: Timestamp) -> Option<u32> {
        let active = |(place, tid): (usize, &u32)| {
            let intervals = self.threads.get(tid)?;
            let before = intervals[..intervals.partition_point(|i| i.began < at)].last()?;
            let active = if before.ended <= at { at } else { before.began };
            Some((active, Reverse(place), *tid))
        };
        tids.iter().enumerate().filter_map(active).max().map(|(.., tid)| tid)
    }

    /// Follows the path backwards, from the end of the span in the thread `last`.
    pub fn follow(
        &self,
        (began, end): (Timestamp, Timestamp),
        last: u32,
        names: &mut Threads,
    ) -> CriticalPath {
        let mut found = CriticalPath::default();
        let mut programs: FxHashMap<u32, Parts> = FxHashMap::default();
        let (mut at, mut tid) = (end, last);
        // Stop a path that keeps switching between threads without moving back in time.
        let mut jumps = 0;
        while at > began {
            let program = names.name_at(Some(tid), at);
            let parts = programs.entry(program).or_default();
            let mut spend = |part: &dyn Fn(&mut Parts) -> &mut Nanos, from: Timestamp, at: &mut Timestamp| {
                let from = from.max(began);
                *part(&mut found.path) += *at - from;
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
                found.storage_waits += 1;
                found.storage_waits_with_request += u64::from(interval.has_request);
            }
            spend(&|parts| parts.of(interval.reason), interval.began, &mut at);
            jumps = 0;
        }
        assert!(found.path.sum_ns() == end - began, "the path covers the launch exactly once");
        let mut programs: Vec<ProgramTime> = programs
            .into_iter()
            .map(|(program, path)| ProgramTime { name: names.name(program).to_owned(), path })
            .filter(|program| program.path.sum_ns() > Nanos(0))
            .collect();
        programs.sort_by(|a, b| b.path.sum_ns().cmp(&a.path.sum_ns()).then_with(|| a.name.cmp(&b.name)));
        programs.truncate(THREADS_LISTED);
        found.programs = programs;
        found
    }
}
