//! StoreBench: a device's standing among others. One run of at most ten minutes gives one [`document`].
//!
//! [`plan`] divides the time and bounds the bytes, [`run`] measures the parts and keeps them, [`machine`] describes where,
//! [`results`] keeps the files of results and of unfinished runs.
//! [`verdict`] and [`standing`] read a document, [`models`] has those of the shipped profiles.

mod capacity;
pub mod check;
pub mod compare;
pub mod document;
pub mod figures;
mod launch;
pub mod machine;
pub mod models;
pub mod parts;
pub mod plan;
pub mod results;
pub mod run;
pub mod standing;
pub mod statistics;
mod sync;
pub mod verdict;
