//! Measures a flash device with fio, names its weak point, and fits a device model to the measurement.
//!
//! A [`plan`] lists the tests and the amount that they write. [`run`] executes the plan on a [`target`] with
//! [`fio`] until the numbers are stable. [`interference`] compares concurrent reads and writes with reads and
//! writes alone, and [`concurrency`] finds the queue depth beyond which throughput no longer grows. [`model`]
//! executes the same plan in virtual time on the model of a device profile. [`fit`] finds the device profile
//! whose model reproduces the measured numbers.

pub mod aligned;
pub mod concurrency;
mod error;
pub mod fio;
pub mod fit;
pub mod interference;
pub mod model;
mod outliers;
pub mod place;
pub mod plan;
pub mod result;
pub mod run;
pub mod session;
pub mod storebench;
pub mod target;
pub mod test;
pub mod throughput;
pub mod verdict;

pub use error::BenchError;
