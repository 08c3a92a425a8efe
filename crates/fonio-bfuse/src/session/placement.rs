//! Keeping a caller on its CPU while it makes many requests.
//!
//! A thread that gives an answer wakes the caller, and Linux looks for an idle CPU to wake it on. There is one, since the
//! thread itself still runs on the caller's: so a caller of many small requests is moved at each, for which another CPU
//! must be woken from its sleep. A CPU on which nothing but threads of the policy `SCHED_IDLE` runs counts as idle. So
//! while many requests come, the threads take that policy, and callers stay where they are.
//!
//! A thread of that policy starves beside others that want its CPU. That is watched: every [`INTERVAL`] a thread of the
//! ordinary policy looks how long the serving threads waited for a CPU, and where it was [`WAIT_MAX`] or longer, all return to
//! the ordinary policy for a time, which doubles when the same happens again.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::kernel::{Policy, set_policy};

/// How often the waiting is looked at while requests come. A caller may have to wait for as long.
const INTERVAL: Duration = Duration::from_millis(5);
/// So much waiting in an interval is not by chance.
const WAIT_MAX: Duration = Duration::from_millis(1);
/// Requests in an interval from which moving callers costs more than a few percent of a CPU.
const REQUESTS_MIN: u64 = 20;
/// Intervals without a request after which nobody watches any more.
const QUIET_MAX: u32 = 20;
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(64);

/// The threads that serve callers of their own CPU.
#[derive(Debug, Default)]
pub(super) struct Placement {
    /// Requests so far.
    served: AtomicU64,
    /// Nobody watches: the next request wakes the watcher.
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
    /// Its `schedstat`.
    waiting: File,
    waited: Duration,
}

impl Thread {
    /// How long it waited for a CPU since this was last asked.
    fn waited_since(&mut self) -> Duration {
        let mut text = [0; 96];
        let length = self.waiting.read_at(&mut text, 0).unwrap_or(0);
        let text = std::str::from_utf8(&text[..length]).unwrap_or_default();
        // Time on a CPU, time waiting for one, in nanoseconds; turns.
        let waited = text.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        let waited = waited.map_or(self.waited, Duration::from_nanos);
        waited.saturating_sub(std::mem::replace(&mut self.waited, waited))
    }
}

impl Placement {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the list of threads")
    }

    /// Watches the calling thread from now on.
    ///
    /// # Errors
    /// Where the kernel does not tell how long threads wait.
    pub(super) fn enter(&self) -> io::Result<()> {
        let number = rustix::thread::gettid().as_raw_nonzero().get();
        let waiting = File::open(format!("/proc/self/task/{number}/schedstat"))?;
        self.lock().threads.push(Thread { number, waiting, waited: Duration::ZERO });
        Ok(())
    }

    /// A request was served.
    pub(super) fn count(&self) {
        self.served.fetch_add(1, Ordering::Relaxed);
        if self.sleeps.load(Ordering::Relaxed) && self.sleeps.swap(false, Ordering::AcqRel) {
            self.lock().awake = true;
            self.woken.notify_one();
        }
    }

    /// Ends [`Placement::watch`].
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.woken.notify_one();
    }

    /// Watches until [`Placement::close`].
    pub(super) fn watch(&self) {
        let mut policy = Policy::Other;
        let (mut served, mut quiet) = (0, 0);
        let mut pause = PAUSE_MIN;
        let mut paused_until = Instant::now();
        let mut state = self.lock();
        while !state.closed {
            if quiet >= QUIET_MAX {
                policy = state.take(Policy::Other);
                state.awake = false;
                self.sleeps.store(true, Ordering::Release);
                while !state.awake && !state.closed {
                    state =
                        self.woken.wait(state).expect("no thread panics while it holds the list of threads");
                }
                quiet = 0;
                continue;
            }
            let waited = self.woken.wait_timeout(state, INTERVAL);
            state = waited.expect("no thread panics while it holds the list of threads").0;
            let now = self.served.load(Ordering::Relaxed);
            let requests = now - std::mem::replace(&mut served, now);
            quiet = if requests == 0 { quiet + 1 } else { 0 };
            let longest = state.threads.iter_mut().map(Thread::waited_since).max().unwrap_or_default();
            if policy == Policy::Idle && longest >= WAIT_MAX {
                policy = state.take(Policy::Other);
                paused_until = Instant::now() + pause;
                pause = (pause * 2).min(PAUSE_MAX);
            } else if policy == Policy::Other && requests >= REQUESTS_MIN && Instant::now() >= paused_until {
                policy = state.take(Policy::Idle);
            } else if policy == Policy::Idle && Instant::now() >= paused_until + 2 * pause {
                pause = PAUSE_MIN;
            }
        }
        state.take(Policy::Other);
    }
}

impl State {
    /// Gives all threads the policy, and returns it.
    fn take(&self, policy: Policy) -> Policy {
        for thread in &self.threads {
            // A thread that has ended needs none.
            let _ = set_policy(thread.number, policy);
        }
        policy
    }
}
