//! The functions that replace methods of an open file, depending on the file's role.

use std::ffi::{c_int, c_void};

use crate::file::{Hooked, Role};
use crate::guarded;
use crate::ordered;
use crate::pinned;
use crate::seen::Part;
use crate::sqlite::*;

/// Replaces the functions that the role needs.
pub fn replace(methods: &mut sqlite3_io_methods, role: &Role) {
    match role {
        Role::Unsynced(..) => methods.sync = Some(sync_until_marked),
        Role::Pinned(_) => methods.file_control = Some(pinned::file_control),
        Role::Ordered { .. } => methods.file_control = Some(ordered::file_control),
        Role::Wal(_) => {
            methods.write = Some(ordered::write);
            methods.sync = Some(ordered::sync);
        }
        Role::Watched(..) => {
            methods.write = Some(count_write);
            methods.sync = Some(count_sync);
        }
    }
}

/// Replaces `xSync` of files of the class `cache`: does nothing once the database is marked, because marked
/// databases are removed after an unclean boot.
unsafe extern "C" fn sync_until_marked(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: SQLite calls this for a file that we hooked.
    let Some(hooked @ Hooked { role: Role::Unsynced(part, unsynced), .. }) = (unsafe { Hooked::of(file) })
    else {
        return SQLITE_ERROR;
    };
    if unsynced.is_not_synced() {
        return SQLITE_OK;
    }
    // SAFETY: the arguments come from SQLite.
    let code = unsafe { hooked.sync_really(file, flags) };
    if code == SQLITE_OK && matches!(part, Part::Database) {
        // SAFETY: the file is open, and these are the VFS's own functions for it.
        guarded(|| unsafe { unsynced.synced(file, hooked.original()) }, || ());
    }
    code
}

/// Replaces `xWrite` of files of the class `learn`.
unsafe extern "C" fn count_write(
    file: *mut sqlite3_file,
    from: *const c_void,
    bytes: c_int,
    at: i64,
) -> c_int {
    // SAFETY: SQLite calls this for a file that we hooked.
    let Some(hooked @ Hooked { role: Role::Watched(part, seen), .. }) = (unsafe { Hooked::of(file) }) else {
        return SQLITE_ERROR;
    };
    seen.count_write(*part);
    // SAFETY: the arguments come from SQLite.
    unsafe { hooked.write_really(file, from, bytes, at) }
}

/// Replaces `xSync` of files of the class `learn`.
unsafe extern "C" fn count_sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: SQLite calls this for a file that we hooked.
    let Some(hooked @ Hooked { role: Role::Watched(part, seen), .. }) = (unsafe { Hooked::of(file) }) else {
        return SQLITE_ERROR;
    };
    seen.count_sync(*part);
    // SAFETY: the arguments come from SQLite.
    unsafe { hooked.sync_really(file, flags) }
}
