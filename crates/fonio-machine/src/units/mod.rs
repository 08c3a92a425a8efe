//! Finds the names of units, containers and packages.

mod lookup;
mod names;
mod now;

pub use lookup::Units;
pub use now::units_now;
