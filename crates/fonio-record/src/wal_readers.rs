//! Finds processes that keep SQLite's write-ahead logs from being emptied.
//!
//! A checkpoint copies a log into its database and lets the next writer start the log again. It cannot go past
//! the end of the log that the oldest reader has seen. A reader holds a lock on one of five bytes of the
//! log's index (the file NAME-shm), and the index contains the end that belongs to each of these bytes
//! (<https://sqlite.org/walformat.html>). So the kernel's list of locks shows the readers of all processes.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use fonio_core::{Metric, Sample, Timestamp};
use fonio_machine::{Machine, read_text};
use fonio_system::Task;

/// The first of the bytes of the index whose locks belong to readers of the log. Readers of only the database
/// hold the byte before.
const READ_LOCKS: std::ops::RangeInclusive<u64> = 124..=127;
/// The part of the index that is read: two copies of the header (48 bytes each), the number of frames that
/// are in the database, and the reader's marks.
const INDEX_BYTES: usize = 120;
const PAGE_BYTES_AT: usize = 14;
const FRAMES_AT: usize = 16;
const MARKS_AT: usize = 100;
/// The mark of a byte that no reader uses.
const UNUSED: u32 = u32::MAX;
/// Shortest time and smallest part of the log for which a reader is reported. SQLite makes a checkpoint when
/// the log has 1,000 pages.
const REPORTED_FROM_NS: u64 = 2_000_000_000;
const REPORTED_FROM_BYTES: u64 = 4_096_000;
/// Maximum number of readers kept.
const READERS_MAX: usize = 1 << 10;

/// The readers seen so far.
#[derive(Debug, Default)]
pub(crate) struct WalReaders {
    readers: HashMap<Reader, Held>,
    /// The open indexes by process and inode number; `None` for other files.
    indexes: HashMap<(u32, u64), Option<OpenIndex>>,
}

/// An index that a process has open.
#[derive(Clone, Debug)]
struct OpenIndex {
    /// The file's path.
    path: PathBuf,
    /// The process's descriptor in procfs, which also leads to files in other mount namespaces.
    descriptor: PathBuf,
}

/// A process that reads the log up to a mark.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Reader {
    pid: u32,
    /// The path of the log's index.
    index: PathBuf,
    mark: u32,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    first: Timestamp,
    last: Timestamp,
    /// The part of the log behind the mark.
    bytes: u64,
}

impl WalReaders {
    /// Reads the kernel's locks and the indexes that have readers.
    pub(crate) fn look(&mut self, machine: &Machine, time: Timestamp) {
        let Some(locks) = read_text(&machine.proc("locks")) else { return };
        for lock in locks.lines().filter_map(Lock::parse) {
            let Lock { pid, inode, first, last } = lock;
            let known = self.indexes.entry((pid, inode));
            let Some(open) = known.or_insert_with(|| open_index(machine, pid, inode)).clone() else {
                continue;
            };
            let Some(index) = Index::read(&open, inode) else {
                // The process may have opened the index again, or another index.
                self.indexes.remove(&(pid, inode));
                continue;
            };
            for byte in first..=last {
                let Some(behind) = index.bytes_behind(byte) else { continue };
                let reader = Reader { pid, index: open.path.clone(), mark: behind.mark };
                if self.readers.len() >= READERS_MAX && !self.readers.contains_key(&reader) {
                    continue;
                }
                let held = self.readers.entry(reader).or_insert(Held { first: time, last: time, bytes: 0 });
                (held.last, held.bytes) = (time, behind.bytes);
            }
        }
    }

    /// Returns the time for which each process held back a long log, and the length of the part that could
    /// not be emptied.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        let mut samples: Vec<Sample> = Vec::new();
        for (reader, held) in self.reported() {
            let subject = format!("{} {}", reader.pid, log_of(&reader.index));
            let time = i64::try_from((held.last - held.first).0).unwrap_or(i64::MAX);
            let bytes = i64::try_from(held.bytes).unwrap_or(i64::MAX);
            for (metric, value) in [(Metric::WalHeldNs, time), (Metric::WalHeldBytes, bytes)] {
                samples.push(Sample { time: held.last, metric, subject: Some(subject.clone()), value });
            }
        }
        samples.sort_by(|one, other| {
            (one.time, &one.subject, one.value).cmp(&(other.time, &other.subject, other.value))
        });
        samples
    }

    /// Returns the ids of the processes in [`WalReaders::samples`].
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.reported().map(|(reader, _)| reader.pid)
    }

    fn reported(&self) -> impl Iterator<Item = (&Reader, &Held)> {
        self.readers.iter().filter(|(_, held)| {
            (held.last - held.first).0 >= REPORTED_FROM_NS && held.bytes >= REPORTED_FROM_BYTES
        })
    }
}

