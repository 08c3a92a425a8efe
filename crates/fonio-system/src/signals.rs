//! Handles signals that end a program. A signal can set a flag, wake a socket, or be counted by a listener.
//!
//! [`watch`] and [`wake_on`] take over a signal until the process ends; a [`Listener`] takes over a signal
//! until the listener is dropped. After that, the signal has its previous effect: it ends the process, unless
//! the process has ignored it from the start (`nohup`) or has its own handler for it.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

pub use rustix::process::Signal;
use signal_hook::{SigId, flag, low_level};

use crate::procfs;
use crate::procfs::Task;

/// Signals with which users, shells and service managers ask a program to end.
pub const ENDING: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// Returns a flag. From now on, each of the signals sets this flag instead of ending the process. Fails if a
/// system call fails.
pub fn watch(signals: &[Signal]) -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut fallbacks = Fallbacks::lock();
    for &signal in signals {
        remember(signal)?;
        flag::register(signal.as_raw(), Arc::clone(&stop))?;
        fallbacks.hold_for_good(signal);
    }
    Ok(stop)
}

/// Number of the last received signal among those in [`ENDING`]; 0 if none was received.
static LAST: OnceLock<Arc<AtomicUsize>> = OnceLock::new();
/// One bit for each signal in [`ENDING`]; the bit is set if the signal sets [`LAST`].
static REMEMBERED: AtomicUsize = AtomicUsize::new(0);

/// Makes the signal set [`LAST`] from now on.
fn remember(signal: Signal) -> io::Result<()> {
    let Some(at) = ENDING.iter().position(|ending| *ending == signal) else { return Ok(()) };
    if REMEMBERED.fetch_or(1 << at, Ordering::Relaxed) & 1 << at == 0 {
        let (last, number) = (LAST.get_or_init(Arc::default), signal.as_raw());
        flag::register_usize(number, Arc::clone(last), number.unsigned_abs() as usize)?;
    }
    Ok(())
}

/// Returns the exit code that a shell reports if the last received signal in [`ENDING`] ends a process: 130
/// for Ctrl-C, 143 for SIGTERM. Returns `None` if no signal was received since listening began.
pub fn exit_code() -> Option<u8> {
    let number = LAST.get()?.load(Ordering::Relaxed);
    u8::try_from(128 + number).ok().filter(|_| number > 0)
}

/// Returns a socket that becomes readable when one of the signals arrives. From now on, the signals have no
/// other effect. Fails if a system call fails.
pub fn wake_on(signals: &[Signal]) -> io::Result<UnixStream> {
    let (wakes, woken) = UnixStream::pair()?;
    let mut fallbacks = Fallbacks::lock();
    for &signal in signals {
        remember(signal)?;
        low_level::pipe::register(signal.as_raw(), woken.try_clone()?)?;
        fallbacks.hold_for_good(signal);
    }
    Ok(wakes)
}

/// Counts signals until it is dropped.
#[derive(Debug)]
pub struct Listener {
    heard: Vec<Heard>,
}

/// A signal that is being counted. Its handler only writes a byte to a socket pair, because it must be
/// async-signal-safe.
#[derive(Debug)]
struct Heard {
    signal: Signal,
    bytes: UnixStream,
    count: AtomicUsize,
    handler: SigId,
}

impl Listener {
    /// Begins to count these signals. Until the listener is dropped, the signals have no other effect, except
    /// through the program's own handlers. Fails if a system call fails.
    pub fn begin(signals: &[Signal]) -> io::Result<Listener> {
        let mut listener = Listener { heard: Vec::new() };
        for &signal in signals {
            let (bytes, written) = UnixStream::pair()?;
            bytes.set_nonblocking(true)?;
            let mut fallbacks = Fallbacks::lock();
            let ends_process = has_default_effect(signal);
            remember(signal)?;
            let handler = low_level::pipe::register(signal.as_raw(), written)?;
            // After this line, dropping the listener removes the handler.
            listener.heard.push(Heard { signal, bytes, count: AtomicUsize::new(0), handler });
            fallbacks.hold(signal, ends_process)?;
        }
        Ok(listener)
    }

