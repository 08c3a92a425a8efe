//! Keeps the calls of a capture, and turns them into rows.

use std::ffi::OsStr;
use std::io;

use fonio_core::lives::Generation;
use fonio_core::meta::LOST_CALLS;
use fonio_core::{Call, Inode, RowSink, Timestamp};
use fonio_machine::Machine;
use fonio_system::ProcessId;
use rustc_hash::{FxHashMap, FxHashSet};

use super::layout::{PATH_MAX, RawPath};
use super::{CallsProbe, Given, Lost, RecordedCall, table};
use crate::attribution::files::{Files, FolderId, Opened};
use crate::attribution::thread_names::{ReportedThread, ThreadNames};
use crate::attribution::threads::Threads;
use crate::probes::bpf::Unavailable;
use crate::probes::statements::{CapturedStatements, NO_STATEMENTS, StatementsCapture, WithSqlite};

/// Maximum number of recorded calls: 117 MB at 112 bytes each.
const CALLS_MAX: usize = 1 << 20;
/// Maximum number of processes that are noted as users of SQLite.
const PROCESSES_MAX: usize = 1024;
/// Maximum number of opened paths that are kept.
const PATHS_MAX: usize = 1 << 16;

/// A file with its generation, if it has one.
type OpenedFile = (Inode, Option<Generation>);

