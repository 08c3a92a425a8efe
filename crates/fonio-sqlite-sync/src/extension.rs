//! Loads the library as an SQLite extension, or through `SQLITE_EXTRA_INIT`.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use crate::api::Api;
use crate::file::Hooked;
use crate::sqlite::*;
use crate::world::World;
use crate::{guarded, library, ordered, vfs};

/// The entry point for `sqlite3_load_extension` and `.load`. Also applies the policy to the connection's main
/// database, which is already open.
///
/// # Safety
///
/// Only SQLite may call this function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_foniosqlitesync_init(
    db: *mut sqlite3,
    _message: *mut *mut c_char,
    routines: *const c_void,
) -> c_int {
    guarded(
        || {
            // SAFETY: SQLite passes the table of its functions.
            let Some(api) = (unsafe { Api::of_extension(routines) }) else { return SQLITE_ERROR };
            vfs::attach(&api);
            // SAFETY: SQLite holds the connection's lock.
            unsafe { adopt(&api, db) };
            // SQLite's tables point to the library's functions, so the library must stay loaded after the
            // connection closes.
            SQLITE_OK_LOAD_PERMANENTLY
        },
        || SQLITE_ERROR,
    )
}

/// Applies the policy to a connection that was opened before the library was loaded.
unsafe fn adopt(api: &Api, db: *mut sqlite3) {
    // SAFETY: the caller guarantees that `db` is valid.
    unsafe {
        let (name, file) = (api.main_path(db), api.main_file(db, SQLITE_FCNTL_FILE_POINTER));
        if name.is_null() || *name == 0 || file.is_null() || Hooked::of(file).is_some() {
            return;
        }
        let log = if ordered::is_in_wal_mode(file) {
            api.main_file(db, SQLITE_FCNTL_JOURNAL_POINTER)
        } else {
            ptr::null_mut()
        };
        vfs::adopt(api, &vfs::path(name), file, log);
        ordered::relax(api, db);
    }
}

/// The entry point for SQLite's option `SQLITE_EXTRA_INIT`. The program must export SQLite's functions
/// (`-rdynamic`), if it contains SQLite itself.
#[unsafe(no_mangle)]
pub extern "C" fn fonio_sqlite_sync_extra_init(_unused: *const c_char) -> c_int {
    let found = guarded(|| Api::by_name(|name| library::function(name, ptr::null())), || None);
    match found {
        Some(api) => guarded(|| vfs::attach(&api), || ()),
        None => World::get().said.once(
            "cannot find the functions of this program's SQLite: link it with -rdynamic. Its databases stay durable.",
        ),
    }
    SQLITE_OK
}
