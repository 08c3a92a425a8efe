//! Tells the threads of a replay that another thread's access has completed.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The interval at which waiting threads check whether the replay has failed.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub(super) struct Signals(Vec<(Mutex<Option<Instant>>, Condvar)>);

impl Signals {
    pub(super) fn new(count: u32) -> Signals {
        Signals((0..count).map(|_| Default::default()).collect())
    }

    pub(super) fn set(&self, signal: Option<u32>) {
        let Some((ended, changed)) = signal.map(|signal| &self.0[signal as usize]) else { return };
        *ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        changed.notify_all();
    }

    /// Waits for the signal and returns the time when the signal was set; `None` if the replay failed before
    /// this time.
    pub(super) fn wait(&self, signal: u32, has_failed: &dyn Fn() -> bool) -> Option<Instant> {
        let (ended, changed) = &self.0[signal as usize];
        let mut known = ended.lock().unwrap_or_else(PoisonError::into_inner);
        while known.is_none() {
            if has_failed() {
                return None;
            }
            known = changed.wait_timeout(known, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        *known
    }
}
