//! The functions that are replaced by LD_PRELOAD: the functions that open databases.
//!
//! The replaced functions attach to the caller's SQLite only when the first database is opened. Attaching
//! initializes SQLite, so the program's later calls of `sqlite3_config` fail.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr;

use crate::api::Api;
use crate::guarded;
use crate::library;
use crate::pinned;
use crate::sqlite::{SQLITE_ERROR, SQLITE_OK, sqlite3};
use crate::vfs;
use crate::world::World;

type OpenV2 = unsafe extern "C" fn(*const c_char, *mut *mut sqlite3, c_int, *const c_char) -> c_int;
type OpenPlain = unsafe extern "C" fn(*const c_void, *mut *mut sqlite3) -> c_int;

/// Exports a function that calls another function and passes the address of its own caller as an additional
/// argument.
macro_rules! exported {
    ($(#[$about:meta])* $name:ident($($argument:ident: $kind:ty),*) => $to:ident, $x86_64:literal, $aarch64:literal) => {
        $(#[$about])*
        #[doc = "\n# Safety\n\nThe caller must follow SQLite's documentation of this function."]
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            // The return address is on the stack; the registers of the other arguments stay unchanged.
            std::arch::naked_asm!("endbr64", $x86_64, "jmp {}", sym $to)
        }

        $(#[$about])*
        #[doc = "\n# Safety\n\nThe caller must follow SQLite's documentation of this function."]
        #[cfg(target_arch = "aarch64")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            // The return address is in x30; `hint 34` is `bti c`.
            std::arch::naked_asm!("hint 34", $aarch64, "b {}", sym $to)
        }

        $(#[$about])*
        #[doc = "\n# Safety\n\nThe caller must follow SQLite's documentation of this function."]
        // On other processor architectures, the caller is unknown, so only programs with a single SQLite
        // library are supported.
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            // SAFETY: the arguments come from the caller unchanged.
            unsafe { $to($($argument,)* ptr::null()) }
        }
    };
}

exported!(
    /// Calls `sqlite3_open_v2` of the caller's SQLite.
    sqlite3_open_v2(name: *const c_char, db: *mut *mut sqlite3, flags: c_int, vfs: *const c_char)
        => open_v2, "mov r8, [rsp]", "mov x4, x30"
);
exported!(
    /// Calls `sqlite3_open` of the caller's SQLite.
    sqlite3_open(name: *const c_void, db: *mut *mut sqlite3) => open_utf8, "mov rdx, [rsp]", "mov x2, x30"
);
exported!(
    /// Calls `sqlite3_open16` of the caller's SQLite.
    sqlite3_open16(name: *const c_void, db: *mut *mut sqlite3) => open_utf16, "mov rdx, [rsp]", "mov x2, x30"
);

unsafe extern "C" fn open_v2(
    name: *const c_char,
    db: *mut *mut sqlite3,
    flags: c_int,
    vfs: *const c_char,
    caller: *const c_void,
) -> c_int {
    let Some(theirs) = found(c"sqlite3_open_v2", caller) else { return refused(db) };
    // SAFETY: SQLite's function of this name has this type, and the arguments come from the caller.
    let code = unsafe { transmute::<*mut c_void, OpenV2>(theirs)(name, db, flags, vfs) };
    // SAFETY: the program does not know the connection yet.
    unsafe { opened(theirs, code, db) }
}

unsafe extern "C" fn open_utf8(name: *const c_void, db: *mut *mut sqlite3, caller: *const c_void) -> c_int {
    // SAFETY: the arguments come from the caller unchanged.
    unsafe { open_plain(c"sqlite3_open", name, db, caller) }
}

unsafe extern "C" fn open_utf16(name: *const c_void, db: *mut *mut sqlite3, caller: *const c_void) -> c_int {
    // SAFETY: the arguments come from the caller unchanged.
    unsafe { open_plain(c"sqlite3_open16", name, db, caller) }
}

unsafe fn open_plain(
    function: &CStr,
    name: *const c_void,
    db: *mut *mut sqlite3,
    caller: *const c_void,
) -> c_int {
    let Some(theirs) = found(function, caller) else { return refused(db) };
    // SAFETY: both functions have this type, and the arguments come from the caller.
    let code = unsafe { transmute::<*mut c_void, OpenPlain>(theirs)(name, db) };
    // SAFETY: the program does not know the connection yet.
    unsafe { opened(theirs, code, db) }
}

/// Makes the settings of [`crate::pins`] on a connection that SQLite's function `theirs` has opened with the result
/// `code`, and returns this result.
unsafe fn opened(theirs: *mut c_void, code: c_int, db: *mut *mut sqlite3) -> c_int {
    guarded(
        || {
            // SAFETY: the caller passed the pointer for the connection.
            let connection = if db.is_null() { ptr::null_mut() } else { unsafe { *db } };
            if code == SQLITE_OK
                && !connection.is_null()
                && !World::get().pins.is_empty()
                && let Some(api) = Api::by_name(|name| library::function(name, theirs))
            {
                // SAFETY: SQLite has just opened the connection.
                unsafe { pinned::set(&api, connection) };
            }
        },
        || (),
    );
    code
}

/// Attaches to the caller's SQLite library, and returns the library's own `function`.
fn found(function: &CStr, caller: *const c_void) -> Option<*mut c_void> {
    let theirs = guarded(|| library::function(function, caller), ptr::null_mut);
    if theirs.is_null() {
        return None;
    }
    guarded(
        || {
            match Api::by_name(|name| library::function(name, theirs)) {
            Some(api) => vfs::attach(&api),
            None => World::get().said.once(
                "this program's SQLite is too old: fonio needs SQLite 3.8.7 or later. Its databases stay durable",
            ),
        }
        },
        || (),
    );
    Some(theirs)
}

fn refused(db: *mut *mut sqlite3) -> c_int {
    World::get().said.once(
        "the program has several SQLite libraries, and the one to call is unknown: start it without this library, or load this library as an extension",
    );
    if !db.is_null() {
        // SAFETY: the caller passed the pointer for the connection; null means that there is no connection.
        unsafe { *db = ptr::null_mut() };
    }
    SQLITE_ERROR
}
