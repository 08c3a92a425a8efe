//! Questions about the device: flushes, the share of time spent on I/O, the effect of reads and writes on each
//! other, and the device's own changes of speed.

pub mod flushes;
pub mod info;
pub mod interference;
pub mod io_share;
pub mod speed;
