//! Waits for storage: of threads, of programs that may wait, and in queues.

pub mod blocked;
pub mod outstanding;
pub mod queueing;
