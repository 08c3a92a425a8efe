//! The class `ordered`: SQLite's own `synchronous=NORMAL`, and syncs of the write-ahead log by
//! [`crate::wal`].
//!
//! With NORMAL, SQLite does not sync the log at each commit. SQLite syncs the log before it copies pages to
//! the database, and the database before it reuses the log. So after a power cut, the database has the state
//! of an earlier commit. NORMAL has this effect only in write-ahead mode. In other modes, the program's
//! synchronous level stays unchanged. Attached databases also keep their level, because SQLite does not
//! signal when an attachment is complete.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::Ordering;

use crate::api::Api;
use crate::file::{Hooked, Role};
use crate::guarded;
use crate::sqlite::*;
use crate::world::World;

/// Called by SQLite after it opens a connection, before the program gets the connection.
pub unsafe extern "C" fn opened(db: *mut sqlite3, _: *mut *mut c_char, routines: *const c_void) -> c_int {
    guarded(
        || {
            // SAFETY: SQLite passes its functions; a build that loads no extensions passes null.
            let api = unsafe { Api::of_extension(routines) }.or_else(crate::patched::only_api);
            if let Some(api) = api {
                // SAFETY: the program does not know the connection yet.
                unsafe { relax(&api, db) };
            }
        },
        || (),
    );
    // An error would make the program's open call fail.
    SQLITE_OK
}

/// Stops SQLite from syncing commits of the main database if the class of the database is `ordered` and the
/// database is in write-ahead mode.
///
/// # Safety
///
/// `db` is a connection of this SQLite, and no other thread uses it.
pub unsafe fn relax(api: &Api, db: *mut sqlite3) {
    // SAFETY: the caller guarantees that `db` is valid; its file stays open during this function.
    unsafe {
        let file = api.main_file(db, SQLITE_FCNTL_FILE_POINTER);
        if file.is_null() {
            return;
        }
        let Some(hooked) = Hooked::of(file) else { return };
        let Role::Ordered { is_relaxed, to_wal } = &hooked.role else { return };
        let mode = mode(hooked.original(), file);
        let mut is_wal = mode == Some(Mode::WriteAhead);
        if mode == Some(Mode::Rollback) && *to_wal {
            let (code, mode) = api.run(db, c"PRAGMA main.journal_mode=WAL");
            is_wal = code == SQLITE_OK && mode.as_deref() == Some("wal");
        }
        if is_wal {
            let (code, _) = api.run(db, c"PRAGMA main.synchronous=NORMAL");
            is_relaxed.store(code == SQLITE_OK, Ordering::Release);
        }
        // Clears the error of a locked or damaged database; the program gets the error from its own first
        // statement.
        api.run(db, c"");
    }
}

/// Returns whether a database without hooks is in write-ahead mode.
///
/// # Safety
///
/// `file` is the database's open main file.
pub unsafe fn is_in_wal_mode(file: *mut sqlite3_file) -> bool {
    // SAFETY: the caller guarantees that `file` is open.
    unsafe { mode(&*(*file).methods, file) == Some(Mode::WriteAhead) }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Rollback,
    WriteAhead,
}

/// Reads the journal mode from the header (<https://www.sqlite.org/fileformat.html>, 1.3). Returns `None`
/// for a new or encrypted database: the program may still have to set a page size or a key, and nothing may
/// be read or written through SQLite before that.
unsafe fn mode(methods: &sqlite3_io_methods, file: *mut sqlite3_file) -> Option<Mode> {
    let mut header = [0u8; 20];
    let read = methods.read?;
    // SAFETY: the buffer has the given length. Reading a shorter file gives an error.
    let code = unsafe { read(file, header.as_mut_ptr().cast(), header.len() as c_int, 0) };
    if code != SQLITE_OK || !header.starts_with(b"SQLite format 3\0") {
        return None;
    }
    Some(if header[18] == 2 { Mode::WriteAhead } else { Mode::Rollback })
}

