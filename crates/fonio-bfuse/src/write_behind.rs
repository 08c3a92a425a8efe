//! Starts the write-back of long passed-through streams while they are written.
//!
//! Linux starts write-back when a tenth of the memory is dirty, or for data that are 30 s old. If a stream is faster than
//! the device, all of it is still in memory when `fsync` starts, and the device was idle until then. The daemon does not
//! see the writes of a file that is passed through. Therefore a thread looks at the size of each file that was opened for
//! writing, at growing intervals. When a file has grown by [`PIECE_BYTES`], the thread starts the write-back of this piece,
//! which the kernel would otherwise start later. Only this thread waits for it. Shorter files are left to Linux, because
//! many of them are deleted before they are written back.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::fs::Stat;

use crate::kernel;
use crate::statistics::Counter;

/// Size of a piece: keeps any card busy until the next look.
const PIECE_BYTES: u64 = 8 << 20;
/// Time until the first look at a file, and after each piece. Each further look waits longer by this time.
const INTERVAL: Duration = Duration::from_millis(10);
/// Longest time until the first look. If many short files are created, each wake-up of the thread takes CPU time from their
/// creator.
const FIRST_LOOK_MAX: Duration = Duration::from_millis(160);
/// A file that has not grown by a piece after this many looks (two seconds) is not a stream.
const LOOKS_MAX: u32 = 20;

const UNPOISONED: &str = "no thread panics while it holds the list of streams";

/// The files that may be streams.
#[derive(Debug, Default)]
pub(crate) struct WriteBehind {
    state: Mutex<State>,
    /// Signalled when there is a file to look at.
    woken: Condvar,
    /// Bytes whose write-back was started.
    pub(crate) bytes: Counter,
}

#[derive(Debug)]
struct State {
    /// Whether the thread runs.
    is_running: bool,
    /// Whether the thread sleeps for longer than the first look at a new file may take.
    sleeps: bool,
    /// Time until the first look at a new file. It doubles each time that all files were closed before their look.
    first_look: Duration,
    streams: Vec<Stream>,
    is_closed: bool,
}

impl Default for State {
    fn default() -> Self {
        Self { is_running: false, sleeps: false, first_look: INTERVAL, streams: Vec::new(), is_closed: false }
    }
}

/// A file that is open for writing. After it is closed, the thread no longer looks at it.
#[derive(Debug)]
struct Stream {
    file: Weak<OwnedFd>,
    progress: Progress,
    /// The time of the next look.
    due: Instant,
}

/// Progress of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    /// The offset of the next piece. Earlier data existed before, or their write-back has started. `None`
    /// until the thread first looks at the file.
    begun: Option<u64>,
    /// Number of looks since the last piece.
    looks: u32,
}

impl Progress {
    /// Counts a look, and returns the time until the next one; `None` if the file is not a stream.
    fn look(&mut self) -> Option<Duration> {
        self.looks += 1;
        (self.looks <= LOOKS_MAX).then(|| INTERVAL * self.looks)
    }

    /// Returns the offset of the next piece to write back, in a file with `bytes` bytes of data.
    fn piece(&mut self, bytes: u64) -> Option<u64> {
        let begun = *self.begun.get_or_insert(bytes);
        if bytes < begun + PIECE_BYTES {
            // If the file was truncated, everything behind its new end will be new.
            self.begun = Some(begun.min(bytes));
            return None;
        }
        *self = Self { begun: Some(begun + PIECE_BYTES), looks: 0 };
        Some(begun)
    }
}

/// Bytes of data in a file. Holes do not count, because nothing is written for them.
fn data_bytes(stat: &Stat) -> u64 {
    const SECTOR: u64 = 512;
    stat.st_size.unsigned_abs().min(stat.st_blocks as u64 * SECTOR)
}

