//! Ctrl-C and SIGTERM while a capture runs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM};

/// Counts the signals while it lives; afterwards they do again what they do by default.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupts: Arc<AtomicUsize>,
    terminations: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
    registered: Vec<SigId>,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Signals> {
        let mut signals = Signals {
            interrupts: Arc::default(),
            terminations: Arc::default(),
            over: Arc::default(),
            registered: Vec::new(),
        };
        for (signal, count) in [(SIGINT, &signals.interrupts), (SIGTERM, &signals.terminations)] {
            let count = Arc::clone(count);
            // SAFETY: the handler only adds to an atomic, which is allowed in a signal handler.
            let id = unsafe {
                signal_hook::low_level::register(signal, move || {
                    count.fetch_add(1, Ordering::Relaxed);
                })
            }?;
            signals.registered.push(id);
            // signal-hook never gives the signal back to the kernel's default action; this does it in its stead.
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&signals.over))?;
        }
        Ok(signals)
    }

    /// How often Ctrl-C came.
    pub(crate) fn interrupts(&self) -> usize {
        self.interrupts.load(Ordering::Relaxed)
    }

    /// How often SIGTERM came.
    pub(crate) fn terminations(&self) -> usize {
        self.terminations.load(Ordering::Relaxed)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            signal_hook::low_level::unregister(id);
        }
        self.over.store(true, Ordering::Relaxed);
    }
}
