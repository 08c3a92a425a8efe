//! The verdict: whether the figures can be trusted, and what they mean.

mod advice;
mod device_facts;
mod diagnosis;
pub(crate) mod facts;
pub(crate) mod finding;
pub mod findings;
mod fixes;
mod mechanisms;
mod missing;
mod remedy;
mod rule;
mod storage;
pub mod validity;
mod victim;

pub use diagnosis::{Diagnosis, Remedy};
pub use finding::{Finding, Severity};
pub use remedy::RemedyKind;
