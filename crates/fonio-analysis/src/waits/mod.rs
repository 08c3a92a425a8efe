//! Waits for storage: waits of threads, possible waits of programs, and waits in queues.

pub mod blocked;
pub mod outstanding;
pub mod queueing;
