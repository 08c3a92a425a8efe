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
mod fault;
mod filesystem;
mod find;
mod folder;
mod place;
mod policy;
mod rights;
mod source;
mod trusted;
mod unsynced;

pub use boots::{Boots, CLEAN_BOOTS};
pub use cache::{Cache, Removal};
pub use error::PolicyError;
pub use fault::Fault;
pub use filesystem::{network_filesystem, network_filesystem_of};
pub use find::caches_below;
pub use place::{COMPANIONS, HEADER, PATH_BYTES_MAX, State};
pub use policy::{Class, Policy, Rule};
pub use source::{DEFAULT, Source, VARIABLE};
pub use unsynced::{Identity, is_marked, mark};
