//! Runs the study's management threads (managers). Managers flush full entries at once, and other data after
//! the flush interval. While no data are pending, managers sleep.
//!
//! With two managers, the device always has another entry to write, even while one manager waits for a CPU.
//! While full entries are being written, two things have to wait: old data, and flushes whose only purpose is
//! to free entries. During this wait, the entries with old data may become full.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use super::{Buffer, Take};

/// While one manager's write is in progress, the other manager has the next entry ready.
const THREADS: usize = 2;
/// Number of additional intervals for which old data wait while full entries are being written.
const PATIENCE: u32 = 10;

/// The threads that flush the buffer. Dropping this value writes all buffered data to the source.
#[derive(Debug)]
pub(crate) struct Manager {
    buffer: Arc<Buffer>,
    threads: Vec<JoinHandle<()>>,
}

impl Manager {
    /// Starts the managers, unless the mount options disable them. Fails if the system cannot start another
    /// thread.
    pub(crate) fn start(buffer: &Arc<Buffer>) -> std::io::Result<Self> {
        let mut manager = Self { buffer: Arc::clone(buffer), threads: Vec::new() };
        let threads = if buffer.options.thread { THREADS } else { 0 };
        for _ in 0..threads {
            let buffer = Arc::clone(buffer);
            manager.threads.push(std::thread::Builder::new().name("fonio-flush".to_owned()).spawn(
                move || {
                    // Without this call, the kernel could reclaim memory for this thread by writing back
                    // through our own mount. The call needs a capability; the statistics report a failure.
                    let may_wait = crate::kernel::forbid_io_recursion().is_err();
                    buffer.statistics.may_wait.set(u64::from(may_wait));
                    buffer.manage();
                },
            )?);
        }
        Ok(manager)
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.buffer.lock_dirty().closed = true;
        self.buffer.work.notify_all();
        for thread in self.threads.drain(..) {
            // A manager panics only on a broken invariant, and a panic prints a message to standard error.
            let _ = thread.join();
        }
        self.buffer.drain_all();
    }
}

impl Buffer {
    fn manage(&self) {
        let mut dirty = self.lock_dirty();
        loop {
            if let Some(pending) = dirty.sealed.pop_front() {
                drop(dirty);
                let mut state = pending.lock();
                state.is_urgent = false;
                // The thread that is already writing some of the inode's data also flushes the rest.
                if state.in_flight {
                    drop(state);
                    dirty = self.lock_dirty();
                } else {
                    self.lock_dirty().flushing += 1;
                    drop(self.flush(&pending, state, Take::Sealed));
                    dirty = self.lock_dirty();
                    dirty.flushing -= 1;
                    // The other manager may be waiting for `flushing` to decrease.
                    self.work.notify_one();
                }
                continue;
            }
            let is_idle = dirty.flushing == 0 || dirty.closed;
            let due = dirty.by_age.front().map(|(since, _)| *since + self.interval());
            let now = Instant::now();
            let is_due = |due| due <= now || dirty.starving > 0 || dirty.closed;
            let at_last = self.interval() * PATIENCE;
            match due {
                Some(due) if (is_idle && is_due(due)) || due + at_last <= now => {
                    let (_, pending) = dirty.by_age.pop_front().expect("the front exists");
                    drop(dirty);
                    self.flush_listed(&pending);
                    dirty = self.lock_dirty();
                }
                Some(due) => {
                    let until = if due > now { due } else { due + at_last };
                    let waited = self.work.wait_timeout(dirty, until - now);
                    dirty = waited.expect("no thread panics while it holds the lock of the dirty list").0;
                }
                None if dirty.closed => return,
                None => {
                    let waited = self.work.wait(dirty);
                    dirty = waited.expect("no thread panics while it holds the lock of the dirty list");
                }
            }
        }
    }
}
