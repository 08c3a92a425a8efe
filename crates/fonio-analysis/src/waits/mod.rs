//! Waits for storage: waits of threads, possible waits of programs, and waits in queues; and waits in a trace of the
//! scheduler, which may be for storage.

pub mod blocked;
pub mod outstanding;
pub mod queueing;
pub mod slow_calls;
pub mod uninterruptible;
