//! Answers from repeated runs: points of Student's t, and levels for many answers at once.
//!
//! All of it is plain arithmetic: the same input gives the same bytes on every platform.

pub mod holm;
pub mod student;

/// In at most this share of comparisons, any of the answers claims a difference between equal things.
pub const FAMILY_LEVEL: f64 = 0.05;