/// Replaces `xFileControl` of a main database: prevents the program from changing the settings that [`relax`]
/// made.
pub unsafe extern "C" fn file_control(file: *mut sqlite3_file, code: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: SQLite calls this for a file that we hooked.
    let Some(hooked) = (unsafe { Hooked::of(file) }) else { return SQLITE_ERROR };
    let theirs = || {
        // SAFETY: the arguments come from SQLite.
        hooked.original().file_control.map_or(SQLITE_ERROR, |call| unsafe { call(file, code, argument) })
    };
    if code != SQLITE_FCNTL_PRAGMA || !hooked.role.is_relaxed() {
        return theirs();
    }
    // SAFETY: for this code, SQLite passes pointers for the result, the name and the value.
    if guarded(|| unsafe { correct(argument.cast()) }, || false) { theirs() } else { SQLITE_ERROR }
}

/// Corrects the value of a PRAGMA that would change the mode or the level. SQLite then executes the corrected
/// PRAGMA and returns its usual result; if this function returned the result itself, SQLite would pass it to
/// the program as a row, and programs expect no row. Returns false if the corrected value does not fit into
/// the memory of the given value.
unsafe fn correct(arguments: *mut *mut c_char) -> bool {
    // SAFETY: the caller guarantees that the three strings are valid; the value can be null.
    let (name, value) = unsafe {
        let (name, value) = (*arguments.add(1), *arguments.add(2));
        if name.is_null() || value.is_null() {
            return true;
        }
        (CStr::from_ptr(name).to_bytes(), CStr::from_ptr(value).to_bytes())
    };
    let keeps: &CStr = if name.eq_ignore_ascii_case(b"synchronous") {
        c"1"
    } else if name.eq_ignore_ascii_case(b"journal_mode") {
        c"wal"
    } else {
        return true;
    };
    let keeps = keeps.to_bytes_with_nul();
    if value.len() + 1 < keeps.len() {
        // No journal mode has such a short name, so SQLite keeps the current mode. An empty synchronous level
        // would mean OFF.
        return keeps.len() > 2;
    }
    // SAFETY: this is SQLite's own copy of the value, with the same length.
    unsafe { (*arguments.add(2)).cast::<u8>().copy_from_nonoverlapping(keeps.as_ptr(), keeps.len()) };
    true
}

/// Returns our data of a file that is hooked as a log, and the log.
unsafe fn log_of<'a>(file: *mut sqlite3_file) -> (&'a Hooked, &'a crate::log::Log) {
    // SAFETY: SQLite calls our functions only for hooked files.
    match unsafe { Hooked::of(file) } {
        Some(hooked @ Hooked { role: Role::Wal(log), .. }) => (hooked, log),
        _ => unreachable!("only write-ahead logs have this function"),
    }
}

/// Replaces `xWrite` of a write-ahead log.
pub unsafe extern "C" fn write(file: *mut sqlite3_file, from: *const c_void, bytes: c_int, at: i64) -> c_int {
    // SAFETY: the arguments come from SQLite.
    let (hooked, log) = unsafe { log_of(file) };
    let Some(wal) = guarded(|| Some(log.wal()), || None) else { return SQLITE_IOERR_FSYNC };
    let may = guarded(|| wal.before_write(), || SQLITE_IOERR_FSYNC);
    if may != SQLITE_OK {
        return may;
    }
    // SAFETY: the arguments come from SQLite.
    let code = unsafe { hooked.write_really(file, from, bytes, at) };
    guarded(
        || {
            if wal.wrote() {
                World::get().syncer.wake();
            }
            code
        },
        || SQLITE_IOERR_FSYNC,
    )
}

/// Replaces `xSync` of a write-ahead log.
pub unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: the arguments come from SQLite.
    let (hooked, log) = unsafe { log_of(file) };
    // SAFETY: the arguments come from SQLite.
    let code = unsafe { hooked.sync_really(file, flags) };
    if code == SQLITE_OK {
        guarded(|| log.wal_if_used().into_iter().for_each(|wal| wal.synced()), || ());
    }
    code
}
