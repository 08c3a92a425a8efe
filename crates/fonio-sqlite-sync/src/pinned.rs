//! Makes the settings of [`crate::pins`] on connections, and keeps them.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;

use crate::api::Api;
use crate::file::{Hooked, Role};
use crate::guarded;
use crate::library;
use crate::pins::Pinned;
use crate::sqlite::*;
use crate::world::World;

/// Makes the settings on a new connection, and reports it. SQLite itself sets `wal_autocheckpoint` at the end of
/// its function, so this happens after that function.
///
/// # Safety
///
/// `db` is a connection of this SQLite, and no other thread uses it.
pub unsafe fn set(api: &Api, db: *mut sqlite3) {
    // SAFETY: the caller guarantees that `db` is valid; its file stays open during this function.
    unsafe {
        let file = api.main_file(db, SQLITE_FCNTL_FILE_POINTER);
        if file.is_null() {
            return;
        }
        let Some(Hooked { role: Role::Pinned(pinned), .. }) = Hooked::of(file) else { return };
        let database = pinned.database.as_os_str().as_bytes();
        let module = library::path_of(api.address());
        let module = module.as_ref().map_or(&b""[..], |path| path.as_os_str().as_bytes());
        World::get().pins.tell(&[b"opened", database, module]);
        for (name, value) in &pinned.pragmas {
            let sql = [b"PRAGMA ", name.as_bytes(), b"=", value.as_bytes()].concat();
            let Ok(sql) = CString::new(sql) else { continue };
            let (code, _) = api.run(db, &sql);
            let result: &[u8] = if code == SQLITE_OK { b"done" } else { b"failed" };
            World::get().pins.tell(&[b"pinned", database, name.as_bytes(), result]);
        }
        // Clears the error of a locked or damaged database; the program gets the error from its own first
        // statement.
        api.run(db, c"");
    }
}

/// Replaces `xFileControl` of a main database: replaces the values of settings that the program makes.
pub unsafe extern "C" fn file_control(file: *mut sqlite3_file, code: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: SQLite calls this for a file that we hooked.
    let Some(hooked @ Hooked { role: Role::Pinned(pinned), .. }) = (unsafe { Hooked::of(file) }) else {
        return SQLITE_ERROR;
    };
    let theirs = || {
        // SAFETY: the arguments come from SQLite.
        hooked.original().file_control.map_or(SQLITE_ERROR, |call| unsafe { call(file, code, argument) })
    };
    if code != SQLITE_FCNTL_PRAGMA {
        return theirs();
    }
    // SAFETY: for this code, SQLite passes pointers for the result, the name and the value.
    if guarded(|| unsafe { replace(pinned, argument.cast()) }, || true) { theirs() } else { SQLITE_OK }
}

/// Replaces the value of a setting. Returns false if the value does not fit into the memory of the program's
/// value: SQLite must then leave the setting alone.
unsafe fn replace(pinned: &Pinned, arguments: *mut *mut c_char) -> bool {
    // SAFETY: the caller guarantees that the three strings are valid; the value can be null.
    let (name, value) = unsafe {
        let (name, value) = (*arguments.add(1), *arguments.add(2));
        if name.is_null() || value.is_null() {
            return true;
        }
        (CStr::from_ptr(name), CStr::from_ptr(value))
    };
    let keeps = |(pragma, _): &&(CString, CString)| pragma.as_bytes().eq_ignore_ascii_case(name.to_bytes());
    let Some((_, keeps)) = pinned.pragmas.iter().find(keeps) else {
        let database = pinned.database.as_os_str().as_bytes();
        World::get().pins.tell(&[b"set", database, name.to_bytes(), value.to_bytes()]);
        return true;
    };
    let bytes = keeps.as_bytes_with_nul();
    if value.to_bytes_with_nul().len() < bytes.len() {
        return false;
    }
    // SAFETY: this is SQLite's own copy of the value, and it is long enough.
    unsafe { (*arguments.add(2)).cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_replaced_if_it_fits() {
        let pinned = Pinned {
            database: "/c.db".into(),
            pragmas: vec![(c"wal_autocheckpoint".into(), c"4000".into())],
        };
        let replaced = |name: &CStr, value: &str| {
            let mut value = CString::new(value).expect("a word").into_bytes_with_nul();
            let mut arguments =
                [std::ptr::null_mut(), name.as_ptr().cast_mut(), value.as_mut_ptr().cast::<c_char>()];
            // SAFETY: the strings are valid, and the value is writable.
            let fits = unsafe { replace(&pinned, arguments.as_mut_ptr()) };
            let end = value.iter().position(|byte| *byte == 0).expect("a null byte");
            (fits, String::from_utf8(value[..end].to_vec()).expect("a word"))
        };
        assert_eq!(replaced(c"WAL_autocheckpoint", "10000"), (true, "4000".to_owned()));
        assert_eq!(replaced(c"wal_autocheckpoint", "100"), (false, "100".to_owned()));
        assert_eq!(replaced(c"cache_size", "100"), (true, "100".to_owned()));
    }
}
