//! Follows the threads of a command from stop to stop, and notes their file-system calls.
//!
//! At the entry of a call, the tracer finds the file, and lets the thread run to the exit; there it notes the
//! result. Between an exit and the next entry, the thread runs freely. A call that a signal interrupts and that the
//! kernel restarts stops again at its entry, so only its last attempt counts.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fonio_core::{ByteCount, Call, Content, FileFlags, RowSink, SqliteWrite, Thread, Timestamp};
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::time::{ClockId, clock_gettime};

use super::files::{self, Files, Open};
use super::filter::{self, Filter};
use super::kernel::{self, CallInfo, Change, Go, Stop};
use super::statements::Statements;
use crate::clock::now;
use crate::probes::calls::sqlite::{HEAD_BYTES, sqlite_write_to};
use crate::probes::calls::table::{self, Kind};

/// Maximum number of recorded calls: 218 MB at 104 bytes each.
const CALLS_MAX: usize = 1 << 21;
/// Maximum number of rows of threads.
const THREADS_MAX: usize = 1 << 20;
/// Maximum number of mapped files whose names are kept.
const MAPPED_MAX: usize = 1024;
/// Maximum size of a path, including the final zero.
const PATH_MAX: usize = 4096;

/// Errors with which the kernel restarts a call (`include/linux/errno.h`). Programs never see them.
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;

/// The first bytes of every SQLite database.
const SQLITE_HEADER: &[u8; 16] = b"SQLite format 3\0";

/// How the tracer finds the file and the arguments of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Listed(Kind, bool),
    /// (to, from, offset, bytes), at the position of the file.
    Send,
    /// (from, offset, to, offset, bytes, flags).
    Copy,
    /// The call shows only that the program uses io_uring.
    Ring,
    /// The call maps a file for shared writing.
    Map,
}

/// A call that has not returned.
#[derive(Debug)]
struct Entered {
    name: &'static str,
    how: How,
    arguments: [u64; 6],
    at: Timestamp,
    subject: Subject,
}

#[derive(Debug)]
enum Subject {
    /// An open file and its number.
    File(Open, Option<u32>),
    /// The number of the file at the call's path.
    Path(Option<u32>),
    /// A file is being mapped as code.
    Code,
    /// The path of a file that is being opened, and the coarse time.
    Opening(PathBuf, (i64, u32)),
    None,
}

#[derive(Debug, Default)]
struct Traced {
    process: u32,
    entered: Option<Entered>,
}

/// A finished call.
#[derive(Clone, Copy, Debug)]
struct Noted {
    name: &'static str,
    tid: u32,
    file: Option<u32>,
    offset: Option<u64>,
    bytes: Option<u64>,
    entered: Timestamp,
    exited: Timestamp,
    result: i64,
    sqlite_write: Option<SqliteWrite>,
    file_flags: Option<FileFlags>,
}

/// The processes that are traced now, shared with the thread that ends them.
pub(super) type Running = Arc<Mutex<FxHashSet<u32>>>;

/// The calls of a command and of its descendants.
#[derive(Debug, Default)]
pub(super) struct Tracer {
    hows: FxHashMap<i32, (&'static str, How)>,
    threads: FxHashMap<i32, Traced>,
    running: Running,
    calls: Vec<Noted>,
    files: Files,
    pub(super) statements: Statements,
    /// The processes that wrote to a journal or WAL of SQLite.
    with_sqlite: FxHashSet<u32>,
    rows: Vec<Thread>,
    /// Number of calls that did not fit into memory.
    pub(super) beyond: u64,
    /// Number of stops at calls of 32-bit programs.
    pub(super) compat: u64,
    /// Number of rings of io_uring that programs created.
    pub(super) rings: u64,
    /// The files that programs mapped for shared writing.
    pub(super) mapped: FxHashSet<String>,
}

impl Tracer {
    /// Creates a tracer. `with_statements` also notes SQL statements.
    pub(super) fn new(running: Running, with_statements: bool) -> Tracer {
        let listed =
            table::all().map(|(number, name, kind, writes)| (number, name, How::Listed(kind, writes)));
        let others = [
            (libc::SYS_sendfile, "sendfile", How::Send),
            (libc::SYS_copy_file_range, "copy_file_range", How::Copy),
            (libc::SYS_io_uring_setup, "io_uring_setup", How::Ring),
            (filter::MMAP, "mmap", How::Map),
        ];
        let hows = listed.chain(others).map(|(number, name, how)| (number as i32, (name, how)));
        let statements = Statements::new(with_statements);
        Tracer { hows: hows.collect(), running, statements, ..Tracer::default() }
    }

