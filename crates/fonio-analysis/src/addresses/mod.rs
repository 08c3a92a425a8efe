//! The addresses of requests on the device: over time, in sequence, and repeated.

pub mod locality;
pub mod sequentiality;
pub mod spatial;
