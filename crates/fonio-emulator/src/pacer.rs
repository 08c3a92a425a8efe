//! Runs actions, such as completions of commands, at their due times.
//!
//! Usually one thread holds the pending commands, ordered by due time. This thread sleeps until shortly
//! before the first command is due (on the kernel's high-resolution timer, with the smallest possible slack),
//! and then polls the clock. A new command that is due before all others wakes the thread. A single-threaded
//! front end runs the due actions itself, with [`Pacer::driven`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::lateness::Lateness;

/// Time before a deadline during which the thread polls the clock. This is the measured wake-up time of a
/// thread with the highest priority, in a virtual machine with two busy CPUs.
const SPIN: Duration = Duration::from_micros(25);

/// The value of [`SPIN`] for a machine with one processor, where no other thread can run while this thread
/// polls. This is the measured wake-up time in a virtual machine with an emulated processor.
const SPIN_ALONE: Duration = Duration::from_micros(5);

/// Returns the time before a deadline during which a thread polls the clock on this machine.
pub(crate) fn poll_time() -> Duration {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    if processors > 1 { SPIN } else { SPIN_ALONE }
}

type Action = Box<dyn FnOnce() + Send>;

struct Due {
    at: Instant,
    /// Arrival number, by which commands with the same due time are ordered.
    serial: u64,
    action: Action,
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        (self.at, self.serial) == (other.at, other.serial)
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> std::cmp::Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

#[derive(Default)]
struct Waiting {
    heap: BinaryHeap<Reverse<Due>>,
    serial: u64,
    lateness: Lateness,
    stopping: bool,
}

pub(crate) struct Pacer {
    shared: Arc<(Mutex<Waiting>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Pacer {
    pub(crate) fn start() -> std::io::Result<Pacer> {
        let shared = Arc::new((Mutex::new(Waiting::default()), Condvar::new()));
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new().name("pacer".to_owned()).spawn(move || run(&theirs))?;
        Ok(Pacer { shared, thread: Some(thread) })
    }

    /// Creates a pacer without a thread: the thread that schedules all actions also calls [`Pacer::run_due`].
    pub(crate) fn driven() -> Pacer {
        Pacer { shared: Arc::default(), thread: None }
    }

    /// Runs all due actions and returns the due time of the next action.
    pub(crate) fn run_due(&self) -> Option<Instant> {
        loop {
            let mut waiting = lock(&self.shared.0);
            let first = waiting.heap.peek_mut()?;
            let (at, now) = (first.0.at, Instant::now());
            if now < at {
                return Some(at);
            }
            let Reverse(due) = PeekMut::pop(first);
            waiting.lateness.add(now.saturating_duration_since(at));
            drop(waiting);
            (due.action)();
        }
    }

    /// Schedules `action` for `at`. An action whose time has passed runs immediately.
    pub(crate) fn schedule(&self, at: Instant, action: impl FnOnce() + Send + 'static) {
        let mut waiting = lock(&self.shared.0);
        let serial = waiting.serial;
        waiting.serial += 1;
        let earliest = waiting.heap.peek().is_none_or(|Reverse(first)| at < first.at);
        waiting.heap.push(Reverse(Due { at, serial, action: Box::new(action) }));
        drop(waiting);
        if earliest {
            self.shared.1.notify_one();
        }
    }

    pub(crate) fn lateness(&self) -> Lateness {
        lock(&self.shared.0).lateness.clone()
    }
}

impl Drop for Pacer {
    /// Runs all waiting actions immediately and ends the thread. A pacer without a thread drops all actions.
    fn drop(&mut self) {
        lock(&self.shared.0).stopping = true;
        self.shared.1.notify_one();
        if let Some(thread) = self.thread.take() {
            // The last reference may be dropped by an action that runs on this thread itself.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

/// Locks the waiting actions, ignoring poison: the data are always consistent, and a panicking action must
/// not stop the others.
fn lock(mutex: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run((mutex, changed): &(Mutex<Waiting>, Condvar)) {
    let mut waiting = lock(mutex);
    loop {
        let now = Instant::now();
        let until = waiting.heap.peek().map(|Reverse(due)| due.at.saturating_duration_since(now));
        match until {
            None if waiting.stopping => return,
            None => waiting = changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            Some(until) if until > SPIN && !waiting.stopping => {
                waiting = changed
                    .wait_timeout(waiting, until - SPIN)
                    .map_or_else(|poisoned| poisoned.into_inner().0, |(guard, _)| guard);
            }
            Some(_) => {
                let Some(Reverse(due)) = waiting.heap.pop() else { continue };
                let stopping = waiting.stopping;
                drop(waiting);
                let mut now = Instant::now();
                while now < due.at && !stopping {
                    std::hint::spin_loop();
                    now = Instant::now();
                }
                (due.action)();
                waiting = lock(mutex);
                if !stopping {
                    waiting.lateness.add(now.saturating_duration_since(due.at));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_run_in_the_order_of_their_time_and_never_early() {
        let pacer = Pacer::start().expect("thread");
        let (sender, receiver) = std::sync::mpsc::channel();
        let start = Instant::now();
        for millis in [9_u64, 3, 6, 3, 0] {
            let sender = sender.clone();
            let at = start + Duration::from_millis(millis);
            pacer.schedule(at, move || {
                assert!(Instant::now() >= at);
                sender.send(millis).expect("somebody listens");
            });
        }
        let order: Vec<u64> = receiver.iter().take(5).collect();
        assert_eq!(order, [0, 3, 3, 6, 9]);
    }

    #[test]
    fn a_driven_pacer_runs_what_is_due_on_the_callers_thread() {
        let pacer = Pacer::driven();
        assert_eq!(pacer.run_due(), None);
        let (sender, receiver) = std::sync::mpsc::channel();
        let start = Instant::now();
        let later = start + Duration::from_secs(3600);
        for (at, name) in [(later, "later"), (start, "second"), (start - Duration::from_millis(1), "first")] {
            let sender = sender.clone();
            pacer.schedule(at, move || sender.send((name, thread::current().id())).expect("a receiver"));
        }
        assert_eq!(pacer.run_due(), Some(later));
        let own = thread::current().id();
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [("first", own), ("second", own)]);
        assert_eq!(pacer.lateness().figures().commands, 2);
    }

    #[test]
    fn ending_runs_what_waits() {
        let pacer = Pacer::start().expect("thread");
        let (sender, receiver) = std::sync::mpsc::channel();
        pacer.schedule(Instant::now() + Duration::from_secs(3600), move || {
            sender.send(()).expect("somebody listens");
        });
        drop(pacer);
        receiver.recv().expect("it ran");
    }
}
