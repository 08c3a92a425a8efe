//! Keeps the daemon from running out of file descriptors.
//!
//! The daemon holds a descriptor for each inode in the kernel's cache (`crate::node`), and the kernel caches
//! inodes until it needs their memory. When half of the descriptors are in use, the daemon holds the file handles
//! of new files instead, if it may open files by handle (`crate::place`).
//!
//! When three quarters of the descriptors are in use, a thread asks the
//! kernel to forget unused inodes until half of the descriptors are free. A request that finds no free
//! descriptor waits up to [`WAIT_MAX`]. So applications get `EMFILE` only if they have too many files open at
//! the same time.
//!
//! The thread holds no lock while it calls the kernel, because this call may wait for requests that other
//! threads of the daemon serve.

mod pruner;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

pub(crate) use pruner::Pruner;
use rustix::io::Errno;

/// Descriptors that the daemon needs for other purposes: sockets, pipes, `/dev/fuse`.
const OWN: u64 = 48;
/// Maximum time that a request waits for a descriptor: much longer than the kernel needs to forget inodes.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// After this number of unsuccessful passes, the daemon assumes that the kernel cannot forget any inode.
const VAIN_MAX: u64 = 2;

const UNPOISONED: &str = "no thread panics while it holds the lock of the descriptors' state";

/// The limits on descriptors, and the state of the thread that frees them.
#[derive(Debug)]
pub(crate) struct Descriptors {
    /// The process's limit of open files, `RLIMIT_NOFILE`.
    pub(crate) limit: u64,
    /// Maximum number of descriptors that inodes and open files may hold.
    all: u64,
    /// If inodes and open files hold more descriptors than this number, some must be freed.
    high: u64,
    /// Number of descriptors in use at which a pass is complete.
    low: u64,
    /// Whether the thread has already been asked to free descriptors; can be read without the lock.
    is_asked: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_wanted: bool,
    /// Whether a request found no free descriptor.
    is_needed: bool,
    /// Directories that the kernel locks while requests for them wait for a descriptor.
    locked: Vec<u64>,
    is_closed: bool,
    passes: u64,
    in_vain: u64,
}

impl Descriptors {
    /// Creates the limits for a process that may open `limit` files and has `threads` threads, which need
    /// some of the descriptors.
    pub(crate) fn new(limit: u64, threads: u64) -> Self {
        let all = limit.saturating_sub(OWN + 2 * threads).max(limit / 4);
        Self {
            limit,
            all,
            high: all / 4 * 3,
            low: all / 2,
            is_asked: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(UNPOISONED)
    }

    /// Returns whether new files should get a file handle instead of a descriptor while `used` descriptors are in use.
    pub(crate) fn are_spared(&self, used: u64) -> bool {
        used > self.low
    }

    /// Returns whether `used` descriptors are more than the thread tolerates.
    pub(crate) fn are_short(&self, used: u64) -> bool {
        used > self.high
    }

    /// Returns whether applications may open no more files while `used` descriptors are in use.
    pub(crate) fn are_used_up(&self, used: u64) -> bool {
        used >= self.all
    }

    /// Asks the thread to free descriptors by making the kernel forget inodes.
    pub(crate) fn ask(&self) {
        if !self.is_asked.swap(true, Ordering::Relaxed) {
            self.lock().is_wanted = true;
            self.changed.notify_all();
        }
    }

    /// Calls `open` until `open` returns a descriptor or [`WAIT_MAX`] has passed. During the call, the kernel
    /// holds the lock of the directory `locked`.
    pub(crate) fn find_one<T>(
        &self,
        locked: Option<u64>,
        mut open: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let started = Instant::now();
        let first = match open() {
            Err(Errno::MFILE | Errno::NFILE) => {
                let mut state = self.lock();
                state.locked.extend(locked);
                state.passes
            }
            outcome => return outcome,
        };
        let outcome = loop {
            let mut state = self.lock();
            (state.is_wanted, state.is_needed) = (true, true);
            self.changed.notify_all();
            let seen = state.passes;
            let still = |state: &mut State| state.passes == seen && !state.is_closed;
            let left = WAIT_MAX.saturating_sub(started.elapsed());
            let (state, _) = self.changed.wait_timeout_while(state, left, still).expect(UNPOISONED);
            let is_over = state.is_closed
                || state.in_vain.min(state.passes - first) >= VAIN_MAX
                || started.elapsed() >= WAIT_MAX;
            drop(state);
            match open() {
                Err(Errno::MFILE | Errno::NFILE) if !is_over => {}
                outcome => break outcome,
            }
        };
        if let Some(directory) = locked {
            let mut state = self.lock();
            let at = state.locked.iter().position(|known| *known == directory);
            state.locked.swap_remove(at.expect("the directory was added to the locked directories"));
        }
        outcome
    }

    /// Returns whether a waiting request prevents the kernel from forgetting names in this directory.
    fn is_locked(&self, directory: u64) -> bool {
        self.lock().locked.contains(&directory)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn a_quarter_is_kept_free_even_of_few() {
        for limit in [64, 256, 1024, 1 << 20] {
            let descriptors = Descriptors::new(limit, 8);
            assert!(descriptors.low < descriptors.high && descriptors.high < limit, "{descriptors:?}");
            assert!(descriptors.are_short(limit) && !descriptors.are_short(descriptors.low));
        }
    }

    #[test]
    fn who_finds_none_waits_and_is_told_in_the_end() {
        let descriptors = Descriptors::new(1024, 8);
        assert_eq!(descriptors.find_one(None, || Err::<(), _>(Errno::NOENT)), Err(Errno::NOENT));
        assert!(!descriptors.lock().is_wanted);
        // Simulates a pass of the thread that frees descriptors.
        let pass = |has_helped: bool| {
            let mut state = descriptors.lock();
            state.passes += 1;
            state.in_vain = if has_helped { 0 } else { state.in_vain + 1 };
            descriptors.changed.notify_all();
        };
        let calls = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                descriptors.find_one(Some(7), || {
                    if calls.fetch_add(1, Ordering::Relaxed) < 3 { Err(Errno::MFILE) } else { Ok(()) }
                })
            });
            while !waits.is_finished() {
                pass(true);
            }
            assert_eq!(waits.join().expect("it does not panic"), Ok(()));
            assert_eq!(calls.load(Ordering::Relaxed), 4);
            let gives_up = scope.spawn(|| descriptors.find_one(None, || Err::<(), _>(Errno::MFILE)));
            while !gives_up.is_finished() {
                pass(false);
            }
            assert_eq!(gives_up.join().expect("it does not panic"), Err(Errno::MFILE));
        });
        let state = descriptors.lock();
        assert!(state.is_wanted && state.locked.is_empty());
    }
}
