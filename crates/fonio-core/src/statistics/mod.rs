//! Answers from repeated runs: spreads, differences of means, points of Student's t, and levels for many answers at once;
//! and histograms of many values.
//!
//! All of it is plain arithmetic: the same input gives the same bytes on every platform.

pub mod doublings;
pub mod holm;
pub mod sample;
pub mod steps;
pub mod student;
pub mod welch;

/// In at most this share of comparisons, any of the answers claims a difference between equal things.
pub const FAMILY_LEVEL: f64 = 0.05;
