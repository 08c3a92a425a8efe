//! Captures block I/O through tracefs, and monitors the system.
//!
//! [`record()`] creates a recording. The recorder enables the kernel's block tracepoints in its own tracefs
//! instance. During the capture, the recorder keeps the raw ring-buffer pages in memory, so it writes nothing
//! to the watched disks. At the end, the recorder writes the recording. If the kernel cannot trace,
//! [`record_sampled()`] samples procfs for blocked threads. [`record_by_ptrace()`] records only the file-system calls
//! of a command, without privileges. [`record_during()`] records block I/O while this process does other work.

mod attribution;
mod capture;
mod clock;
mod during;
mod error;
mod monitor;
pub mod observer;
mod options;
mod probes;
mod ptraced;
mod record;
mod sampled;
mod tracefs;
mod wal_readers;
mod write;

pub use during::record_during;
pub use error::RecordError;
pub use options::{
    BlockedBy, BlockedSoFar, CommandOutput, CommandSetting, OtherRows, Progress, Quiet, RecordOptions,
    RecordSummary, Selector, StopReason,
};
pub use ptraced::record_by_ptrace;
pub use record::{record, record_with, remove_own_instances};
pub use sampled::record_sampled;