/// Returns the path of the log, without its index's ending.
fn log_of(index: &Path) -> String {
    let index = index.to_string_lossy();
    format!("{}-wal", index.strip_suffix("-shm").unwrap_or(&index))
}

/// A shared lock on the bytes for readers.
#[derive(Debug, PartialEq, Eq)]
struct Lock {
    pid: u32,
    inode: u64,
    first: u64,
    last: u64,
}

impl Lock {
    /// Parses a line of `/proc/locks`: `1: POSIX  ADVISORY  READ 1234 08:02:5678 124 124`. The kernel joins
    /// neighbouring locks of a process.
    fn parse(line: &str) -> Option<Lock> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "POSIX", _, "READ", pid, file, first, last] = words.as_slice() else { return None };
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        let (first, last) = (first.max(*READ_LOCKS.start()), last.min(*READ_LOCKS.end()));
        let inode = file.rsplit(':').next()?.parse().ok()?;
        (first <= last).then_some(Lock { pid: pid.parse().ok()?, inode, first, last })
    }
}

/// Looks up the index that a process has open, by its inode number. Returns `None` for other files. The
/// own process is left out, since closing a file ends all locks of the process on the file.
fn open_index(machine: &Machine, pid: u32, inode: u64) -> Option<OpenIndex> {
    if pid == std::process::id() {
        return None;
    }
    let descriptors = Task::below(&machine.proc(""), pid).file("fd");
    fs::read_dir(descriptors).ok()?.flatten().find_map(|entry| {
        let path = fs::read_link(entry.path()).ok()?;
        let is_index = path.to_string_lossy().ends_with("-shm");
        let open = OpenIndex { path, descriptor: entry.path() };
        // Opening a pipe would block.
        let is_it = |file: fs::Metadata| file.is_file() && file.ino() == inode;
        (is_index && fs::metadata(&open.descriptor).is_ok_and(is_it)).then_some(open)
    })
}

/// The part of an index that shows the readers.
struct Index([u8; INDEX_BYTES]);

struct Behind {
    mark: u32,
    bytes: u64,
}

impl Index {
    /// Reads the index, if the descriptor still belongs to it. SQLite deletes the index of a database that
    /// nobody uses, and the process's next index often gets its inode number and its descriptor.
    fn read(open: &OpenIndex, inode: u64) -> Option<Index> {
        if fs::read_link(&open.descriptor).ok()? != open.path {
            return None;
        }
        let file = File::open(&open.descriptor).ok()?;
        let mut bytes = [0; INDEX_BYTES];
        file.read_exact_at(&mut bytes, 0).ok()?;
        (file.metadata().ok()?.ino() == inode).then_some(Index(bytes))
    }

