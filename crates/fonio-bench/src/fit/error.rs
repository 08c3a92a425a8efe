//! Why no profile could be fitted.

use fonio_sim::profile::ProfileError;
use thiserror::Error;

/// A fit that could not be done.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FitError {
    /// The benchmark lacks something.
    #[error(
        "the benchmark has no {what}; measure with --set four,response,address-range,fit (it lacks `{set}`)"
    )]
    NotMeasured {
        /// What is needed.
        what: String,
        /// The set that measures it.
        set: &'static str,
    },
    /// No structure can be had with that capacity.
    #[error("no device model has a capacity of {capacity_bytes} bytes")]
    NoStructure {
        /// The capacity.
        capacity_bytes: u64,
    },
    /// A profile that gives no device.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}
