//! What a replay of calls does: the calls of a recording by thread, and the files that they find.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use fonio_core::{ByteCount, DeviceId, File, FileFlags, RowSink, Thread, Timestamp, Wait, ignore_rows};
use rustc_hash::FxHashMap;

use super::super::causes::{Causes, SignalNumbers};
use super::super::lanes::{Threaded, lanes};
use super::super::{Begins, CHUNK, since};

/// Folders whose files are the kernel's own.
const KERNEL_FOLDERS: [&str; 2] = ["/proc/", "/sys/"];

/// What a call does to its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Opens it.
    Open {
        /// It was not there before.
        made: bool,
        /// Its length once it is open.
        length: Option<u64>,
    },
    /// Reads.
    Read {
        /// From here.
        offset: u64,
        /// As many bytes as the recorded call got.
        bytes: u64,
    },
    /// Writes.
    Write {
        /// From here.
        offset: u64,
        /// As many bytes as the recorded call wrote.
        bytes: u64,
    },
    /// `fsync`, or `fdatasync`.
    Sync {
        /// `fdatasync`.
        data_only: bool,
    },
    /// `syncfs` or `sync`: the whole file system.
    SyncFilesystem,
    /// `fallocate`.
    Allocate {
        /// From here.
        offset: u64,
        /// So many.
        bytes: u64,
    },
    /// `ftruncate`.
    SetLength(u64),
    /// `unlink`.
    Remove,
    /// `rename`, to a name of its own.
    Rename,
}

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// When it begins.
    pub begins: Begins,
    /// What it does.
    pub act: Act,
    /// The place of its file in [`Plan::files`].
    pub file: usize,
    /// How its file was opened.
    pub flags: FileFlags,
    /// The signal that it sets when it ends.
    pub signal: Option<u32>,
}

/// A file of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// Whether it is there before the replay.
    pub is_there: bool,
    /// It is a folder: the replay uses its own.
    pub is_folder: bool,
    /// Its length before.
    pub bytes: u64,
    /// Its accessed chunks, by number. The others are holes before.
    pub chunks: BTreeSet<u64>,
    /// The end of the last byte that is accessed, or there before.
    pub end: u64,
}

/// Why calls are not replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// They failed.
    Failed,
    /// They are on other file systems than most writes and syncs, or on files of the kernel.
    Elsewhere,
    /// The recording does not show their file or their place in it.
    Unknown,
    /// `msync`, `sync_file_range` and others that a replay does not make.
    Kind,
}

/// The calls of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The files.
    pub files: Vec<Before>,
    /// The calls that follow each other, in the order of time: of a thread, or of several that did not overlap.
    pub threads: Vec<Vec<Call>>,
    /// The number of signals.
    pub signals: u32,
    /// The number of calls that are not replayed.
    pub left_out: BTreeMap<LeftOut, u64>,
}

impl Plan {
    /// The number of calls.
    pub fn len(&self) -> usize {
        self.threads.iter().map(Vec::len).sum()
    }

    /// Whether there is nothing to replay.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The room that the files take, if none is removed.
    pub(in crate::replay) fn room(&self) -> ByteCount {
        let of_file = |file: &Before| -> u64 {
            file.chunks.iter().map(|chunk| CHUNK.min(file.end.saturating_sub(chunk * CHUNK))).sum()
        };
        ByteCount(self.files.iter().map(of_file).sum())
    }
}

/// Collects the rows of a recording. Calls come in the order of time, files at any time.
#[derive(Debug, Default)]
pub(in crate::replay) struct Collected {
    began: Option<Timestamp>,
    calls: Vec<fonio_core::Call>,
    files: FxHashMap<u32, (Option<DeviceId>, bool)>,
    causes: Causes,
}

impl RowSink for Collected {
    fn began(&mut self, at: Timestamp) -> io::Result<()> {
        self.began = Some(at);
        Ok(())
    }

    fn call(&mut self, row: &fonio_core::Call) -> io::Result<()> {
        self.calls.push(row.clone());
        Ok(())
    }

    fn file(&mut self, row: &File) -> io::Result<()> {
        let is_kernels = row
            .path
            .as_ref()
            .is_some_and(|path| KERNEL_FOLDERS.iter().any(|folder| path.starts_with(folder)));
        self.files.insert(row.file_id, (row.device, is_kernels));
        Ok(())
    }

    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        self.causes.add_thread(row);
        Ok(())
    }

    fn wait(&mut self, row: &Wait) -> io::Result<()> {
        self.causes.add_wait(row);
        Ok(())
    }

    ignore_rows! {
        request, bio, link, statement, blocked_count, sample, mark, diagnostic, settled
    }
}

