//! Follows the threads through the events of the scheduler, and gives a row for each wait of a thread in state D
//! (uninterruptible sleep).
//!
//! A wait begins when the processor switches away from a thread in state D, and ends when the thread is woken
//! or, without this event, when it runs again. Android's kernels also record the reason of the wait, just after
//! the wake-up: whether the kernel counted the wait as I/O (`io_schedule`), and the function in which the thread
//! slept. A wait for a lock behind a thread that waits for I/O, or for a journal commit, is not counted as I/O.
//! So each row says yes, no or unknown.
//!
//! A request ended a wait if it completed on the processor of the wake-up, just before it, and the processor did
//! not switch threads in between: the kernel wakes the waiting thread in the interrupt, or the thread, that
//! completes the request. Otherwise, the thread that ran on the processor ended the wait, unless an interrupt did.
//!
//! While an app of Android is launched, all other states of all threads get rows too, because the critical path
//! of the launch leads through them: interruptible sleep, and the time until a thread that is ready gets a processor.
//!
//! A wait during which events were lost is left out, because its end may belong to a later wait.

use std::collections::VecDeque;

use fonio_core::meta::{BLOCKED_PARTLY, SHOWS_BLOCKED, SHOWS_SCHEDULER};
use fonio_core::{BlockedIn, EventKind, IoWait, SeenWait, Timestamp, Wait, WaitReason};
use fonio_tracefs::ring_buffer::Left;
use fonio_tracefs::waits::{COMPLETION_WAKES_WITHIN, operation_of_function, reason_of_function};
use rustc_hash::FxHashMap;

use crate::launches::Launches;

/// Maximum number of threads and processors that are followed.
const THREADS_MAX: usize = 64 << 10;

/// Number of gaps that are remembered, because waits that began before them can still be open.
const GAPS_MAX: usize = 64;

/// The kernel's account of a wait: whether it was I/O, and the function in which the thread slept.
type Reason = (bool, Option<String>);

/// A switch of a processor from one thread to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Switch {
    pub cpu: u32,
    pub at: Timestamp,
    /// The thread that stopped; `None` if it is the thread of the processor's previous switch.
    pub from: Option<u32>,
    pub left: Left,
    pub to: u32,
    /// Whether the thread that runs now is in a sync call of a file system.
    pub is_in_sync: bool,
}

/// A wake-up of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WakeUp {
    pub cpu: u32,
    pub at: Timestamp,
    pub tid: u32,
    /// The thread that ran on the processor; `None` if it is the thread of the processor's previous switch.
    pub current: Option<u32>,
    /// Whether an interrupt woke the thread, not the thread that ran; `None` if the trace does not show it.
    pub is_interrupt: Option<bool>,
}

/// Why a thread does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Uninterruptible,
    Interruptible,
    /// It waits for a processor.
    Ready,
}

/// The end of a sleep.
#[derive(Clone, Copy, Debug)]
struct Woken {
    at: Timestamp,
    by: Option<u32>,
    completed_on: Option<u32>,
}

/// A thread that is blocked, or that does not run yet.
#[derive(Debug)]
struct Open {
    state: State,
    began: Timestamp,
    woken: Option<Woken>,
    reason: Option<Reason>,
    /// The thread that created this one, if it has not run yet.
    creator: Option<u32>,
}

impl Open {
    fn new(state: State, began: Timestamp) -> Open {
        Open { state, began, woken: None, reason: None, creator: None }
    }

    fn is_uninterruptible(&self) -> bool {
        self.state == State::Uninterruptible
    }
}

/// A processor.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    /// The thread that runs.
    running: Option<u32>,
    /// The last completion of a request since the processor last switched threads.
    completed: Option<Timestamp>,
}

/// The waits of all threads.
#[derive(Debug, Default)]
pub(crate) struct Sleeps {
    /// The processors, by number.
    cpus: Vec<Cpu>,
    open: FxHashMap<u32, Open>,
    /// Gaps: after the first time and before the second.
    gaps: VecDeque<(Timestamp, Timestamp)>,
    /// The launches of apps, during which all states are recorded.
    pub launches: Launches,
    /// Number of waits that were left out because events were lost.
    pub cut: u64,
    /// Whether any switch was seen. Without switches, nothing shows that a thread was blocked.
    pub seen: bool,
}

