//! Counts what a command's file-system calls cost, by file, database and statement, in numbers that repeat exactly.
//!
//! The counts are for a baseline in a repository. [`CountsTally`] takes the rows of a recording, [`Counts`] are the
//! result of one run, and [`baseline`] compares them with earlier counts. Requests to disks vary a little from run to
//! run, so they are counted apart ([`block`]) and compared with a tolerance ([`approximate`]).

pub mod approximate;
pub mod baseline;
pub mod block;
pub mod names;

use std::collections::BTreeMap;
use std::io;

use fonio_core::{ByteCount, Call, File, FileFlags, RowSink, Thread, ignore_rows};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::sqlite::Sqlite;
use names::Places;

/// Maximum number of files of one folder with counts of their own. Beyond it, the files count as `FOLDER/*`.
const FILES_OF_FOLDER_MAX: usize = 20;

/// What a count counts, as the last part of its name.
pub const WRITES: &str = "writes";
/// See [`WRITES`].
pub const WRITTEN_BYTES: &str = "written_bytes";
/// See [`WRITES`].
pub const SYNCS: &str = "syncs";
/// See [`WRITES`].
pub const CREATED: &str = "created";
/// See [`WRITES`].
pub const TRANSACTIONS: &str = "transactions";

/// The counts of all files together begin with this name.
pub const ALL: &str = "all";

/// Costs on the files of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FileCounts {
    created: u64,
    deleted: u64,
    renamed: u64,
    resized: u64,
    syncs: u64,
    writes: u64,
    written: ByteCount,
}

impl FileCounts {
    fn add(&mut self, other: &FileCounts) {
        let FileCounts { created, deleted, renamed, resized, syncs, writes, written } = other;
        self.created += created;
        self.deleted += deleted;
        self.renamed += renamed;
        self.resized += resized;
        self.syncs += syncs;
        self.writes += writes;
        self.written += *written;
    }

    /// Adds the effect of a successful call.
    fn call(&mut self, row: &Call, result: u64) {
        let has = |flag| row.file_flags.is_some_and(|flags| flags.contains(flag));
        match row.name.as_str() {
            "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" | "sendfile" | "copy_file_range"
                if result > 0 =>
            {
                self.writes += 1;
                self.written += ByteCount(result);
                // The call returns when its data is durable.
                self.syncs += u64::from(has(FileFlags::DSYNC));
            }
            "fsync" | "fdatasync" | "sync_file_range" | "msync" | "sync" | "syncfs" => self.syncs += 1,
            "open" | "openat" | "openat2" | "creat" => self.created += u64::from(has(FileFlags::MADE)),
            "unlink" | "unlinkat" => self.deleted += 1,
            "rename" | "renameat" | "renameat2" => self.renamed += 1,
            "ftruncate" | "truncate" | "fallocate" => self.resized += 1,
            _ => {}
        }
    }

    /// The counts by name.
    fn named(&self) -> [(&'static str, u64); 7] {
        [
            (CREATED, self.created),
            ("deleted", self.deleted),
            ("renamed", self.renamed),
            ("resized", self.resized),
            (SYNCS, self.syncs),
            (WRITES, self.writes),
            (WRITTEN_BYTES, self.written.0),
        ]
    }
}

/// Counts the calls of one recording.
#[derive(Debug)]
pub struct CountsTally {
    places: Places,
    paths: FxHashMap<u32, String>,
    by_file: FxHashMap<u32, FileCounts>,
    without_file: FileCounts,
    /// The process of each thread, and the parent of each process.
    processes: FxHashMap<u32, u32>,
    parents: FxHashMap<u32, u32>,
    /// The processes that made calls on each file.
    users: FxHashMap<u32, FxHashSet<u32>>,
}

/// The counts of one run, by name: `all.writes`, `file[./orders.db].syncs`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The counts, except zeros.
    pub values: BTreeMap<String, u64>,
}

impl CountsTally {
    /// Creates an empty tally.
    pub fn new(places: Places) -> CountsTally {
        CountsTally {
            places,
            paths: FxHashMap::default(),
            by_file: FxHashMap::default(),
            without_file: FileCounts::default(),
            processes: FxHashMap::default(),
            parents: FxHashMap::default(),
            users: FxHashMap::default(),
        }
    }

    /// Returns the processes that used the file at each path, with their ancestors.
    fn users(&self) -> FxHashMap<&str, FxHashSet<u32>> {
        let mut by_path: FxHashMap<&str, FxHashSet<u32>> = FxHashMap::default();
        for (file, users) in &self.users {
            let Some(path) = self.paths.get(file) else { continue };
            let of_path = by_path.entry(path).or_default();
            for user in users {
                let mut next = Some(user);
                // A process that is already in the set came with its ancestors.
                while let Some(process) = next.filter(|process| of_path.insert(**process)) {
                    next = self.parents.get(process);
                }
            }
        }
        by_path
    }

