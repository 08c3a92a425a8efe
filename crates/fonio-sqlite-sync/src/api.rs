//! The functions of one SQLite library.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr;

use crate::sqlite::*;

type Row = unsafe extern "C" fn(*mut c_void, c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;

type VfsFind = unsafe extern "C" fn(*const c_char) -> *mut sqlite3_vfs;
type AutoExtension = unsafe extern "C" fn(unsafe extern "C" fn()) -> c_int;
type Exec =
    unsafe extern "C" fn(*mut sqlite3, *const c_char, Option<Row>, *mut c_void, *mut *mut c_char) -> c_int;
type Control = unsafe extern "C" fn(*mut sqlite3, *const c_char, c_int, *mut c_void) -> c_int;
type DbFilename = unsafe extern "C" fn(*mut sqlite3, *const c_char) -> *const c_char;

/// The functions of the SQLite library that a program uses.
#[derive(Clone, Copy)]
pub struct Api {
    vfs_find: VfsFind,
    auto_extension: AutoExtension,
    exec: Exec,
    file_control: Control,
    db_filename: DbFilename,
}

/// SQLite 3.8.7, the first version that provides `auto_extension` to extensions.
const OLDEST: c_int = 3_008_007;

/// Indices in `sqlite3_api_routines` of `sqlite3ext.h`. New SQLite versions only append to this structure.
mod place {
    pub const EXEC: usize = 55;
    pub const LIBVERSION_NUMBER: usize = 67;
    pub const FILE_CONTROL: usize = 127;
    pub const VFS_FIND: usize = 141;
    pub const DB_FILENAME: usize = 180;
    pub const AUTO_EXTENSION: usize = 192;
}

impl Api {
    /// Copies the functions that SQLite passes to extensions.
    ///
    /// # Safety
    ///
    /// `routines` is SQLite's `sqlite3_api_routines`, or null.
    pub unsafe fn of_extension(routines: *const c_void) -> Option<Api> {
        let routines = routines.cast::<*mut c_void>();
        if routines.is_null() {
            return None;
        }
        // SAFETY: the caller guarantees that `routines` is valid. Every SQLite version that loads extensions
        // has this function.
        let version = unsafe {
            let version = *routines.add(place::LIBVERSION_NUMBER);
            transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(version)()
        };
        if version < OLDEST {
            return None;
        }
        // SAFETY: this version of SQLite has all entries in `place`.
        Api::new(|place, _| unsafe { *routines.add(place) })
    }

    /// Looks up the functions by name with `find`.
    pub fn by_name(find: impl Fn(&CStr) -> *mut c_void) -> Option<Api> {
        Api::new(|_, name| find(name))
    }

    fn new(get: impl Fn(usize, &CStr) -> *mut c_void) -> Option<Api> {
        let get = |place, name| {
            let found = get(place, name);
            (!found.is_null()).then_some(found)
        };
        let vfs_find = get(place::VFS_FIND, c"sqlite3_vfs_find")?;
        let auto_extension = get(place::AUTO_EXTENSION, c"sqlite3_auto_extension")?;
        let exec = get(place::EXEC, c"sqlite3_exec")?;
        let file_control = get(place::FILE_CONTROL, c"sqlite3_file_control")?;
        let db_filename = get(place::DB_FILENAME, c"sqlite3_db_filename")?;
        // SAFETY: according to SQLite's documentation, the functions have these types.
        Some(unsafe {
            Api {
                vfs_find: transmute::<*mut c_void, VfsFind>(vfs_find),
                auto_extension: transmute::<*mut c_void, AutoExtension>(auto_extension),
                exec: transmute::<*mut c_void, Exec>(exec),
                file_control: transmute::<*mut c_void, Control>(file_control),
                db_filename: transmute::<*mut c_void, DbFilename>(db_filename),
            }
        })
    }

    /// Returns whether both sets of functions belong to the same SQLite library.
    pub fn is_of_same_sqlite(&self, other: &Api) -> bool {
        ptr::fn_addr_eq(self.exec, other.exec)
    }

    /// Returns an address inside the SQLite library.
    pub fn address(&self) -> *const c_void {
        self.vfs_find as *const c_void
    }

    /// Returns the first VFS of SQLite's list, and initializes SQLite.
    pub fn first_vfs(&self) -> *mut sqlite3_vfs {
        // SAFETY: null asks for the default VFS, which is the first in the list.
        unsafe { (self.vfs_find)(ptr::null()) }
    }

    /// Makes SQLite call `called` each time it has opened a connection. A second registration has no effect.
    pub fn call_when_opened(&self, called: Opened) -> c_int {
        // SAFETY: SQLite calls `called` as the entry point of an extension, and `called` has the type of an
        // entry point.
        unsafe { (self.auto_extension)(transmute::<Opened, unsafe extern "C" fn()>(called)) }
    }

    /// Runs SQL; returns SQLite's code, and the first column of the last row.
    ///
    /// # Safety
    ///
    /// `db` is a connection of this SQLite, and no other thread uses it now.
    pub unsafe fn run(&self, db: *mut sqlite3, sql: &CStr) -> (c_int, Option<String>) {
        unsafe extern "C" fn row(
            into: *mut c_void,
            columns: c_int,
            values: *mut *mut c_char,
            _: *mut *mut c_char,
        ) -> c_int {
            // SAFETY: `into` is the string below, and SQLite passes `columns` values, each a string or null.
            unsafe {
                if columns > 0 && !(*values).is_null() {
                    let text = CStr::from_ptr(*values).to_string_lossy().into_owned();
                    *into.cast::<Option<String>>() = Some(text);
                }
            }
            SQLITE_OK
        }
        let mut said: Option<String> = None;
        let into = (&raw mut said).cast::<c_void>();
        // SAFETY: the caller guarantees that `db` is valid; a null message pointer is allowed.
        let code = unsafe { (self.exec)(db, sql.as_ptr(), Some(row), into, ptr::null_mut()) };
        (code, said)
    }

    /// Returns a file of a connection's `main` database, or null if this file is not open. `which` is
    /// SQLite's code for the file.
    ///
    /// # Safety
    ///
    /// The conditions are those of [`Api::run`].
    pub unsafe fn main_file(&self, db: *mut sqlite3, which: c_int) -> *mut sqlite3_file {
        let mut file: *mut sqlite3_file = ptr::null_mut();
        // SAFETY: the caller guarantees that `db` is valid; both codes take a pointer to a pointer to a file.
        let code = unsafe { (self.file_control)(db, c"main".as_ptr(), which, (&raw mut file).cast()) };
        // SAFETY: SQLite's file objects are valid as long as the connection.
        if code == SQLITE_OK && !file.is_null() && unsafe { !(*file).methods.is_null() } {
            file
        } else {
            ptr::null_mut()
        }
    }

    /// Returns the path of a connection's `main` database.
    ///
    /// # Safety
    ///
    /// The conditions are those of [`Api::run`].
    pub unsafe fn main_path(&self, db: *mut sqlite3) -> *const c_char {
        // SAFETY: the caller guarantees that `db` is valid.
        unsafe { (self.db_filename)(db, c"main".as_ptr()) }
    }
}