    /// Returns the filter that stops threads at the calls that this tracer notes.
    pub(super) fn filter(&self) -> Filter {
        let mut numbers: Vec<u32> = (self.hows.iter())
            .filter(|(_, (_, how))| *how != How::Map)
            .map(|(number, _)| *number as u32)
            .collect();
        numbers.sort_unstable();
        Filter::new(numbers.into_iter())
    }

    /// Begins with the command, which has stopped after its exec.
    pub(super) fn begin(&mut self, command: i32) {
        self.register(command);
        self.statements.executed(command as u32);
        kernel::go(command, Go::On(0));
    }

    /// Follows the threads until all of them have ended. Calls `ended` when the process `command` ends, with its
    /// exit code or its signal.
    pub(super) fn follow(&mut self, command: i32, mut ended: impl FnMut(Change)) {
        while !self.threads.is_empty() {
            let Some((tid, change)) = kernel::wait(-1) else { break };
            match change {
                Change::Stopped(stop) => {
                    let how = self.stopped(tid, stop);
                    kernel::go(tid, how);
                }
                Change::Ended(_) | Change::Killed(_) => {
                    self.forget(tid);
                    if tid == command {
                        ended(change);
                    }
                }
            }
        }
    }

    fn stopped(&mut self, tid: i32, stop: Stop) -> Go {
        if !self.threads.contains_key(&tid) {
            self.register(tid);
        }
        match stop {
            Stop::Call => match kernel::call_info(tid) {
                Ok(info) if info.message == filter::OF_CALL => self.entered(tid, &info),
                Ok(_) => {
                    self.compat += 1;
                    Go::On(0)
                }
                Err(_) => Go::On(0),
            },
            Stop::Exit => {
                let entered = self.threads.get_mut(&tid).and_then(|thread| thread.entered.take());
                if let (Some(entered), Ok(info)) = (entered, kernel::call_info(tid)) {
                    self.exited(tid, &entered, info.result());
                }
                Go::On(0)
            }
            Stop::Child => {
                if let Some(child) = kernel::message(tid) {
                    if !self.threads.contains_key(&child) {
                        self.register(child);
                    }
                    let of = |tid: i32| self.threads.get(&tid).map(|thread| thread.process);
                    if let (Some(parent), Some(child)) = (of(tid), of(child)) {
                        self.statements.forked(parent, child);
                    }
                }
                Go::On(0)
            }
            Stop::Exec => {
                self.executed(tid, kernel::message(tid));
                Go::On(0)
            }
            Stop::Signal(libc::SIGTRAP) if self.trapped(tid) => Go::On(0),
            Stop::Signal(signal) => Go::On(signal),
            Stop::Group => Go::Listen,
            Stop::Begin => self.continued(tid),
        }
    }

    /// Returns whether a breakpoint of the tracer stopped the thread.
    fn trapped(&mut self, tid: i32) -> bool {
        let process = self.threads.get(&tid).map(|thread| thread.process);
        process.is_some_and(|process| self.statements.trapped(tid, process, now()))
    }

    /// A thread can stop for SIGCONT between the entry and the exit of a call.
    fn continued(&self, tid: i32) -> Go {
        let is_in_call = self.threads.get(&tid).is_some_and(|thread| thread.entered.is_some());
        if is_in_call { Go::ToExit } else { Go::On(0) }
    }

    fn register(&mut self, tid: i32) {
        let row = described(tid);
        let process = row.pid.unwrap_or(tid as u32);
        self.threads.insert(tid, Traced { process, entered: None });
        self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(process);
        self.add_row(row);
    }

    fn add_row(&mut self, row: Thread) {
        if self.rows.len() < THREADS_MAX {
            self.rows.push(row);
        }
    }

    fn forget(&mut self, tid: i32) {
        self.statements.end_run(tid);
        let Some(thread) = self.threads.remove(&tid) else { return };
        if self.threads.values().all(|other| other.process != thread.process) {
            self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&thread.process);
            self.statements.end_process(thread.process);
        }
    }

    /// After exec, the process has only one thread, which has the id of the process.
    fn executed(&mut self, tid: i32, former: Option<i32>) {
        let process = tid as u32;
        self.threads.retain(|other, thread| thread.process != process || *other == tid);
        if let Some(former) = former.filter(|former| *former != tid) {
            self.threads.remove(&former);
        }
        self.threads.insert(tid, Traced { process, entered: None });
        self.add_row(described(tid));
        self.statements.executed(process);
    }

