//! The days that a device sends to a fleet: sums and histograms of each complete day, without traces.
//!
//! [`days()`] adds up the history by day (UTC), [`DayFile`] is the file of one device and day, and [`Inbox`] is the
//! folder that receives these files. The Python package `fonio.fleet` reads them; `docs/fleet.md` describes them.

mod day_file;
mod days;
mod identity;
mod inbox;

pub use day_file::DayFile;
pub use days::{Day, days};
pub use identity::{Attributes, DiskAttributes, Names, device_token};
pub use inbox::Inbox;
