//! The verdict: whether the figures can be trusted, and what they mean.

mod advice;
pub(crate) mod facts;
pub(crate) mod finding;
pub mod findings;
mod fixes;
mod storage;
pub mod validity;

pub use finding::{Finding, Severity};
