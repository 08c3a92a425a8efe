//! The results in the database: one thread writes ([`write`]), several read ([`read`]).

pub mod bins;
pub mod order;
pub mod read;
pub mod summary;
mod cache;
mod remove;
pub mod seeding;
pub mod write;

pub use cache::{Scope, Summaries};
pub use write::{Deletion, Refusal, Stored, Writer};
