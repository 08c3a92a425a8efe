//! Collects the waits of each thread.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use fonio_core::meta::{BLOCKED_PARTLY, BLOCKED_SAMPLED, SHOWS_BLOCKED};
use fonio_core::{BlockedIn, ByteCount, Nanos, Request, Timestamp, Wait};
use rustc_hash::{FxHashMap, FxHashSet};

use super::behind::{Owner, Owners, Source, Watch};
use super::bulk::is_bulk;
use super::chain::{Chains, ForThread, Place};
use super::count::{Count, Kept, Key, Shared};
use super::figures::is_kernel;
use super::files::WaitedFiles;
use super::program::{Program, through};
use super::working::{ProcessTimes, Working, work};
use super::{
    Blocked, BlockedProgram, Elsewhere, Interval, LongWait, LongWaits, Role, delayed, drawn, elsewhere,
    is_felt, named, servers, unfounded,
};
use crate::figures::facts::{Facts, Frame};
use crate::filter::FilterOptions;
use crate::question::context::{Context, Ending};
use crate::question::options::AnalysisOptions;
use crate::question::ratio::ratio;
use crate::question::seen::Seen;
use crate::question::threads::Threads;
use crate::question::{Question, Row};
use crate::waits::outstanding::{LONG, TimeShare};

const THREADS_MAX: usize = 1 << 16;
/// The process of the kernel whose children are all other threads of the kernel.
const KTHREADD: u32 = 2;
/// Maximum number of generations between a thread and the command.
const GENERATIONS_MAX: usize = 64;
const PROGRAMS_MAX: usize = 1024;
const LONG_LISTED: usize = 10;
const INTERVALS_MAX: usize = 4096;
/// Maximum number of bytes for each sync of a thread that saves its data (our choice).
const BULK_PER_SYNC: u64 = 8 << 20;

#[derive(Debug, Default)]
pub(crate) struct BlockedTally {
    threads: FxHashMap<Key, Count>,
    beyond: u64,
    shared: Shared,
    /// Number and bytes of the requests that each thread caused.
    caused: FxHashMap<u32, (u64, ByteCount)>,
    /// The process of each thread, and the parent of each process.
    pids: FxHashMap<u32, u32>,
    parents: FxHashMap<u32, u32>,
    watch: Watch,
    chains: Chains,
    times: ProcessTimes,
    /// Whether any wait or count was seen, which means that the recording has the waits of all threads.
    is_known: bool,
    /// Whether the filter drops requests of the devices that it passes. If it does, the owners of outstanding
    /// requests are unknown.
    is_filtered: bool,
    /// The unit to which the programs of interest belong, if the user named one.
    unit_of_interest: Option<String>,
    /// Whether the filter passes only some devices.
    is_of_devices: bool,
    /// Whether the waits come from a trace of the scheduler, which does not show the threads of the kernel otherwise
    /// than by their names and their parent.
    is_of_scheduler: bool,
}

impl Question for BlockedTally {
    type Answer = Option<Blocked>;

    fn with(options: &AnalysisOptions) -> BlockedTally {
        let filter = options.filter.as_ref();
        BlockedTally {
            is_filtered: filter.is_some_and(FilterOptions::is_partial_on_device),
            is_of_devices: filter.is_some_and(|filter| !filter.devices.is_empty()),
            unit_of_interest: options.unit_of_interest.clone(),
            ..BlockedTally::default()
        }
    }

    /// Takes a row of any table except requests; waits come before requests.
    fn row(&mut self, row: Row, context: &mut Context) {
        let span = context.span_of_waits();
        let threads = &mut context.threads;
        match row {
            Row::Wait(row) => self.take(row, span, threads, true),
            // Use a wait that the filter drops only to explain other threads' waits for this thread.
            Row::WaitLeftOut(row) => self.take(row, span, threads, false),
            Row::BlockedCount(row) => {
                self.is_known = true;
                if row.blocked_in.is_for_storage(row.reason) {
                    let key = (row.tid, threads.program_at(Some(row.tid), row.from));
                    let unit = || threads.unit_at(row.tid, row.from);
                    if let Some(count) = count_of((&mut self.threads, &mut self.beyond), key, unit) {
                        count.thread = threads.name_at(Some(row.tid), row.from);
                        count.add(row.blocked_in, row.count, row.total);
                    }
                }
            }
            Row::Thread(row) if self.pids.len() < THREADS_MAX || self.pids.contains_key(&row.tid) => {
                self.pids.extend(row.pid.map(|pid| (row.tid, pid)));
                self.parents.extend(row.pid.zip(row.parent_pid));
            }
            Row::Sample(row) => self.times.sample(row),
            _ => {}
        }
    }

