//! The recorder's own instance of tracefs: which disks and file systems it traces, and the pages of its ring buffers.

mod chunk;
pub(crate) mod disks;
pub(crate) mod filesystems;
mod instance;
pub(crate) mod pages;
pub(crate) mod spill;

pub(crate) use instance::{CpuStats, Instance, Tracefs, file_error};
