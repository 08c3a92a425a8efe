//! Starts the write-back of long passed-through streams while they are written.
//!
//! Linux starts write-back when a tenth of the memory is dirty, or after 30 s. If a stream is faster than the
//! device, all its data are still in memory when `fsync` starts, and the device has been idle until then. The
//! daemon does not see the writes of a passed-through file. So a thread checks the size of each file opened
//! for writing, at growing intervals. When a file has grown by [`PIECE_BYTES`], the thread starts the
//! write-back of this segment. Only this thread, and no application, waits for the write-back to start. The
//! thread ignores shorter files, because many of them are deleted before Linux writes them back.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::fs::Stat;

use crate::kernel;
use crate::statistics::Counter;

/// Size of a segment: large enough to keep any card busy until the next check.
const PIECE_BYTES: u64 = 8 << 20;
/// Time until the first check of a file, and until the next check after each segment. Each further wait is
/// longer by this interval.
const INTERVAL: Duration = Duration::from_millis(10);
/// Maximum time until the first check of a file. If many short files are created, each wake-up of the thread
/// takes CPU time from the process that creates them.
const FIRST_LOOK_MAX: Duration = Duration::from_millis(160);
/// A file is not a stream if it has not grown by a segment in this number of checks, which take two seconds.
const LOOKS_MAX: u32 = 20;

const UNPOISONED: &str = "no thread panics while it holds the lock of the list of streams";

/// The files that are checked because they may be streams.
#[derive(Debug, Default)]
pub(crate) struct WriteBehind {
    state: Mutex<State>,
    woken: Condvar,
    /// Number of bytes whose write-back the thread has started.
    pub(crate) bytes: Counter,
}

#[derive(Debug)]
struct State {
    is_running: bool,
    /// Whether the thread sleeps for longer than the time until a new file's first check.
    sleeps: bool,
    /// Time until the first check of a new file. The time doubles whenever all files were closed before their
    /// first check.
    first_look: Duration,
    streams: Vec<Stream>,
    is_closed: bool,
}

impl Default for State {
    fn default() -> Self {
        Self { is_running: false, sleeps: false, first_look: INTERVAL, streams: Vec::new(), is_closed: false }
    }
}

/// A file that is open for writing. The thread stops checking the file after it is closed.
#[derive(Debug)]
struct Stream {
    file: Weak<OwnedFd>,
    progress: Progress,
    due: Instant,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    /// The offset of the next segment to write back. Data before this offset are old, or their write-back has
    /// started. `None` before the first check.
    begun: Option<u64>,
    /// Number of checks since the last segment was written back.
    looks: u32,
}

impl Progress {
    /// Counts a check, and returns the time until the next check; `None` if the file is not a stream.
    fn look(&mut self) -> Option<Duration> {
        self.looks += 1;
        (self.looks <= LOOKS_MAX).then(|| INTERVAL * self.looks)
    }

    /// Returns the offset of the next segment to write back in a file with `bytes` bytes of data.
    fn piece(&mut self, bytes: u64) -> Option<u64> {
        let begun = *self.begun.get_or_insert(bytes);
        if bytes < begun + PIECE_BYTES {
            // If the file was truncated, start at its new end: all data after this end will be new.
            self.begun = Some(begun.min(bytes));
            return None;
        }
        *self = Self { begun: Some(begun + PIECE_BYTES), looks: 0 };
        Some(begun)
    }
}

/// Returns the number of data bytes in a file, not counting holes.
fn data_bytes(stat: &Stat) -> u64 {
    const SECTOR: u64 = 512;
    stat.st_size.unsigned_abs().min(stat.st_blocks as u64 * SECTOR)
}

impl WriteBehind {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(UNPOISONED)
    }

    /// Starts to check `file`, until the file is closed or stops growing. Data before the offset `begun` are
    /// ignored; `None` means that the size is not known yet.
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
            // Writes back one segment of each file in turn while any file has a segment.
            while self.hand_over(&mut streams, now) && !self.lock().is_closed {}
            let any_open = streams.iter().any(|stream| stream.due <= now);
            streams.retain_mut(|stream| stream.due > now || stream.look());
            state = self.lock();
            state.first_look = if any_open { INTERVAL } else { (state.first_look * 2).min(FIRST_LOOK_MAX) };
            state.streams.append(&mut streams);
        }
    }

    /// Starts the write-back of a segment of each due file, and returns whether any file had a segment.
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
            // Errors are reported to the process that syncs the file. File systems that do not support
            // `sync_file_range` do not need it.
            kernel::start_writing(&*file, from, PIECE_BYTES).is_ok()
        });
        any
    }
}

impl Stream {
    /// Sets the time of the file's next check. Returns false if the file is not a stream.
    fn look(&mut self) -> bool {
        let wait = self.progress.look();
        self.due = Instant::now() + wait.unwrap_or_default();
        wait.is_some()
    }
}

/// The thread that starts write-back. Dropping this value ends the thread.
#[derive(Debug)]
pub(crate) struct Writer {
    behind: Arc<WriteBehind>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread that checks files. Fails if the system cannot start another thread.
    pub(crate) fn start(behind: &Arc<WriteBehind>) -> std::io::Result<Self> {
        behind.lock().is_running = true;
        let running = Arc::clone(behind);
        let thread = std::thread::Builder::new().name("fonio-behind".to_owned()).spawn(move || {
            // Without this call, the kernel could reclaim memory for us by writing back through our own
            // mount. The call needs a capability.
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
            // The thread panics only on a broken invariant, and then prints a message to standard error.
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
        assert_eq!(progress.look(), Some(INTERVAL), "a written segment makes it a stream again");
    }
}
