//! The results in the database: one thread writes ([`mod@write`]), several read ([`read`]).

pub mod bins;
mod cache;
pub mod order;
pub mod read;
mod remove;
pub mod seeding;
pub mod summary;
pub mod write;

pub use cache::{Scope, Summaries};
pub use write::{Deletion, Refusal, Stored, Writer};
