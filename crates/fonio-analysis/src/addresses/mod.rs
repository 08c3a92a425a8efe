//! Where on the device requests go: over time, in sequence, and to the same places again.

pub mod locality;
pub mod sequentiality;
pub mod spatial;