    fn entered(&mut self, tid: i32, info: &CallInfo) -> Go {
        let Some(&(name, how)) = self.hows.get(&info.number()) else { return Go::On(0) };
        let (at, arguments) = (now(), info.arguments);
        let subject = match how {
            How::Ring => {
                self.rings += 1;
                return Go::On(0);
            }
            How::Map => {
                let (rights, flags) = (arguments[2] as i32, arguments[3] as i32);
                if rights & libc::PROT_WRITE != 0 && flags & libc::MAP_SHARED != 0 {
                    self.map(tid, arguments[4]);
                }
                let is_code = rights & libc::PROT_EXEC != 0 && self.statements.are_shown();
                is_code.then_some(Subject::Code)
            }
            How::Send => self.open_file(tid, arguments[0], at),
            How::Copy => self.open_file(tid, arguments[2], at),
            How::Listed(kind, _) => match kind {
                Kind::Memory | Kind::All => Some(Subject::None),
                Kind::Path | Kind::PathLength => self.at_path(tid, None, arguments[0], at),
                Kind::PathAt if name == "unlinkat" && arguments[2] & libc::AT_REMOVEDIR as u64 != 0 => None,
                Kind::PathAt => self.at_path(tid, Some(arguments[0]), arguments[1], at),
                Kind::Open => opening(tid, None, arguments[0]),
                Kind::OpenAt => opening(tid, Some(arguments[0]), arguments[1]),
                _ => self.open_file(tid, arguments[0], at),
            },
        };
        let Some(subject) = subject else { return Go::On(0) };
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.entered = Some(Entered { name, how, arguments, at, subject });
        }
        Go::ToExit
    }

    fn open_file(&mut self, tid: i32, descriptor: u64, at: Timestamp) -> Option<Subject> {
        let open = Open::of(tid, descriptor)?;
        let number = self.files.number(&open, at);
        Some(Subject::File(open, number))
    }

    fn at_path(&mut self, tid: i32, folder: Option<u64>, address: u64, at: Timestamp) -> Option<Subject> {
        let path = path(tid, folder, address)?;
        Some(Subject::Path(self.files.number_at(&path, at)))
    }

    /// Notes a file that is mapped for shared writing. The index of a WAL is not data, so it does not count.
    fn map(&mut self, tid: i32, descriptor: u64) {
        let Some(open) = Open::of(tid, descriptor) else { return };
        if !open.path.ends_with(b"-shm") && self.mapped.len() < MAPPED_MAX {
            self.mapped.insert(String::from_utf8_lossy(&open.path).into_owned());
        }
    }

    fn exited(&mut self, tid: i32, entered: &Entered, result: i64) {
        if RESTARTS.contains(&result) {
            return;
        }
        if let Subject::Code = entered.subject {
            let [_, length, _, _, descriptor, offset] = entered.arguments;
            let process = self.threads.get(&tid).map(|thread| thread.process);
            if let (Ok(address), Some(process)) = (u64::try_from(result), process) {
                let link = format!("fd/{}", descriptor as i32);
                self.statements.mapped(tid, process, &link, (address, length, offset));
            }
            return;
        }
        let mut noted = Noted {
            name: entered.name,
            tid: tid as u32,
            file: None,
            offset: None,
            bytes: None,
            entered: entered.at,
            exited: now(),
            result,
            sqlite_write: None,
            file_flags: None,
        };
        match &entered.subject {
            Subject::Code => return,
            Subject::None => noted.bytes = (entered.name == "msync").then(|| entered.arguments[1]),
            Subject::Path(number) => {
                noted.file = *number;
                let has_length = matches!(entered.how, How::Listed(Kind::PathLength, _));
                noted.offset = has_length.then(|| entered.arguments[1]);
            }
            Subject::Opening(path, coarse) => {
                if !self.opened(tid, (path, *coarse), result, &mut noted) {
                    return;
                }
            }
            Subject::File(open, number) => {
                noted.file = *number;
                self.used(tid, entered, open, &mut noted);
            }
        }
        self.statements.called(tid, noted.exited);
        if noted.sqlite_write.is_some() {
            self.with_sqlite.extend(self.threads.get(&tid).map(|thread| thread.process));
        }
        if self.calls.len() < CALLS_MAX {
            self.calls.push(noted);
        } else {
            self.beyond += 1;
        }
    }

    /// Completes a call that opened a file. Returns false if it opened none, or something else than a file.
    fn opened(
        &mut self,
        tid: i32,
        (path, coarse): (&Path, (i64, u32)),
        result: i64,
        noted: &mut Noted,
    ) -> bool {
        let Some(open) = u64::try_from(result).ok().and_then(|descriptor| Open::of(tid, descriptor)) else {
            return false;
        };
        // The birth of a file has the time of the coarse clock, so a known file can seem to be born just now, and
        // so can a folder that `mkdir` has just made. No `open` makes a folder.
        let is_new = !open.is_folder && open.is_born_since(coarse) && !self.files.knows(&open);
        noted.file = self.files.number(&open, noted.exited);
        self.files.opened(path, Path::new(std::ffi::OsStr::from_bytes(&open.path)));
        noted.offset = (!open.is_folder).then_some(open.size);
        let raw = files::position_and_flags(tid, result as u64).map_or(0, |(_, flags)| flags);
        noted.file_flags = Some(flags(raw, open.is_folder));
        if is_new {
            noted.file_flags = noted.file_flags.map(|flags| flags | FileFlags::MADE);
        }
        true
    }

    /// Completes a call on an open file.
    fn used(&mut self, tid: i32, entered: &Entered, open: &Open, noted: &mut Noted) {
        let arguments = &entered.arguments;
        let descriptor = if entered.how == How::Copy { arguments[2] } else { arguments[0] };
        let current = files::position_and_flags(tid, descriptor);
        noted.file_flags = current.map(|(_, raw)| flags(raw, open.is_folder));
        // The call has moved the position.
        let result = noted.result;
        let moved = || current?.0.checked_sub(u64::try_from(result).ok()?);
        match entered.how {
            How::Send => (noted.offset, noted.bytes) = (moved(), Some(arguments[3])),
            How::Copy => {
                let mut at = [0; 8];
                let has_offset = arguments[3] != 0 && kernel::read(tid, arguments[3], &mut at) == at.len();
                // The kernel has moved the offset in the program's memory, too.
                let given = u64::from_ne_bytes(at).checked_sub(u64::try_from(noted.result).unwrap_or(0));
                noted.offset = if has_offset { given } else { moved() };
                noted.bytes = Some(arguments[4]);
            }
            How::Listed(kind, writes) => {
                match kind {
                    Kind::AtPosition => (noted.offset, noted.bytes) = (moved(), Some(arguments[2])),
                    Kind::AtOffset => (noted.offset, noted.bytes) = (Some(arguments[3]), Some(arguments[2])),
                    Kind::PartsAtPosition => noted.offset = moved(),
                    // preadv2 and pwritev2 use the position if the offset is -1.
                    Kind::PartsAtOffset if arguments[3] == u64::MAX => noted.offset = moved(),
                    Kind::PartsAtOffset => noted.offset = Some(arguments[3]),
                    Kind::Range => (noted.offset, noted.bytes) = (Some(arguments[1]), Some(arguments[2])),
                    Kind::ModeRange => (noted.offset, noted.bytes) = (Some(arguments[2]), Some(arguments[3])),
                    Kind::Length => noted.offset = Some(arguments[1]),
                    _ => {}
                }
                let has_data = matches!(
                    kind,
                    Kind::AtPosition | Kind::AtOffset | Kind::PartsAtPosition | Kind::PartsAtOffset
                );
                if has_data && noted.result > 0 {
                    self.note_content(tid, (kind, writes), arguments, open, noted);
                }
            }
            How::Ring | How::Map => {}
        }
    }

    /// Recognises databases, journals and WALs of SQLite by the first bytes that are read or written.
    fn note_content(
        &mut self,
        tid: i32,
        (kind, writes): (Kind, bool),
        arguments: &[u64; 6],
        open: &Open,
        noted: &mut Noted,
    ) {
        let Some(number) = noted.file else { return };
        let is_named = writes && (open.path.ends_with(b"-wal") || open.path.ends_with(b"-journal"));
        let may_be_database = noted.offset == Some(0)
            && noted.result >= SQLITE_HEADER.len() as i64
            && self.files.content(number) == Content::Unknown;
        if !is_named && !may_be_database {
            return;
        }
        let (mut buffer, mut bytes) = (arguments[1], arguments[2]);
        if matches!(kind, Kind::PartsAtPosition | Kind::PartsAtOffset) {
            let mut part = [0; 16];
            if arguments[2] == 0 || kernel::read(tid, arguments[1], &mut part) < part.len() {
                return;
            }
            let word = |at: usize| u64::from_ne_bytes(part[at..at + 8].try_into().expect("eight bytes"));
            (buffer, bytes) = (word(0), word(8));
        }
        let mut head = [0; HEAD_BYTES];
        let length = usize::try_from(bytes).unwrap_or(HEAD_BYTES).min(HEAD_BYTES);
        let length = kernel::read(tid, buffer, &mut head[..length]);
        let head = &head[..length];
        if is_named {
            let (offset, bytes) = (noted.offset.unwrap_or(0), noted.result as u64);
            noted.sqlite_write = sqlite_write_to(&open.path, offset, bytes, head);
        }
        let content = match noted.sqlite_write {
            Some(SqliteWrite::JournalHeader | SqliteWrite::JournalEnd) => Content::SqliteJournal,
            Some(_) => Content::SqliteWal,
            None if may_be_database && head.starts_with(SQLITE_HEADER) => Content::SqliteDb,
            None => return,
        };
        self.files.contains(number, content);
    }

    /// Writes the rows of threads, files and calls.
    pub(super) fn write(&mut self, sink: &mut dyn RowSink) -> io::Result<()> {
        self.rows.sort_by_key(|row| (row.tid, row.from));
        self.rows.iter().try_for_each(|row| sink.thread(row))?;
        self.files.write(sink)?;
        self.calls.sort_unstable_by_key(|call| (call.entered, call.tid));
        for (call_id, call) in (0..).zip(&self.calls) {
            sink.call(&Call {
                call_id,
                name: call.name.to_owned(),
                tid: call.tid,
                file_id: call.file,
                offset: call.offset,
                bytes: call.bytes.map(ByteCount),
                entered: call.entered,
                exited: Some(call.exited),
                result: Some(call.result),
                sqlite_write: call.sqlite_write,
                file_flags: call.file_flags,
            })?;
        }
        self.statements.write(sink)
    }

    /// Returns the folders with files that the traced programs changed or mapped for shared writing.
    pub(super) fn changed_folders(&self) -> BTreeSet<PathBuf> {
        let is_change = |call: &&Noted| match call.name {
            "read" | "pread64" | "readv" | "preadv" | "preadv2" => false,
            "open" | "openat" | "openat2" | "creat" => {
                call.file_flags.is_some_and(|flags| flags.contains(FileFlags::MADE))
            }
            _ => call.result >= 0,
        };
        let changed: FxHashSet<u32> =
            self.calls.iter().filter(is_change).filter_map(|call| call.file).collect();
        let folders = changed.into_iter().filter_map(|file| self.files.folder(file));
        let mapped = self.mapped.iter().filter_map(|path| Path::new(path).parent());
        folders.chain(mapped.map(Path::to_owned)).collect()
    }

    /// Returns the number of processes that use SQLite, but whose statements are not noted.
    pub(super) fn without_statements(&self) -> u64 {
        self.with_sqlite.difference(&self.statements.processes).count() as u64
    }

    /// Returns the number of calls that are missing in the recording, or that have no file.
    pub(super) fn lost(&self) -> u64 {
        self.beyond + self.files.beyond
    }
}

