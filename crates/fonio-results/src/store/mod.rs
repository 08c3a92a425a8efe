//! Accesses the results in the database. One thread writes ([`mod@write`]), and several threads read
//! ([`read`]).

pub mod bins;
pub mod book;
mod cache;
pub mod order;
pub mod read;
mod remove;
pub mod seeding;
pub mod summary;
pub mod write;

pub use book::Stored;
pub use cache::{Scope, Summaries};
pub use remove::Deletion;
pub use write::{Refusal, Writer};
