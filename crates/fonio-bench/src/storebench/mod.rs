//! StoreBench: a device's standing among others. One run of at most ten minutes gives one [`document`].

pub mod check;
pub mod document;
pub mod figures;
