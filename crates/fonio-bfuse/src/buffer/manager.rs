//! The management threads of the study. They flush full entries at once, and older data after the flush interval. They
//! sleep while there are no pending data.
//!
//! There are two managers, so that the device always has another entry to write when one is finished, even if our threads
//! have to wait for a CPU. Data that are only old, and flushes that only make room, wait for a while if full entries are
//! being written, because they may be in full entries by then.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use super::{Buffer, Take};

/// One manager whose write the device is executing, and one with the next entry.
const THREADS: usize = 2;
/// Number of additional intervals that old data wait while full entries are being written.
const PATIENCE: u32 = 10;

/// The managers. When this value is dropped, all data are written below.
#[derive(Debug)]
pub(crate) struct Manager {
    buffer: Arc<Buffer>,
    threads: Vec<JoinHandle<()>>,
}

impl Manager {
    /// Starts the managers, unless the options disable them.
    ///
    /// # Errors
    /// If the system cannot start another thread.
    pub(crate) fn start(buffer: &Arc<Buffer>) -> std::io::Result<Self> {
        let mut manager = Self { buffer: Arc::clone(buffer), threads: Vec::new() };
        let threads = if buffer.options.thread { THREADS } else { 0 };
        for _ in 0..threads {
            let buffer = Arc::clone(buffer);
            manager.threads.push(std::thread::Builder::new().name("fonio-flush".to_owned()).spawn(
                move || {
                    // Without this, the kernel could free memory for us by writing back through our own mount. It needs a
                    // capability.
                    let _ = crate::kernel::forbid_io_recursion();
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
            // A manager panics only if an invariant is broken; the message is then on standard error.
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
                // The thread that has the inode's data in flight flushes the rest.
                if state.in_flight {
                    drop(state);
                    dirty = self.lock_dirty();
                } else {
                    self.lock_dirty().flushing += 1;
                    drop(self.flush(&pending, state, Take::Sealed));
                    dirty = self.lock_dirty();
                    dirty.flushing -= 1;
                    // The other manager may be waiting for this.
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
                    let (_, pending) = dirty.by_age.pop_front().expect("its front was just looked at");
                    drop(dirty);
                    self.flush_listed(&pending);
                    dirty = self.lock_dirty();
                }
                Some(due) => {
                    let until = if due > now { due } else { due + at_last };
                    let waited = self.work.wait_timeout(dirty, until - now);
                    dirty = waited.expect("no thread panics while it holds the list of what is dirty").0;
                }
                None if dirty.closed => return,
                None => {
                    let waited = self.work.wait(dirty);
                    dirty = waited.expect("no thread panics while it holds the list of what is dirty");
                }
            }
        }
    }
}
