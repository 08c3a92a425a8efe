//! Counts requests and bytes by file and kind of data, and names the processes that caused them.

use std::collections::BTreeMap;

use fonio_core::{ByteCount, Content, Request};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names::FILES_MAX;
use super::packages::{PackageUse, Packages};
use crate::figures::facts::{Facts, Frame};
use crate::question::Question;
use crate::question::context::Ending;
use crate::question::ratio::ratio;
use crate::question::seen::Seen;
use crate::question::threads::Threads;

/// Requests by file and kind of data. Present if at least one request has a file or kind of data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Files {
    /// Files, and kinds of data without a file, by descending number of bytes.
    pub files: Vec<FileUse>,
    /// Number of rows beyond the maximum of 4096; these rows are not listed.
    pub files_beyond_cap: u64,
    /// Requests and bytes by Android package, for files whose path names one, by descending number of bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<PackageUse>,
    /// Requests and bytes by kind of data, in a fixed order.
    pub contents: Vec<ContentUse>,
    /// Share of bytes read and written whose kind of data is unknown; absent if no bytes were read or
    /// written.
    pub unknown_share: Option<f64>,
    /// Share of file bytes whose file path is unknown; absent if there are no file bytes.
    pub path_unknown_share: Option<f64>,
    /// Share of bytes read and written whose cause is unknown; absent if no bytes were read or written.
    pub cause_unknown_share: Option<f64>,
}

/// One file, or one kind of data without a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileUse {
    /// Last known path; absent if unknown or if the data belong to no file.
    pub path: Option<String>,
    /// `major:minor` of the file system's device; absent if the data belong to no file.
    pub device: Option<String>,
    /// Inode number; absent if the data belong to no file or to several files with the same path.
    pub inode: Option<u64>,
    /// The kind of data, as in the recording.
    pub content: String,
    /// Requests.
    pub requests: u64,
    /// Bytes read.
    pub read_bytes: ByteCount,
    /// Bytes written.
    pub write_bytes: ByteCount,
    /// Process that caused most of the bytes; absent if unknown.
    pub cause: Option<String>,
    /// Systemd unit or container of the process `cause`, if known.
    pub cause_unit: Option<String>,
    /// Share of the bytes that the process `cause` caused.
    pub cause_share: Option<f64>,
}

/// Requests of one kind of data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContentUse {
    /// The kind of data, as in the recording.
    pub content: String,
    /// Requests.
    pub requests: u64,
    /// Write requests, without flushes and discards.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: ByteCount,
    /// Bytes written.
    pub write_bytes: ByteCount,
}

impl Files {
    /// Returns the number of write requests for this kind of data.
    pub fn writes_of(&self, content: Content) -> u64 {
        let row = self.contents.iter().find(|row| row.content == content.name());
        row.map_or(0, |row| row.writes)
    }
}

const LISTED_MAX: usize = 4096;
const CAUSES_MAX: usize = 8;

const CONTENTS: [Content; 8] = [
    Content::Data,
    Content::SqliteDb,
    Content::SqliteJournal,
    Content::SqliteWal,
    Content::FsMetadata,
    Content::FsJournal,
    Content::Swap,
    Content::Unknown,
];

/// The file's number in the recording, if there is a file, and the kind of data.
type Key = (Option<u32>, Content);

#[derive(Debug, Default)]
pub(crate) struct FileTally {
    counts: FxHashMap<Key, Count>,
    /// The requests of which file, kind of data and cause are unknown, after the first one. They are counted
    /// apart because in most traces all requests are of this kind. [`None`] before the first one.
    unknown: Option<Count>,
    total_bytes: ByteCount,
    unknown_bytes: ByteCount,
    cause_unknown_bytes: ByteCount,
    /// Whether any request had a known file or kind of data.
    is_shown: bool,
}

#[derive(Clone, Debug, Default)]
struct Count {
    requests: u64,
    writes: u64,
    read_bytes: ByteCount,
    write_bytes: ByteCount,
    /// Bytes by thread name and unit; the key is `None` if the thread is unknown.
    causes: Vec<(Option<Cause>, ByteCount)>,
}

/// Index of a process name, and index of the process's unit.
pub(crate) type Cause = (u32, Option<u32>);

impl Count {
    fn bytes(&self) -> ByteCount {
        self.read_bytes + self.write_bytes
    }

    #[inline]
    fn add(&mut self, seen: &Seen, bytes: ByteCount) {
        self.requests += 1;
        self.writes += u64::from(seen.class.is_write());
        if seen.class.is_read() {
            self.read_bytes += bytes;
        } else {
            self.write_bytes += bytes;
        }
    }