    /// The numbers of an index have the byte order of the machine.
    fn number(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.0[at..at + 4].try_into().expect("four bytes"))
    }

    /// Returns the mark of the reader that holds the lock of `byte`, and the bytes of the log behind it.
    fn bytes_behind(&self, byte: u64) -> Option<Behind> {
        let slot = usize::try_from(byte - READ_LOCKS.start() + 1).ok()?;
        let mark = self.number(MARKS_AT + 4 * slot);
        let page_bytes = u16::from_ne_bytes([self.0[PAGE_BYTES_AT], self.0[PAGE_BYTES_AT + 1]]);
        // The number 65,536 does not fit, and is stored as 1.
        let page_bytes = if page_bytes == 1 { 65_536 } else { u64::from(page_bytes) };
        let frames = self.number(FRAMES_AT).checked_sub(mark).filter(|_| mark != UNUSED)?;
        Some(Behind { mark, bytes: u64::from(frames) * page_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_readers_are_recognised() {
        let lock = |pid, inode, first, last| Some(Lock { pid, inode, first, last });
        for (line, expected) in [
            ("1: POSIX  ADVISORY  READ 1234 08:02:5678 124 124", lock(1234, 5678, 124, 124)),
            ("2: POSIX  ADVISORY  READ 1 fe:00:9 123 128", lock(1, 9, 124, 127)),
            ("2: POSIX  ADVISORY  READ 1 fe:00:9 128 128", None),
            ("3: POSIX  ADVISORY  WRITE 1 fe:00:9 124 124", None),
            ("3: OFDLCK ADVISORY  READ -1 fe:00:9 124 124", None),
            ("4: FLOCK  ADVISORY  READ 1 fe:00:9 0 EOF", None),
            ("1: -> POSIX  ADVISORY  READ 1 fe:00:9 124 124", None),
            ("", None),
        ] {
            assert_eq!(Lock::parse(line), expected, "{line}");
        }
    }

    #[test]
    fn the_index_shows_how_far_a_reader_is_behind() {
        let mut index = Index([0; INDEX_BYTES]);
        index.0[PAGE_BYTES_AT..PAGE_BYTES_AT + 2].copy_from_slice(&4096_u16.to_ne_bytes());
        index.0[FRAMES_AT..FRAMES_AT + 4].copy_from_slice(&5000_u32.to_ne_bytes());
        for (slot, mark) in [(1, 1000), (2, UNUSED), (3, 6000)] {
            let at = MARKS_AT + 4 * slot;
            index.0[at..at + 4].copy_from_slice(&u32::to_ne_bytes(mark));
        }
        let bytes = |byte| index.bytes_behind(byte).map(|behind| behind.bytes);
        assert_eq!([bytes(124), bytes(125), bytes(126)], [Some(4000 * 4096), None, None]);
    }

    #[test]
    fn a_later_index_with_the_numbers_of_an_earlier_one_has_its_own_path() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let mut index = [0; INDEX_BYTES];
        index[PAGE_BYTES_AT..PAGE_BYTES_AT + 2].copy_from_slice(&4096_u16.to_ne_bytes());
        index[FRAMES_AT..FRAMES_AT + 4].copy_from_slice(&5000_u32.to_ne_bytes());
        fs::write(path("a.db-shm"), index).unwrap();
        // Both names have one inode number.
        fs::hard_link(path("a.db-shm"), path("b.db-shm")).unwrap();
        let inode = fs::metadata(path("a.db-shm")).unwrap().ino();
        fs::create_dir_all(path("proc/7/fd")).unwrap();
        let line = format!("1: POSIX  ADVISORY  READ 7 08:02:{inode} 124 124\n");
        fs::write(path("proc/locks"), line).unwrap();
        let machine = Machine::at(root.path());
        let mut readers = WalReaders::default();
        for (name, seconds) in [("a.db", [0, 2, 3]), ("b.db", [4, 5, 9])] {
            let descriptor = path("proc/7/fd/3");
            let _ = fs::remove_file(&descriptor);
            std::os::unix::fs::symlink(path(&format!("{name}-shm")), descriptor).unwrap();
            seconds.into_iter().for_each(|s| readers.look(&machine, Timestamp(s * 1_000_000_000)));
        }
        let held: Vec<(Option<String>, i64)> = readers
            .samples()
            .into_iter()
            .filter(|row| row.metric == Metric::WalHeldNs)
            .map(|row| (row.subject, row.value / 1_000_000_000))
            .collect();
        let log = |name: &str| Some(format!("7 {}-wal", path(name).display()));
        // The first look at the second index only finds out that it is another one.
        assert_eq!(held, [(log("a.db"), 3), (log("b.db"), 4)]);
    }

    /// A real reader and a real writer of SQLite.
    #[test]
    fn a_reader_that_does_not_end_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("app.db");
        let script = "\
import sqlite3, sys, time
path = sys.argv[1]
writer = sqlite3.connect(path, isolation_level=None)
writer.execute('PRAGMA journal_mode = WAL')
writer.execute('PRAGMA synchronous = OFF')
writer.execute('CREATE TABLE t (x)')
reader = sqlite3.connect(path, isolation_level=None)
reader.execute('BEGIN')
reader.execute('SELECT * FROM t').fetchall()
for _ in range(50):
    writer.execute('INSERT INTO t VALUES (zeroblob(1000000))')
print('ready', flush=True)
time.sleep(60)
";
        let python = std::process::Command::new("python3")
            .args(["-c", script])
            .arg(&database)
            .stdout(std::process::Stdio::piped())
            .spawn();
        let Ok(mut python) = python else {
            eprintln!("skipped: python3 is not installed");
            return;
        };
        let mut line = String::new();
        let output = python.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        let mut readers = WalReaders::default();
        let machine = Machine::here();
        readers.look(&machine, Timestamp(0));
        readers.look(&machine, Timestamp(3_000_000_000));
        python.kill().unwrap();
        python.wait().unwrap();
        if line.trim() != "ready" {
            eprintln!("skipped: python3 has no module sqlite3");
            return;
        }
        let subject = format!("{} {}-wal", python.id(), database.display());
        let own = |row: &Sample| row.subject.as_ref() == Some(&subject);
        let samples = readers.samples();
        let value = |metric| samples.iter().find(|row| own(row) && row.metric == metric).map(|row| row.value);
        assert_eq!(value(Metric::WalHeldNs), Some(3_000_000_000), "{samples:?}");
        assert!(value(Metric::WalHeldBytes).is_some_and(|bytes| bytes > 50_000_000), "{samples:?}");
    }
}
