//! Manages the recorder's own tracefs instance: the traced disks and file systems, and the pages of its ring
//! buffers.

mod chunk;
pub(crate) mod disks;
pub(crate) mod filesystems;
mod instance;
pub(crate) mod pages;
pub(crate) mod spill;

pub(crate) use instance::{CpuStats, Instance, Tracefs, file_error};
