//! The causes of requests: processes and files.

pub mod files;
pub(crate) mod names;
pub mod packages;
pub mod process;
pub(crate) mod processes;
