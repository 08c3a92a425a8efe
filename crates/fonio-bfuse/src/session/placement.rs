//! Keeping a caller on its CPU while it makes many requests.
//!
//! A thread that gives an answer wakes the caller, and Linux looks for an idle CPU to wake it on. There is one, since the
//! thread itself still runs on the caller's: so a caller of many small requests is moved at each, for which another CPU
//! must be woken from its sleep. A CPU on which nothing but threads of the policy `SCHED_IDLE` runs counts as idle. So
//! while many requests come, the threads take that policy, and callers stay where they are.
//!
//! A thread of that policy starves beside others that want its CPU. That is watched: every [`INTERVAL`] a thread of the
//! ordinary policy looks how long the serving threads waited for a CPU, and where it was [`WAIT_MAX`] or longer, all return to
//! the ordinary policy for a time, which doubles when the same happens again. While fewer requests come, nobody watches: on a
//! slow CPU that would cost a good part of what serving a stream does.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use fonio_system::procfs::Schedule;

use crate::kernel::{Policy, set_policy};

/// How often the waiting is looked at while requests come. A caller may have to wait for as long.
const INTERVAL: Duration = Duration::from_millis(5);
/// So much waiting in an interval is not by chance.
const WAIT_MAX: Duration = Duration::from_millis(1);
/// Requests in an interval from which moving callers costs more than a few percent of a CPU.
const REQUESTS_MIN: u32 = 20;
/// How often the time is looked at: at each of so many requests.
const BATCH: u32 = 64;
/// Intervals with fewer requests after which nobody watches any more.
const QUIET_MAX: u32 = 20;
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(64);

/// The threads that serve callers of their own CPU.
#[derive(Debug)]
pub(super) struct Placement {
    began: Instant,
    /// Requests so far.
    served: AtomicU64,
    /// When the batch of requests began that is being served, in nanoseconds since `began`.
    batch_began: AtomicU64,
    /// Nobody watches: requests that come quickly wake the watcher.
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

    /// Ends [`Placement::watch`].
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.woken.notify_one();
    }

    /// Watches until [`Placement::close`].
    pub(super) fn watch(&self) {
        let mut pause = PAUSE_MIN;
        let mut paused_until = Instant::now();
        let mut state = self.lock();
        while !state.closed {
            self.sleeps.store(true, Ordering::Release);
            while !state.awake && !state.closed {
                state = self.woken.wait(state).expect("no thread panics while it holds the list of threads");
            }
            state.awake = false;
            let now = Instant::now();
            if now < paused_until {
                // Until then requests wake nobody.
                let waited = self.woken.wait_timeout(state, paused_until - now);
                state = waited.expect("no thread panics while it holds the list of threads").0;
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

    /// Has the threads give way to callers until requests become few, or until the threads starve: then it returns true.
    fn keep_callers<'a>(&'a self, mut state: MutexGuard<'a, State>) -> (MutexGuard<'a, State>, bool) {
        state.longest_wait();
        state.take(Policy::Idle);
        let mut served = self.served.load(Ordering::Relaxed);
        let mut quiet = 0;
        let mut starved = false;
        while !state.closed && !starved && quiet < QUIET_MAX {
            let waited = self.woken.wait_timeout(state, INTERVAL);
            state = waited.expect("no thread panics while it holds the list of threads").0;
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
    /// Gives all threads the policy.
    fn take(&self, policy: Policy) {
        for thread in &self.threads {
            // A thread that has ended needs none.
            let _ = set_policy(thread.number, policy);
        }
    }

    /// The longest that a thread waited for a CPU since this was last asked.
    fn longest_wait(&mut self) -> Duration {
        self.threads.iter_mut().map(Thread::waited_since).max().unwrap_or_default()
    }
}
