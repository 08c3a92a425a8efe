//! Why threads waited: turns scheduler events into rows of the `waits` table.
//!
//! - [`Reasons`] knows which functions on a kernel stack tell why a thread blocked, or what kind of wait a wake-up ended.
//!   It finds their addresses in the kernel's own list of symbols.
//! - [`WaitTree`] follows a command's threads and all threads that they create, and gives a row for each interval in which
//!   one of them did not run: blocked, or ready and without a processor (`cpu`).
//!
//! - [`Completions`] finds the request whose completion ended a wait: the kernel wakes a thread shortly after the
//!   completion, on the same processor.

mod completions;
mod reasons;
mod tree;

pub use completions::Completions;
pub use reasons::Reasons;
pub use tree::{CommandSpan, WaitTree};
