//! Sums up the waits of all threads of a program. A program consists of all processes with the same
//! name.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use fonio_core::{BlockedIn, Content, Nanos};
use rustc_hash::FxHashMap;

use super::behind::{Owners, Watch};
use super::bulk::Caused;
use super::chain::{Place, add_place};
use super::count::{Count, Key};
use super::sequence::{Waits, longest_blocked};
use super::working::{PROBLEM_FROM, Working};
use super::{Behind, BlockedProgram, FileShare, OperationTime, Role, SqliteMode, Through};
use crate::causes::names::FileNames;
use crate::question::ratio::ratio;
use crate::question::threads::Threads;
use crate::waits::outstanding::TimeShare;

/// Suffixes of the names of an SQLite database's rollback journal and write-ahead log.
const JOURNAL: &str = "-journal";
const WAL: &str = "-wal";

/// The sums over all threads whose program name, unit and role are equal.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub(super) name: u32,
    pub(super) unit: Option<u32>,
    pub(super) role: Role,
    pub(super) threads: u64,
    pub(super) waits: u64,
    pub(super) time: Nanos,
    pub(super) server: Nanos,
    /// Blocked time and id of the thread that was blocked longest.
    pub(super) worst: (Nanos, u32),
    /// The waits of each thread whose waits have rows.
    pub(super) by_thread: Vec<Waits>,
    /// The longest blocked time of a thread, or of threads that waited one after the other. It is computed when
    /// all threads have been added.
    pub(super) felt: Nanos,
    pub(super) longest: Nanos,
    pub(super) long: u64,
    pub(super) operations: Vec<(BlockedIn, u64, Nanos)>,
    pub(super) files: FxHashMap<u32, Nanos>,
    pub(super) owners: Owners,
    pub(super) caused: Caused,
    /// Time of the longest waits by device. The key is an index into the analysis' devices.
    pub(super) devices: FxHashMap<usize, Nanos>,
    pub(super) through: Vec<(Place, Nanos)>,
    /// The working time of all threads of the program; `None` if the recording does not show it.
    pub(super) working: Option<Working>,
}

impl Program {
    pub(super) fn absorb(&mut self, key: Key, count: &Count, caused: Caused, watch: &Watch) {
        self.threads += 1;
        self.caused.0 += caused.0;
        self.caused.1 += caused.1;
        self.waits += count.waits;
        self.time += count.time;
        self.server += count.server;
        if count.time > self.worst.0 {
            self.worst = (count.time, key.0);
        }
        self.by_thread.extend(count.span.map(|(first, last)| (first, last, count.time)));
        self.longest = self.longest.max(count.longest);
        self.long += count.long;
        for (&operation, &(waits, time)) in &count.operations {
            let place = at_operation(&mut self.operations, operation);
            place.1 += waits;
            place.2 += time;
        }
        for (file, of_file) in &count.files {
            *self.files.entry(*file).or_default() += of_file.time;
        }
        for &(place, time) in &count.through {
            add_place(&mut self.through, place, time);
        }
        for kept in &count.kept {
            if let Some((device, owners)) = watch.behind(key, kept.began) {
                self.owners.absorb(&owners, kept.time());
                *self.devices.entry(device).or_default() += kept.time();
            }
        }
    }

    /// Combines the threads that waited one after the other. Called after all threads have been added.
    pub(super) fn combine(&mut self) {
        self.felt = longest_blocked(std::mem::take(&mut self.by_thread)).max(self.worst.0);
    }

