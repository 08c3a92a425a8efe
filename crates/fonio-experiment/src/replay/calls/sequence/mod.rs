//! Computes the sequence for a replay of calls: the calls of each recorded thread, and the files that they
//! use.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use fonio_core::{ByteCount, DeviceId, File, FileFlags, RowSink, Thread, Timestamp, Wait, ignore_rows};
use fonio_sim::engine::Begins;
use fonio_sim::recorded::{
    ACCESS, Budget, CHUNK, Causes, Chunks, FILE, MayWait, ROW, Threaded, TooLarge, WAIT, Waits,
    check_buffers, lanes, link, since,
};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Maximum number of bytes that one call reads or writes (the kernel's `MAX_RW_COUNT`); a larger row is
/// damaged.
const TRANSFER_MAX: u64 = 0x7fff_f000;
/// Maximum number of bytes that the replay reads or writes at once; larger calls are split.
pub(super) const PIECE_MAX: u64 = 1 << 20;
/// Folders with files that the kernel generates. Calls on these files are not replayed.
const KERNEL_FOLDERS: [&str; 2] = ["/proc/", "/sys/"];

/// The effect of a call on its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// Opens the file.
    Open {
        /// Whether the call created the file.
        made: bool,
        /// The length of the file after it is opened.
        length: Option<u64>,
    },
    /// Reads from the file.
    Read {
        /// The offset at which the read starts.
        offset: u64,
        /// The number of bytes that the recorded call read.
        bytes: u64,
    },
    /// Writes to the file.
    Write {
        /// The offset at which the write starts.
        offset: u64,
        /// The number of bytes that the recorded call wrote.
        bytes: u64,
    },
    /// Syncs the file with `fsync` or `fdatasync`.
    Sync {
        /// Whether the call is `fdatasync`.
        data_only: bool,
    },
    /// Syncs the complete file system (`syncfs` or `sync`).
    SyncFilesystem,
    /// Allocates space for a range of the file (`fallocate`).
    Allocate {
        /// The offset at which the range starts.
        offset: u64,
        /// The length of the allocated range.
        bytes: u64,
    },
    /// Sets the length of the file (`ftruncate`).
    SetLength(u64),
    /// Removes the file (`unlink`).
    Remove,
    /// Renames the file to a unique name (`rename`).
    Rename,
}

/// One call of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The condition for starting the call.
    pub begins: Begins,
    /// The effect of the call.
    pub act: Act,
    /// The index of the call's file in [`Sequence::files`].
    pub file: usize,
    /// The flags with which the file was opened.
    pub flags: FileFlags,
    /// The signal that the call sets when it completes.
    pub signal: Option<u32>,
}

impl Waits for Call {
    fn begins(&mut self) -> &mut Begins {
        &mut self.begins
    }

    fn signal(&mut self) -> &mut Option<u32> {
        &mut self.signal
    }
}

/// A file of the recording, in its state before the first call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// Whether the file exists before the replay.
    pub is_there: bool,
    /// Whether the file is a folder. If it is, the replay uses its own folder instead.
    pub is_folder: bool,
    /// The length of the file before the recording.
    pub bytes: u64,
    /// The numbers of the file's accessed chunks. All other chunks are holes.
    pub chunks: Chunks,
    /// The end of the data: the offset after the last byte that existed before the recording or is accessed.
    pub end: u64,
    /// Number of bytes that `fallocate` calls allocate.
    pub allocated: u64,
}

/// The reason why a call is not replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// The recorded calls failed.
    Failed,
    /// Calls on files of the kernel, or on a file system other than the one with the most writes and syncs.
    Elsewhere,
    /// Calls for which the recording does not show the file or the offset.
    Unknown,
    /// `msync`, `sync_file_range` and other calls that a replay does not execute.
    Kind,
}

/// The calls of a recording that are replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sequence {
    /// The files that the calls use.
    pub files: Vec<Before>,
    /// Lists of calls, each ordered by time. A list contains the calls of one thread, or of several threads
    /// that did not overlap.
    pub threads: Vec<Vec<Call>>,
    /// The number of signals that calls set.
    pub signals: u32,
    /// The number of calls that are not replayed, for each reason.
    #[serde(skip)]
    pub left_out: BTreeMap<LeftOut, u64>,
}

impl Sequence {
    /// Returns the number of calls in the sequence.
    pub fn len(&self) -> usize {
        self.threads.iter().map(Vec::len).sum()
    }

