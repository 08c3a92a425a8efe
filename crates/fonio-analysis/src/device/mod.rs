//! Questions about the device: flushes, the share of time spent on I/O, and the effect of reads and writes on
//! each other.

pub mod flushes;
pub mod info;
pub mod interference;
pub mod io_share;
