//! The policy that names the SQLite databases to sync less than their programs ask for, and the effect of a
//! reboot on them.
//!
//! [`Policy`] is the file in which users name them. [`Cache`] is the contract of databases that are not
//! synced at all: before the first unsynced write of a boot, a marker next to the database names the boot;
//! after a boot that did not end cleanly, the database is removed with all its files. Both the library that
//! is loaded into programs (`fonio-sqlite-sync`) and the units of systemd use this crate.

mod boots;
mod cache;
mod error;
mod filesystem;
mod find;
mod policy;
mod source;

pub use boots::{Boots, CLEAN_BOOTS};
pub use cache::{COMPANIONS, Cache, State};
pub use error::PolicyError;
pub use filesystem::network_filesystem;
pub use find::caches_below;
pub use policy::{Class, Policy, Rule};
pub use source::{DEFAULT, Source, VARIABLE};