    /// Returns the counts. `sqlite` has the transactions of the same recording.
    pub fn finish(self, sqlite: Option<&Sqlite>) -> Counts {
        let mut by_name: BTreeMap<String, FileCounts> = BTreeMap::new();
        let mut all = self.without_file;
        let (users, none) = (self.users(), FxHashSet::default());
        let name_of = |path: &str| self.places.name(path, users.get(path).unwrap_or(&none));
        for (file, counts) in self.by_file.iter().filter(|(_, counts)| **counts != FileCounts::default()) {
            let path = self.paths.get(file).map_or("unknown", String::as_str);
            let Some(name) = name_of(path) else { continue };
            by_name.entry(name).or_default().add(counts);
            all.add(counts);
        }
        let mut counts = Counts::default();
        counts.add(ALL, &all);
        for (name, of_file) in &summed(by_name) {
            counts.add(&format!("file[{name}]"), of_file);
        }
        if let Some(sqlite) = sqlite {
            of_sqlite(sqlite, &name_of, &mut counts);
        }
        counts
    }
}

/// Adds the transactions of databases and statements.
fn of_sqlite(sqlite: &Sqlite, name_of: &dyn Fn(&str) -> Option<String>, counts: &mut Counts) {
    for database in &sqlite.databases {
        let Some(name) = name_of(&database.path) else { continue };
        let of = |what: &str| format!("database[{name}].{what}");
        counts.put(of(TRANSACTIONS), database.receipt.transactions);
        counts.put(of("rollbacks"), database.receipt.rollbacks);
        counts.put(of("checkpoints"), database.checkpoints);
        counts.put(of("unjournaled_writes"), database.unjournaled_writes);
        if let Some(mean) = &database.receipt.mean {
            let sum = |mean: f64| (mean * database.receipt.transactions as f64).round() as u64;
            counts.put(of("transaction_syncs"), sum(mean.syncs));
            counts.put(of("transaction_writes"), sum(mean.write_calls));
            counts.put(of("transaction_bytes"), sum(mean.written_bytes));
        }
        for cost in &database.statements {
            let statement = cost.statements.join("; ");
            let of = |what: &str| format!("statement[{statement}].{what}");
            let sum = |mean: f64| (mean * cost.transactions as f64).round() as u64;
            counts.put(of(TRANSACTIONS), cost.transactions);
            counts.put(of(SYNCS), sum(cost.mean.syncs));
            counts.put(of(WRITES), sum(cost.mean.write_calls));
            counts.put(of(WRITTEN_BYTES), sum(cost.mean.written_bytes));
        }
    }
}

/// Sums up the files of folders with many files.
fn summed(by_name: BTreeMap<String, FileCounts>) -> BTreeMap<String, FileCounts> {
    let folder = |name: &str| name.rsplit_once('/').map(|(folder, _)| folder.to_owned()).unwrap_or_default();
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    for name in by_name.keys() {
        *sizes.entry(folder(name)).or_default() += 1;
    }
    let mut summed: BTreeMap<String, FileCounts> = BTreeMap::new();
    for (name, counts) in by_name {
        let folder = folder(&name);
        let is_many = sizes.get(&folder).is_some_and(|size| *size > FILES_OF_FOLDER_MAX);
        summed.entry(if is_many { format!("{folder}/*") } else { name }).or_default().add(&counts);
    }
    summed
}

impl Counts {
    fn add(&mut self, of: &str, counts: &FileCounts) {
        counts.named().into_iter().for_each(|(what, count)| self.put(format!("{of}.{what}"), count));
    }

    fn put(&mut self, name: String, count: u64) {
        if count > 0 {
            *self.values.entry(name).or_default() += count;
        }
    }

    /// Returns a count, which is 0 if it is not listed.
    pub fn value(&self, name: &str) -> u64 {
        self.values.get(name).copied().unwrap_or(0)
    }

    /// Returns the sum of the counts of this kind over all files or databases whose name matches the pattern.
    pub fn sum(&self, of: &str, pattern: &str, what: &str) -> u64 {
        let pattern = wildmatch::WildMatch::new(pattern);
        let fits = |name: &str| {
            let inner = name.strip_prefix(of)?.strip_prefix('[')?.strip_suffix(what)?.strip_suffix("].")?;
            Some(pattern.matches(inner))
        };
        self.values.iter().filter(|(name, _)| fits(name) == Some(true)).map(|(_, count)| count).sum()
    }
}

impl RowSink for CountsTally {
    ignore_rows!(
        began,
        request,
        bio,
        link,
        statement,
        wait,
        blocked_count,
        sample,
        mark,
        diagnostic,
        settled
    );

    fn call(&mut self, row: &Call) -> io::Result<()> {
        let Some(result) = row.result.and_then(|result| u64::try_from(result).ok()) else { return Ok(()) };
        let counts = match row.file_id {
            Some(file) => self.by_file.entry(file).or_default(),
            None => &mut self.without_file,
        };
        counts.call(row, result);
        if let (Some(file), Some(process)) = (row.file_id, self.processes.get(&row.tid)) {
            self.users.entry(file).or_default().insert(*process);
        }
        Ok(())
    }

