//! Collects the waits of a trace of the scheduler.

use std::cmp::Reverse;

use fonio_core::meta::SHOWS_SCHEDULER;
use fonio_core::{Call, Nanos, Thread, Timestamp, Wait};
use rustc_hash::FxHashMap;

use super::spans::Spans;
use super::threads::Threads;
use super::{
    AppLaunch, DrawingThread, FunctionTime, Kept, SleepTime, SleepingThread, ThreadSyncs, Uninterruptible,
};
use crate::figures::facts::{Facts, Frame};
use crate::launch::CriticalPath;
use crate::question::context::{Context, Ending};
use crate::question::{Question, Row};
use crate::waits::blocked::is_kernel;

const THREADS_MAX: usize = 1 << 16;
/// Maximum number of functions, and maximum length of a function's name. A trace names some hundred.
const FUNCTIONS_MAX: usize = 4096;
const NAME_BYTES_MAX: usize = 128;
/// Maximum number of pairs of a thread and a function.
const PAIRS_MAX: usize = 1 << 16;
/// Maximum number of waits that are kept for launches, frames and sync calls: of a phone in use, some minutes.
const KEPT_MAX: usize = 1 << 18;
/// Maximum number of sync calls that are kept.
const SYNCS_MAX: usize = 1 << 16;
/// Maximum number of rows of each list.
const LISTED: usize = 64;
/// Maximum number of functions of a thread.
const LISTED_OF_THREAD: usize = 3;
/// The name of the thread that draws what an app's UI thread prepared.
const RENDER_THREAD: &str = "RenderThread";
/// The parent of all threads of the kernel, and its own process.
const KTHREADD: u32 = 2;

/// The identity of a thread, from the latest rows.
#[derive(Debug, Default)]
struct Identity {
    pid: Option<u32>,
    parent: Option<u32>,
    comm: Option<String>,
    unit: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct UninterruptibleTally {
    all: SleepTime,
    threads: FxHashMap<u32, SleepTime>,
    functions: FxHashMap<u32, SleepTime>,
    pairs: FxHashMap<(u32, u32), SleepTime>,
    names: Vec<String>,
    numbers: FxHashMap<String, u32>,
    kept: FxHashMap<u32, Vec<Kept>>,
    kept_count: usize,
    beyond: u64,
    syncs: Vec<(u32, Timestamp, Timestamp)>,
    identities: FxHashMap<u32, Identity>,
    /// The RenderThreads of each process, known at the end.
    renders: FxHashMap<u32, Vec<u32>>,
    spans: Spans,
}

impl Question for UninterruptibleTally {
    type Answer = Option<Uninterruptible>;

    fn row(&mut self, row: Row, context: &mut Context) {
        match row {
            Row::Wait(row) => self.wait(row, context.span_of_waits()),
            Row::Call(row) => self.call(row),
            Row::Thread(row) => self.thread(row),
            Row::Mark(row) => self.spans.mark(row),
            _ => {}
        }
    }

    fn finish(mut self, end: &mut Ending) -> Option<Uninterruptible> {
        if !end.meta.source.shows.iter().any(|shown| shown == SHOWS_SCHEDULER) {
            return None;
        }
        for waits in self.kept.values_mut() {
            waits.sort_by_key(|wait| wait.began);
        }
        for (tid, identity) in &self.identities {
            if let (Some(pid), Some(RENDER_THREAD)) = (identity.pid, identity.comm.as_deref()) {
                self.renders.entry(pid).or_default().push(*tid);
            }
        }
        self.renders.values_mut().for_each(|tids| tids.sort_unstable());
        let began = end.began();
        let mut threads: Vec<(u32, SleepTime)> =
            self.threads.iter().map(|(tid, time)| (*tid, *time)).collect();
        threads.sort_by_key(|(tid, time)| (Reverse(time.total_ns()), *tid));
        let threads_beyond_cap = threads.len().saturating_sub(LISTED) as u64;
        threads.truncate(LISTED);
        let mut functions: Vec<(u32, SleepTime)> =
            self.functions.iter().map(|(name, time)| (*name, *time)).collect();
        functions.sort_by_key(|(name, time)| (Reverse(time.total_ns()), *name));
        functions.truncate(LISTED);
        let mut launches = self.spans.launches(&self, began, LISTED);
        for launch in &mut launches {
            launch.path = critical_path(launch, began, &mut end.context);
        }
        let (late_frames, late_frames_beyond_cap) = self.spans.late_frames(&self, began, LISTED);
        Some(Uninterruptible {
            has_block_events: !end.is_scheduler_only(),
            all: self.all,
            threads: threads.into_iter().map(|(tid, time)| self.sleeping(tid, time)).collect(),
            threads_beyond_cap,
            functions: (functions.into_iter())
                .map(|(name, time)| FunctionTime { function: self.function(name), time })
                .collect(),
            syncs: self.syncs(),
            launches,
            late_frames,
            late_frames_beyond_cap,
            waits_beyond_cap: self.beyond,
        })
    }

