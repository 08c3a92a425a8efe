//! The device: its flushes, its share of the time, and the effect of reads and writes on each other.

pub mod flushes;
pub mod info;
pub mod interference;
pub mod io_share;
