//! Records block I/O while this process does other work, such as tracing a command by `ptrace`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use crate::error::RecordError;
use crate::options::{Progress, RecordOptions, RecordSummary};
use crate::record::record;

/// Records according to `options`, from before `work` begins until it has ended. The work is done in this thread, and
/// also if nothing can be recorded: then it is done without a recording, and the second result says why.
///
/// The options must have no command. Ctrl-C and SIGTERM do not end the capture at once; the work must end then.
pub fn record_during<T>(
    options: &RecordOptions,
    work: impl FnOnce() -> T,
) -> (T, Result<RecordSummary, RecordError>) {
    assert!(options.command.is_none(), "the work takes the place of a command");
    let over = Arc::new(AtomicBool::new(false));
    let options = RecordOptions { until: Some(Arc::clone(&over)), ..options.clone() };
    std::thread::scope(|scope| {
        let (begun, begins) = mpsc::channel();
        let recorder = scope.spawn(move || {
            record(&options, &mut |progress| {
                if let Progress::Started { .. } = progress {
                    // The receiver waits for this one message.
                    let _ = begun.send(());
                }
            })
        });
        // If the recorder fails before the capture, it drops the sender.
        let _ = begins.recv();
        let outcome = work();
        over.store(true, Ordering::Release);
        (outcome, recorder.join().unwrap_or(Err(RecordError::Aborted)))
    })
}
