//! Live capture of block I/O through tracefs, and the system monitor.
//!
//! [`record()`] makes a recording. It switches the kernel's block tracepoints on in its own tracefs instance. During
//! the capture it keeps the raw ring-buffer pages in memory and thus writes nothing to the disks that it watches; at
//! the end it writes the recording. Where the kernel does not trace, [`record_sampled()`] looks at procfs for who is
//! blocked.

mod blocked;
mod bpf;
mod btrfs;
mod calls;
mod capture;
mod command;
mod error;
mod files;
mod finished;
mod idle;
mod lost;
mod monitor;
mod names;
pub mod observer;
mod options;
mod out;
mod pace;
mod pages;
mod record;
mod requests;
mod sampled;
mod scope;
mod select;
mod spill;
mod statements;
mod stop;
mod swap;
mod threads;
mod tracefs;
mod waits;
mod whose;
mod write;

pub use error::RecordError;
pub use options::{
    BlockedBy, BlockedSoFar, CommandOutput, CommandSetting, Progress, Quiet, RecordOptions, RecordSummary,
    Selector, StopReason,
};
pub use record::{Beside, record, record_with};
pub use sampled::record_sampled;
