//! Counts the requests to disks that a command caused.
//!
//! These counts depend on the kernel's timing, so they differ a little from run to run of the same program. They are
//! compared with a tolerance ([`super::approximate`]), never exactly.
//!
//! A write counts if a thread of the command caused it, or if its data belong to a file that the command changed. A
//! flush counts if a thread of the command caused it before the command ended: the recorder itself syncs the file
//! systems afterwards. A file system with a journal writes its metadata a second time, in place, when it suits the
//! kernel: these writes do not count, because they belong to earlier runs as often as to this one.

use std::io;

use fonio_core::{
    ByteCount, Call, Content, DeviceId, File, FileFlags, Op, Request, RowSink, Thread, Timestamp, ignore_rows,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// The writes and flushes that a command caused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// Number of requests that write.
    pub writes: u64,
    /// Their size.
    pub written: ByteCount,
    /// Number of flush requests.
    pub flushes: u64,
}

/// Collects the threads of a command and the files that it changed, from the recording of its calls.
#[derive(Clone, Debug, Default)]
pub struct CommandTally {
    threads: FxHashSet<u32>,
    files: FxHashMap<u32, File>,
    changed: FxHashSet<u32>,
}

impl CommandTally {
    /// Returns the files that the command changed and whose path is known.
    pub fn changed(&self) -> impl Iterator<Item = &File> {
        self.changed.iter().filter_map(|file| self.files.get(file)).filter(|file| file.path.is_some())
    }
}

impl RowSink for CommandTally {
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

    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        self.threads.insert(row.tid);
        Ok(())
    }

    fn file(&mut self, row: &File) -> io::Result<()> {
        self.files.entry(row.file_id).or_insert_with(|| row.clone());
        Ok(())
    }

    fn call(&mut self, row: &Call) -> io::Result<()> {
        self.threads.insert(row.tid);
        let has = |flag| row.file_flags.is_some_and(|flags| flags.contains(flag));
        let is_change = match row.name.as_str() {
            "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" | "sendfile" | "copy_file_range" => {
                row.result.is_some_and(|written| written > 0)
            }
            "open" | "openat" | "openat2" | "creat" => has(FileFlags::MADE),
            "fallocate" | "ftruncate" | "truncate" => row.result == Some(0),
            _ => false,
        };
        self.changed.extend(row.file_id.filter(|_| is_change));
        Ok(())
    }
}

/// Counts the requests of a command, from a recording of the requests of all programs.
#[derive(Debug)]
pub struct BlockTally {
    threads: FxHashSet<u32>,
    paths: FxHashSet<String>,
    inodes: FxHashSet<(DeviceId, u64)>,
    /// The end of the command.
    ended: Timestamp,
    /// Whether the file system writes its metadata only once.
    has_no_journal: bool,
    /// The rows of files that the command changed.
    files: FxHashSet<u32>,
    counts: BlockCounts,
}

impl BlockTally {
    /// Creates the tally for a command that ended at this time, on the clock of the requests. `has_no_journal` says
    /// whether the file system writes its metadata only once, as btrfs does.
    pub fn new(command: CommandTally, ended: Timestamp, has_no_journal: bool) -> BlockTally {
        let changed = || command.changed();
        let inode = |file: &File| Some((file.device?, file.inode?));
        let (paths, inodes) = (changed().filter_map(|file| file.path.clone()), changed().filter_map(inode));
        BlockTally {
            paths: paths.collect(),
            inodes: inodes.collect(),
            threads: command.threads,
            ended,
            has_no_journal,
            files: FxHashSet::default(),
            counts: BlockCounts::default(),
        }
    }

    /// Returns the counts.
    pub fn finish(self) -> BlockCounts {
        self.counts
    }
}

impl RowSink for BlockTally {
    ignore_rows!(
        began,
        bio,
        link,
        call,
        statement,
        wait,
        blocked_count,
        thread,
        sample,
        mark,
        diagnostic,
        settled
    );

    fn file(&mut self, row: &File) -> io::Result<()> {
        let is_changed = match (&row.path, row.device, row.inode) {
            (Some(path), ..) => self.paths.contains(path),
            // The inode number of a deleted file can be another file's number later, so a known path decides.
            (None, Some(device), Some(inode)) => self.inodes.contains(&(device, inode)),
            _ => false,
        };
        self.files.extend(is_changed.then_some(row.file_id));
        Ok(())
    }

