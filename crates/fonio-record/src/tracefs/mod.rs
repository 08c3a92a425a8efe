//! The recorder's own instance of tracefs: which disks and file systems it traces, and the pages of its ring buffers.

pub(crate) mod disks;
pub(crate) mod filesystems;
mod instance;
pub(crate) mod pages;
mod chunk;
pub(crate) mod spill;

pub(crate) use instance::{CpuStats, Instance, Tracefs, file_error};
