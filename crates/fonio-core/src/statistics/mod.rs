//! Statistics of repeated runs (spreads, differences of means, Student's t, and levels for simultaneous
//! tests), and histograms.
//!
//! All these statistics are plain arithmetic: the same input gives the same bytes on every platform.

pub mod doublings;
pub mod holm;
pub mod sample;
pub mod steps;
pub mod student;
pub mod welch;

/// Maximum share of comparisons in which at least one claimed difference is false.
pub const FAMILY_LEVEL: f64 = 0.05;
