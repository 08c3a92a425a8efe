//! A write-ahead log that this library syncs.
//!
//! Invariant: if the oldest write that is not on the disk is older than the window, no further write begins
//! before the log is synced. Therefore, a power cut loses only transactions within one window, however slow
//! the device is.

use std::ffi::c_int;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::sqlite::{SQLITE_IOERR_FSYNC, SQLITE_OK};

pub struct Wal {
    /// Our own descriptor of the log. SQLite holds no locks on a log, so closing it drops none.
    file: File,
    path: PathBuf,
    window: Duration,
    /// Prints a message.
    say: fn(&str),
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The time of the oldest write that no sync has begun to cover.
    dirty_since: Option<Instant>,
    /// The same for the writes that a running sync covers.
    syncing_since: Option<Instant>,
    /// A sync has failed. The data that it covered may be lost, so no write may follow it.
    has_failed: bool,
}

impl State {
    fn oldest(&self) -> Option<Instant> {
        self.syncing_since.or(self.dirty_since)
    }
}

impl Wal {
    /// The log in this file, which is open. `say` prints a message.
    pub fn new(path: &Path, window: Duration, say: fn(&str)) -> std::io::Result<Wal> {
        Ok(Wal {
            file: File::open(path)?,
            path: path.to_owned(),
            window,
            say,
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change of the state is complete before a panic could happen.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When it should be synced: after half of the window, so that the sync has the other half. `None` if all
    /// writes are synced.
    pub fn due(&self) -> Option<Instant> {
        let state = self.state();
        state.dirty_since.filter(|_| !state.has_failed).map(|since| since + self.window / 2)
    }

    /// Waits until a write may begin; an error of SQLite if a sync has failed.
    pub fn before_write(&self) -> c_int {
        let mut state = self.state();
        loop {
            if state.has_failed {
                return SQLITE_IOERR_FSYNC;
            }
            let is_late =
                state.oldest().is_some_and(|oldest| oldest.elapsed() >= self.window - self.window / 8);
            if !is_late {
                return SQLITE_OK;
            }
            if state.syncing_since.is_some() {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else {
                drop(state);
                self.sync();
                state = self.state();
            }
        }
    }

    /// Notes a write that has happened. Returns whether it is the first one since the last sync.
    pub fn wrote(&self) -> bool {
        let mut state = self.state();
        let is_first = state.dirty_since.is_none();
        if is_first {
            state.dirty_since = Some(Instant::now());
        }
        is_first
    }

    /// Notes that SQLite has synced everything that was written.
    pub fn synced(&self) {
        self.state().dirty_since = None;
    }

    /// Syncs the writes so far, unless another thread does.
    pub fn sync(&self) {
        let mut state = self.state();
        if state.syncing_since.is_some() || state.has_failed {
            return;
        }
        let Some(since) = state.dirty_since.take() else { return };
        state.syncing_since = Some(since);
        drop(state);
        // Calls the kernel directly: the C library's function could be ours, which drops the call.
        let result = rustix::fs::fdatasync(&self.file);
        let mut state = self.state();
        state.syncing_since = None;
        state.has_failed = result.is_err();
        drop(state);
        self.changed.notify_all();
        if let Err(error) = result {
            (self.say)(&format!(
                "cannot sync {}: {}. Its commits fail from now on; close the database and open it again once that is repaired.",
                self.path.display(),
                std::io::Error::from(error)
            ));
        }
    }

    /// Syncs the rest, because the file is about to be closed.
    pub fn finish(&self) -> c_int {
        self.sync();
        let mut state = self.state();
        while state.syncing_since.is_some() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.has_failed { SQLITE_IOERR_FSYNC } else { SQLITE_OK }
    }

    /// Syncs at the end of the process, unless another thread is syncing.
    pub fn sync_at_exit(&self) {
        if self.state.try_lock().is_ok() {
            self.sync();
        }
    }
}
