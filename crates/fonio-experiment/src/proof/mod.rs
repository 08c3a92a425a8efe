//! Proofs with the SQLite databases of a user's command.
//!
//! A first run finds the databases that the command changes. Its changes go to memory and are thrown away. Then
//! each measured run gets fresh copies of the databases, in the place of the originals.

pub(crate) mod connections;
mod first_run;
mod plan;
pub(crate) mod transactions;

pub use first_run::{FirstRun, Found, find_databases};
pub use plan::{Proof, ProofOptions, ProofPlan, changes_databases};
pub use transactions::Joinable;