    fn file(&mut self, row: &File) -> io::Result<()> {
        if let Some(path) = &row.path {
            self.paths.entry(row.file_id).or_insert_with(|| path.clone());
        }
        Ok(())
    }

    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        if let Some(pid) = row.pid {
            self.places.process(pid);
            self.processes.insert(row.tid, pid);
            self.parents.extend(row.parent_pid.map(|parent| (pid, parent)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::{Content, Timestamp};

    use super::*;

    fn tally_of(calls: &[(&str, Option<u32>, i64, FileFlags)], paths: &[&str]) -> Counts {
        let folders = [("/app".to_owned(), ".")];
        let mut tally = CountsTally::new(Places::new(folders, []));
        for (file_id, path) in (0..).zip(paths) {
            let path = Some((*path).to_owned());
            let (from, content) = (Timestamp(0), Content::Unknown);
            tally.file(&File { file_id, from, device: None, inode: None, path, content }).expect("in memory");
        }
        for (call_id, (name, file_id, result, flags)) in (0..).zip(calls) {
            let call = Call {
                call_id,
                name: (*name).to_owned(),
                tid: 1,
                file_id: *file_id,
                offset: None,
                bytes: None,
                entered: Timestamp(call_id),
                exited: Some(Timestamp(call_id)),
                result: Some(*result),
                sqlite_write: None,
                file_flags: Some(*flags),
            };
            tally.call(&call).expect("in memory");
        }
        tally.finish(None)
    }

    #[test]
    fn calls_are_counted_by_file() {
        let none = FileFlags::NONE;
        let counts = tally_of(
            &[
                ("openat", Some(0), 3, FileFlags::MADE),
                ("openat", Some(0), 3, none),
                ("write", Some(0), 100, none),
                ("pwrite64", Some(0), 20, FileFlags::DSYNC),
                ("write", Some(0), -28, none),
                ("write", Some(0), 0, none),
                ("read", Some(0), 4096, none),
                ("fsync", Some(0), 0, none),
                ("fsync", Some(0), -5, none),
                ("unlink", Some(0), 0, none),
                ("sync", None, 0, none),
                ("write", Some(1), 7, none),
                ("ftruncate", Some(2), 0, none),
            ],
            &["/app/x", "/proc/self/comm", "/app/tmp.aB3dE6fG"],
        );
        let expected = [
            ("all.created", 1),
            ("all.deleted", 1),
            ("all.resized", 1),
            ("all.syncs", 3),
            ("all.writes", 2),
            ("all.written_bytes", 120),
            ("file[./tmp.*].resized", 1),
            ("file[./x].created", 1),
            ("file[./x].deleted", 1),
            ("file[./x].syncs", 2),
            ("file[./x].writes", 2),
            ("file[./x].written_bytes", 120),
        ];
        let found: Vec<(&str, u64)> =
            counts.values.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(found, expected);
        assert_eq!(counts.sum("file", "./*", WRITES), 2);
        assert_eq!(counts.sum("file", "*tmp*", WRITES), 0);
        assert_eq!((counts.value("all.syncs"), counts.value("all.renamed")), (3, 0));
    }

    #[test]
    fn a_file_is_named_without_the_id_of_its_process_or_of_an_ancestor() {
        let mut tally = CountsTally::new(Places::new([], []));
        for (tid, parent_pid) in [(3, None), (5, Some(3)), (9, Some(5))] {
            let row = Thread { tid, pid: Some(tid), parent_pid, ..Thread::default() };
            tally.thread(&row).expect("in memory");
        }
        for (file_id, path) in [(0, "/a-9"), (1, "/b-3"), (2, "/c-5"), (3, "/d-7")] {
            let path = Some(path.to_owned());
            let (from, content) = (Timestamp(0), Content::Unknown);
            tally.file(&File { file_id, from, device: None, inode: None, path, content }).expect("in memory");
            let tid = if file_id == 2 { 3 } else { 9 };
            let call = Call {
                call_id: file_id.into(),
                name: "unlink".to_owned(),
                tid,
                file_id: Some(file_id),
                offset: None,
                bytes: None,
                entered: Timestamp(0),
                exited: Some(Timestamp(0)),
                result: Some(0),
                sqlite_write: None,
                file_flags: None,
            };
            tally.call(&call).expect("in memory");
        }
        let counts = tally.finish(None);
        let names: Vec<&str> = counts.values.keys().map(String::as_str).collect();
        // The process 5 is a child of the process that used the file.
        let expected = [
            "all.deleted",
            "file[/a-*].deleted",
            "file[/b-*].deleted",
            "file[/c-5].deleted",
            "file[/d-7].deleted",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_folder_with_many_files_has_one_count() {
        let names: Vec<String> = (0..30).map(|n| format!("/app/many/{n}")).collect();
        let paths: Vec<&str> = names.iter().map(String::as_str).chain(["/app/one"]).collect();
        let calls: Vec<_> = (0..31).map(|file| ("write", Some(file), 10, FileFlags::NONE)).collect();
        let counts = tally_of(&calls, &paths);
        assert_eq!(counts.value("file[./many/*].writes"), 30);
        assert_eq!(counts.value("file[./one].writes"), 1);
        assert_eq!(counts.values.len(), 6);
    }
}
