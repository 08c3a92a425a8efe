//! The class `ordered`: SQLite's own `synchronous=NORMAL`, and syncs of the write-ahead log by [`crate::wal`].
//!
//! With NORMAL, SQLite syncs the log before it copies pages from it into the database, and the database before it reuses the log, but
//! not the log at each commit. Therefore, a power cut leaves the database as of an earlier commit. This holds
//! for write-ahead mode only: in the other modes, the level stays as the program set it. Attached databases
//! keep their level too, because SQLite does not signal that an attachment is complete.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::Ordering;

use crate::api::Api;
use crate::file::{Hooked, Role};
use crate::guarded;
use crate::sqlite::*;
use crate::world::World;

/// SQLite calls it after a connection has been opened, before the program gets the connection.
pub unsafe extern "C" fn opened(db: *mut sqlite3, _: *mut *mut c_char, routines: *const c_void) -> c_int {
    guarded(
        || {
            // SAFETY: SQLite passes its functions; a build that loads no extensions passes null.
            let api = unsafe { Api::of_extension(routines) }.or_else(crate::patched::only_api);
            if let Some(api) = api {
                // SAFETY: the program does not have the connection yet.
                unsafe { relax(&api, db) };
            }
        },
        || (),
    );
    // An error would make the program's opening fail.
    SQLITE_OK
}

/// Makes SQLite not sync the commits of a connection's main database, if that is `ordered` and in write-ahead mode.
///
/// # Safety
///
/// `db` is a connection of this SQLite, and no other thread uses it.
pub unsafe fn relax(api: &Api, db: *mut sqlite3) {
    // SAFETY: the caller vouches for `db`, and its file stays open meanwhile.
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
        // If a database is locked or damaged, the program's first statement reports it, not ours.
        api.run(db, c"");
    }
}

/// Returns whether a database that is not hooked is in write-ahead mode.
///
/// # Safety
///
/// `file` is its main file, which is open.
pub unsafe fn is_in_wal_mode(file: *mut sqlite3_file) -> bool {
    // SAFETY: the caller vouches for it.
    unsafe { mode(&*(*file).methods, file) == Some(Mode::WriteAhead) }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Rollback,
    WriteAhead,
}

/// The journal mode by the header (<https://www.sqlite.org/fileformat.html>, 1.3). `None` for a new database and for an encrypted
/// one: the program may set a key or a page size before its first statement, so nothing may be written or read before.
unsafe fn mode(methods: &sqlite3_io_methods, file: *mut sqlite3_file) -> Option<Mode> {
    let mut header = [0u8; 20];
    let read = methods.read?;
    // SAFETY: the buffer has as many bytes. A shorter file gives an error.
    let code = unsafe { read(file, header.as_mut_ptr().cast(), header.len() as c_int, 0) };
    if code != SQLITE_OK || !header.starts_with(b"SQLite format 3\0") {
        return None;
    }
    Some(if header[18] == 2 { Mode::WriteAhead } else { Mode::Rollback })
}

/// `xFileControl` of a main database: prevents the program from changing the settings that [`relax`] made.
pub unsafe extern "C" fn file_control(file: *mut sqlite3_file, code: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: SQLite calls this for a file that we hooked.
    let Some(hooked) = (unsafe { Hooked::of(file) }) else { return SQLITE_ERROR };
    let theirs = || {
        // SAFETY: SQLite's own arguments.
        hooked.original().file_control.map_or(SQLITE_ERROR, |call| unsafe { call(file, code, argument) })
    };
    if code != SQLITE_FCNTL_PRAGMA || !hooked.role.is_relaxed() {
        return theirs();
    }
    // SAFETY: for this code, SQLite passes the place for the result, the name and the value.
    if guarded(|| unsafe { correct(argument.cast()) }, || false) { theirs() } else { SQLITE_ERROR }
}

/// Corrects the value of a PRAGMA that would change the mode or the level, so that SQLite carries out the corrected one and
/// answers as usual. Our own answer would be a row where programs expect none. Returns false if there is no
/// room for the value.
unsafe fn correct(arguments: *mut *mut c_char) -> bool {
    // SAFETY: the caller vouches for the three strings, of which the value can be null.
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
        // No mode has a name this short, and SQLite keeps its own. An empty level would mean OFF.
        return keeps.len() > 2;
    }
    // SAFETY: it is SQLite's own copy of the value, and as long.
    unsafe { (*arguments.add(2)).cast::<u8>().copy_from_nonoverlapping(keeps.as_ptr(), keeps.len()) };
    true
}

/// The log of a file that we hooked as one.
unsafe fn wal_of<'a>(file: *mut sqlite3_file) -> (&'a Hooked, &'a crate::wal::Wal) {
    // SAFETY: SQLite calls our functions for files that have them.
    match unsafe { Hooked::of(file) } {
        Some(hooked @ Hooked { role: Role::Wal(wal), .. }) => (hooked, wal),
        _ => unreachable!("only logs have this function"),
    }
}

/// `xWrite` of a write-ahead log.
pub unsafe extern "C" fn write(file: *mut sqlite3_file, from: *const c_void, bytes: c_int, at: i64) -> c_int {
    // SAFETY: SQLite's own arguments.
    let (hooked, wal) = unsafe { wal_of(file) };
    let may = guarded(|| wal.before_write(), || SQLITE_IOERR_FSYNC);
    if may != SQLITE_OK {
        return may;
    }
    // SAFETY: SQLite's own arguments.
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

/// `xSync` of a write-ahead log.
pub unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: SQLite's own arguments.
    let (hooked, wal) = unsafe { wal_of(file) };
    // SAFETY: as above.
    let code = unsafe { hooked.sync_really(file, flags) };
    if code == SQLITE_OK {
        guarded(|| wal.synced(), || ());
    }
    code
}
