//! Finds the owners of I/O: the files, threads and units behind the numbers in events.

pub(crate) mod btrfs;
pub(crate) mod files;
pub(crate) mod swap;
pub(crate) mod thread_names;
pub(crate) mod threads;
pub(crate) mod whose;
