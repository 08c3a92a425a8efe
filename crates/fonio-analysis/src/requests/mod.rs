//! Analyses the number, sizes and latencies of requests.

pub mod class;
pub mod histograms;
pub mod latency;
pub mod point;
pub mod points;
pub mod size_latency;
pub mod sizes;
pub(crate) mod times;
pub mod totals;
