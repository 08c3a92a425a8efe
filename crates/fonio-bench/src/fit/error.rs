//! Errors of fitting a profile.

use fonio_sim::profile::ProfileError;
use thiserror::Error;

/// The reason why a fit failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FitError {
    /// The benchmark lacks a measurement that the fit needs.
    #[error(
        "the benchmark has no {what}; measure with --set four,response,address-range,fit (it lacks `{set}`)"
    )]
    NotMeasured {
        /// The name of the missing measurement.
        what: String,
        /// The test set that contains the missing measurement.
        set: &'static str,
    },
    /// No device structure known to the fit has this capacity.
    #[error("no device model has a capacity of {capacity_bytes} bytes")]
    NoStructure {
        /// The capacity of the benchmarked device in bytes.
        capacity_bytes: u64,
    },
    /// The fitted profile is invalid.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}