impl Sleeps {
    /// Handles a switch of a processor; appends the waits of the thread that runs now to `waits`.
    pub fn switch(&mut self, switch: Switch, waits: &mut Vec<SeenWait>) {
        let Switch { cpu, at, from, left, to, is_in_sync } = switch;
        self.seen = true;
        let before =
            self.cpu(cpu).map(|cpu| std::mem::replace(cpu, Cpu { running: Some(to), completed: None }));
        let stopped = from.or(before.and_then(|cpu| cpu.running));
        if let Some(open) = self.open.remove(&to) {
            self.close(to, open, at, is_in_sync, waits);
        }
        // Thread 0 is the idle thread of a processor.
        let Some(stopped) = stopped.filter(|tid| *tid != 0) else { return };
        let state = match left {
            Left::Blocked { uninterruptible: true } => State::Uninterruptible,
            Left::Blocked { uninterruptible: false } => State::Interruptible,
            Left::Preempted => State::Ready,
            Left::Ended => {
                self.open.remove(&stopped);
                return;
            }
        };
        if self.open.len() < THREADS_MAX {
            self.open.insert(stopped, Open::new(state, at));
        }
    }

    /// Handles a wake-up.
    pub fn waking(&mut self, wake_up: WakeUp) {
        let WakeUp { cpu, at, tid, current, is_interrupt } = wake_up;
        let Cpu { running, completed } = self.cpus.get(cpu as usize).copied().unwrap_or_default();
        let Some(open) = self.open.get_mut(&tid).filter(|open| open.state != State::Ready) else { return };
        if open.woken.is_some() {
            return;
        }
        // A completion before the wait began did not end it.
        let from = open.began.max(at - COMPLETION_WAKES_WITHIN);
        let is_by_completion = completed.is_some_and(|completed| completed >= from);
        let current = current.or(running);
        // An interrupt can stop any thread, and the idle thread wakes nobody. If the trace does not show interrupts,
        // the waker is unknown.
        let by = current.filter(|current| is_interrupt == Some(false) && ![0, tid].contains(current));
        open.woken = Some(Woken { at, by, completed_on: is_by_completion.then_some(cpu) });
    }

    /// Handles the creation of a thread, which is ready to run from then on.
    pub fn created(&mut self, at: Timestamp, tid: u32, creator: u32) {
        if self.open.len() < THREADS_MAX {
            let new = || Open { creator: Some(creator), ..Open::new(State::Ready, at) };
            self.open.entry(tid).or_insert_with(new);
        }
    }

    /// Handles the completion of a request on the processor `cpu`.
    pub fn completion(&mut self, cpu: u32, at: Timestamp) {
        if let Some(cpu) = self.cpu(cpu) {
            cpu.completed = Some(at);
        }
    }

    /// Handles the kernel's account of the wait of the thread `tid`, which was just woken.
    pub fn reason(&mut self, tid: u32, is_io: bool, function: Option<String>) {
        if let Some(open) = self.open.get_mut(&tid).filter(|open| open.is_uninterruptible()) {
            open.reason = Some((is_io, function));
        }
    }

    /// Appends the waits of the thread `tid`, which runs since `runs_at`.
    fn close(
        &mut self,
        tid: u32,
        open: Open,
        runs_at: Timestamp,
        is_in_sync: bool,
        waits: &mut Vec<SeenWait>,
    ) {
        let is_ready = open.state == State::Ready;
        let ended = open.woken.map_or(runs_at, |woken| woken.at).max(open.began);
        if self.gaps.iter().any(|(after, before)| open.began < *before && *after < ended) {
            self.cut += u64::from(open.is_uninterruptible());
            return;
        }
        let is_of_launch = self.launches.overlaps(open.began);
        if open.is_uninterruptible() || (is_of_launch && !is_ready) {
            waits.push(sleep(tid, &open, Some(ended), is_in_sync));
        }
        let ready_since = if is_ready { Some(open.began) } else { open.woken.map(|woken| woken.at) };
        if let Some(began) = ready_since.filter(|began| is_of_launch && *began < runs_at) {
            let row = wait(tid, began, Some(runs_at), WaitReason::Cpu);
            waits.push(SeenWait { row: Wait { waker_tid: open.creator, ..row }, completed_on: None });
        }
    }

    /// Appends the waits that have not ended at the end of the trace and began during a launch.
    pub fn finish(&mut self, waits: &mut Vec<SeenWait>) {
        let mut open: Vec<(u32, Open)> = self.open.drain().collect();
        open.sort_unstable_by_key(|(tid, open)| (open.began, *tid));
        for (tid, open) in open {
            if self.launches.overlaps(open.began) && open.state != State::Ready && open.woken.is_none() {
                waits.push(sleep(tid, &open, None, false));
            }
        }
    }

