//! Which databases of SQLite may be synced less than their programs ask for, and what a reboot means for them.
//!
//! [`Policy`] is the file in which users say so. [`Cache`] is the contract of databases that are not synced at all: before the
//! first unsynced write of a boot, a marker beside the database names the boot; after a boot that did not end cleanly, the
//! database is removed with all its files. Both the library that is loaded into programs (`fonio-sqlite-sync`) and the units of
//! systemd use this crate.

mod boots;
mod cache;
mod error;
mod filesystem;
mod find;
mod policy;
mod source;

pub use boots::{Boots, CLEAN_BOOTS};
pub use cache::{Cache, Removed, State};
pub use error::PolicyError;
pub use filesystem::network_filesystem;
pub use find::caches_below;
pub use policy::{Class, Policy, Rule};
pub use source::{DEFAULT, Source, VARIABLE};

/// What SQLite appends to a database's path for its write-ahead log, the index of that, and its rollback journal.
pub const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];
