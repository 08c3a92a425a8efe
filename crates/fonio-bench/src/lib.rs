//! Measures a flash device with fio, says what its weak point is, and fits a device model to what was measured.
//!
//! A [`plan`] says what is measured and how much that writes; [`run`] does so on a [`target`] with [`fio`] until the
//! numbers are stable; [`model`] does the same in virtual time on a profile; [`fit`] finds the profile that gives the same
//! numbers.

mod error;
pub mod fio;
pub mod fit;
pub mod model;
pub mod place;
pub mod plan;
pub mod result;
pub mod run;
pub mod stable;
pub mod target;
pub mod throughput;
pub mod verdict;

pub use error::BenchError;
