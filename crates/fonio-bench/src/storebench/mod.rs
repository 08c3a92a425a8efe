//! StoreBench compares a device with others. One run of at most ten minutes gives one
//! [document](fonio_storebench_document).
//!
//! [`schedule`] divides the time and bounds the bytes, [`run`] measures the parts and keeps them, [`machine`] describes where,
//! [`results`] keeps the files of results and of unfinished runs. [`models`] computes the documents of profiles.

mod capacity;
mod launch;
pub mod machine;
pub mod models;
pub mod parts;
pub mod results;
pub mod run;
pub mod schedule;
mod sync;
