//! The class `cache`, whose databases are not synced.

use std::ffi::c_int;

use crate::sqlite::{SQLITE_OK, sqlite3_file};

/// `xSync` of the files of a database that is removed after an unclean boot. It does not sync.
pub unsafe extern "C" fn sync(_: *mut sqlite3_file, _: c_int) -> c_int {
    SQLITE_OK
}