    #[inline]
    fn request(&mut self, row: &Request, seen: &Seen) {
        if !self.is_known {
            return;
        }
        let tid = row.cause_tid.or(row.tid);
        if let Some(tid) = tid
            && seen.has_data()
            && (self.caused.len() < THREADS_MAX || self.caused.contains_key(&tid))
        {
            let (requests, bytes) = self.caused.entry(tid).or_default();
            *requests += 1;
            *bytes += seen.bytes;
        }
        if self.is_filtered {
            return;
        }
        if !self.watch.is_ready() {
            self.begin_watch();
        }
        let Some((start, end)) = seen.flight else { return };
        let of = (row.file_id, row.content);
        let owner = Owner { process: seen.process, unit: seen.unit, is_own: false };
        let process = |tid: u32| self.pids.get(&tid).copied().unwrap_or(tid);
        let pid = tid.map(process);
        let is_issued_for_it = row.tid.is_some_and(|tid| Some(process(tid)) != pid);
        let outstanding = (seen.queued.unwrap_or(start).min(start), end);
        self.watch.request(
            outstanding,
            seen.device,
            Source { pid, tid: row.tid, is_issued_for_it },
            (owner, of),
        );
    }

    /// Returns `None` if the recording lacks the waits of all threads.
    fn finish(mut self, end: &mut Ending) -> Option<Blocked> {
        // Without block events, nothing shows which waits were for storage, or for which device.
        if end.is_scheduler_only() {
            return None;
        }
        let (began, span, meta) = (end.began(), end.duration(), end.meta);
        let command = meta.command_pid;
        let is_of_command = |pid| command.and_then(|command| self.is_of(pid, command)) == Some(true);
        let times = self.times.by_program(&mut end.context.threads, &is_of_command);
        let (threads, files) = (&end.context.threads, &end.context.files);
        // On an idle machine, no thread is blocked at all.
        let shows = |what: &str| meta.source.shows.iter().any(|shown| shown == what);
        if !self.is_known && !shows(SHOWS_BLOCKED) {
            return None;
        }
        self.end_chains(Timestamp::MAX);
        let shared = &mut self.shared;
        self.threads.values_mut().for_each(|count| count.end_open(began + span, shared));
        let unit_of_interest = self.unit_of_interest.as_deref();
        let is_unit = |unit: Option<u32>| unit.map(|unit| threads.unit(unit)) == unit_of_interest;
        let is_unit = unit_of_interest.is_some().then_some(&is_unit as &dyn Fn(Option<u32>) -> bool);
        let mut roles = self.roles(span, command, is_unit);
        servers::assign(&mut roles, &self.threads, threads);
        let mut elsewhere = FxHashMap::default();
        if (!meta.watched.is_empty() || self.is_of_devices) && !self.is_filtered {
            let caused = &self.caused;
            elsewhere = elsewhere::remove(&mut self.threads, &self.watch, |tid| caused.contains_key(&tid));
            self.threads.retain(|_, count| count.time > Nanos(0));
        }
        let (pids, parents) = (&self.pids, &self.parents);
        // Kernel threads are children of process 2.
        let is_of_program = |tid: u32| {
            let parent = pids.get(&tid).and_then(|pid| parents.get(pid));
            parent.is_some_and(|parent| !matches!(parent, 0 | 2))
        };
        unfounded::remove(&mut self.threads, &self.watch, files, is_of_program);
        let elsewhere = elsewhere.into_iter().filter(|(key, _)| roles[key] == Role::OfInterest);
        let elsewhere = elsewhere.max_by_key(|(key, time)| (*time, Reverse(*key)));
        let mut sorted: Vec<(&Key, &Count)> = self.threads.iter().collect();
        sorted.sort_unstable_by_key(|(key, _)| **key);
        let mut programs: Vec<Program> = Vec::new();
        let mut places: FxHashMap<(u32, Option<u32>, Role), usize> = FxHashMap::default();
        let mut waited_files = WaitedFiles::default();
        let path = |file: u32| files.path(file);
        let mut long: Vec<(Key, Option<u32>, Kept)> = Vec::new();
        for (&key, count) in sorted {
            let role = roles[&key];
            let place = *places.entry((key.1, count.unit, role)).or_insert_with(|| {
                programs.push(Program { name: key.1, unit: count.unit, role, ..Program::default() });
                programs.len() - 1
            });
            let caused = self.caused.get(&key.0).copied().unwrap_or_default();
            programs[place].absorb(key, count, caused, &self.watch);
            if role == Role::Kernel {
                continue;
            }
            waited_files.add((key.1, count.unit), count, &path);
            if role == Role::OfInterest {
                let felt = count.kept.iter().filter(|kept| kept.felt() >= LONG && is_felt(kept.operation));
                long.extend(felt.map(|kept| (key, count.unit, *kept)));
            }
        }
        for program in &mut programs {
            program.combine();
            // A thread that acts for another program, such as a workload's, has no processor time of its own.
            let is_of_command = command.is_some() && program.role == Role::OfInterest;
            let of = |is_of| times.as_ref()?.get(&(program.name, program.unit, is_of));
            let of_program = of(is_of_command).or_else(|| of(!is_of_command));
            program.working = of_program
                .map(|times| Working::of(program.time, program.through_time(), program.server, *times));
        }
        // Sort a program before programs that wait for it.
        let order = |program: &Program| {
            let time = (Reverse(program.is_problem(span)), Reverse(program.felt(span)));
            (program.role, time, program.is_through_others(), program.name, program.unit)
        };
        programs.sort_by_key(order);
        delayed::put_first(&mut programs, span);
        let (intervals, intervals_beyond_cap) = self.intervals(&programs, (began, began + span), &roles);
        let long_count = programs
            .iter()
            .filter(|program| program.role == Role::OfInterest)
            .map(|program| program.long)
            .sum();
        long.sort_by_key(|(key, _, kept)| (Reverse(kept.felt()), kept.began, *key));
        long.truncate(LONG_LISTED);
        let told = |owners: &Owners| owners.told(threads, &path);
        let unit = |unit: Option<u32>| unit.map(|unit| threads.unit(unit).to_owned());
        Some(Blocked {
            programs_beyond_cap: programs.len().saturating_sub(PROGRAMS_MAX) as u64,
            programs: (programs.iter().take(PROGRAMS_MAX))
                .map(|program| BlockedProgram {
                    through: program
                        .through(|place| through(place, (program.name, program.unit), threads, &path)),
                    ..program.told(span, threads, files, &told)
                })
                .collect(),
            file_waits_beyond_cap: waited_files.beyond(),
            files: waited_files.listed(|(name, of_unit)| named(threads.name(name), unit(of_unit).as_deref())),
            long: LongWaits {
                threshold_ns: LONG,
                count: long_count,
                longest: (long.iter())
                    .map(|(key, of_unit, kept)| {
                        let behind = self.watch.behind(*key, kept.began);
                        LongWait {
                            at_ns: kept.began - began,
                            time_ns: kept.felt(),
                            tid: key.0,
                            program: named(threads.name(key.1), unit(*of_unit).as_deref()),
                            blocked_in: kept.operation.name().to_owned(),
                            file: kept.file.and_then(path),
                            through: (kept.through)
                                .map(|(_, place)| through(place, (key.1, *of_unit), threads, &path)),
                            device: behind.as_ref().and_then(|(device, _)| u32::try_from(*device).ok()),
                            behind: behind.map(|(_, owners)| told(&owners)).unwrap_or_default(),
                        }
                    })
                    .collect(),
            },
            elsewhere: elsewhere.map(|(key, time)| Elsewhere {
                program: named(
                    threads.name(key.1),
                    threads.unit_at(key.0, began).map(|unit| threads.unit(unit)),
                ),
                worst: TimeShare { ns: time, share: ratio(time.min(span), span).unwrap_or(0.0) },
            }),
            work: times.as_ref().map(|times| work(times, threads)).unwrap_or_default(),
            intervals,
            intervals_beyond_cap,
            threads_beyond_cap: self.beyond + self.chains.beyond,
            is_partial: shows(BLOCKED_PARTLY),
            is_sampled: shows(BLOCKED_SAMPLED),
        })
    }

