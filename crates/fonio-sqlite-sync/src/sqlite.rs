//! The parts of SQLite's C interface that this crate uses, from `sqlite3.h`. All names are the same as in
//! SQLite.

use std::ffi::{c_char, c_int, c_void};

pub const SQLITE_OK: c_int = 0;
pub const SQLITE_ERROR: c_int = 1;
pub const SQLITE_BUSY: c_int = 5;
pub const SQLITE_CANTOPEN: c_int = 14;
pub const SQLITE_OK_LOAD_PERMANENTLY: c_int = 256;
pub const SQLITE_IOERR_FSYNC: c_int = 1034;

pub const SQLITE_OPEN_READWRITE: c_int = 0x2;
pub const SQLITE_OPEN_MAIN_DB: c_int = 0x100;
pub const SQLITE_OPEN_MAIN_JOURNAL: c_int = 0x800;
pub const SQLITE_OPEN_WAL: c_int = 0x80000;

pub const SQLITE_SYNC_NORMAL: c_int = 2;

pub const SQLITE_FCNTL_FILE_POINTER: c_int = 7;
pub const SQLITE_FCNTL_PRAGMA: c_int = 14;
pub const SQLITE_FCNTL_JOURNAL_POINTER: c_int = 28;

/// A connection, as an opaque type.
#[repr(C)]
pub struct sqlite3 {
    _opaque: [u8; 0],
}

/// An open file; the VFS's own data follow this field.
#[repr(C)]
pub struct sqlite3_file {
    pub methods: *const sqlite3_io_methods,
}

pub type Write = unsafe extern "C" fn(*mut sqlite3_file, *const c_void, c_int, i64) -> c_int;
pub type Sync = unsafe extern "C" fn(*mut sqlite3_file, c_int) -> c_int;
pub type Close = unsafe extern "C" fn(*mut sqlite3_file) -> c_int;
pub type FileControl = unsafe extern "C" fn(*mut sqlite3_file, c_int, *mut c_void) -> c_int;
type Any = Option<unsafe extern "C" fn()>;

/// The table of functions of an open file. The fields from `shm_map` on exist since version 2 of the table,
/// and the fields from `fetch` on since version 3.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sqlite3_io_methods {
    pub version: c_int,
    pub close: Option<Close>,
    pub read: Option<unsafe extern "C" fn(*mut sqlite3_file, *mut c_void, c_int, i64) -> c_int>,
    pub write: Option<Write>,
    pub truncate: Any,
    pub sync: Option<Sync>,
    pub file_size: Any,
    pub lock: Any,
    pub unlock: Any,
    pub check_reserved_lock: Any,
    pub file_control: Option<FileControl>,
    pub sector_size: Any,
    pub device_characteristics: Any,
    pub shm_map: Any,
    pub shm_lock: Any,
    pub shm_barrier: Any,
    pub shm_unmap: Any,
    pub fetch: Any,
    pub unfetch: Any,
}

/// An extension's entry point, which takes the connection, a pointer for a message, and SQLite's functions.
pub type Opened = unsafe extern "C" fn(*mut sqlite3, *mut *mut c_char, *const c_void) -> c_int;

pub type Open =
    unsafe extern "C" fn(*mut sqlite3_vfs, *const c_char, *mut sqlite3_file, c_int, *mut c_int) -> c_int;
pub type Delete = unsafe extern "C" fn(*mut sqlite3_vfs, *const c_char, c_int) -> c_int;

/// The fields of SQLite's VFS structure up to `xDelete`.
#[repr(C)]
pub struct sqlite3_vfs {
    pub version: c_int,
    pub file_bytes: c_int,
    pub path_bytes_max: c_int,
    pub next: *mut sqlite3_vfs,
    pub name: *const c_char,
    pub app_data: *mut c_void,
    pub open: Open,
    pub delete: Delete,
}
