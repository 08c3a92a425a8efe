//! StoreBench compares a storage device with other devices. A run of at most ten minutes produces a
//! [document](fonio_storebench_document).
//!
//! [`schedule`] divides the time and limits the written bytes, [`run`] measures and stores the parts, and
//! [`machine`] describes the environment. [`results`] manages the files of results and of unfinished runs.
//! [`models`] computes the result documents of modelled devices.

mod capacity;
mod launch;
pub mod machine;
pub mod models;
pub mod parts;
pub mod results;
pub mod run;
pub mod schedule;
mod sync;