    fn figures(blocked: &Option<Blocked>, frame: &Frame, facts: &mut Facts) {
        if let Some(blocked) = blocked {
            blocked.figures(frame, facts);
        }
    }
}

/// Returns the sums of a thread; `None` if there are too many threads, of which it counts the rows.
fn count_of<'a>(
    (threads, beyond): (&'a mut FxHashMap<Key, Count>, &mut u64),
    key: Key,
    unit: impl FnOnce() -> Option<u32>,
) -> Option<&'a mut Count> {
    if !threads.contains_key(&key) && threads.len() >= THREADS_MAX {
        *beyond += 1;
        return None;
    }
    let count = threads.entry(key).or_default();
    count.unit = count.unit.or_else(unit);
    Some(count)
}

impl BlockedTally {
    /// Adds the part of a wait that lies within the span.
    fn take(&mut self, row: &Wait, span: (Timestamp, Timestamp), threads: &mut Threads, is_counted: bool) {
        // Waits recorded for a launch do not show the operation.
        let Some(operation) = row.blocked_in else { return };
        self.is_known = true;
        let began = row.began.max(span.0);
        // A wait without an end lasts until the end of the span, which is not known yet.
        let ended = row.ended.map_or(span.1, |ended| ended.min(span.1));
        if ended <= began {
            return;
        }
        self.end_chains(row.began);
        let key = (row.tid, threads.program_at(Some(row.tid), row.began));
        let unit = threads.unit_at(row.tid, row.began);
        if !operation.is_for_storage(row.reason) {
            if let Some(waker) = row.waker_tid.filter(|waker| *waker != row.tid) {
                let wait = ForThread::new((key, unit), operation, (began, ended), waker);
                self.chains.waited(if is_counted { wait } else { wait.uncounted() });
            }
            return;
        }
        let thread = threads.name_at(Some(row.tid), row.began);
        let place = Place { name: key.1, thread, unit, operation, file: row.file_id };
        self.chains.blocked(row.tid, (began, ended), place);
        if !is_counted {
            return;
        }
        self.shared.origin.get_or_insert(if span.0 > Timestamp(0) { span.0 } else { began });
        let Some(count) = count_of((&mut self.threads, &mut self.beyond), key, || unit) else { return };
        count.thread = thread;
        if row.io_wait.is_some() {
            self.is_of_scheduler = true;
            count.is_kernel |= is_kernel(threads.name(thread));
        }
        let (file, waker) = (row.file_id, row.waker_tid);
        let wait = Kept { began, ended, operation, file, waker, through: None, felt: Nanos(0) };
        count.take(wait, &mut self.shared);
    }

