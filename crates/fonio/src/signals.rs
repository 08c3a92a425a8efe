//! The signals that end a run: SIGINT, SIGTERM and SIGHUP.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// The number of the signal that came last; 0 before the first.
static RECEIVED: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// From now on the signals set the flag instead of ending the process.
pub fn watch() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let received = RECEIVED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_usize(signal, Arc::clone(received), signal as usize)
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .context("cannot watch for Ctrl-C")?;
    }
    Ok(stop)
}

/// The exit code that a shell gives a process ended by the signal that came, 130 after Ctrl-C.
pub fn exit_code() -> Option<u8> {
    let signal = RECEIVED.get()?.load(Ordering::Relaxed);
    (signal > 0).then(|| 128 + signal as u8)
}
