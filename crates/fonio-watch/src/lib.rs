//! Watches storage continuously, in bounded memory and with few writes: blocked threads, written bytes per
//! party, device wear, and stalls.
//!
//! [`Watch`] is the running process, [`Rings`] is its history on the medium, and [`Kept`] is a kept stall
//! with the minute before it.

pub mod answers;
mod budget;
mod clock;
mod compact;
mod counted;
mod devices;
mod error;
pub mod fleet;
pub mod folders;
mod histogram;
mod own_disks;
mod own_file;
pub mod page;
mod recent;
pub mod rings;
pub mod serve;
pub mod service;
pub mod settings;
mod shared;
pub mod stall_file;
mod stall_keeper;
mod stalls;
pub mod summary;
mod tally;
pub mod times;
mod watch;
mod why;

pub use counted::{CountedWatch, Reading};
pub use error::WatchError;
pub use folders::Folders;
pub use histogram::Histogram;
pub use rings::{History, Rings};
pub use settings::Settings;
pub use shared::{Figures, Shared};
pub use stall_file::Kept;
pub use summary::Summary;
pub use watch::Watch;
