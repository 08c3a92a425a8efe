//! Reads the events of Android's kernels at the begin and end of reads, writes and syncs of files, which name the file
//! and the thread.
//!
//! A read begins when the file system submits a bio for pages of the file, or a direct read; it ends when the bio
//! completes, often on another thread, so the end has only the inode number and the offset. A write begins and ends when
//! a program's data is copied into the page cache, or with a direct write. Some file systems do not write the end of a
//! read of encrypted data. If the same place of files with the same inode number is read twice at a time, no end is
//! certain, so both are left out.
//!
//! Source: `include/trace/events/android_fs.h` of Android's common kernels 4.4 to 5.10, and
//! `protos/perfetto/trace/ftrace/android_fs.proto`.

use fonio_core::{ByteCount, Call, Content, File, Timestamp};
use rustc_hash::FxHashMap;

use super::wire::{Fields, Value};
use crate::comm::Comm;

/// Maximum number of files that are kept.
const FILES_MAX: usize = 64 << 10;

/// Maximum number of reads and writes that have not ended.
const OPEN_MAX: usize = 64 << 10;

/// Maximum number of bytes of a path; the kernel's events have at most 256.
const PATH_BYTES_MAX: usize = 512;

/// Numbers of the events in `FtraceEvent`.
const READ_END: u32 = 431;
const READ_START: u32 = 432;
const WRITE_END: u32 = 433;
const WRITE_START: u32 = 434;
const SYNC_END: u32 = 435;
const SYNC_START: u32 = 436;

/// Where the data is: the inode number and the offset in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    is_write: bool,
    inode: u64,
    offset: i64,
}

/// A thread that begins to read, write or sync a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    pub tid: u32,
    pub comm: Comm,
    place: Place,
    bytes: u32,
    path: Box<[u8]>,
}

/// What happened to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FileEvent {
    /// A thread begins to read or write.
    Begun(Begun),
    /// The read or write of this place ended.
    Ended(Place),
    /// A thread begins to sync a file.
    SyncBegun(Begun),
    SyncEnded {
        tid: u32,
    },
}

/// Reads the event with this number, which happened on the thread `running`; `None` if its fields cannot be read.
pub(super) fn parse(number: u32, message: &[u8], running: Option<u32>) -> Option<FileEvent> {
    let mut numbers = [0; 8];
    let mut texts: [&[u8]; 8] = [&[]; 8];
    let mut fields = Fields::of(message);
    for (field, value) in fields.by_ref() {
        let place = field as usize;
        match value {
            Value::Varint(value) if place < 8 => numbers[place] = value,
            Value::Bytes(text) if place < 8 => texts[place] = text,
            _ => {}
        }
    }
    if fields.is_damaged() {
        return None;
    }
    let place = |inode: usize, offset: usize| Place {
        is_write: matches!(number, WRITE_START | WRITE_END),
        inode: numbers[inode],
        offset: numbers[offset] as i64,
    };
    let begun = |[comm, inode, path, tid]: [usize; 4], place: Place| {
        let tid = u32::try_from(numbers[tid]).ok().filter(|tid| *tid > 0).or(running)?;
        let path = &texts[path][..texts[path].len().min(PATH_BYTES_MAX)];
        let bytes = u32::try_from(numbers[1]).ok().filter(|bytes| *bytes <= i32::MAX as u32).unwrap_or(0);
        let place = Place { inode: numbers[inode], ..place };
        Some(Begun { tid, comm: Comm::of(texts[comm]), place, bytes, path: path.into() })
    };
    Some(match number {
        READ_START | WRITE_START => FileEvent::Begun(begun([2, 4, 6, 7], place(4, 5))?),
        READ_END | WRITE_END => FileEvent::Ended(place(2, 3)),
        SYNC_START => FileEvent::SyncBegun(Begun { bytes: 0, ..begun([1, 3, 4, 5], place(3, 0))? }),
        SYNC_END => FileEvent::SyncEnded { tid: running? },
        _ => return None,
    })
}

/// A read or write that has not ended.
#[derive(Clone, Copy, Debug)]
struct Open {
    tid: u32,
    at: Timestamp,
    bytes: u32,
    file_id: Option<u32>,
}

/// The files, and the reads and writes that have not ended.
#[derive(Debug, Default)]
pub(super) struct Files {
    known: FxHashMap<(u64, Box<[u8]>), u32>,
    /// `None` if several began at the same place.
    open: FxHashMap<Place, Option<Open>>,
    /// Number of reads and writes without a certain end.
    pub without_end: u64,
    /// Whether there are more files than are kept.
    pub are_many: bool,
}

impl Files {
    /// Handles the begin of a read or write; appends the file to `files` if it is new.
    pub fn begin(&mut self, begun: &Begun, at: Timestamp, files: &mut Vec<File>) {
        let file_id = self.file(begun, at, files);
        let open = Open { tid: begun.tid, at, bytes: begun.bytes, file_id };
        if self.open.contains_key(&begun.place) {
            // The one that is open counted already if it is uncertain.
            let before = self.open.insert(begun.place, None).flatten();
            self.without_end += 1 + u64::from(before.is_some());
        } else if self.open.len() < OPEN_MAX {
            self.open.insert(begun.place, Some(open));
        } else {
            self.without_end += 1;
        }
    }

    /// Handles the end of a read or write; returns the call, unless its begin is unknown.
    pub fn end(&mut self, place: Place, at: Timestamp) -> Option<Call> {
        let Open { tid, at: entered, bytes, file_id } = self.open.remove(&place)??;
        Some(Call {
            call_id: 0,
            name: if place.is_write { "write" } else { "read" }.to_owned(),
            tid,
            file_id,
            offset: u64::try_from(place.offset).ok(),
            bytes: Some(ByteCount(u64::from(bytes))),
            entered,
            exited: Some(at.max(entered)),
            result: None,
            sqlite_write: None,
            file_flags: None,
        })
    }

    /// Returns the number of a file; appends it to `files` if it is new.
    pub fn file(&mut self, begun: &Begun, from: Timestamp, files: &mut Vec<File>) -> Option<u32> {
        let key = (begun.place.inode, begun.path.clone());
        if let Some(known) = self.known.get(&key) {
            return Some(*known);
        }
        if self.known.len() >= FILES_MAX {
            self.are_many = true;
            return None;
        }
        let file_id = self.known.len() as u32;
        let path = (!begun.path.is_empty()).then(|| String::from_utf8_lossy(&begun.path).into_owned());
        let inode = Some(begun.place.inode);
        files.push(File { file_id, from, device: None, inode, path, content: Content::Unknown });
        self.known.insert(key, file_id);
        Some(file_id)
    }

    /// Forgets all reads and writes, because events were lost.
    pub fn forget(&mut self) {
        self.without_end += self.open.values().flatten().count() as u64;
        self.open.clear();
    }
}
