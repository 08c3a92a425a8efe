//! What one inode has in the buffer.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use rustix::fs::{Mode, OFlags, Timespec};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::error_sequence::{ErrorSequence, Seen};
use super::{Entry, Take};

/// The part of the buffer that belongs to one inode, by whatever names and handles it is reached.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    state: Mutex<State>,
    /// What was in flight is below.
    settled: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// In order; only the last may have room. They hold what follows `start` and what is in flight.
    pub(super) entries: VecDeque<Entry>,
    /// Of what is not yet below, in flight included.
    pub(super) start: u64,
    pub(super) end: u64,
    /// Where a write continues the one before.
    pub(super) expected: u64,
    pub(super) in_flight: bool,
    /// In the list by age.
    pub(super) is_listed: bool,
    /// In the list of those with sealed entries.
    pub(super) is_urgent: bool,
    /// When the last write came.
    pub(super) modified: Option<Timespec>,
    pub(super) errors: ErrorSequence,
    /// Open for writing.
    file: Option<Arc<OwnedFd>>,
    /// What was written in order, the last write included.
    pub(super) streamed: u64,
    /// The file once more, past the page cache below.
    direct: Direct,
}

/// Whether a file can be written past the page cache.
#[derive(Debug, Default)]
enum Direct {
    #[default]
    Unknown,
    Yes(Arc<OwnedFd>),
    No,
}

/// What a flush writes, and to where.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) entries: VecDeque<Entry>,
    pub(super) file: Arc<OwnedFd>,
    /// Set for a stream that is long.
    pub(super) direct: Option<Arc<OwnedFd>>,
    pub(super) offset: u64,
    pub(super) modified: Option<Timespec>,
}

impl State {
    pub(super) fn has_data(&self) -> bool {
        self.start < self.end
    }

    pub(super) fn begin(&mut self, offset: u64, file: &Arc<OwnedFd>) {
        assert!(!self.in_flight, "invariant 1: what is in flight is pending");
        self.start = offset;
        self.end = offset;
        self.file = Some(Arc::clone(file));
    }

    /// Copies as much as the last entry takes.
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

    /// What is to be written below, if anything, of sealed entries at most `sealed_max`; past the page cache where more than
    /// `direct_after` bytes came in order.
    pub(super) fn take(&mut self, take: Take, sealed_max: usize, direct_after: u64) -> Option<Taken> {
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
        self.state.lock().expect("no thread panics while it holds an inode's pending data")
    }

    pub(super) fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.settled.wait(state).expect("no thread panics while it holds an inode's pending data")
    }

    pub(super) fn notify(&self) {
        self.settled.notify_all();
    }

    /// Whether anything of the inode ever was in the buffer. If so, what the file system below said of it a moment
    /// ago may have become too little.
    pub(crate) fn was_used(&self) -> bool {
        self.lock().modified.is_some()
    }

    /// Where the file ends and when it was written, as far as the buffer knows better than the file system below.
    pub(crate) fn end_and_time(&self) -> Option<(u64, Timespec)> {
        let state = self.lock();
        state.has_data().then_some(state.end).zip(state.modified)
    }

    /// The file was closed: nothing holds it open any more.
    pub(crate) fn let_go(&self) {
        let mut state = self.lock();
        if !state.has_data() {
            state.direct = Direct::Unknown;
            state.file = None;
        }
    }

    /// Where the errors of a new handle begin.
    pub(crate) fn errors_now(&self) -> Seen {
        self.lock().errors.now()
    }

    /// An error of earlier writes that the handle has not been told; it has now.
    pub(crate) fn error_for(&self, seen: &mut Seen) -> Option<Errno> {
        self.lock().errors.take(seen)
    }
}