    /// Adds the waits for other threads that ended before `time`.
    fn end_chains(&mut self, time: Timestamp) {
        for wait in self.chains.ended_before(time) {
            let Some(place) = wait.place() else { continue };
            // The waits of a child process are counted as its own. A shell that waits for it does not wait for storage once more.
            let felt = if self.is_parent(wait.key.0, wait.waker) { Nanos(0) } else { wait.felt() };
            let threads = (&mut self.threads, &mut self.beyond);
            let Some(count) = count_of(threads, wait.key, || wait.unit) else { continue };
            let through = Some((wait.time, place));
            let (began, ended, operation) = (wait.first, wait.last, wait.operation);
            let wait = Kept { began, ended, operation, file: None, waker: None, through, felt };
            count.take(wait, &mut self.shared);
        }
    }

    /// Returns whether the process of a thread is the parent of another thread's process.
    fn is_parent(&self, tid: u32, other: u32) -> bool {
        let process = |tid: u32| self.pids.get(&tid).copied().unwrap_or(tid);
        self.parents.get(&process(other)) == Some(&process(tid))
    }

    /// Selects the waits during which outstanding requests are counted: waits of the threads that were
    /// blocked longest.
    fn begin_watch(&mut self) {
        self.end_chains(Timestamp::MAX);
        let mut most: Vec<(&Key, &Count)> =
            self.threads.iter().filter(|(_, count)| !count.is_kernel && !count.kept.is_empty()).collect();
        most.retain(|(key, _)| !self.is_child_of_kernel(key.0));
        most.sort_unstable_by_key(|(key, count)| (Reverse(count.time), **key));
        let watched = most.into_iter().take(Watch::THREADS_MAX).flat_map(|(key, count)| {
            let pid = self.pids.get(&key.0).copied().unwrap_or(key.0);
            let direct = count.kept.iter().filter(|kept| kept.through.is_none());
            direct.map(move |kept| (*key, pid, *kept))
        });
        self.watch = Watch::new(watched.collect());
    }

    /// Returns whether a thread in a trace of the scheduler is one of the kernel.
    fn is_child_of_kernel(&self, tid: u32) -> bool {
        let pid = self.pids.get(&tid).copied().unwrap_or(tid);
        self.is_of_scheduler && (pid == KTHREADD || self.parents.get(&pid) == Some(&KTHREADD))
    }

