//! Keeps a caller on its CPU while the caller sends many requests.
//!
//! A reply wakes the caller, and Linux looks for an idle CPU to run the caller on. The caller's own CPU is
//! not idle, because the serving thread still runs on it. So a caller with many small requests would move to
//! another, sleeping CPU at each request. Linux treats a CPU as idle if it runs only threads with the policy
//! `SCHED_IDLE`. So the serving threads use this policy while many requests arrive, and callers stay on their
//! CPU.
//!
//! A thread with this policy starves if other threads need its CPU. So a watcher thread with the default
//! policy checks every [`INTERVAL`] how long the serving threads waited for a CPU. After a wait of
//! [`WAIT_MAX`] or longer, all threads return to the default policy for a time, which doubles with each
//! recurrence. While few requests arrive, the watcher sleeps, because on a slow CPU, it would take a large
//! part of the CPU time that serving a stream needs.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use fonio_system::procfs::Schedule;

use crate::kernel::{Policy, set_policy};

/// Time between two checks of the threads while requests arrive. A caller may have to wait for this long.
const INTERVAL: Duration = Duration::from_millis(5);
/// A thread does not wait this long for a CPU by accident.
const WAIT_MAX: Duration = Duration::from_millis(1);
/// With at least this number of requests per interval, moving callers costs more than a few percent of a CPU.
const REQUESTS_MIN: u32 = 20;
/// Number of requests after which the clock is read again.
const BATCH: u32 = 64;
/// The watcher sleeps after this number of intervals with fewer than [`REQUESTS_MIN`] requests.
const QUIET_MAX: u32 = 20;
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(64);

/// The threads that are watched, and the state of the watcher thread.
#[derive(Debug)]
pub(super) struct Placement {
    began: Instant,
    served: AtomicU64,
    /// Start of the current batch of requests, in nanoseconds since `began`.
    batch_began: AtomicU64,
    /// Whether the watcher thread sleeps; many requests wake it.
    sleeps: AtomicBool,
    state: Mutex<State>,
    woken: Condvar,
}

#[derive(Debug, Default)]
struct State {
    threads: Vec<Thread>,
    awake: bool,
    closed: bool,
}

#[derive(Debug)]
struct Thread {
    number: i32,
    /// The thread's `schedstat` file.
    waiting: File,
    waited: Duration,
}

impl Thread {
    /// Returns the time that the thread waited for a CPU since the last call.
    fn waited_since(&mut self) -> Duration {
        let mut text = [0; 96];
        let length = self.waiting.read_at(&mut text, 0).unwrap_or(0);
        let text = std::str::from_utf8(&text[..length]).unwrap_or_default();
        let waited = Schedule::parse(text).map_or(self.waited, |schedule| schedule.waited);
        waited.saturating_sub(std::mem::replace(&mut self.waited, waited))
    }
}

impl Default for Placement {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            served: AtomicU64::new(0),
            batch_began: AtomicU64::new(0),
            sleeps: AtomicBool::new(false),
            state: Mutex::default(),
            woken: Condvar::new(),
        }
    }
}

impl Placement {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the lock of the list of threads")
    }

    /// Adds the calling thread to the threads that are watched. Fails if the kernel does not report the wait
    /// times of threads.
    pub(super) fn enter(&self) -> io::Result<()> {
        let number = rustix::thread::gettid().as_raw_nonzero().get();
        let waiting = File::open(format!("/proc/self/task/{number}/schedstat"))?;
        self.lock().threads.push(Thread { number, waiting, waited: Duration::ZERO });
        Ok(())
    }

    pub(super) fn count(&self) {
        let served = self.served.fetch_add(1, Ordering::Relaxed) + 1;
        if !served.is_multiple_of(u64::from(BATCH)) {
            return;
        }
        let now = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let took = Duration::from_nanos(now.saturating_sub(self.batch_began.swap(now, Ordering::Relaxed)));
        if took * REQUESTS_MIN <= INTERVAL * BATCH && self.sleeps.swap(false, Ordering::AcqRel) {
            self.lock().awake = true;
            self.woken.notify_one();
        }
    }

    /// Ends [`Placement::watch`], so that the watcher thread can be joined.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.woken.notify_one();
    }

    pub(super) fn watch(&self) {
        let mut pause = PAUSE_MIN;
        let mut paused_until = Instant::now();
        let mut state = self.lock();
        while !state.closed {
            self.sleeps.store(true, Ordering::Release);
            while !state.awake && !state.closed {
                state = self
                    .woken
                    .wait(state)
                    .expect("no thread panics while it holds the lock of the list of threads");
            }
            state.awake = false;
            let now = Instant::now();
            if now < paused_until {
                // During the pause, requests do not wake the watcher.
                let waited = self.woken.wait_timeout(state, paused_until - now);
                state = waited.expect("no thread panics while it holds the lock of the list of threads").0;
                continue;
            }
            if now >= paused_until + 2 * pause {
                pause = PAUSE_MIN;
            }
            let starved;
            (state, starved) = self.keep_callers(state);
            if starved {
                paused_until = Instant::now() + pause;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }

    /// Keeps the threads at `SCHED_IDLE` until few requests arrive (returns false) or the threads starve
    /// (returns true).
    fn keep_callers<'a>(&'a self, mut state: MutexGuard<'a, State>) -> (MutexGuard<'a, State>, bool) {
        state.longest_wait();
        state.take(Policy::Idle);
        let mut served = self.served.load(Ordering::Relaxed);
        let mut quiet = 0;
        let mut starved = false;
        while !state.closed && !starved && quiet < QUIET_MAX {
            let waited = self.woken.wait_timeout(state, INTERVAL);
            state = waited.expect("no thread panics while it holds the lock of the list of threads").0;
            let now = self.served.load(Ordering::Relaxed);
            let requests = now - std::mem::replace(&mut served, now);
            quiet = if requests < u64::from(REQUESTS_MIN) { quiet + 1 } else { 0 };
            starved = state.longest_wait() >= WAIT_MAX;
        }
        state.take(Policy::Other);
        (state, starved)
    }
}

impl State {
    fn take(&self, policy: Policy) {
        for thread in &self.threads {
            // This call fails for a thread that has ended, which is harmless.
            let _ = set_policy(thread.number, policy);
        }
    }

    /// Returns the longest wait of a thread for a CPU since the last call.
    fn longest_wait(&mut self) -> Duration {
        self.threads.iter_mut().map(Thread::waited_since).max().unwrap_or_default()
    }
}
