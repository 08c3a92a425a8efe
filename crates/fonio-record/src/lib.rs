//! Live capture of block I/O through tracefs, and the system monitor.
//!
//! [`record()`] makes a recording. It switches the kernel's block tracepoints on in its own tracefs instance.
//! During the capture it keeps the raw ring-buffer pages in memory and thus writes nothing to the disks that
//! it watches; at the end it writes the recording. If the kernel does not trace, [`record_sampled()`] samples
//! procfs for blocked threads.

mod attribution;
mod capture;
mod clock;
mod error;
mod monitor;
pub mod observer;
mod options;
mod probes;
mod record;
mod sampled;
mod tracefs;
mod write;

pub use error::RecordError;
pub use options::{
    BlockedBy, BlockedSoFar, CommandOutput, CommandSetting, OtherRows, Progress, Quiet, RecordOptions,
    RecordSummary, Selector, StopReason,
};
pub use record::{record, record_with};
pub use sampled::record_sampled;
