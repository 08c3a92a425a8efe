//! The policy for SQLite databases that are synced less often than their programs request, and the effect of
//! reboots on these databases.
//!
//! [`Policy`] is the file in which users name these databases. [`Cache`] is the contract of databases that
//! are never synced. Before the first unsynced write during a boot, a marker next to the database gets the id
//! of the boot. If that boot does not end cleanly, the database is removed with all its files. The library in
//! programs (`fonio-sqlite-sync`) and the systemd units use this crate.

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
