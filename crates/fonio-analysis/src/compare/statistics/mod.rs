//! Statistics of a recording or of repeated runs: intervals for dependent data, and simultaneous tests of
//! many figures.
//!
//! | file | contents |
//! |---|---|
//! | `dependence` | the variance of a sum over slices of time that depend on each other |
//! | `estimate` | intervals for ratios of sums and for quantiles; the interval of a ratio of two values |
//! | `sequential` | a test and an interval for pairs, which may be evaluated after every pair |
//!
//! Quantiles of Student's t and the levels for simultaneous tests are in [`fonio_core::statistics`]. The same
//! input gives bit-identical results on every platform. Logarithms, cosines and the arc tangent come from
//! `libm`, not from the platform.

pub(crate) mod dependence;
pub(crate) mod estimate;
pub(crate) mod sequential;

pub use fonio_core::statistics::FAMILY_LEVEL;
pub(crate) use fonio_core::statistics::{holm, student};
