//! Why threads were blocked: the scheduler's events become rows of the `waits` table.
//!
//! - [`Reasons`] knows, from the kernel's own list of symbols, what it means that a stack holds a certain function:
//!   where a thread blocked, and who ended it.
//! - [`WaitTree`] follows a command's threads and all that they make, and gives a row for each interval in which one of
//!   them did not run: blocked, or ready and without a processor (`cpu`).
//!
//! What the request was that ended a wait comes from the block events of the same trace: the waking follows the
//! completion on the same processor.

mod completions;
mod reasons;
mod tree;

pub use completions::Completions;
pub use reasons::{Reason, Reasons};
pub use tree::{CommandSpan, WaitTree};
