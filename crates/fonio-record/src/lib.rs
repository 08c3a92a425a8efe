//! Live capture of block I/O through tracefs, the system monitor beside it, and what the machine's storage looks like now.
//!
//! [`record()`] makes a recording: it switches the kernel's block tracepoints on in a tracefs instance of its own, keeps
//! the raw ring-buffer pages in memory while the capture runs (so that the recorder writes nothing to the disks that it
//! watches), and writes the recording at the end. [`status()`] reads sysfs and procfs for less than a second, needs no
//! root and writes nothing.

mod capture;
mod command;
mod error;
mod idle;
mod lost;
pub mod machine;
mod monitor;
mod options;
mod pages;
mod record;
mod select;
mod spill;
pub mod status;
mod stop;
mod threads;
mod tracefs;
mod waits;
mod write;

pub use error::RecordError;
pub use options::{
    CommandOutput, CommandSetting, Progress, Quiet, RecordOptions, RecordSummary, Selector, StopReason,
};
pub use record::{Beside, record, record_with};
pub use status::{Status, status};