    fn add_cause(&mut self, cause: Option<Cause>, bytes: ByteCount) {
        if let Some((_, sum)) = self.causes.iter_mut().find(|(known, _)| *known == cause) {
            *sum += bytes;
        } else if self.causes.len() < CAUSES_MAX {
            self.causes.push((cause, bytes));
        }
    }

    fn absorb(&mut self, other: &Count) {
        self.requests += other.requests;
        self.writes += other.writes;
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
        for (cause, bytes) in &other.causes {
            self.add_cause(*cause, *bytes);
        }
    }
}

impl Question for FileTally {
    type Answer = Option<Files>;

    fn request(&mut self, row: &Request, seen: &Seen) {
        let (file, content) = (row.file_id, row.content);
        // Use only a known cause, because the thread that queued the request may be a kernel worker.
        let cause = row.cause_tid.map(|_| (seen.process, seen.unit));
        let is_unknown = file.is_none() && content == Content::Unknown && cause.is_none();
        self.is_shown |= file.is_some() || content != Content::Unknown;
        let bytes = if seen.has_data() { seen.bytes } else { ByteCount(0) };
        self.total_bytes += bytes;
        if content == Content::Unknown {
            self.unknown_bytes += bytes;
        }
        if cause.is_none() {
            self.cause_unknown_bytes += bytes;
        }
        if is_unknown {
            if let Some(count) = &mut self.unknown {
                count.add(seen, bytes);
                return;
            }
            self.unknown = Some(Count::default());
        }
        let key = (file, content);
        let fits = self.counts.len() < FILES_MAX || self.counts.contains_key(&key);
        let count = self.counts.entry(if fits { key } else { (None, content) }).or_default();
        count.add(seen, bytes);
        count.add_cause(cause, bytes);
    }

    fn finish(mut self, end: &mut Ending) -> Option<Files> {
        if let Some(mut unknown) = self.unknown.take() {
            unknown.causes.push((None, unknown.bytes()));
            let count = self.counts.get_mut(&(None, Content::Unknown));
            count.expect("the first of these requests is in `counts`").absorb(&unknown);
        }
        let (names, threads) = (&end.context.files, &end.context.threads);
        if !self.is_shown {
            return None;
        }
        let kind = |content: Content| {
            let mut sum = ContentUse { content: content.name().to_owned(), ..ContentUse::default() };
            for (_, count) in self.counts.iter().filter(|((_, of), _)| *of == content) {
                sum.requests += count.requests;
                sum.writes += count.writes;
                sum.read_bytes += count.read_bytes;
                sum.write_bytes += count.write_bytes;
            }
            (sum.requests > 0).then_some(sum)
        };
        let contents = CONTENTS.into_iter().filter_map(kind).collect();
        let (mut of_files, mut without_path) = (ByteCount(0), ByteCount(0));
        let mut rows: Vec<(FileUse, Count)> = Vec::new();
        let mut places: FxHashMap<(String, Content), usize> = FxHashMap::default();
        let mut sorted: Vec<(Key, Count)> = self.counts.into_iter().collect();
        sorted.sort_unstable_by_key(|(key, _)| *key);
        for ((file, content), count) in sorted {
            let name = names.of(file);
            if file.is_some() {
                of_files += count.bytes();
                if name.path.is_none() {
                    without_path += count.bytes();
                }
            }
            // A file that is deleted and re-created, such as a journal, has several file numbers.
            if let Some(path) = &name.path {
                let place = *places.entry((path.clone(), content)).or_insert(rows.len());
                if let Some((row, sum)) = rows.get_mut(place) {
                    row.inode = row.inode.filter(|inode| name.inode == Some(*inode));
                    sum.absorb(&count);
                    continue;
                }
            }
            let row = FileUse {
                path: name.path,
                device: name.device,
                inode: name.inode,
                content: content.name().to_owned(),
                ..FileUse::default()
            };
            rows.push((row, count));
        }
        rows.sort_by(|(a, of_a), (b, of_b)| {
            let key = |count: &Count| (count.bytes(), count.requests);
            key(of_b).cmp(&key(of_a)).then_with(|| (&a.path, a.inode).cmp(&(&b.path, b.inode)))
        });
        let mut packages = Packages::default();
        for (row, count) in &rows {
            packages.add(row.path.as_deref(), count.requests, count.read_bytes, count.write_bytes);
        }
        let files_beyond_cap = rows.len().saturating_sub(LISTED_MAX) as u64;
        rows.truncate(LISTED_MAX);
        Some(Files {
            files: rows.into_iter().map(|(row, count)| used(row, &count, threads)).collect(),
            files_beyond_cap,
            packages: packages.finish(),
            contents,
            unknown_share: ratio(self.unknown_bytes, self.total_bytes),
            path_unknown_share: ratio(without_path, of_files),
            cause_unknown_share: ratio(self.cause_unknown_bytes, self.total_bytes),
        })
    }

