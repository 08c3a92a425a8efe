//! The verdict: whether the figures can be trusted, and what they mean.

mod advice;
pub(crate) mod facts;
pub(crate) mod finding;
pub mod findings;
mod fixes;
mod mechanisms;
mod remedy;
mod storage;
pub mod validity;
mod victim;

pub use finding::{Finding, Severity};
pub use mechanisms::{Diagnosis, Remedy};
pub use remedy::RemedyKind;
