//! The management thread of the study: it empties full entries at once, and whatever is older than the interval.
//! It sleeps while nothing is pending.
//!
//! There are two of it, so that a device has the next inode's entry to write when one is written, however long it takes until
//! a thread of ours is on a CPU again. What is only old, or would only make room, waits a while for full entries that are being
//! written: it may be full itself then.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use super::{Buffer, Take};

/// One whose write the device works on, and one that has the next ready.
const THREADS: usize = 2;
/// For how many intervals more old data wait while full entries are being written.
const PATIENCE: u32 = 10;

/// The threads, until this value is dropped; then everything is below.
#[derive(Debug)]
pub(crate) struct Manager {
    buffer: Arc<Buffer>,
    threads: Vec<JoinHandle<()>>,
}

impl Manager {
    /// Starts the threads, unless the options say that there is none.
    ///
    /// # Errors
    /// Where the system has no thread left.
    pub(crate) fn start(buffer: &Arc<Buffer>) -> std::io::Result<Self> {
        let mut manager = Self { buffer: Arc::clone(buffer), threads: Vec::new() };
        let threads = if buffer.options.thread { THREADS } else { 0 };
        for _ in 0..threads {
            let buffer = Arc::clone(buffer);
            manager.threads.push(std::thread::Builder::new().name("fonio-flush".to_owned()).spawn(
                move || {
                    // Without the privilege the kernel may make memory for us by writing back through our own mount.
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
            // It panics only where an invariant is broken; the message is on standard error then.
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
                // Whoever has it in flight comes back for the rest.
                if state.in_flight {
                    drop(state);
                    dirty = self.lock_dirty();
                } else {
                    self.lock_dirty().flushing += 1;
                    drop(self.flush(&pending, state, Take::Sealed));
                    dirty = self.lock_dirty();
                    dirty.flushing -= 1;
                    // The other one may wait for just that.
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