    fn request(&mut self, row: &Request) -> io::Result<()> {
        let is_caused = row.cause_tid.or(row.tid).is_some_and(|tid| self.threads.contains(&tid));
        let is_of_file = row.file_id.is_some_and(|file| self.files.contains(&file));
        let is_in_place = row.content == Content::FsMetadata && !self.has_no_journal;
        match row.op {
            Op::Write | Op::WriteZeroes | Op::ZoneAppend if (is_caused || is_of_file) && !is_in_place => {
                self.counts.writes += 1;
                self.counts.written += row.bytes;
            }
            Op::Flush if is_caused && row.order_time() <= self.ended => self.counts.flushes += 1,
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The disk 8:0.
    const DISK: DeviceId = DeviceId(8 << 20);

    fn file(file_id: u32, inode: u64, path: Option<&str>) -> File {
        let (device, path) = (Some(DISK), path.map(str::to_owned));
        File { file_id, from: Timestamp(0), device, inode: Some(inode), path, content: Content::Unknown }
    }

    fn call(name: &str, file_id: u32, result: i64, flags: FileFlags) -> Call {
        Call {
            call_id: 0,
            name: name.to_owned(),
            tid: 7,
            file_id: Some(file_id),
            offset: None,
            bytes: None,
            entered: Timestamp(0),
            exited: Some(Timestamp(1)),
            result: Some(result),
            sqlite_write: None,
            file_flags: Some(flags),
        }
    }

    fn command() -> CommandTally {
        let mut command = CommandTally::default();
        command.thread(&Thread { tid: 7, ..Thread::default() }).expect("in memory");
        for (file_id, inode, path) in
            [(1, 11, "/written"), (2, 12, "/read"), (3, 13, "/made"), (4, 14, "/full")]
        {
            command.file(&file(file_id, inode, Some(path))).expect("in memory");
        }
        for (name, file_id, result, flags) in [
            ("pwrite64", 1, 10, FileFlags::NONE),
            ("read", 2, 10, FileFlags::NONE),
            ("openat", 3, 5, FileFlags::MADE),
            ("openat", 2, 5, FileFlags::NONE),
            ("write", 4, -28, FileFlags::NONE),
            ("fsync", 4, 0, FileFlags::NONE),
        ] {
            command.call(&call(name, file_id, result, flags)).expect("in memory");
        }
        command
    }

    #[test]
    fn the_files_that_a_command_changed_are_known() {
        let command = command();
        let mut changed: Vec<&str> = command.changed().filter_map(|file| file.path.as_deref()).collect();
        changed.sort_unstable();
        assert_eq!(changed, ["/made", "/written"]);
    }

    #[test]
    fn requests_of_the_command_and_of_its_files_count() {
        let request = |op, tid, cause_tid, file_id, at| Request {
            tid: Some(tid),
            cause_tid,
            file_id,
            issued: Some(Timestamp(at)),
            ..Request::new(DISK, op, ByteCount(4096))
        };
        for (op, tid, cause, file_id, at, expected) in [
            // The thread that writes back the data is a kernel thread, whose cause is known.
            (Op::Write, 2, Some(7), None, 1, (1, 0)),
            (Op::Write, 7, None, None, 1, (1, 0)),
            (Op::Write, 7, Some(9), None, 1, (0, 0)),
            (Op::Write, 2, None, None, 1, (0, 0)),
            // A file of the command, by its path; by its inode number; and an inode number that is used again.
            (Op::Write, 2, None, Some(1), 200, (1, 0)),
            (Op::Write, 2, Some(9), Some(2), 200, (1, 0)),
            (Op::Write, 2, Some(9), Some(3), 1, (0, 0)),
            (Op::Flush, 2, Some(7), None, 1, (0, 1)),
            (Op::Flush, 2, Some(7), None, 200, (0, 0)),
            (Op::Flush, 2, Some(9), Some(1), 1, (0, 0)),
            (Op::Read, 7, None, None, 1, (0, 0)),
        ] {
            let mut tally = BlockTally::new(command(), Timestamp(100), false);
            let rows = [file(1, 99, Some("/written")), file(2, 13, None), file(3, 11, Some("/other"))];
            rows.iter().for_each(|row| tally.file(row).expect("in memory"));
            let row = request(op, tid, cause, file_id, at);
            tally.request(&row).expect("in memory");
            let counts = tally.finish();
            assert_eq!((counts.writes, counts.flushes), expected, "{row:?}");
            assert_eq!(counts.written.0, 4096 * expected.0);
        }
    }

    #[test]
    fn metadata_that_a_journal_has_already_does_not_count() {
        for (content, has_no_journal, expected) in
            [(Content::FsMetadata, false, 0), (Content::FsMetadata, true, 1), (Content::FsJournal, false, 1)]
        {
            let mut tally = BlockTally::new(command(), Timestamp(100), has_no_journal);
            let row = Request { tid: Some(7), content, ..Request::new(DISK, Op::Write, ByteCount(512)) };
            tally.request(&row).expect("in memory");
            assert_eq!(tally.finish().writes, expected, "{content:?}");
        }
    }
}
