//! Shows changes over time, in bins of equal width.

pub(crate) mod bins;
pub mod series;
pub mod slices;
