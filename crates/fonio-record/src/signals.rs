//! Ctrl-C and SIGTERM while a capture runs.

use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::{emulate_default_handler, register};

/// Captures that run now.
static LISTENERS: AtomicUsize = AtomicUsize::new(0);
/// Signals since the process began.
static INTERRUPTS: AtomicUsize = AtomicUsize::new(0);
static TERMINATIONS: AtomicUsize = AtomicUsize::new(0);
static REGISTERED: Mutex<bool> = Mutex::new(false);

/// Counts the signals while it lives. When none lives, the signals do what they did before: end the process, unless the
/// program had handlers of its own, which run in any case.
#[derive(Debug)]
pub(crate) struct Signals {
    /// The counts at its beginning.
    interrupts: usize,
    terminations: usize,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Signals> {
        // Handlers are set once: signal-hook keeps a signal for good, and does nothing when all of its own are gone.
        let mut registered = REGISTERED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !*registered {
            for (signal, count) in [(SIGINT, &INTERRUPTS), (SIGTERM, &TERMINATIONS)] {
                let had_default = is_default(signal)?;
                let action = move || {
                    if LISTENERS.load(Ordering::Relaxed) > 0 {
                        count.fetch_add(1, Ordering::Relaxed);
                    } else if had_default {
                        let _ = emulate_default_handler(signal);
                    }
                };
                // SAFETY: the action only touches atomics and calls `emulate_default_handler`, which is documented as
                // async-signal-safe; it cannot panic.
                unsafe { register(signal, action) }?;
            }
            *registered = true;
        }
        LISTENERS.fetch_add(1, Ordering::Relaxed);
        Ok(Signals {
            interrupts: INTERRUPTS.load(Ordering::Relaxed),
            terminations: TERMINATIONS.load(Ordering::Relaxed),
        })
    }

    /// How often Ctrl-C came.
    pub(crate) fn interrupts(&self) -> usize {
        INTERRUPTS.load(Ordering::Relaxed).wrapping_sub(self.interrupts)
    }

    /// How often SIGTERM came.
    pub(crate) fn terminations(&self) -> usize {
        TERMINATIONS.load(Ordering::Relaxed).wrapping_sub(self.terminations)
    }
}

/// Whether the signal has its default effect on this process.
fn is_default(signal: c_int) -> io::Result<bool> {
    let mut current = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action the call only writes the present one, into memory of that type.
    if unsafe { libc::sigaction(signal, std::ptr::null(), current.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it has written the action.
    Ok(unsafe { current.assume_init() }.sa_sigaction == libc::SIG_DFL)
}

impl Drop for Signals {
    fn drop(&mut self) {
        LISTENERS.fetch_sub(1, Ordering::Relaxed);
    }
}
