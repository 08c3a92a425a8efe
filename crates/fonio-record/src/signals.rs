//! Ctrl-C and SIGTERM while a capture runs.

use std::io;
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

/// Counts the signals while it lives; when none lives they do again what they do by default.
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
                let action = move || {
                    if LISTENERS.load(Ordering::Relaxed) == 0 {
                        let _ = emulate_default_handler(signal);
                    } else {
                        count.fetch_add(1, Ordering::Relaxed);
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

impl Drop for Signals {
    fn drop(&mut self) {
        LISTENERS.fetch_sub(1, Ordering::Relaxed);
    }
}
