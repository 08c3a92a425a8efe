//! Errors of fitting a profile.

use fonio_sim::profile::ProfileError;
use thiserror::Error;

/// A fit that failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FitError {
    /// The benchmark lacks a measurement.
    #[error(
        "the benchmark has no {what}; measure with --set four,response,address-range,fit (it lacks `{set}`)"
    )]
    NotMeasured {
        /// The missing measurement.
        what: String,
        /// The set that contains it.
        set: &'static str,
    },
    /// No structure fits this capacity.
    #[error("no device model has a capacity of {capacity_bytes} bytes")]
    NoStructure {
        /// The capacity.
        capacity_bytes: u64,
    },
    /// The profile is invalid.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}
