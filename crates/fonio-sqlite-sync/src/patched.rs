//! The VFSes whose functions were replaced.

use std::sync::OnceLock;

use crate::api::Api;
use crate::sqlite::{Delete, Open, sqlite3_vfs};

/// A VFS whose functions were replaced.
pub struct Patched {
    /// The address of the VFS.
    pub vfs: usize,
    /// Its own function.
    pub open: Open,
    /// Its own function.
    pub delete: Delete,
    /// The functions of its SQLite.
    pub api: Api,
}

/// Each SQLite has four, and a program seldom has two of them. The table is never changed, only filled, so that files are opened
/// without a lock.
pub static PATCHED: [OnceLock<Patched>; 64] = [const { OnceLock::new() }; 64];

/// The entry of a VFS; `None` if its functions were not replaced.
pub fn patched(vfs: *mut sqlite3_vfs) -> Option<&'static Patched> {
    PATCHED.iter().map_while(OnceLock::get).find(|patched| patched.vfs == vfs.addr())
}

/// The functions of the only SQLite that the library works on; `None` if there are several.
pub fn only_api() -> Option<Api> {
    let mut all = PATCHED.iter().map_while(OnceLock::get);
    let first = all.next()?.api;
    all.all(|other| other.api.is_of_same_sqlite(&first)).then_some(first)
}