impl Collected {
    /// Makes the plan.
    pub(in crate::replay) fn plan(mut self) -> Plan {
        self.calls.sort_by_key(|call| call.entered);
        let began = self.began.or(self.calls.first().map(|call| call.entered)).unwrap_or_default();
        let place = self.place();
        let mut making = Making::default();
        let mut by_thread: BTreeMap<u32, Vec<Timed>> = BTreeMap::new();
        for row in &self.calls {
            match self.replayed(row, place) {
                Ok((act, file_id)) => by_thread.entry(row.tid).or_default().push(Timed {
                    entered: row.entered,
                    exited: row.exited.unwrap_or(row.entered),
                    act,
                    file: making.file(file_id, row.file_flags),
                    flags: row.file_flags.unwrap_or_default(),
                }),
                Err(reason) => *making.left_out.entry(reason).or_default() += 1,
            }
        }
        // The files before follow from the calls in the order of time.
        let mut all: Vec<&Timed> = by_thread.values().flatten().collect();
        all.sort_by_key(|call| call.entered);
        all.into_iter().for_each(|call| making.files[call.file].add(call));
        let files = making.files.into_iter().map(|following| following.before).collect();
        for (tid, calls) in &by_thread {
            calls.iter().enumerate().for_each(|(at, call)| self.causes.add_access(*tid, at, call.exited));
        }
        self.causes.settle();
        let mut signals = SignalNumbers::default();
        let mut threads: BTreeMap<u32, Threaded<Call>> = BTreeMap::new();
        for (tid, calls) in by_thread {
            let ends = calls.iter().map(|call| call.exited).max();
            let (began_thread, ended) = (calls[0].entered, ends.unwrap_or(calls[0].entered));
            let made = calls.into_iter().map(|call| {
                let begins = match self.causes.of(tid, call.entered) {
                    Some(cause) if cause.tid == tid => Begins::AfterEnd(since(call.entered, cause.ended)),
                    Some(cause) => Begins::AfterOther {
                        signal: signals.wanted(&cause),
                        pause: since(call.entered, cause.ended),
                    },
                    None => Begins::At(since(call.entered, began)),
                };
                Call { begins, act: call.act, file: call.file, flags: call.flags, signal: None }
            });
            threads.insert(tid, Threaded { began: began_thread, ended, accesses: made.collect() });
        }
        for (tid, thread) in &mut threads {
            for (at, call) in thread.accesses.iter_mut().enumerate() {
                call.signal = signals.of(*tid, at);
            }
        }
        let threads = lanes(threads.into_values().collect());
        Plan { files, threads, signals: signals.count(), left_out: making.left_out }
    }

    /// The file system with the most calls that change something; without any, the one with the most calls.
    fn place(&self) -> Option<DeviceId> {
        let mut counts: BTreeMap<DeviceId, (u64, u64)> = BTreeMap::new();
        for call in &self.calls {
            let file = call.file_id.and_then(|id| self.files.get(&id));
            let Some((Some(device), false)) = file else { continue };
            let (changing, all) = counts.entry(*device).or_default();
            *all += 1;
            *changing += u64::from(!matches!(act_of(call), Some(Act::Open { .. } | Act::Read { .. }) | None));
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(device, _)| device)
    }

    /// What to replay for a row: the act, and the file, which is `None` for a call on the whole file system.
    fn replayed(
        &self,
        row: &fonio_core::Call,
        place: Option<DeviceId>,
    ) -> Result<(Act, Option<u32>), LeftOut> {
        if row.result.is_some_and(|result| result < 0) {
            return Err(LeftOut::Failed);
        }
        if !is_known(&row.name) {
            return Err(LeftOut::Kind);
        }
        let Some(act) = act_of(row) else { return Err(LeftOut::Unknown) };
        let Some(file_id) = row.file_id else {
            return if act == Act::SyncFilesystem { Ok((act, None)) } else { Err(LeftOut::Unknown) };
        };
        match self.files.get(&file_id) {
            Some((device, false)) if *device == place => Ok((act, Some(file_id))),
            _ => Err(LeftOut::Elsewhere),
        }
    }
}

