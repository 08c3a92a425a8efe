//! Finds why threads waited: turns scheduler events into rows of the `waits` table.
//!
//! - [`Reasons`] maps the functions on a kernel stack to the reason why a thread blocked, or to the kind of
//!   wait that a wake-up ended. The kernel's symbols give the functions' addresses.
//! - [`WaitTree`] follows a command's threads and all threads that they create. The tree writes a row for
//!   each interval in which a thread did not run: it was blocked, or ready but without a processor (`cpu`).
//! - [`BlockedThreads`] finds the uninterruptible waits of all threads of a machine during the recording.
//! - [`Completions`] finds the request whose completion ended a wait: the kernel wakes a thread shortly after the
//!   completion, on the same processor.

mod blocked;
mod completions;
mod operations;
mod reasons;
mod tree;

pub use blocked::{BlockedThread, BlockedThreads, WakeUp};
pub use completions::{COMPLETION_WAKES_WITHIN, Completed, Completions};
pub use operations::{OPERATIONS, operation_of_function};
pub use reasons::{Functions, Reasons, Symbols, reason_of_function};
pub use tree::{CommandSpan, WaitTree};