fn opening(tid: i32, folder: Option<u64>, address: u64) -> Option<Subject> {
    let coarse = clock_gettime(ClockId::RealtimeCoarse);
    let path = path(tid, folder, address)?;
    Some(Subject::Opening(path, (coarse.tv_sec, coarse.tv_nsec as u32)))
}

/// Returns the absolute path at an address in a thread's memory.
fn path(tid: i32, folder: Option<u64>, address: u64) -> Option<PathBuf> {
    let text = kernel::read_text(tid, address, PATH_MAX)?;
    files::absolute(tid, folder, Path::new(std::ffi::OsStr::from_bytes(&text)))
}

/// Converts the kernel's flags of an open file to fonio's bits.
fn flags(raw: u32, is_folder: bool) -> FileFlags {
    let known =
        crate::probes::calls::OPEN_FLAGS.iter().filter(|(bits, _)| raw & *bits as u32 == *bits as u32);
    let flags = known.fold(FileFlags::NONE, |flags, (_, flag)| flags | *flag);
    if is_folder { flags | FileFlags::FOLDER } else { flags }
}

/// Returns the identity of a thread, read from `/proc`.
fn described(tid: i32) -> Thread {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{tid}/{name}")).unwrap_or_default();
    let status = read("status");
    let field = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name))?;
        value.split_whitespace().next()?.parse().ok()
    };
    Thread {
        tid: tid as u32,
        from: now(),
        pid: field("Tgid:"),
        comm: Some(read("comm").trim_end().to_owned()).filter(|comm| !comm.is_empty()),
        uid: field("Uid:"),
        parent_pid: field("PPid:"),
        ..Thread::default()
    }
}
