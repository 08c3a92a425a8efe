//! Statistics of a recording or of repeated runs: intervals for dependent data, and answers to many questions at once.
//!
//! | file | contents |
//! |---|---|
//! | `student` | points of Student's t at any level |
//! | `dependence` | the variance of a sum over slices of time that depend on each other |
//! | `estimate` | intervals for ratios of sums and for quantiles; the interval of a ratio of two values |
//! | `holm` | the levels at which many figures are tested, so that all their answers together are wrong in 5 percent |
//! | `sequential` | a test and an interval of pairs that may be looked at after every pair |
//!
//! All of it is plain arithmetic: the same input gives the same bytes on every platform. Logarithms, cosines and the
//! arc tangent come from `libm`, not from the platform.

pub(crate) mod dependence;
pub(crate) mod estimate;
pub(crate) mod holm;
pub(crate) mod sequential;
pub(crate) mod student;

/// In at most this share of comparisons, any of the answers claims a difference between equal things.
pub const FAMILY_LEVEL: f64 = 0.05;