    /// Whether a thread belongs to the command, directly or through an ancestor process. `None` if an
    /// ancestor ended before it was looked up.
    fn is_of(&self, tid: u32, command: u32) -> Option<bool> {
        let mut pid = *self.pids.get(&tid)?;
        for _ in 0..GENERATIONS_MAX {
            if pid == command {
                return Some(true);
            }
            pid = match self.parents.get(&pid) {
                // The first process and the first kernel thread have no parent.
                Some(0) => return Some(false),
                Some(&parent) => parent,
                None => return None,
            };
        }
        None
    }

    fn role(
        &self,
        key: Key,
        count: &Count,
        (span, command): (Nanos, Option<u32>),
        is_unit: Option<&dyn Fn(Option<u32>) -> bool>,
    ) -> Role {
        if count.is_kernel || self.is_child_of_kernel(key.0) {
            return Role::Kernel;
        }
        // Also beside a unit of interest, a copy is bulk work.
        let of_others = match is_unit {
            Some(is_unit) if is_unit(count.unit) => return Role::OfInterest,
            Some(_) => Role::Other,
            None => Role::OfInterest,
        };
        match command.filter(|_| is_unit.is_none()).and_then(|command| self.is_of(key.0, command)) {
            Some(true) => return Role::OfInterest,
            Some(false) => return Role::Other,
            None => {}
        }
        let caused = self.caused.get(&key.0).copied().unwrap_or_default();
        let (_, bytes) = caused;
        // A program that saves its data often, such as a server that writes snapshots, does not count as a copy.
        let of = |operation| count.operations.get(&operation).copied().unwrap_or_default();
        let (syncs, _) = of(BlockedIn::Fsync);
        let saves = syncs > 0 && bytes.0 / syncs <= BULK_PER_SYNC;
        // Copies read and write; a program that faults pages in computes with mapped data.
        let (_, faults) = of(BlockedIn::PageFault);
        let is_mapped = faults + faults >= count.time;
        if is_bulk(caused, span) && !saves && !is_mapped {
            return Role::BulkWork;
        }
        of_others
    }

    /// Returns each thread's role. A program that only waits for bulk work, such as the shell of a copy,
    /// is bulk work too. Threads are compared by their own names, because a program may have threads that do
    /// bulk work and others that do not.
    fn roles(
        &self,
        span: Nanos,
        command: Option<u32>,
        is_unit: Option<&dyn Fn(Option<u32>) -> bool>,
    ) -> FxHashMap<Key, Role> {
        let role = |(&key, count): (&Key, &Count)| (key, self.role(key, count, (span, command), is_unit));
        let mut roles: FxHashMap<Key, Role> = self.threads.iter().map(role).collect();
        let is_bulk = |(key, _): &(&Key, &Count)| roles.get(*key) == Some(&Role::BulkWork);
        let bulk: FxHashSet<(u32, Option<u32>)> =
            self.threads.iter().filter(is_bulk).map(|(_, count)| (count.thread, count.unit)).collect();
        for (key, count) in &self.threads {
            let is_command = || command.is_some_and(|command| self.is_of(key.0, command) == Some(true));
            let of_bulk =
                count.through.iter().filter(|(place, _)| bulk.contains(&(place.thread, place.unit)));
            if of_bulk.map(|(_, time)| *time).sum::<Nanos>().0 > count.time.0 / 2
                && roles[key] == Role::OfInterest
                && !is_command()
            {
                roles.insert(*key, Role::BulkWork);
            }
        }
        roles
    }

    /// Returns what to draw, in time order, and the number of waits that are not drawn.
    fn intervals(
        &self,
        programs: &[Program],
        span: (Timestamp, Timestamp),
        roles: &FxHashMap<Key, Role>,
    ) -> (Vec<Interval>, u64) {
        let places: FxHashMap<(u32, Option<u32>, Role), usize> = (programs.iter().take(PROGRAMS_MAX))
            .enumerate()
            .map(|(place, program)| ((program.name, program.unit, program.role), place))
            .collect();
        let mut drawn: BTreeMap<usize, Vec<(&Key, &Count)>> = BTreeMap::new();
        for (key, count) in &self.threads {
            let role = roles[key];
            let program = places.get(&(key.1, count.unit, role)).filter(|_| role != Role::Kernel);
            if let Some(program) = program {
                drawn.entry(*program).or_default().push((key, count));
            }
        }
        let drawn = drawn.into_iter().map(|(program, mut threads)| {
            threads.sort_unstable_by_key(|(key, _)| **key);
            (program as u32, threads.into_iter().map(|(_, count)| count).collect())
        });
        drawn::intervals(drawn, (self.shared.origin.unwrap_or(span.0), span), INTERVALS_MAX)
    }
}
