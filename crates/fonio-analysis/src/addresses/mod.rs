//! Analyses the device addresses of requests: over time, sequential, and repeated.

pub mod locality;
mod regions;
pub mod sequentiality;
pub mod spatial;