/// A remark on a recording: a stable name, a sentence, and how often it applies.
type Remark = (&'static str, String, u64);

/// A running probe, with the calls that it has recorded so far.
#[derive(Debug)]
pub(crate) struct CallsCapture {
    probe: CallsProbe,
    kept: Kept,
    /// The SQL statements, or why they are not recorded; `None` if the user does not want them.
    statements: Option<Result<StatementsCapture, Unavailable>>,
}

#[derive(Debug, Default)]
struct Kept {
    calls: Vec<RecordedCall>,
    names: ThreadNames,
    /// The file that was last opened at each path. Relative paths are stored per process.
    paths: FxHashMap<(Option<u32>, Vec<u8>), OpenedFile>,
    /// The files that calls used and the files that calls opened since the last look-up.
    used: FxHashSet<Inode>,
    /// For each inode and generation: the earliest and the latest time since the last look-up at which a call
    /// had this file open.
    sighted: FxHashMap<(Inode, Generation), (Timestamp, Timestamp)>,
    opened: Vec<Opened>,
    /// The processes that have opened files since they were last searched for SQLite.
    opening: FxHashSet<u32>,
    /// The processes that wrote to an SQLite journal or WAL.
    with_sqlite: FxHashSet<u32>,
    beyond: u64,
}

impl CallsCapture {
    /// Begins to record calls, and follows these processes. `command` is the program that will be started.
    pub(crate) fn begin(
        mut probe: CallsProbe,
        machine: &Machine,
        command: Option<&OsStr>,
        processes: &[ProcessId],
    ) -> Result<CallsCapture, Unavailable> {
        let pids: Vec<u32> = processes.iter().map(|process| process.pid).collect();
        let statements = probe.statements.take();
        let statements = statements.map(|probe| probe.map(|probe| probe.begin(machine, command, &pids)));
        probe.attach(&pids)?;
        // From now on, the kernel shows the exit of these processes.
        for ended in processes.iter().filter(|process| machine.process(process.pid) != Some(**process)) {
            probe.stop_following(ended.pid);
        }
        Ok(CallsCapture { probe, kept: Kept::default(), statements })
    }

    /// Starts or stops following the future child processes of this thread.
    pub(crate) fn follow_children(&mut self, follow: bool) -> Result<(), Unavailable> {
        self.probe.follow_children(follow)
    }

    /// Takes the calls that ended since the previous call of this function. Queues new threads and files for
    /// look-up. Returns the number of bytes taken from the ring buffer, and the size of the buffer.
    pub(crate) fn drain(
        &mut self,
        now: Timestamp,
        machine: &Machine,
        threads: &mut Threads,
        files: &mut Files,
    ) -> (u64, u64) {
        let Self { probe, kept, statements } = self;
        let used = probe.drain(&mut |given| kept.add(given));
        kept.hand_over(now, threads, files);
        let mut opening: Vec<u32> = kept.opening.drain().collect();
        opening.sort_unstable();
        let Some(Ok(statements)) = statements else { return used };
        let of_statements = statements.drain(now, machine, &opening);
        fuller(used, of_statements)
    }

    /// Ends the probe, and returns the calls of the capture.
    pub(crate) fn finish(
        mut self,
        (began, ended): (Timestamp, Timestamp),
        machine: &Machine,
        threads: &mut Threads,
        files: &mut Files,
    ) -> CapturedCalls {
        let statements = self.statements.take();
        let kept = &mut self.kept;
        let lost = self.probe.finish(ended, &mut |given| kept.add(given));
        kept.hand_over(ended, threads, files);
        // The programs for calls are already detached, so a thread that exits now no longer reports its last
        // statement.
        let statements = statements
            .map(|statements| statements.map(|statements| statements.finish((began, ended), machine)));
        let Kept { mut calls, names, with_sqlite, beyond, .. } = self.kept;
        let mut with_sqlite: Vec<WithSqlite> = with_sqlite
            .into_iter()
            .map(|process| {
                let name = names.get(process).map_or_else(|| "a program".to_owned(), |(_, name)| name);
                WithSqlite { process, name }
            })
            .collect();
        with_sqlite.sort_unstable_by_key(|with| with.process);
        for call in &mut calls {
            call.ended = call.ended.filter(|(at, _)| *at <= ended);
        }
        calls.retain(|call| (began..ended).contains(&call.entered));
        calls.sort_unstable_by_key(|call| (call.entered, call.tid));
        CapturedCalls { calls, names, lost, beyond, statements, with_sqlite }
    }
}

impl Kept {
    fn add(&mut self, given: Given) {
        let Given { mut call, path, process, comm } = given;
        if let Some(path) = path {
            self.add_path(&mut call, path, process);
        }
        if process != 0 {
            let reported = ReportedThread { pid: process, comm, ..ReportedThread::default() };
            self.names.note(call.tid, reported, 0);
            if call.sqlite_write.is_some() && self.with_sqlite.len() < PROCESSES_MAX {
                self.with_sqlite.insert(process);
            }
        }
        self.used.extend(call.inode);
        if let (Some(inode), Some(generation), Some(_)) = (call.inode, call.generation, call.file_flags) {
            let at = call.had_file_at();
            let (first, last) = self.sighted.entry((inode, generation)).or_insert((at, at));
            (*first, *last) = (at.min(*first), at.max(*last));
        }
        if self.calls.len() < CALLS_MAX {
            self.calls.push(call);
        } else {
            self.beyond += 1;
        }
    }

    /// If the call opened a file, stores the path of the opened file; if the call opened no file, finds the
    /// file at the call's path.
    fn add_path(&mut self, call: &mut RecordedCall, path: RawPath, process: u32) {
        // A path of this length may have been truncated.
        if path.bytes.is_empty() || path.bytes.len() + 1 >= PATH_MAX {
            return;
        }
        let key = (!path.bytes.starts_with(b"/")).then_some(process);
        if let (Some(inode), Some((at, _))) = (call.inode, call.ended) {
            if self.paths.len() >= PATHS_MAX {
                self.paths.clear();
            }
            self.paths.insert((key, path.bytes.clone()), (inode, call.generation));
            self.opening.insert(process);
            let folder = Inode { fs: inode.fs, number: path.folder };
            let folder = FolderId { inode: folder, generation: path.folder_generation };
            let folder = Some(folder).filter(|folder| folder.inode.number != 0);
            self.opened.push(Opened { at, inode, folder, path: path.bytes });
            return;
        }
        let key = (key, path.bytes);
        let known = self.paths.get(&key).copied();
        call.inode = known.map(|(inode, _)| inode);
        call.generation = known.and_then(|(_, generation)| generation);
        let is_done = call.ended.is_some_and(|(_, result)| result == 0);
        if is_done && table::name(call.number).is_some_and(table::moves_path) {
            self.paths.remove(&key);
        }
    }

    /// Queues new threads and files for look-up.
    fn hand_over(&mut self, now: Timestamp, threads: &mut Threads, files: &mut Files) {
        self.names.take_new().into_iter().for_each(|thread| threads.add_with_parent(thread, now));
        files.opened(self.opened.drain(..));
        let mut used: Vec<Inode> = self.used.drain().collect();
        used.sort_unstable();
        used.into_iter().for_each(|inode| files.see(inode));
        let mut sighted: Vec<_> = self.sighted.drain().collect();
        sighted.sort_unstable();
        for ((inode, generation), (first, last)) in sighted {
            files.sighted(inode, first, generation);
            files.sighted(inode, last, generation);
        }
    }
}

#[derive(Debug)]
pub(crate) struct CapturedCalls {
    /// The calls, ordered by their start.
    pub calls: Vec<RecordedCall>,
    names: ThreadNames,
    lost: Lost,
    beyond: u64,
    /// The SQL statements, or why they were not recorded; `None` if the user did not want them.
    pub statements: Option<Result<CapturedStatements, Unavailable>>,
    with_sqlite: Vec<WithSqlite>,
}

impl CapturedCalls {
    /// Writes the rows of calls. For each call, `file_ids` contains the number of its file's row in `files`.
    /// `threads` contains all threads, and the ids of the threads with a row.
    pub(crate) fn write(
        &self,
        began: Timestamp,
        file_ids: &[Option<u32>],
        threads: (&Threads, &FxHashSet<u32>),
        sink: &mut dyn RowSink,
    ) -> io::Result<()> {
        let mut tids: Vec<u32> = self.calls.iter().map(|call| call.tid).collect();
        if let Some(Ok(statements)) = &self.statements {
            tids.extend(statements.tids());
        }
        self.names.write_rows(tids, began, threads, sink)?;
        let file_ids = file_ids.iter().copied().chain(std::iter::repeat(None));
        for ((call_id, call), file_id) in (0..).zip(&self.calls).zip(file_ids) {
            sink.call(&Call {
                call_id,
                name: table::name(call.number).unwrap_or("unknown").to_owned(),
                tid: call.tid,
                file_id,
                offset: call.offset,
                bytes: call.bytes,
                entered: call.entered,
                exited: call.ended.map(|(at, _)| at),
                result: call.ended.map(|(_, result)| result),
                sqlite_write: call.sqlite_write,
                file_flags: call.file_flags,
            })?;
        }
        match &self.statements {
            Some(Ok(statements)) => statements.write(sink),
            _ => Ok(()),
        }
    }

    /// Returns remarks for the user about missing calls.
    pub(crate) fn remarks(&self) -> Vec<Remark> {
        let mut remarks = Vec::new();
        let missing = self.lost.missing + self.beyond;
        if missing > 0 {
            let message = format!(
                "{missing} file-system calls were not recorded, because the tables were full; record for a shorter time"
            );
            remarks.push((LOST_CALLS, message, missing));
        }
        if self.lost.processes > 0 {
            let message = format!(
                "the file-system calls of {0} processes are missing, because too many processes ran at once: the table was full",
                self.lost.processes
            );
            remarks.push((LOST_CALLS, message, self.lost.processes));
        }
        if self.lost.compat > 0 {
            let message = format!(
                "{0} system calls of 32-bit programs are missing; fonio records file-system calls of 64-bit programs only",
                self.lost.compat
            );
            remarks.push((LOST_CALLS, message, self.lost.compat));
        }
        match &self.statements {
            Some(Ok(statements)) => remarks.extend(statements.remarks(&self.with_sqlite)),
            // If no process uses SQLite, no statements are missing.
            Some(Err(unavailable)) if !self.with_sqlite.is_empty() => {
                let message = format!("SQL statements are not recorded: {unavailable}");
                remarks.push((NO_STATEMENTS, message, 1));
            }
            _ => {}
        }
        remarks
    }
}

/// Returns the fuller of two buffers; each is a pair of used and total bytes.
fn fuller(one: (u64, u64), other: (u64, u64)) -> (u64, u64) {
    let share = |(used, size): (u64, u64)| (u128::from(used) << 32) / u128::from(size.max(1));
    if share(other) > share(one) { other } else { one }
}

#[cfg(test)]
mod tests {
    use fonio_core::{DeviceId, FileFlags};

    use super::*;

    fn call(number: libc::c_long, path: &str, process: u32, inode: Option<u64>, result: i64) -> Given {
        let fs = DeviceId::new(8, 1);
        let call = RecordedCall {
            tid: process,
            number: number as i32,
            inode: inode.map(|number| Inode { fs, number }),
            generation: inode.and_then(|number| Generation::new(number as u32 * 10)),
            offset: None,
            bytes: None,
            entered: Timestamp(1),
            ended: Some((Timestamp(2), result)),
            sqlite_write: None,
            file_flags: inode.map(|_| FileFlags::NONE),
        };
        let path = RawPath { bytes: path.as_bytes().to_vec(), folder: 3, folder_generation: None };
        Given { call, path: Some(path), process, comm: [0; 16] }
    }

    #[test]
    fn a_deleted_file_is_the_one_that_was_opened_at_its_path() {
        let mut kept = Kept::default();
        for given in [
            call(libc::SYS_openat, "/d/x-journal", 7, Some(20), 3),
            call(libc::SYS_openat, "x", 7, Some(21), 4),
            call(libc::SYS_openat, "x", 8, Some(22), 3),
            // The deletion fails first, and then succeeds. After that, the file no longer exists.
            call(libc::SYS_unlinkat, "/d/x-journal", 8, None, -13),
            call(libc::SYS_unlinkat, "/d/x-journal", 8, None, 0),
            call(libc::SYS_unlinkat, "/d/x-journal", 8, None, -2),
            call(libc::SYS_unlinkat, "x", 7, None, 0),
            call(libc::SYS_unlinkat, "x", 9, None, 0),
            call(libc::SYS_openat, &"/".repeat(255), 7, Some(23), 5),
            call(libc::SYS_openat, "", 7, Some(24), 6),
        ] {
            kept.add(given);
        }
        let inodes: Vec<Option<u64>> = kept.calls.iter().map(|call| Some(call.inode?.number)).collect();
        assert_eq!(inodes[3..8], [Some(20), Some(20), None, Some(21), None]);
        let generations: Vec<Option<u32>> =
            kept.calls.iter().map(|call| Some(call.generation?.get())).collect();
        assert_eq!(generations[3..8], [Some(200), Some(200), None, Some(210), None]);
        // A deletion is no sighting, because the file may be gone when the call returns.
        let times: Vec<(Timestamp, Timestamp)> = kept.sighted.values().copied().collect();
        assert_eq!(times, vec![(Timestamp(2), Timestamp(2)); 5]);
        let opened: Vec<u64> = kept.opened.iter().map(|opened| opened.inode.number).collect();
        assert_eq!(opened, [20, 21, 22]);
    }
}
