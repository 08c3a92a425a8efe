//! A write-ahead log that this library syncs.
//!
//! Invariant: if the oldest unsynced write is older than the window, no further write begins before the log
//! is synced. Therefore, a power cut loses only transactions within one window, even if the device is slow.

use std::ffi::c_int;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::sqlite::{SQLITE_IOERR_FSYNC, SQLITE_OK};

pub struct Wal {
    /// Our own descriptor of the log. Closing this descriptor drops no locks of SQLite, because SQLite holds
    /// no locks on a log.
    file: Arc<File>,
    path: PathBuf,
    window: Duration,
    say: fn(&str),
    state: Mutex<State>,
    changed: Condvar,
    /// Whether each write is synced by the thread that writes.
    syncs_each_write: AtomicBool,
}

#[derive(Default)]
struct State {
    /// The time of the oldest write since the last sync began.
    dirty_since: Option<Instant>,
    /// The time of the oldest write that the running sync covers.
    syncing_since: Option<Instant>,
    /// Whether a sync has failed. The data that the failed sync should have written may be lost, so no
    /// further write is allowed.
    has_failed: bool,
}

impl State {
    fn oldest(&self) -> Option<Instant> {
        self.syncing_since.or(self.dirty_since)
    }
}

impl Wal {
    /// Creates the state of the open log file at `path`. `say` prints messages.
    pub fn new(path: &Path, window: Duration, say: fn(&str)) -> std::io::Result<Wal> {
        Ok(Wal {
            file: Arc::new(File::open(path)?),
            path: path.to_owned(),
            window,
            say,
            state: Mutex::default(),
            changed: Condvar::new(),
            syncs_each_write: AtomicBool::new(false),
        })
    }

    /// Creates the state of the log in a child of fork(2). The locks of this state may stay locked in the
    /// child, so the child has a state of its own. The parent may end without a sync, so the child syncs the
    /// parent's writes too.
    pub fn in_child(&self) -> Wal {
        let has_failed = self.state.try_lock().is_ok_and(|state| state.has_failed);
        Wal {
            file: Arc::clone(&self.file),
            path: self.path.clone(),
            window: self.window,
            say: self.say,
            state: Mutex::new(State { dirty_since: Some(Instant::now()), syncing_since: None, has_failed }),
            changed: Condvar::new(),
            syncs_each_write: AtomicBool::new(false),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the writing thread sync each write, because no other thread syncs.
    pub fn sync_each_write(&self) {
        self.syncs_each_write.store(true, Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is always consistent when a panic can happen.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time of the next sync, or `None` if all writes are synced. The sync begins after half of
    /// the window, so that the other half remains for the sync itself.
    pub fn due(&self) -> Option<Instant> {
        let state = self.state();
        state.dirty_since.filter(|_| !state.has_failed).map(|since| since + self.window / 2)
    }

    /// Waits until a write may begin. Returns an SQLite error if a sync has failed.
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

    /// Records a write, and returns whether this write is the first since the last sync.
    pub fn wrote(&self) -> bool {
        if self.syncs_each_write.load(Ordering::Relaxed) {
            self.state().dirty_since = Some(Instant::now());
            self.sync();
            return false;
        }
        let mut state = self.state();
        let is_first = state.dirty_since.is_none();
        if is_first {
            state.dirty_since = Some(Instant::now());
        }
        is_first
    }

    /// Records that SQLite has synced all writes.
    pub fn synced(&self) {
        self.state().dirty_since = None;
    }

    /// Syncs all writes so far, unless another thread is syncing.
    pub fn sync(&self) {
        let mut state = self.state();
        if state.syncing_since.is_some() || state.has_failed {
            return;
        }
        let Some(since) = state.dirty_since.take() else { return };
        state.syncing_since = Some(since);
        drop(state);
        // Call the kernel directly, because this library may have replaced the C library's function by a
        // function that drops the call.
        let result = rustix::fs::fdatasync(&self.file);
        let mut state = self.state();
        state.syncing_since = None;
        state.has_failed = result.is_err();
        drop(state);
        self.changed.notify_all();
        if let Err(error) = result {
            (self.say)(&format!(
                "cannot sync {}: {}. Commits of this database fail from now on; solve the problem, then close the database and open it again.",
                self.path.display(),
                std::io::Error::from(error)
            ));
        }
    }

    /// Syncs the remaining writes before the file is closed.
    pub fn finish(&self) -> c_int {
        self.sync();
        let mut state = self.state();
        while state.syncing_since.is_some() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.has_failed { SQLITE_IOERR_FSYNC } else { SQLITE_OK }
    }

    /// Syncs the log at the end of the process, unless another thread holds the lock.
    pub fn sync_at_exit(&self) {
        if self.state.try_lock().is_ok() {
            self.sync();
        }
    }
}