    fn figures(files: &Option<Files>, _: &Frame, facts: &mut Facts) {
        let Some(files) = files else { return };
        facts.share("files.unknown_share", "bytes of unknown content, share", files.unknown_share);
        let without_path = files.path_unknown_share;
        facts.share("files.path_unknown_share", "bytes of files with unknown path, share", without_path);
        let without_cause = files.cause_unknown_share;
        facts.share("files.cause_unknown_share", "bytes with unknown cause, share", without_cause);
        for (name, label, content) in [
            ("files.journal_writes", "writes of a file system's journal", Content::FsJournal),
            ("files.metadata_writes", "writes of a file system's metadata", Content::FsMetadata),
            ("files.unknown_writes", "writes of unknown content", Content::Unknown),
        ] {
            facts.count(name, label, files.writes_of(content));
        }
        files.figures_of_writes(facts);
    }
}

impl Files {
    /// Adds the shares of written bytes that are metadata or logs, and the log folder with the most bytes.
    fn figures_of_writes(&self, facts: &mut Facts) {
        let written: ByteCount = self.contents.iter().map(|row| row.write_bytes).sum();
        let metadata = self.contents.iter().filter(|row| row.content == Content::FsMetadata.name());
        let share = ratio(metadata.map(|row| row.write_bytes).sum(), written);
        facts.share("files.metadata_write_share", "bytes of metadata, share of written", share);
        let is_log = |path: &String| path.contains(SYSTEM_LOG);
        let logs = self.files.iter().filter(|row| row.path.as_ref().is_some_and(is_log));
        let share = ratio(logs.map(|row| row.write_bytes).sum(), written);
        facts.share("files.system_log_write_share", "bytes of the system's log, share of written", share);
        let mut folders: BTreeMap<&str, ByteCount> = BTreeMap::new();
        for row in &self.files {
            if let Some(folder) = row.path.as_deref().and_then(log_folder) {
                *folders.entry(folder).or_default() += row.write_bytes;
            }
        }
        let most = folders.into_iter().max_by_key(|(_, bytes)| *bytes);
        let share = ratio(most.map_or(ByteCount(0), |(_, bytes)| bytes), written);
        facts.share("files.log_write_share", "bytes of the logs in one folder, share of written", share);
        if let Some((folder, _)) = most {
            facts.word("files.log_folder", folder);
        }
    }
}

/// Returns the log folder of a file, such as `/var/log`; `None` for journald's files.
fn log_folder(path: &str) -> Option<&str> {
    let ends = ["/log/", "/logs/"].iter().filter_map(|name| path.find(name).map(|at| at + name.len() - 1));
    ends.min().map(|end| &path[..end]).filter(|_| path.starts_with('/') && !path.contains(SYSTEM_LOG))
}

/// Identifies journald's files by their paths.
const SYSTEM_LOG: &str = "/log/journal/";

