//! Serves requests that read directories.

use std::collections::VecDeque;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Mutex;

use rustix::fs::{FileType, OFlags, RawDir, SeekFrom, Stat};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::{Answer, FileSystem};
use crate::node::Node;
use crate::protocol::{FSYNC_DATA_ONLY, Record, Request, open as opened};

/// Number of bytes requested in each read of a source directory.
const BATCH_BYTES: usize = 32 << 10;

/// Size of `struct fuse_entry_out`, which precedes each entry if the kernel requests attributes too.
const ENTRY_BYTES: usize = 128;
const DIRENT_BYTES: usize = 24;

/// The kernel may cache a directory's names while the modification time stays the same. The modification time
/// has the resolution of a clock tick, up to 10 ms. If less than this constant has passed since the last
/// change, another change may leave the time unchanged.
const AT_REST_NANOSECONDS: i128 = 50_000_000;

/// Returns whether the next change in the directory is certain to change the directory's modification time.
fn is_at_rest(stat: &Stat) -> bool {
    let now = clock_gettime(ClockId::Realtime);
    let since_epoch = |seconds: i64, nanoseconds: i128| i128::from(seconds) * 1_000_000_000 + nanoseconds;
    let now = since_epoch(now.tv_sec, i128::from(now.tv_nsec));
    now - since_epoch(stat.st_mtime, i128::from(stat.st_mtime_nsec)) > AT_REST_NANOSECONDS
}

#[derive(Debug)]
pub(crate) struct Directory {
    number: u64,
    file: OwnedFd,
    read: Mutex<ReadState>,
}

/// The state of reading a directory. Invariant: `ahead` contains the entries that were read and come after
/// `position`.
#[derive(Debug, Default)]
struct ReadState {
    position: u64,
    ahead: VecDeque<Name>,
}

#[derive(Debug)]
struct Name {
    name: CString,
    inode: u64,
    kind: FileType,
    /// Offset from which a read of the directory continues after this entry.
    next: u64,
}

impl Directory {
    fn read_batch(&self, state: &mut ReadState) -> Result<(), Errno> {
        let mut memory = vec![MaybeUninit::uninit(); BATCH_BYTES];
        let mut entries = RawDir::new(&self.file, &mut memory);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            state.ahead.push_back(Name {
                name: entry.file_name().to_owned(),
                inode: entry.ino(),
                kind: entry.file_type(),
                next: entry.next_entry_cookie(),
            });
            if entries.is_buffer_empty() {
                break;
            }
        }
        Ok(())
    }
}

impl FileSystem {
    pub(super) fn open_directory(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let node = self.node(request.header.node)?;
        self.open_to_keep(None, || Ok(()))?;
        let file = self.open_below(&node, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let answer =
            if is_at_rest(&rustix::fs::fstat(&file)?) { opened::CACHE_DIR | opened::KEEP_CACHE } else { 0 };
        let opened =
            self.directories.insert_with(|number| Directory { number, file, read: Mutex::default() });
        Ok(Record::new(out).u64(opened.number).u32(answer).u32(0).length())
    }

    pub(super) fn release_directory(&self, request: &Request<'_>) -> Answer {
        self.directories.remove(request.fields().u64()?).ok_or(Errno::BADF)?;
        Ok(0)
    }

    pub(super) fn sync_directory(&self, request: &Request<'_>) -> Answer {
        let mut fields = request.fields();
        let directory = self.directory_handle(fields.u64()?)?;
        if fields.u32()? & FSYNC_DATA_ONLY != 0 {
            rustix::fs::fdatasync(&directory.file)?;
        } else {
            rustix::fs::fsync(&directory.file)?;
        }
        Ok(0)
    }

    pub(super) fn read_directory(
        &self,
        request: &Request<'_>,
        out: &mut [u8],
        with_attributes: bool,
    ) -> Answer {
        let node = self.node(request.header.node)?;
        let mut fields = request.fields();
        let directory = self.directory_handle(fields.u64()?)?;
        let (offset, bytes) = (fields.u64()?, fields.u32()? as usize);
        let mut state =
            directory.read.lock().expect("no thread panics while it holds the lock of a directory");
        if state.position != offset {
            rustix::fs::seek(&directory.file, SeekFrom::Start(offset))?;
            state.ahead.clear();
            state.position = offset;
        }
        let bytes = bytes.min(out.len());
        let mut record = Record::new(&mut out[..bytes]);
        loop {
            if state.ahead.is_empty() {
                match directory.read_batch(&mut state) {
                    Ok(()) => {}
                    // Reply with the entries read before the error; the next request gets the error.
                    Err(_) if record.length() > 0 => break,
                    Err(error) => return Err(error),
                }
            }
            let Some(name) = state.ahead.front() else { break };
            if !self.write_name(&mut record, &node, name, with_attributes) {
                break;
            }
            state.position = name.next;
            state.ahead.pop_front();
        }
        Ok(record.length())
    }

    /// Writes a directory entry; returns false if the entry does not fit.
    fn write_name(
        &self,
        record: &mut Record<'_>,
        directory: &Node,
        name: &Name,
        with_attributes: bool,
    ) -> bool {
        let text = name.name.to_bytes();
        let padding = text.len().next_multiple_of(8) - text.len();
        let before = if with_attributes { ENTRY_BYTES } else { 0 };
        if record.room() < before + DIRENT_BYTES + text.len() + padding {
            return false;
        }
        let mut inode = name.inode;
        if with_attributes {
            let is_itself = matches!(text, b"." | b"..");
            let is_told = !is_itself && !self.is_short_of_descriptors();
            match if is_told { self.find(directory, &name.name).ok() } else { None } {
                Some((node, attributes)) => {
                    inode = attributes.inode;
                    self.write_entry(record, &node, &attributes);
                }
                // The file was deleted, or descriptors are scarce: return only the name. The kernel looks the
                // name up when needed.
                None => {
                    record.zeros(ENTRY_BYTES);
                }
            }
        }
        let length = u32::try_from(text.len()).expect("a name is short");
        record.u64(inode).u64(name.next).u32(length).u32(name.kind.as_raw_mode() >> 12);
        record.bytes(text).zeros(padding);
        true
    }
}
