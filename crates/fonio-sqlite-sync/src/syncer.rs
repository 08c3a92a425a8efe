//! The thread that syncs write-ahead logs.
//!
//! The thread runs while a database of the class `ordered` is open. A child of fork(2) starts a thread of its
//! own when it writes to a log that its parent opened.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Instant;

use crate::wal::Wal;

#[derive(Default)]
pub struct Syncer {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    users: usize,
    runs: bool,
    wals: Vec<Arc<Wal>>,
}

impl Syncer {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a database, and starts the thread if it is not running.
    pub fn enter(&'static self) -> std::io::Result<()> {
        let mut state = self.state();
        self.start_if_needed(&mut state)?;
        state.users += 1;
        Ok(())
    }

    fn start_if_needed(&'static self, state: &mut State) -> std::io::Result<()> {
        if !state.runs {
            self.start()?;
            state.runs = true;
        }
        Ok(())
    }

    /// Removes a database. The thread ends when the last database and the last log are removed.
    pub fn leave(&self) {
        let mut state = self.state();
        // A child process can close databases that its parent opened before fork(2), so `leave` can be called
        // too often.
        state.users = state.users.saturating_sub(1);
        drop(state);
        self.changed.notify_all();
    }

    /// Adds a log, and starts the thread if it is not running. In a child of fork(2), closing connections of
    /// the parent can have ended it.
    pub fn add(&'static self, wal: &Arc<Wal>) -> std::io::Result<()> {
        let mut state = self.state();
        self.start_if_needed(&mut state)?;
        state.wals.push(Arc::clone(wal));
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    pub fn remove(&self, wal: &Arc<Wal>) {
        self.state().wals.retain(|other| !Arc::ptr_eq(other, wal));
        self.changed.notify_all();
    }

    /// Wakes the thread to look for a dirty log.
    pub fn wake(&self) {
        // Take the lock, so that the syncing thread is not between its check and its sleep, where it would
        // miss the notification.
        drop(self.state());
        self.changed.notify_all();
    }

    /// Syncs all logs, at the end of the process.
    pub fn sync_all(&self) {
        let Ok(state) = self.state.try_lock() else { return };
        for wal in &state.wals {
            wal.sync_at_exit();
        }
    }

    fn run(&self) {
        let mut state = self.state();
        while state.users > 0 || !state.wals.is_empty() {
            let now = Instant::now();
            let due: Vec<Arc<Wal>> = state
                .wals
                .iter()
                .filter(|wal| wal.due().is_some_and(|due| due <= now))
                .map(Arc::clone)
                .collect();
            if !due.is_empty() {
                drop(state);
                due.iter().for_each(|wal| wal.sync());
                state = self.state();
                continue;
            }
            state = match state.wals.iter().filter_map(|wal| wal.due()).min() {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(next) => {
                    let wait = self.changed.wait_timeout(state, next.saturating_duration_since(now));
                    wait.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        state.runs = false;
    }

    /// Starts the thread with all signals blocked, because the program's own threads handle them.
    fn start(&'static self) -> std::io::Result<()> {
        // SAFETY: the sets are filled before they are read, and the mask is restored.
        unsafe {
            let mut all = std::mem::zeroed::<libc::sigset_t>();
            let mut before = std::mem::zeroed::<libc::sigset_t>();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            let started = Builder::new().name("fonio-sync".to_owned()).spawn(|| self.run());
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
            started.map(drop)
        }
    }
}
