//! The system calls that no safe wrapper offers: the only `unsafe` of the crate.

mod backing;
mod identity;
mod process;

pub(crate) use backing::{Backing, clone_device};
pub(crate) use identity::{Caller, Identity};
pub(crate) use process::{forbid_io_recursion, lock_memory, process_use, raise_open_files};
