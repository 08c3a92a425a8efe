//! Has long streams that are passed through begin to reach the device while they come.
//!
//! Linux writes back when a tenth of the memory is dirty, or what is 30 s old. A stream that comes faster than its device takes
//! it lies in memory whole when `fsync` comes, and the device has done nothing meanwhile. We do not see the writes of a file
//! that is passed through. So a thread looks at the size of one that was opened for writing, ever less often: where it grows by
//! [`PIECE_BYTES`] and more, its pieces are handed to the device, which Linux does by itself later. Nobody waits for them but
//! that thread. Shorter files are left to Linux: many of them never live to be written.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::fs::Stat;

use crate::kernel;
use crate::statistics::Counter;

/// What is handed over at a time: enough for a device to be busy until the next look, on any card.
const PIECE_BYTES: u64 = 8 << 20;
/// How long until a size is looked at, and again after each piece; then longer by as much each time.
const INTERVAL: Duration = Duration::from_millis(10);
/// The longest until the first look, where files come and go: a thread that wakes takes its CPU from who makes them.
const FIRST_LOOK_MAX: Duration = Duration::from_millis(160);
/// A file that has not grown by a piece in so many looks, which are two seconds, is no stream.
const LOOKS_MAX: u32 = 20;

const UNPOISONED: &str = "no thread panics while it holds the list of streams";

/// The files that may be streams.
#[derive(Debug, Default)]
pub(crate) struct WriteBehind {
    state: Mutex<State>,
    /// There is something to look at.
    woken: Condvar,
    /// Handed over so far.
    pub(crate) bytes: Counter,
}

#[derive(Debug)]
struct State {
    /// There is a thread.
    is_running: bool,
    /// It sleeps for longer than a new file may wait.
    sleeps: bool,
    /// How long until a new file is looked at: longer each time that all files were closed before.
    first_look: Duration,
    streams: Vec<Stream>,
    is_closed: bool,
}

impl Default for State {
    fn default() -> Self {
        Self { is_running: false, sleeps: false, first_look: INTERVAL, streams: Vec::new(), is_closed: false }
    }
}

/// A file that is open for writing; when it is closed it is looked at no more.
#[derive(Debug)]
struct Stream {
    file: Weak<OwnedFd>,
    progress: Progress,
    /// When it is looked at next.
    due: Instant,
}

/// How far a stream has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    /// What lies before is not ours to hand over, or was; `None` until the size was seen.
    begun: Option<u64>,
    /// Looks since the last piece.
    looks: u32,
}

impl Progress {
    /// Counts a look, and says how long until the next; `None` where this is no stream.
    fn look(&mut self) -> Option<Duration> {
        self.looks += 1;
        (self.looks <= LOOKS_MAX).then(|| INTERVAL * self.looks)
    }

    /// Where the next [`PIECE_BYTES`] to be handed over begin, in a file that holds `bytes`.
    fn piece(&mut self, bytes: u64) -> Option<u64> {
        let begun = *self.begun.get_or_insert(bytes);
        if bytes < begun + PIECE_BYTES {
            // Truncated: what is written from here on is new.
            self.begun = Some(begun.min(bytes));
            return None;
        }
        *self = Self { begun: Some(begun + PIECE_BYTES), looks: 0 };
        Some(begun)
    }
}

/// What a file holds, holes left out: a size alone costs nothing to set, and nothing is written for it.
fn held(stat: &Stat) -> u64 {
    const SECTOR: u64 = 512;
    stat.st_size.unsigned_abs().min(stat.st_blocks.unsigned_abs() * SECTOR)
}

impl WriteBehind {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(UNPOISONED)
    }

    /// Looks at `file` from now on, until it is closed or seems to be no stream. What it holds already up to `begun` is left alone;
    /// `None` where nobody knows yet how much it is.
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
            // A piece of each in turn, for as long as there are any.
            while self.hand_over(&mut streams, now) && !self.lock().is_closed {}
            let any_open = streams.iter().any(|stream| stream.due <= now);
            streams.retain_mut(|stream| stream.due > now || stream.look());
            state = self.lock();
            state.first_look = if any_open { INTERVAL } else { (state.first_look * 2).min(FIRST_LOOK_MAX) };
            state.streams.append(&mut streams);
        }
    }

    /// Hands over a piece of each stream that was due and has one, and says whether any had.
    fn hand_over(&self, streams: &mut Vec<Stream>, now: Instant) -> bool {
        let mut any = false;
        streams.retain_mut(|stream| {
            if stream.due > now {
                return true;
            }
            let Some(file) = stream.file.upgrade() else { return false };
            let Ok(stat) = rustix::fs::fstat(&*file) else { return false };
            let Some(from) = stream.progress.piece(held(&stat)) else { return true };
            any = true;
            self.bytes.add(PIECE_BYTES);
            // What cannot be written is told to whoever syncs the file; a file system without the call has no use for it.
            kernel::start_writing(&*file, from, PIECE_BYTES).is_ok()
        });
        any
    }
}

impl Stream {
    /// Says when it is due again, unless it is no stream.
    fn look(&mut self) -> bool {
        let wait = self.progress.look();
        self.due = Instant::now() + wait.unwrap_or_default();
        wait.is_some()
    }
}

/// The thread that looks, until this value is dropped.
#[derive(Debug)]
pub(crate) struct Writer {
    behind: Arc<WriteBehind>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts it.
    ///
    /// # Errors
    /// Where the system has no thread left.
    pub(crate) fn start(behind: &Arc<WriteBehind>) -> std::io::Result<Self> {
        behind.lock().is_running = true;
        let running = Arc::clone(behind);
        let thread = std::thread::Builder::new().name("fonio-behind".to_owned()).spawn(move || {
            // Without the privilege the kernel may make memory for us by writing back through our own mount.
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
            // It panics only where an invariant is broken; the message is on standard error then.
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
