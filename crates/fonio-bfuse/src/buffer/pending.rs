//! Keeps the buffered data of one inode.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use rustix::fs::{Mode, OFlags, Timespec};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::error_sequence::{ErrorSequence, Seen};
use super::{Entry, Take};

/// The part of the buffer that belongs to one inode, for all its names and handles.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    state: Mutex<State>,
    /// Signalled when a thread has written the data in flight.
    settled: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// The inode's entries in order, without data in flight. Only the last entry may have room.
    pub(super) entries: VecDeque<Entry>,
    /// Start of the data that are not yet written to the source, including data in flight.
    pub(super) start: u64,
    pub(super) end: u64,
    /// The offset at which a write continues the previous write.
    pub(super) expected: u64,
    pub(super) in_flight: bool,
    /// Whether the inode is in the list of inodes sorted by the age of their data.
    pub(super) is_listed: bool,
    /// Whether the inode is in the list of inodes with sealed entries.
    pub(super) is_urgent: bool,
    pub(super) modified: Option<Timespec>,
    pub(super) errors: ErrorSequence,
    /// The source file, open for writing.
    file: Option<Arc<OwnedFd>>,
    /// Length of the sequential stream, up to and including the last write.
    pub(super) streamed: u64,
    /// The source file, open for direct I/O.
    direct: Direct,
}

/// Whether a source file supports direct I/O.
#[derive(Debug, Default)]
enum Direct {
    #[default]
    Unknown,
    Yes(Arc<OwnedFd>),
    No,
}

/// Entries that a thread flushes, with their source file and offset.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) entries: VecDeque<Entry>,
    pub(super) file: Arc<OwnedFd>,
    /// The source file open for direct I/O, if the stream is long enough.
    pub(super) direct: Option<Arc<OwnedFd>>,
    pub(super) offset: u64,
    pub(super) modified: Option<Timespec>,
}

impl State {
    pub(super) fn has_data(&self) -> bool {
        self.start < self.end
    }

    pub(super) fn begin(&mut self, offset: u64, file: &Arc<OwnedFd>) {
        assert!(!self.in_flight, "invariant 1: data in flight are pending");
        self.start = offset;
        self.end = offset;
        self.file = Some(Arc::clone(file));
    }

    /// Copies as much of `data` as fits into the last entry, and returns the number of copied bytes.
    pub(super) fn fill(&mut self, data: &[u8]) -> usize {
        let Some(entry) = self.entries.back_mut() else { return 0 };
        let bytes = entry.fill(data);
        self.end += bytes as u64;
        if bytes > 0 {
            self.modified = Some(clock_gettime(ClockId::RealtimeCoarse));
        }
        bytes
    }

    pub(super) fn has_sealed(&self) -> bool {
        self.entries.front().is_some_and(Entry::is_full)
    }

    /// Removes and returns the entries to write to the source, at most `sealed_max` sealed entries. Streams
    /// longer than `direct_after` bytes are written with direct I/O.
    pub(super) fn take(&mut self, take: Take, sealed_max: usize, direct_after: u64) -> Option<Taken> {
        assert!(!self.in_flight, "invariant 3: one thread at a time writes entries below");
        let held: usize = self.entries.iter().map(|entry| entry.data().len()).sum();
        assert_eq!(held as u64, self.end - self.start, "invariant 1: the entries contain all pending data");
        let sealed = self.entries.iter().take(sealed_max).take_while(|entry| entry.is_full()).count();
        let entries = match take {
            Take::Everything => std::mem::take(&mut self.entries),
            Take::Sealed => self.entries.drain(..sealed).collect(),
        };
        let file = self.file.clone().filter(|_| !entries.is_empty())?;
        let direct = if self.streamed > direct_after { self.direct(&file) } else { None };
        Some(Taken { entries, file, direct, offset: self.start, modified: self.modified })
    }

    fn direct(&mut self, file: &OwnedFd) -> Option<Arc<OwnedFd>> {
        if matches!(self.direct, Direct::Unknown) {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::CLOEXEC;
            let opened = rustix::fs::open(path, flags, Mode::empty());
            self.direct = opened.map_or(Direct::No, |file| Direct::Yes(Arc::new(file)));
        }
        match &self.direct {
            Direct::Yes(direct) => Some(Arc::clone(direct)),
            Direct::Unknown | Direct::No => None,
        }
    }
}

impl Pending {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the lock of an inode's pending data")
    }

    pub(super) fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.settled.wait(state).expect("no thread panics while it holds the lock of an inode's pending data")
    }

    pub(super) fn notify(&self) {
        self.settled.notify_all();
    }

    /// Returns whether the inode has ever had data in the buffer. If so, attributes read from the source file
    /// may be out of date.
    pub(crate) fn was_used(&self) -> bool {
        self.lock().modified.is_some()
    }

    /// Returns the end and the modification time of the file, if the buffer has newer values than the source
    /// file system.
    pub(crate) fn end_and_time(&self) -> Option<(u64, Timespec)> {
        let state = self.lock();
        state.has_data().then_some(state.end).zip(state.modified)
    }

    /// Releases the source file after its last close, unless data are pending.
    pub(crate) fn let_go(&self) {
        let mut state = self.lock();
        if !state.has_data() {
            state.direct = Direct::Unknown;
            state.file = None;
        }
    }

    /// Returns the error-sequence state with which a new handle starts.
    pub(crate) fn errors_now(&self) -> Seen {
        self.lock().errors.now()
    }

    /// Returns an error of earlier writes that the handle has not received yet.
    pub(crate) fn error_for(&self, seen: &mut Seen) -> Option<Errno> {
        self.lock().errors.take(seen)
    }
}