    pub(super) fn told(
        &self,
        span: Nanos,
        threads: &Threads,
        files: &FileNames,
        told: &dyn Fn(&Owners) -> Vec<Behind>,
    ) -> BlockedProgram {
        let mut operations = self.operations.clone();
        operations.sort_by_key(|(operation, _, time)| (Reverse(*time), *operation));
        let worst = self.felt.min(span);
        BlockedProgram {
            name: threads.name(self.name).to_owned(),
            unit: self.unit.map(|unit| threads.unit(unit).to_owned()),
            role: self.role,
            threads: self.threads,
            waits: self.waits,
            time_ns: self.time,
            worst_tid: self.worst.1,
            worst: TimeShare { ns: worst, share: ratio(worst, span).unwrap_or(0.0) },
            working: self.working,
            is_problem: self.is_problem(span),
            longest_ns: (self.longest > Nanos(0)).then_some(self.longest),
            long: self.long,
            operations: (operations.into_iter())
                .map(|(operation, waits, time)| OperationTime {
                    blocked_in: operation.name().to_owned(),
                    waits,
                    time_ns: time,
                })
                .collect(),
            file: self.most_waited_file(files),
            sqlite: self.sqlite(files),
            device: self.device(),
            behind: told(&self.owners),
            through: None,
        }
    }

    /// Returns the device for which the program waited longest, if it is known.
    fn device(&self) -> Option<u32> {
        let most = self.devices.iter().max_by_key(|(device, time)| (**time, Reverse(**device)));
        most.and_then(|(device, _)| u32::try_from(*device).ok())
    }

    /// Returns the file for which the program waited longest. An SQLite database's files are combined, since
    /// each transaction waits for several of them.
    fn most_waited_file(&self, files: &FileNames) -> Option<FileShare> {
        let all: Nanos = self.files.values().copied().sum();
        // A file that is deleted and re-created has several file numbers, but one path.
        let mut times: BTreeMap<String, Nanos> = BTreeMap::new();
        let mut contents: BTreeMap<String, Content> = BTreeMap::new();
        for (file, time) in &self.files {
            if let Some(path) = files.path(*file) {
                let content = contents.entry(path.clone()).or_default();
                *content = (*content).max(files.content(*file));
                *times.entry(path).or_default() += *time;
            }
        }
        let mut sums: BTreeMap<&str, Nanos> = BTreeMap::new();
        for (file, time) in &times {
            let of = database_of(file).filter(|database| times.contains_key(*database)).unwrap_or(file);
            *sums.entry(of).or_default() += *time;
        }
        let (file, time) = sums.into_iter().max_by_key(|(file, time)| (*time, Reverse(*file)))?;
        if time + time < all
            && let Some((folder, time)) = folder_of_half(&times, all)
        {
            let (path, share) = (folder.to_owned(), ratio(time, all)?);
            return Some(FileShare { path, share, journal: None, wal: None, content: String::new() });
        }
        let with = |end: &str| Some(format!("{file}{end}")).filter(|path| times.contains_key(path));
        Some(FileShare {
            path: file.to_owned(),
            share: ratio(time, all)?,
            journal: with(JOURNAL),
            wal: with(WAL),
            content: contents[file].name().to_owned(),
        })
    }

    /// Returns how the program uses SQLite databases, if at least half of its waits with a known file are for
    /// such databases and their journals.
    fn sqlite(&self, files: &FileNames) -> Option<SqliteMode> {
        let all: Nanos = self.files.values().copied().sum();
        let (mut journal, mut wal, mut database) = (Nanos(0), Nanos(0), Nanos(0));
        for (file, time) in &self.files {
            match files.content(*file) {
                Content::SqliteJournal => journal += *time,
                Content::SqliteWal => wal += *time,
                Content::SqliteDb => database += *time,
                _ => {}
            }
        }
        let of_sqlite = journal + wal + database;
        (of_sqlite > Nanos(0) && of_sqlite + of_sqlite >= all).then_some(match (journal, wal) {
            (Nanos(1..), Nanos(0)) => SqliteMode::Rollback,
            (Nanos(0), Nanos(1..)) => SqliteMode::Wal,
            _ => SqliteMode::Unknown,
        })
    }