/// Whether calls of this name are replayed.
fn is_known(name: &str) -> bool {
    !matches!(name, "msync" | "sync_file_range" | "page_fault" | "unknown")
}

/// What a call does; `None` if the recording does not show it.
fn act_of(row: &fonio_core::Call) -> Option<Act> {
    let got = row.result.map_or_else(|| row.bytes.map(|bytes| bytes.0), |result| u64::try_from(result).ok());
    Some(match row.name.as_str() {
        "open" | "openat" | "openat2" | "creat" => Act::Open {
            made: row.file_flags.is_some_and(|flags| flags.contains(FileFlags::MADE)),
            length: row.offset,
        },
        "read" | "pread64" | "readv" | "preadv" | "preadv2" => Act::Read { offset: row.offset?, bytes: got? },
        "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" => {
            Act::Write { offset: row.offset?, bytes: got? }
        }
        "fsync" => Act::Sync { data_only: false },
        "fdatasync" => Act::Sync { data_only: true },
        "syncfs" | "sync" => Act::SyncFilesystem,
        "fallocate" => Act::Allocate { offset: row.offset?, bytes: row.bytes?.0 },
        "ftruncate" | "truncate" => Act::SetLength(row.offset?),
        "unlink" | "unlinkat" => Act::Remove,
        "rename" | "renameat" | "renameat2" => Act::Rename,
        _ => return None,
    })
}

/// A call with its times in the recording.
#[derive(Clone, Copy, Debug)]
struct Timed {
    entered: Timestamp,
    exited: Timestamp,
    act: Act,
    file: usize,
    flags: FileFlags,
}

#[derive(Debug, Default)]
struct Making {
    /// The place of each file; a call on the whole file system has the folder of the replay.
    places: FxHashMap<Option<u32>, usize>,
    files: Vec<Following>,
    left_out: BTreeMap<LeftOut, u64>,
}

impl Making {
    fn file(&mut self, id: Option<u32>, flags: Option<FileFlags>) -> usize {
        let place = *self.places.entry(id).or_insert_with(|| {
            self.files.push(Following::default());
            self.files.len() - 1
        });
        let is_folder = id.is_none() || flags.is_some_and(|flags| flags.contains(FileFlags::FOLDER));
        self.files[place].before.is_folder |= is_folder;
        place
    }
}

/// A file while its calls are followed.
#[derive(Debug, Default)]
struct Following {
    before: Before,
    /// Whether the length before is known: from the first opening.
    is_settled: bool,
    /// The end of what was written.
    written: u64,
}

impl Following {
    fn add(&mut self, call: &Timed) {
        let before = &mut self.before;
        match call.act {
            // Who opens it says whether it was there. Whoever used it earlier had it open already.
            Act::Open { made: true, .. } => self.is_settled = true,
            Act::Open { made: false, length } if !self.is_settled => {
                before.is_there = true;
                if self.written == 0 {
                    before.bytes = before.bytes.max(length.unwrap_or_default());
                }
                before.end = before.end.max(before.bytes);
                self.is_settled = true;
            }
            Act::Read { offset, bytes } if bytes > 0 => {
                let end = offset.saturating_add(bytes);
                if !self.is_settled && end > self.written {
                    before.is_there = true;
                    before.bytes = before.bytes.max(end);
                }
                touch(before, offset, bytes);
            }
            Act::Write { offset, bytes } if bytes > 0 => {
                // What lies before a write was there, unless the file was made here.
                if !self.is_settled && offset > self.written {
                    before.is_there = true;
                    before.bytes = before.bytes.max(offset);
                }
                self.written = self.written.max(offset.saturating_add(bytes));
                touch(before, offset, bytes);
            }
            Act::Allocate { offset, bytes } => {
                self.written = self.written.max(offset.saturating_add(bytes));
                touch(before, offset, bytes);
            }
            Act::SetLength(length) => self.written = self.written.max(length),
            Act::Remove | Act::Rename if !self.is_settled && self.written == 0 => before.is_there = true,
            _ => {}
        }
    }
}

fn touch(before: &mut Before, offset: u64, bytes: u64) {
    let end = offset.saturating_add(bytes);
    before.end = before.end.max(end);
    before.chunks.extend(offset / CHUNK..end.div_ceil(CHUNK));
}

#[cfg(test)]
mod tests;
