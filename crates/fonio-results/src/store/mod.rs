//! Accesses the results in the database. One thread writes ([`mod@write`]), and several threads read
//! ([`read`]).

pub mod bins;
pub mod book;
mod cache;
pub mod content;
pub mod decisions;
pub mod held;
pub mod order;
pub mod read;
mod remove;
pub mod seeding;
pub mod summary;
pub mod write;

pub use book::{Outcome, Stored};
pub use cache::{Scope, Summaries};
pub use held::Verdict;
pub use remove::Deletion;
pub use write::{Refusal, Writer};