    /// Returns where the awaited threads were blocked, if the program spent at least half of its blocked time
    /// waiting for other threads. The returned place includes the file if the file accounts for at least half
    /// of the time with a known file.
    pub(super) fn through(&self, told: impl Fn(Place) -> Through) -> Option<Through> {
        if !self.is_through_others() {
            return None;
        }
        let mut whose: Vec<(Place, Nanos)> = Vec::new();
        for (place, time) in &self.through {
            let of_any_file = Place { file: None, ..*place };
            match whose.iter_mut().find(|(known, _)| *known == of_any_file) {
                Some((_, sum)) => *sum += *time,
                None => whose.push((of_any_file, *time)),
            }
        }
        let (most, _) = whose.into_iter().max_by_key(|(place, time)| (*time, Reverse(*place)))?;
        // A file that is deleted and re-created has several file numbers, but one path.
        let mut paths: BTreeMap<String, Nanos> = BTreeMap::new();
        for (place, time) in self.through.iter().filter(|(place, _)| Place { file: None, ..*place } == most) {
            if let Some(path) = told(*place).file {
                *paths.entry(path).or_default() += *time;
            }
        }
        let known: Nanos = paths.values().copied().sum();
        let file = paths.into_iter().find(|(_, time)| *time + *time >= known);
        Some(Through { file: file.map(|(path, _)| path), ..told(most) })
    }

    /// Whether the program spent at least half of its blocked time waiting for other threads.
    pub(super) fn is_through_others(&self) -> bool {
        let time = self.through_time();
        time > Nanos(0) && time + time >= self.time
    }

    /// The time for which the program waited for threads that were blocked on storage.
    pub(super) fn through_time(&self) -> Nanos {
        self.through.iter().map(|(_, time)| *time).sum()
    }

    /// Whether storage is a problem for the program.
    pub(super) fn is_problem(&self, span: Nanos) -> bool {
        match &self.working {
            Some(working) => working.is_problem(self.time),
            None => ratio(self.felt.min(span), span).is_some_and(|share| share >= PROBLEM_FROM),
        }
    }

    /// The time by which programs are ranked. It is at most the length of the recording: threads wait in
    /// parallel, but the user does not.
    pub(super) fn felt(&self, span: Nanos) -> Nanos {
        if self.working.is_some() { self.time.min(span) } else { self.felt }
    }
}

/// Returns the deepest folder whose files have at least half of the time, with a final `/`.
fn folder_of_half(times: &BTreeMap<String, Nanos>, all: Nanos) -> Option<(&str, Nanos)> {
    let mut folders: BTreeMap<&str, Nanos> = BTreeMap::new();
    for (path, time) in times {
        // The root folder says nothing about the files.
        for (at, _) in path.match_indices('/').filter(|(at, _)| *at > 0) {
            *folders.entry(&path[..=at]).or_default() += *time;
        }
    }
    folders.retain(|_, time| *time + *time >= all);
    folders.into_iter().max_by_key(|(folder, time)| (folder.len(), *time))
}

/// Returns the database to which this rollback journal or WAL belongs, derived from the file's name.
fn database_of(file: &str) -> Option<&str> {
    [JOURNAL, WAL].iter().find_map(|end| file.strip_suffix(end))
}

/// Describes the thread for which a program waited, and where this thread was blocked. `waiting` contains the
/// numbers that stand for the waiting program's name and unit.
pub(super) fn through(
    place: Place,
    waiting: (u32, Option<u32>),
    threads: &Threads,
    path: &dyn Fn(u32) -> Option<String>,
) -> Through {
    let is_own = (place.name, place.unit) == waiting && place.thread != place.name;
    Through {
        name: threads.name(place.name).to_owned(),
        own_thread: is_own.then(|| threads.name(place.thread).to_owned()),
        unit: place.unit.map(|unit| threads.unit(unit).to_owned()),
        blocked_in: place.operation.name().to_owned(),
        file: place.file.and_then(path),
    }
}

fn at_operation(
    operations: &mut Vec<(BlockedIn, u64, Nanos)>,
    wanted: BlockedIn,
) -> &mut (BlockedIn, u64, Nanos) {
    let known = operations.iter().position(|(operation, ..)| *operation == wanted);
    let place = known.unwrap_or_else(|| {
        operations.push((wanted, 0, Nanos(0)));
        operations.len() - 1
    });
    &mut operations[place]
}