    fn figures(answer: &Option<Uninterruptible>, frame: &Frame, facts: &mut Facts) {
        if let Some(answer) = answer {
            answer.figures(frame.span, facts);
        }
    }
}

/// Follows the critical path of a launch. Returns `None` if the trace does not show the app's threads in all states.
fn critical_path(launch: &AppLaunch, began: Timestamp, context: &mut Context) -> Option<CriticalPath> {
    let Context { intervals, threads: names, .. } = context;
    intervals.sort();
    let from = began + launch.at_ns;
    let span = (from, from + launch.duration_ns);
    let tids: Vec<u32> = launch.threads.iter().map(|thread| thread.tid).collect();
    let last = intervals.last_active_of(&tids, span.1)?;
    intervals.has_all_states(last, span).then(|| intervals.follow(span, last, names))
}

impl UninterruptibleTally {
    fn wait(&mut self, row: &Wait, span: (Timestamp, Timestamp)) {
        let (Some(io_wait), Some(ended)) = (row.io_wait, row.ended) else { return };
        let (began, ended) = (row.began.max(span.0), ended.min(span.1));
        if ended <= began {
            return;
        }
        let time = ended - began;
        self.all.add(time, io_wait);
        if self.threads.len() < THREADS_MAX || self.threads.contains_key(&row.tid) {
            self.threads.entry(row.tid).or_default().add(time, io_wait);
        }
        let function = row.function.as_deref().and_then(|name| self.number(name));
        if let Some(function) = function {
            self.functions.entry(function).or_default().add(time, io_wait);
            let pair = (row.tid, function);
            if self.pairs.len() < PAIRS_MAX || self.pairs.contains_key(&pair) {
                self.pairs.entry(pair).or_default().add(time, io_wait);
            }
        }
        if self.kept_count >= KEPT_MAX {
            self.beyond += 1;
            return;
        }
        self.kept_count += 1;
        self.kept.entry(row.tid).or_default().push(Kept { began, ended, io_wait, function });
    }

    /// Returns the number of a function; `None` if there are too many.
    fn number(&mut self, name: &str) -> Option<u32> {
        let name = fonio_core::shortened(name, NAME_BYTES_MAX);
        if let Some(number) = self.numbers.get(name) {
            return Some(*number);
        }
        if self.names.len() >= FUNCTIONS_MAX {
            return None;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_string());
        self.numbers.insert(name.to_string(), number);
        Some(number)
    }

    fn function(&self, number: u32) -> String {
        self.names[number as usize].clone()
    }

    fn call(&mut self, row: &Call) {
        if let Some(exited) = row.exited
            && ["fsync", "fdatasync"].contains(&row.name.as_str())
            && self.syncs.len() < SYNCS_MAX
        {
            self.syncs.push((row.tid, row.entered, exited));
        }
    }

    fn thread(&mut self, row: &Thread) {
        if self.identities.len() >= THREADS_MAX && !self.identities.contains_key(&row.tid) {
            return;
        }
        let identity = self.identities.entry(row.tid).or_default();
        identity.pid = row.pid.or(identity.pid);
        identity.parent = row.parent_pid.or(identity.parent);
        for (known, new) in [(&mut identity.comm, &row.comm), (&mut identity.unit, &row.unit)] {
            if new.is_some() && known != new {
                known.clone_from(new);
            }
        }
    }

    fn sleeping(&self, tid: u32, time: SleepTime) -> SleepingThread {
        let mut functions: Vec<(u32, SleepTime)> = (self.pairs.iter())
            .filter(|((of, _), _)| *of == tid)
            .map(|((_, function), time)| (*function, *time))
            .collect();
        functions.sort_by_key(|(name, time)| (Reverse(time.total_ns()), *name));
        functions.truncate(LISTED_OF_THREAD);
        let functions = functions.into_iter();
        SleepingThread {
            tid,
            name: self.name(tid),
            owner: self.other_owner(tid),
            is_kernel: self.is_kernel(tid),
            time,
            functions: functions
                .map(|(name, time)| FunctionTime { function: self.function(name), time })
                .collect(),
        }
    }

    /// Returns the sync calls by thread.
    fn syncs(&self) -> Vec<ThreadSyncs> {
        let mut by_thread: FxHashMap<u32, ThreadSyncs> = FxHashMap::default();
        for (tid, entered, exited) in &self.syncs {
            let row = by_thread.entry(*tid).or_default();
            let time = *exited - *entered;
            row.tid = *tid;
            row.calls += 1;
            row.time_ns += time;
            row.longest_ns = row.longest_ns.max(time);
            let (blocked, _) = self.within(*tid, *entered, *exited);
            row.blocked.waits += blocked.waits;
            row.blocked.io_ns += blocked.io_ns;
            row.blocked.not_io_ns += blocked.not_io_ns;
            row.blocked.unknown_ns += blocked.unknown_ns;
            row.blocked.longest_ns = row.blocked.longest_ns.max(blocked.longest_ns);
        }
        let mut rows: Vec<ThreadSyncs> = by_thread.into_values().collect();
        rows.sort_by_key(|row| (Reverse(row.time_ns), row.tid));
        rows.truncate(LISTED);
        for row in &mut rows {
            row.name = self.name(row.tid);
            row.owner = self.other_owner(row.tid);
        }
        rows
    }

