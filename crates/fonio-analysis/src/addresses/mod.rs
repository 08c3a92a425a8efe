//! Analyses the device addresses of requests: over time, sequential, and repeated.

pub mod locality;
pub mod sequentiality;
pub mod spatial;