fn used(row: FileUse, count: &Count, threads: &Threads) -> FileUse {
    let mut most: Option<(Cause, ByteCount)> = None;
    for (cause, bytes) in &count.causes {
        if let Some(cause) = cause
            && most.is_none_or(|(_, most)| *bytes > most)
        {
            most = Some((*cause, *bytes));
        }
    }
    FileUse {
        requests: count.requests,
        read_bytes: count.read_bytes,
        write_bytes: count.write_bytes,
        cause: most.map(|((name, _), _)| threads.name(name).to_owned()),
        cause_unit: most.and_then(|((_, unit), _)| Some(threads.unit(unit?).to_owned())),
        cause_share: most.and_then(|(_, bytes)| ratio(bytes, count.bytes())),
        ..row
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::{DeviceId, File, Meta, RowSink, Thread, Timestamp};

    use super::*;
    use crate::analyser::Analyser;
    use crate::analyser::tests::{analyse, rows};
    use crate::question::options::AnalysisOptions;

    fn file(file_id: u32, from: u64, path: Option<&str>) -> File {
        let (device, inode) = (Some(DeviceId::new(8, 1)), Some(u64::from(file_id) + 10));
        let (from, path) = (Timestamp(from), path.map(str::to_owned));
        File { file_id, from, device, inode, path, content: Content::Data }
    }

    #[test]
    fn files_by_bytes_with_who_caused_them() {
        let mut analyser = Analyser::new(AnalysisOptions::default());
        let cgroup = Some("/system.slice/notes.service".to_owned());
        for (tid, comm, cgroup) in [(1, "python3", cgroup), (2, "cp", None), (3, "kworker/0:1", None)] {
            let comm = Some(comm.to_owned());
            analyser.thread(&Thread { tid, comm, cgroup, ..Thread::default() }).unwrap();
        }
        // The test renames file 1. The last two files have the path of one journal, which was deleted and
        // created again.
        for row in [
            file(1, 0, Some("/notes.tmp")),
            file(1, 50, Some("/notes")),
            file(2, 0, None),
            file(3, 0, Some("/j")),
            file(4, 0, Some("/j")),
        ] {
            analyser.file(&row).unwrap();
        }
        let mut rows = rows(&[
            "W 0+16 d0 c30 t3",
            "W 0+8 d30 c40 t3",
            "R 0+64 d40 c60 t2",
            "W 0+8 d60 c70 t1",
            "W 0+8 d70 c80 t1",
            "FF d90 c99 t1",
            "W 0+8 d90 c99 t3",
        ]);
        for (row, (file, cause, content)) in rows.iter_mut().zip([
            (Some(1), Some(1), Content::Data),
            (Some(1), Some(2), Content::Data),
            (Some(2), Some(2), Content::Data),
            (Some(3), Some(1), Content::SqliteJournal),
            (Some(4), Some(1), Content::SqliteJournal),
            (None, None, Content::Unknown),
            (None, None, Content::FsMetadata),
        ]) {
            (row.file_id, row.cause_tid, row.content) = (file, cause, content);
        }
        rows.iter().for_each(|row| analyser.request(row).unwrap());
        let analysis = analyser.finish(&Meta::default());
        // Of 24 KiB written, 4 KiB are metadata.
        let facts = crate::verdict::facts::facts(&analysis);
        assert_eq!(facts.value("files.metadata_write_share"), Some(4.0 / 24.0));
        assert_eq!(facts.value("files.metadata_writes"), Some(1.0));
        let files = analysis.files.unwrap();
        let kib = |bytes: ByteCount| bytes.0 / 1024;
        let short: Vec<_> = files
            .files
            .iter()
            .map(|file| {
                let by = file.cause.clone().unwrap_or_default() + file.cause_unit.as_deref().unwrap_or("");
                let path = file.path.clone().unwrap_or_default();
                (path, file.content.clone(), kib(file.read_bytes), kib(file.write_bytes), by)
            })
            .collect();
        let row = |path: &str, content: &str, read, written, by: &str| {
            (path.to_owned(), content.to_owned(), read, written, by.to_owned())
        };
        assert_eq!(
            short,
            [
                row("", "data", 32, 0, "cp"),
                row("/notes", "data", 0, 12, "python3notes.service"),
                row("/j", "sqlite_journal", 0, 8, "python3notes.service"),
                row("", "fs_metadata", 0, 4, ""),
                row("", "unknown", 0, 0, ""),
            ]
        );
        assert_eq!(files.files[1].cause_share, Some(8.0 / 12.0));
        assert_eq!((files.files[1].inode, files.files[2].inode), (Some(11), None));
        assert_eq!(files.unknown_share, Some(0.0));
        assert_eq!(files.cause_unknown_share, Some(4.0 / 56.0));
        assert_eq!(files.path_unknown_share, Some(32.0 / 52.0));
        let kinds: Vec<_> =
            files.contents.iter().map(|kind| (kind.content.as_str(), kind.requests, kind.writes)).collect();
        assert_eq!(
            kinds,
            [("data", 3, 2), ("sqlite_journal", 2, 2), ("fs_metadata", 1, 1), ("unknown", 1, 0)]
        );
        assert_eq!((files.writes_of(Content::Data), files.writes_of(Content::FsJournal)), (2, 0));
    }

    #[test]
    fn a_trace_without_files_has_no_such_table() {
        assert_eq!(analyse(&["W 0+16 d0 c30 t3"]).files, None);
    }

    #[test]
    fn a_folder_of_logs_is_known_by_its_name() {
        for (path, expected) in [
            ("/var/log/nginx/access.log", Some("/var/log")),
            ("/home/a/logs/b/log/c", Some("/home/a/logs")),
            ("/var/log/journal/1/system.journal", None),
            ("/var/lib/logstash/x", None),
            ("/log", None),
            ("var/log/x", None),
        ] {
            assert_eq!(log_folder(path), expected, "{path}");
        }
    }
}