    /// Appends what the trace shows, after the kinds of its block events.
    pub fn shows(&self, shows: &mut Vec<String>) {
        if !self.seen {
            return;
        }
        // Without requests, nothing shows whether a thread waited for storage.
        let has_requests = shows.iter().any(|kind| *kind == EventKind::Complete.name());
        shows.push(SHOWS_SCHEDULER.to_owned());
        if has_requests {
            shows.extend([SHOWS_BLOCKED, BLOCKED_PARTLY].map(str::to_owned));
        }
    }

    /// Handles lost events of a processor: the thread that runs on it is unknown, and the end of each open wait
    /// may be among the lost events.
    pub fn gap(&mut self, cpu: Option<u32>, after: Timestamp, before: Timestamp) {
        match cpu {
            Some(cpu) => {
                if let Some(cpu) = self.cpus.get_mut(cpu as usize) {
                    *cpu = Cpu::default();
                }
            }
            None => self.cpus.clear(),
        }
        self.forget_open();
        if self.gaps.len() >= GAPS_MAX {
            self.gaps.pop_front();
        }
        self.gaps.push_back((after, before));
    }

    /// Forgets the state of all threads, because an event came too late to be sorted.
    pub fn forget(&mut self) {
        self.cpus.clear();
        self.forget_open();
    }

    /// Returns a processor; `None` if its number is greater than that of any real one.
    fn cpu(&mut self, number: u32) -> Option<&mut Cpu> {
        let place = number as usize;
        if place >= self.cpus.len() {
            if place >= THREADS_MAX {
                return None;
            }
            self.cpus.resize(place + 1, Cpu::default());
        }
        self.cpus.get_mut(place)
    }

    fn forget_open(&mut self) {
        self.cut += self.open.values().filter(|open| open.is_uninterruptible()).count() as u64;
        self.open.clear();
    }
}

/// Bits of the kernel's state of a thread: any sleep, uninterruptible sleep (`TASK_UNINTERRUPTIBLE`), and the end
/// of the thread.
const STATES: u64 = 0xff;
const UNINTERRUPTIBLE: u64 = 2;
const ENDED: u64 = 0x30;

/// A bit of the kernel's state of a thread: the sleep does not count as load (`TASK_NOLOAD`). Kernels before 4.14
/// show idle workers with both bits. Later kernels show such workers with a separate bit.
const NO_LOAD: u64 = 0x400;

/// Returns how a thread that stopped in this state left the processor.
pub(crate) fn left_of_state(state: u64) -> Left {
    match state & STATES {
        0 => Left::Preempted,
        ended if ended & ENDED != 0 => Left::Ended,
        _ => Left::Blocked { uninterruptible: state & UNINTERRUPTIBLE != 0 && state & NO_LOAD == 0 },
    }
}

/// Returns the row of a sleep.
fn sleep(tid: u32, open: &Open, ended: Option<Timestamp>, is_in_sync: bool) -> SeenWait {
    let completed_on = open.woken.and_then(|woken| woken.completed_on);
    let waker_tid = open.woken.and_then(|woken| woken.by);
    if !open.is_uninterruptible() {
        let reason = match (completed_on, waker_tid) {
            (Some(_), _) => WaitReason::Storage,
            (None, Some(_)) => WaitReason::Thread,
            (None, None) => WaitReason::Unknown,
        };
        let row = Wait { waker_tid, ..wait(tid, open.began, ended, reason) };
        return SeenWait { row, completed_on };
    }
    let (io_wait, function) = match &open.reason {
        Some((true, function)) => (IoWait::Yes, function.as_deref()),
        Some((false, function)) => (IoWait::No, function.as_deref()),
        None => (IoWait::Unknown, None),
    };
    let is_storage = io_wait == IoWait::Yes || completed_on.is_some();
    let by_account = if is_storage { WaitReason::Storage } else { WaitReason::Unknown };
    let blocked_in = match is_in_sync {
        true => BlockedIn::Fsync,
        false => function.and_then(operation_of_function).unwrap_or(BlockedIn::Unknown),
    };
    let reason = function.and_then(reason_of_function).unwrap_or(by_account);
    let row = Wait {
        waker_tid,
        blocked_in: Some(blocked_in),
        io_wait: Some(io_wait),
        function: function.map(str::to_owned),
        ..wait(tid, open.began, ended, reason)
    };
    SeenWait { row, completed_on }
}

fn wait(tid: u32, began: Timestamp, ended: Option<Timestamp>, reason: WaitReason) -> Wait {
    Wait {
        tid,
        began,
        ended,
        reason,
        request_id: None,
        waker_tid: None,
        blocked_in: None,
        file_id: None,
        io_wait: None,
        function: None,
    }
}