    /// Returns whether the sequence has no calls.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the space that the replay's files occupy if no file is removed.
    pub(crate) fn room(&self) -> ByteCount {
        let of_file = |file: &Before| -> u64 {
            let bytes = |range: Range<u64>| {
                let end = range.end.saturating_mul(CHUNK).min(file.end);
                end.saturating_sub(range.start.saturating_mul(CHUNK))
            };
            file.chunks.ranges().map(bytes).fold(file.allocated, u64::saturating_add)
        };
        ByteCount(self.files.iter().map(of_file).fold(0, u64::saturating_add))
    }
}

/// Collects the rows of a recording. Calls must come in time order; rows of files may come at any time.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    began: Option<Timestamp>,
    calls: Vec<Recorded>,
    files: FxHashMap<u32, (Option<DeviceId>, bool)>,
    causes: Causes,
    budget: Budget,
    /// Whether each call begins at its recorded time, not after the recorded pause.
    begins_at_times: bool,
}

/// The parts of a recorded call that the sequence needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorded {
    pub tid: u32,
    pub entered: Timestamp,
    pub exited: Option<Timestamp>,
    pub file_id: Option<u32>,
    pub result: Option<i64>,
    file_flags: Option<FileFlags>,
    /// The effect of the call, even if the call failed.
    act: Option<Act>,
    /// The reason why the call itself cannot be replayed.
    refused: Option<LeftOut>,
}

impl RowSink for Collected {
    fn began(&mut self, at: Timestamp) -> io::Result<()> {
        self.began = Some(at);
        Ok(())
    }

    fn call(&mut self, row: &fonio_core::Call) -> io::Result<()> {
        if !self.budget.take_thread(row.tid) || !self.budget.take(ROW) {
            return Ok(());
        }
        let act = act_of(row);
        let refused = if row.result.is_some_and(|result| result < 0) {
            Some(LeftOut::Failed)
        } else if !is_known(&row.name) {
            Some(LeftOut::Kind)
        } else {
            None
        };
        let fonio_core::Call { tid, entered, exited, file_id, result, file_flags, .. } = *row;
        self.calls.push(Recorded { tid, entered, exited, file_id, result, file_flags, act, refused });
        Ok(())
    }

    fn file(&mut self, row: &File) -> io::Result<()> {
        let is_kernels = row
            .path
            .as_ref()
            .is_some_and(|path| KERNEL_FOLDERS.iter().any(|folder| path.starts_with(folder)));
        if self.files.contains_key(&row.file_id) || self.budget.take(FILE) {
            self.files.insert(row.file_id, (row.device, is_kernels));
        }
        Ok(())
    }

    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        if self.budget.take_thread(row.tid) {
            self.causes.add_thread(row);
        }
        Ok(())
    }

    fn wait(&mut self, row: &Wait) -> io::Result<()> {
        if self.budget.take_thread(row.tid) && self.budget.take(WAIT) {
            self.causes.add_wait(row);
        }
        Ok(())
    }

    ignore_rows! {
        request, bio, link, statement, blocked_count, sample, mark, diagnostic, settled
    }
}

impl Collected {
    pub(in crate::replay) fn sequence(self) -> Result<Sequence, TooLarge> {
        let place = self.place();
        self.sequence_on(place)
    }

    /// Fails if not all rows were collected.
    pub(crate) fn check(&self) -> Result<(), TooLarge> {
        self.budget.check()
    }

    /// Returns the collected calls, in the order in which they came.
    pub(crate) fn calls(&self) -> &[Recorded] {
        &self.calls
    }

    /// Returns the file system of a file.
    pub(crate) fn filesystem_of(&self, file_id: u32) -> Option<DeviceId> {
        self.files.get(&file_id)?.0
    }

    /// Returns the sequence of those calls that `is_chosen` chooses, on the file system `place`, as if the recording
    /// had begun at `from`. No thread waits for another thread, and no call begins earlier than in the recording.
    pub(crate) fn part(
        &self,
        from: Timestamp,
        place: DeviceId,
        is_chosen: impl Fn(&Recorded) -> bool,
    ) -> Result<Sequence, TooLarge> {
        let chosen = self.calls.iter().filter(|call| is_chosen(call)).copied().collect();
        let part = Collected {
            began: Some(from),
            calls: chosen,
            files: self.files.clone(),
            causes: Causes::default(),
            budget: Budget::default(),
            begins_at_times: true,
        };
        part.sequence_on(Some(place))
    }

