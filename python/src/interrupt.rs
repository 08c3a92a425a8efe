//! Runs long work without Python's lock, so that Ctrl-C interrupts it.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

/// The time between two checks for signals.
const EVERY: Duration = Duration::from_millis(100);

/// Runs `work` on another thread, and waits for it without Python's lock. If Python has received a signal whose
/// handler raises an exception, such as Ctrl-C, sets the flag that `work` gets, waits until `work` ends, and returns
/// the exception.
pub fn interruptible<T: Send>(py: Python<'_>, work: impl FnOnce(&AtomicBool) -> T + Send) -> PyResult<T> {
    let (stop, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let waiting = thread::current();
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let result = work(&stop);
            is_over.store(true, Ordering::Release);
            waiting.unpark();
            result
        });
        let mut raised = None;
        while !is_over.load(Ordering::Acquire) && !worker.is_finished() {
            py.detach(|| thread::park_timeout(EVERY));
            if raised.is_none()
                && let Err(error) = py.check_signals()
            {
                stop.store(true, Ordering::Relaxed);
                raised = Some(error);
            }
        }
        let result = py.detach(|| worker.join()).unwrap_or_else(|panic| resume_unwind(panic));
        match raised {
            Some(error) => Err(error),
            None => Ok(result),
        }
    })
}
