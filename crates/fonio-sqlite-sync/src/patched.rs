//! The VFSes with replaced functions.

use std::sync::OnceLock;

use crate::api::Api;
use crate::sqlite::{Delete, Open, sqlite3_vfs};

/// A VFS with replaced functions.
pub struct Patched {
    /// The address of the VFS.
    pub vfs: usize,
    /// The VFS's own `xOpen`.
    pub open: Open,
    /// The VFS's own `xDelete`.
    pub delete: Delete,
    /// The functions of the SQLite library that the VFS belongs to.
    pub api: Api,
}

/// Each SQLite library has four VFSes, and programs rarely load two SQLite libraries. Entries are added but
/// never changed, so a file can be opened without taking a lock.
pub static PATCHED: [OnceLock<Patched>; 64] = [const { OnceLock::new() }; 64];

/// Returns the entry of a VFS; `None` if its functions were not replaced.
pub fn patched(vfs: *mut sqlite3_vfs) -> Option<&'static Patched> {
    PATCHED.iter().map_while(OnceLock::get).find(|patched| patched.vfs == vfs.addr())
}

/// Returns the functions of the only patched SQLite library; `None` if there are several.
pub fn only_api() -> Option<Api> {
    let mut all = PATCHED.iter().map_while(OnceLock::get);
    let first = all.next()?.api;
    all.all(|other| other.api.is_of_same_sqlite(&first)).then_some(first)
}