    fn sequence_on(mut self, place: Option<DeviceId>) -> Result<Sequence, TooLarge> {
        self.budget.check()?;
        self.calls.sort_by_key(|call| call.entered);
        let began = self.began.or(self.calls.first().map(|call| call.entered)).unwrap_or_default();
        let mut making = Making::default();
        let mut threads: BTreeMap<u32, Threaded<Call>> = BTreeMap::new();
        let mut may_wait = Vec::new();
        for row in std::mem::take(&mut self.calls) {
            let (act, file_id) = match self.replayed(&row, place) {
                Ok(found) => found,
                Err(reason) => {
                    *making.left_out.entry(reason).or_default() += 1;
                    continue;
                }
            };
            if !self.budget.take(ACCESS) {
                return Err(TooLarge::Memory);
            }
            let file = making.file(file_id, row.file_flags);
            making.files[file].add(act);
            let (entered, exited) = (row.entered, row.exited.unwrap_or(row.entered));
            let new = || Threaded { began: entered, ended: exited, accesses: Vec::new() };
            let thread = threads.entry(row.tid).or_insert_with(new);
            let begins = match thread.accesses.is_empty() || self.begins_at_times {
                true => Begins::At(since(entered, began)),
                false => Begins::AfterEnd(since(entered, thread.ended)),
            };
            thread.ended = thread.ended.max(exited);
            may_wait.push(MayWait { tid: row.tid, at: thread.accesses.len(), began: entered });
            self.causes.add_access(row.tid, thread.accesses.len(), exited);
            let flags = row.file_flags.unwrap_or_default();
            thread.accesses.push(Call { begins, act, file, flags, signal: None });
        }
        let signals = link(&mut threads, self.causes, &may_wait);
        let files = making.files.into_iter().map(|following| following.before).collect();
        let threads = lanes(threads.into_values().collect())?;
        let piece = |call: &Call| match call.act {
            Act::Read { bytes, .. } | Act::Write { bytes, .. } => bytes.min(PIECE_MAX),
            _ => 0,
        };
        check_buffers(threads.iter().map(|calls| calls.iter().map(piece).max().unwrap_or(0)))?;
        Ok(Sequence { files, threads, signals, left_out: making.left_out })
    }

    /// Returns the file system with the most calls that change data or, if no calls change data, with the
    /// most calls.
    fn place(&self) -> Option<DeviceId> {
        let mut counts: BTreeMap<DeviceId, (u64, u64)> = BTreeMap::new();
        for call in &self.calls {
            let file = call.file_id.and_then(|id| self.files.get(&id));
            let Some((Some(device), false)) = file else { continue };
            let (changing, all) = counts.entry(*device).or_default();
            *all += 1;
            *changing += u64::from(!matches!(call.act, Some(Act::Open { .. } | Act::Read { .. }) | None));
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(device, _)| device)
    }

    /// Returns how to replay a row: the action and its file, which is `None` for a call on the complete
    /// file system.
    fn replayed(&self, row: &Recorded, place: Option<DeviceId>) -> Result<(Act, Option<u32>), LeftOut> {
        if let Some(refused) = row.refused {
            return Err(refused);
        }
        let Some(act) = row.act else { return Err(LeftOut::Unknown) };
        let Some(file_id) = row.file_id else {
            return if act == Act::SyncFilesystem { Ok((act, None)) } else { Err(LeftOut::Unknown) };
        };
        match self.files.get(&file_id) {
            Some((device, false)) if *device == place => Ok((act, Some(file_id))),
            _ => Err(LeftOut::Elsewhere),
        }
    }
}

fn is_known(name: &str) -> bool {
    !matches!(name, "msync" | "sync_file_range" | "page_fault" | "unknown")
}

/// Returns the effect of a call; `None` if the recording does not show the effect.
fn act_of(row: &fonio_core::Call) -> Option<Act> {
    let got = row.result.map_or_else(|| row.bytes.map(|bytes| bytes.0), |result| u64::try_from(result).ok());
    let got = got.filter(|bytes| *bytes <= TRANSFER_MAX);
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

#[derive(Debug, Default)]
struct Making {
    /// The index of each file in the sequence. A call on the complete file system uses the replay's folder.
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

#[derive(Debug, Default)]
struct Following {
    before: Before,
    /// Whether the first open call has shown the file's initial length.
    is_settled: bool,
    /// The end of the data that the recorded calls have written to the file.
    written: u64,
}

impl Following {
    fn add(&mut self, act: Act) {
        let before = &mut self.before;
        match act {
            // The first open call of a file shows whether the file existed. A program that used the file
            // before this open must have opened it before the recording.
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
                // Data before the write's offset already existed, unless the file was created during the
                // recording.
                if !self.is_settled && offset > self.written {
                    before.is_there = true;
                    before.bytes = before.bytes.max(offset);
                }
                self.written = self.written.max(offset.saturating_add(bytes));
                touch(before, offset, bytes);
            }
            Act::Allocate { offset, bytes } => {
                self.written = self.written.max(offset.saturating_add(bytes));
                before.allocated = before.allocated.saturating_add(bytes);
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
    before.chunks.add_bytes(offset, end);
}

#[cfg(test)]
mod tests;
