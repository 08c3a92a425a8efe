//! The management thread of the study: it empties full entries at once, and whatever is older than the interval.
//! It sleeps while nothing is pending.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use super::{Buffer, Take};

/// The thread, until this value is dropped; then everything is below.
#[derive(Debug)]
pub(crate) struct Manager {
    buffer: Arc<Buffer>,
    thread: Option<JoinHandle<()>>,
}

impl Manager {
    /// Starts the thread, unless the options say that there is none.
    ///
    /// # Errors
    /// Where the system has no thread left.
    pub(crate) fn start(buffer: &Arc<Buffer>) -> std::io::Result<Self> {
        let thread = if buffer.options.thread {
            let buffer = Arc::clone(buffer);
            Some(std::thread::Builder::new().name("fonio-flush".to_owned()).spawn(move || {
                // Without the privilege the kernel may make memory for us by writing back through our own mount.
                let _ = crate::kernel::forbid_io_recursion();
                buffer.manage();
            })?)
        } else {
            None
        };
        Ok(Self { buffer: Arc::clone(buffer), thread })
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.buffer.lock_dirty().closed = true;
        self.buffer.work.notify_all();
        if let Some(thread) = self.thread.take() {
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
                let mut state = self.flush(&pending, state, Take::Sealed);
                let is_left = state.has_sealed() && !std::mem::replace(&mut state.is_urgent, true);
                drop(state);
                dirty = self.lock_dirty();
                if is_left {
                    dirty.sealed.push_back(pending);
                }
                continue;
            }
            let due = dirty.by_age.front().map(|(since, _)| *since + self.interval());
            let now = Instant::now();
            match due {
                Some(due) if due <= now || dirty.starving > 0 || dirty.closed => {
                    let (_, pending) = dirty.by_age.pop_front().expect("its front was just looked at");
                    drop(dirty);
                    self.flush_listed(&pending);
                    dirty = self.lock_dirty();
                }
                Some(due) => {
                    let waited = self.work.wait_timeout(dirty, due - now);
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