impl WriteBehind {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(UNPOISONED)
    }

    /// Starts to look at `file`, until it is closed or stops growing. Data before `begun` are left alone; `None` if the
    /// size is not known yet.
    pub(crate) fn watch(&self, file: &Arc<OwnedFd>, begun: Option<u64>) {
        let mut state = self.lock();
        if !state.is_running {
            return;
        }
        let progress = Progress { begun, looks: 0 };
        let due = Instant::now() + state.first_look;
        state.streams.push(Stream { file: Arc::downgrade(file), progress, due });
        if std::mem::take(&mut state.sleeps) {
            self.woken.notify_one();
        }
    }

    fn run(&self) {
        let mut state = self.lock();
        while !state.is_closed {
            let now = Instant::now();
            let Some(due) = state.streams.iter().map(|stream| stream.due).min() else {
                state.sleeps = true;
                state = self.woken.wait(state).expect(UNPOISONED);
                continue;
            };
            if due > now {
                state.sleeps = due > now + state.first_look;
                state = self.woken.wait_timeout(state, due - now).expect(UNPOISONED).0;
                continue;
            }
            let mut streams = std::mem::take(&mut state.streams);
            drop(state);
            // One piece of each file in turn, as long as any file has one.
            while self.hand_over(&mut streams, now) && !self.lock().is_closed {}
            let any_open = streams.iter().any(|stream| stream.due <= now);
            streams.retain_mut(|stream| stream.due > now || stream.look());
            state = self.lock();
            state.first_look = if any_open { INTERVAL } else { (state.first_look * 2).min(FIRST_LOOK_MAX) };
            state.streams.append(&mut streams);
        }
    }

    /// Starts the write-back of a piece of each file that is due, and returns whether there was any.
    fn hand_over(&self, streams: &mut Vec<Stream>, now: Instant) -> bool {
        let mut any = false;
        streams.retain_mut(|stream| {
            if stream.due > now {
                return true;
            }
            let Some(file) = stream.file.upgrade() else { return false };
            let Ok(stat) = rustix::fs::fstat(&*file) else { return false };
            let Some(from) = stream.progress.piece(data_bytes(&stat)) else { return true };
            any = true;
            self.bytes.add(PIECE_BYTES);
            // The process that syncs the file gets the error. A file system without this call does not need
            // it.
            kernel::start_writing(&*file, from, PIECE_BYTES).is_ok()
        });
        any
    }
}

impl Stream {
    /// Sets the time of the next look; returns false if the file is not a stream.
    fn look(&mut self) -> bool {
        let wait = self.progress.look();
        self.due = Instant::now() + wait.unwrap_or_default();
        wait.is_some()
    }
}

/// The thread. It ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Writer {
    behind: Arc<WriteBehind>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system cannot start another thread.
    pub(crate) fn start(behind: &Arc<WriteBehind>) -> std::io::Result<Self> {
        behind.lock().is_running = true;
        let running = Arc::clone(behind);
        let thread = std::thread::Builder::new().name("fonio-behind".to_owned()).spawn(move || {
            // Without this, the kernel could free memory for us by writing back through our own mount. It needs a
            // capability.
            let _ = kernel::forbid_io_recursion();
            running.run();
        })?;
        Ok(Self { behind: Arc::clone(behind), thread: Some(thread) })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.behind.lock().is_closed = true;
        self.behind.woken.notify_one();
        if let Some(thread) = self.thread.take() {
            // The thread panics only if an invariant is broken; the message is then on standard error.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn pieces(begun: Option<u64>, held: &[u64]) -> Vec<Option<u64>> {
        let mut progress = Progress { begun, looks: 0 };
        held.iter().map(|bytes| progress.piece(*bytes).map(|from| from / MIB)).collect()
    }

    #[test]
    fn whole_pieces_of_what_grows_are_handed_over_once() {
        let grows = [1, 9, 9, 17, 40, 40, 40, 40].map(|mib| mib * MIB);
        assert_eq!(
            pieces(Some(0), &grows),
            [None, Some(0), None, Some(8), Some(16), Some(24), Some(32), None]
        );
    }

    #[test]
    fn what_was_there_is_left_alone_unless_it_was_cut_off() {
        assert_eq!(pieces(None, &[50, 57, 58].map(|mib| mib * MIB)), [None, None, Some(50)]);
        assert_eq!(pieces(None, &[50, 0, 8].map(|mib| mib * MIB)), [None, None, Some(0)]);
    }

    #[test]
    fn what_does_not_grow_is_looked_at_ever_less_and_then_no_more() {
        let mut progress = Progress { begun: Some(0), looks: 0 };
        let waits: Vec<Duration> = std::iter::from_fn(|| progress.look()).collect();
        assert!(waits.is_sorted() && waits.len() == LOOKS_MAX as usize);
        assert_eq!(waits.iter().sum::<Duration>(), Duration::from_millis(2100));
        assert_eq!(progress.piece(8 * MIB), Some(0));
        assert_eq!(progress.look(), Some(INTERVAL), "a piece makes it a stream again");
    }
}