    /// Returns the waits of a thread within a span, and the function in which it slept longest.
    fn within(&self, tid: u32, from: Timestamp, until: Timestamp) -> (SleepTime, Option<u32>) {
        let mut time = SleepTime::default();
        let mut functions: FxHashMap<u32, Nanos> = FxHashMap::default();
        let waits = self.kept.get(&tid).map_or(&[][..], Vec::as_slice);
        // The waits of one thread do not overlap.
        let first = waits.partition_point(|wait| wait.ended <= from);
        for wait in waits[first..].iter().take_while(|wait| wait.began < until) {
            let part = wait.ended.min(until) - wait.began.max(from);
            if part > Nanos(0) {
                time.add(part, wait.io_wait);
                if let Some(function) = wait.function {
                    *functions.entry(function).or_default() += part;
                }
            }
        }
        let longest = functions.into_iter().max_by_key(|(number, time)| (*time, Reverse(*number)));
        (time, longest.map(|(number, _)| number))
    }

    fn name(&self, tid: u32) -> String {
        let known = self.identities.get(&tid).and_then(|identity| identity.comm.clone());
        known.unwrap_or_else(|| format!("tid {tid}"))
    }

    fn other_owner(&self, tid: u32) -> Option<String> {
        let known = self.pid(tid);
        let is_known = self.identities.get(&known).is_some_and(|process| process.comm.is_some());
        Some(self.owner(tid)).filter(|owner| is_known && *owner != self.name(tid))
    }

    fn is_kernel(&self, tid: u32) -> bool {
        let pid = self.pid(tid);
        let parent = self.identities.get(&pid).and_then(|process| process.parent);
        pid == KTHREADD || parent == Some(KTHREADD) || is_kernel(&self.name(tid))
    }
}

impl Threads for UninterruptibleTally {
    fn drawing(&self, pid: u32, from: Timestamp, until: Timestamp) -> Vec<DrawingThread> {
        let render = self.renders.get(&pid).into_iter().flatten();
        let threads = std::iter::once((true, pid)).chain(render.map(|tid| (false, *tid)));
        let row = |(is_ui, tid)| {
            let (time, function) = self.within(tid, from, until);
            DrawingThread { is_ui, tid, time, function: function.map(|number| self.function(number)) }
        };
        threads.map(row).collect()
    }

    fn is_of_package(&self, tid: u32, package: &str) -> bool {
        let pid = self.pid(tid);
        let Some(process) = self.identities.get(&pid) else { return false };
        match (&process.unit, &process.comm) {
            (Some(unit), _) => unit == package,
            // The kernel keeps the last 15 letters of a package as the name of its process.
            (None, Some(comm)) => !comm.is_empty() && package.ends_with(comm.as_str()),
            (None, None) => false,
        }
    }

    fn pids_of(&self, package: &str) -> Vec<u32> {
        let mut pids: Vec<u32> = (self.identities.iter())
            .filter(|(tid, identity)| identity.pid.is_none_or(|pid| pid == **tid))
            .map(|(tid, _)| *tid)
            .filter(|tid| self.is_of_package(*tid, package))
            .collect();
        pids.sort_unstable();
        pids
    }

    fn pid(&self, tid: u32) -> u32 {
        self.identities.get(&tid).and_then(|identity| identity.pid).unwrap_or(tid)
    }

    fn owner(&self, tid: u32) -> String {
        let pid = self.pid(tid);
        let unit = self.identities.get(&pid).and_then(|process| process.unit.clone());
        unit.unwrap_or_else(|| self.name(pid))
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::IoWait;

    use super::*;

    #[test]
    fn only_the_part_within_a_span_counts() {
        let mut tally = UninterruptibleTally::default();
        let kept = |began, ended, io_wait| Kept {
            began: Timestamp(began),
            ended: Timestamp(ended),
            io_wait,
            function: None,
        };
        let waits = vec![kept(0, 10, IoWait::Yes), kept(20, 30, IoWait::No), kept(40, 50, IoWait::Unknown)];
        tally.kept.insert(7, waits);
        let within = |from, until| {
            let (time, _) = tally.within(7, Timestamp(from), Timestamp(until));
            (time.waits, time.io_ns.0, time.not_io_ns.0, time.unknown_ns.0)
        };
        assert_eq!(within(0, 50), (3, 10, 10, 10));
        assert_eq!(within(5, 25), (2, 5, 5, 0));
        assert_eq!(within(10, 20), (0, 0, 0, 0));
        assert_eq!(within(45, 46), (1, 0, 0, 1));
    }
}