    /// Returns how often `signal` arrived since this listener began.
    pub fn count(&self, signal: Signal) -> usize {
        let Some(heard) = self.heard.iter().find(|heard| heard.signal == signal) else { return 0 };
        let mut bytes = [0; 16];
        let mut new = 0;
        loop {
            match (&heard.bytes).read(&mut bytes) {
                Ok(0) => break,
                Ok(read) => new += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // All pending bytes have been read.
                Err(_) => break,
            }
        }
        heard.count.fetch_add(new, Ordering::Relaxed) + new
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut fallbacks = Fallbacks::lock();
        for heard in &self.heard {
            // The fallback is enabled before the handler is removed, so no signal is lost between the two
            // steps.
            fallbacks.release(heard.signal);
            low_level::unregister(heard.handler);
        }
    }
}

/// The effects of signals that no listener handles. An installed fallback handler stays installed, but it
/// ends the process only while `applies` is set.
static FALLBACKS: Mutex<Vec<Fallback>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Fallback {
    signal: Signal,
    listeners: usize,
    /// Whether the signal ended the process before our first listener.
    ends_process: bool,
    /// Whether the signal ends the process now.
    applies: Arc<AtomicBool>,
}

struct Fallbacks(MutexGuard<'static, Vec<Fallback>>);

impl Fallbacks {
    fn lock() -> Fallbacks {
        Fallbacks(FALLBACKS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    fn find(&mut self, signal: Signal) -> Option<&mut Fallback> {
        self.0.iter_mut().find(|fallback| fallback.signal == signal)
    }

    /// Adds a listener to a signal. `ends_process` matters only for the first listener of a signal.
    fn hold(&mut self, signal: Signal, ends_process: bool) -> io::Result<()> {
        if let Some(fallback) = self.find(signal) {
            fallback.listeners += 1;
            fallback.apply();
            return Ok(());
        }
        let applies = Arc::new(AtomicBool::new(false));
        flag::register_conditional_default(signal.as_raw(), Arc::clone(&applies))?;
        self.0.push(Fallback { signal, listeners: 1, ends_process, applies });
        Ok(())
    }

    /// Adds a listener that listens until the process ends.
    fn hold_for_good(&mut self, signal: Signal) {
        if let Some(fallback) = self.find(signal) {
            fallback.listeners += 1;
            fallback.apply();
        }
    }

    fn release(&mut self, signal: Signal) {
        if let Some(fallback) = self.find(signal) {
            fallback.listeners -= 1;
            fallback.apply();
        }
    }
}

impl Fallback {
    fn apply(&self) {
        self.applies.store(self.ends_process && self.listeners == 0, Ordering::SeqCst);
    }
}

/// Returns whether the process neither ignores nor handles the signal. Without `/proc`, returns true, which
/// is nearly always correct.
fn has_default_effect(signal: Signal) -> bool {
    let status = std::fs::read_to_string(Task::of(std::process::id()).file("status")).unwrap_or_default();
    !["SigIgn", "SigCgt"].iter().any(|set| is_in_set(&status, set, signal))
}

/// Returns whether a set in `status` contains the signal. Sets are hexadecimal numbers; the lowest bit is
/// signal 1.
fn is_in_set(status: &str, set: &str, signal: Signal) -> bool {
    let bits = procfs::field(status, set).and_then(|digits| u64::from_str_radix(digits, 16).ok());
    bits.is_some_and(|bits| bits >> (signal.as_raw() - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_signals() {
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000001\nSigCgt:\t0000000000004002\n";
        for (set, signal, expected) in [
            ("SigIgn", Signal::HUP, true),
            ("SigIgn", Signal::INT, false),
            ("SigCgt", Signal::INT, true),
            ("SigCgt", Signal::TERM, true),
            ("SigCgt", Signal::HUP, false),
            ("SigNone", Signal::HUP, false),
        ] {
            assert_eq!(is_in_set(status, set, signal), expected, "{set} {signal:?}");
        }
    }

    #[test]
    fn each_signal_counts_for_those_who_listen() {
        let first = Listener::begin(&[Signal::USR1, Signal::USR2]).expect("it listens");
        let raise = |signal: Signal| low_level::raise(signal.as_raw()).expect("it is raised");
        raise(Signal::USR1);
        let second = Listener::begin(&[Signal::USR1]).expect("it listens");
        raise(Signal::USR1);
        raise(Signal::USR2);
        assert_eq!((first.count(Signal::USR1), first.count(Signal::USR2)), (2, 1));
        assert_eq!((second.count(Signal::USR1), second.count(Signal::USR2)), (1, 0));
        drop(second);
        raise(Signal::USR1);
        assert_eq!((first.count(Signal::USR1), first.count(Signal::USR1)), (3, 3));
        assert_eq!(first.count(Signal::HUP), 0);
    }
}
