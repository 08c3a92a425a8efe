//! Intercepts the opening of database files.
//!
//! [`attach`] replaces `xOpen` and `xDelete` in the tables of SQLite's own VFSes ("unix", "unix-excl", …).
//! All code that opens an SQLite database, including an application's own VFS on top of SQLite's VFSes,
//! eventually calls these functions.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::api::Api;
use crate::class::{self, Decision};
use crate::file::{Hooked, Role};
use crate::guarded;
use crate::library;
use crate::log::Log;
use crate::open_databases::Treatment;
use crate::patched::{PATCHED, Patched, patched};
use crate::replaced::replace;
use crate::seen::Part;
use crate::sqlite::*;
use crate::wal::Wal;
use crate::world::World;

/// Replaces functions of this SQLite library's VFSes, unless already replaced. Initializes SQLite.
pub fn attach(api: &Api) {
    let mut vfs = api.first_vfs();
    let _one_by_one = World::get().attaching.lock().unwrap_or_else(PoisonError::into_inner);
    while !vfs.is_null() {
        // SAFETY: SQLite's list contains valid VFSes, and SQLite's own VFSes are never unregistered.
        let (name, open_now, delete_now, next) =
            unsafe { (CStr::from_ptr((*vfs).name), (*vfs).open, (*vfs).delete, (*vfs).next) };
        let is_sqlites = name.to_bytes().starts_with(b"unix");
        if is_sqlites && patched(vfs).is_none() {
            let entry = Patched { vfs: vfs.addr(), open: open_now, delete: delete_now, api: *api };
            // The program must not unload its SQLite, because another library could get the same addresses.
            library::keep(api.address());
            let free = PATCHED.iter().find(|slot| slot.get().is_none());
            if free.is_some_and(|slot| slot.set(entry).is_ok()) {
                // SAFETY: SQLite's VFSes contain the list's pointers, so they are in writable memory. If
                // another thread opens a file at the same time, it calls the old or the new function.
                unsafe {
                    let place = (&raw mut (*vfs).open).cast::<*mut ()>();
                    AtomicPtr::from_ptr(place).store(open as *mut (), Ordering::Release);
                    let place = (&raw mut (*vfs).delete).cast::<*mut ()>();
                    AtomicPtr::from_ptr(place).store(delete as *mut (), Ordering::Release);
                }
            }
        }
        vfs = next;
    }
}

/// Converts an SQLite string to a path.
///
/// # Safety
///
/// `name` is a valid C string.
pub unsafe fn path(name: *const c_char) -> PathBuf {
    // SAFETY: the caller guarantees a valid C string.
    Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes())).to_owned()
}

/// Returns the path of the database that a file belongs to.
fn database_of(path: &Path) -> PathBuf {
    let bytes = path.as_os_str().as_bytes();
    let database = [&b"-wal"[..], b"-journal"].iter().find_map(|end| bytes.strip_suffix(*end));
    Path::new(OsStr::from_bytes(database.unwrap_or(bytes))).to_owned()
}

/// Replaces `xOpen` of SQLite's VFSes.
unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let Some(patched) = patched(vfs) else {
        // An application has copied a VFS together with our function. The patched VFSes open the same files,
        // so use the first patched VFS.
        return match PATCHED[0].get() {
            // SAFETY: the arguments come from SQLite.
            Some(first) => unsafe { (first.open)(vfs, name, file, flags, out) },
            None => SQLITE_CANTOPEN,
        };
    };
    // SAFETY: the arguments come from SQLite.
    let theirs = || unsafe { (patched.open)(vfs, name, file, flags, out) };
    if name.is_null() || flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL) == 0 {
        return theirs();
    }
    // SAFETY: SQLite passes a valid C string.
    let path = unsafe { path(name) };
    let is_main = flags & SQLITE_OPEN_MAIN_DB != 0;
    let decided =
        guarded(|| if is_main { class::decide(&path, flags) } else { treated(&path) }, || Decision::Durable);
    let treatment = match decided {
        Decision::Durable => return theirs(),
        Decision::Refused(code) => {
            // SAFETY: null tells SQLite that the file is not open.
            unsafe { (*file).methods = ptr::null() };
            return code;
        }
        Decision::Treated(treatment) => treatment,
    };
    let code = theirs();
    if code != SQLITE_OK {
        return code;
    }
    let hook = || {
        // SAFETY: the file was just opened, and SQLite does not use it yet.
        unsafe {
            if is_main {
                hook_main(&patched.api, file, &path, treatment);
                true
            } else {
                hook_other(file, &path, flags & SQLITE_OPEN_WAL != 0, treatment)
            }
        }
    };
    if guarded(hook, || false) {
        return SQLITE_OK;
    }
    // Opening the log fails, because a log that is never synced must not be written. SAFETY: the file is
    // open, and SQLite does not close a file after a failed open.
    unsafe {
        if let Some(close) = (*(*file).methods).close {
            close(file);
        }
        (*file).methods = ptr::null();
    }
    SQLITE_CANTOPEN
}

/// Returns how the database of a journal or log is treated.
fn treated(path: &Path) -> Decision {
    World::get().databases.treatment(&database_of(path)).map_or(Decision::Durable, Decision::Treated)
}

/// Replaces SQLite's I/O methods of a database's main file. If this fails, the database stays durable.
unsafe fn hook_main(api: &Api, file: *mut sqlite3_file, path: &Path, treatment: Treatment) {
    let world = World::get();
    if !class::is_possible(path, &treatment) {
        return;
    }
    let Some(treatment) = world.databases.opened(path, treatment) else { return };
    let role = match treatment {
        Treatment::Unsynced(unsynced) => Role::Unsynced(Part::Database, unsynced),
        Treatment::Watched(seen) => Role::Watched(Part::Database, seen),
        Treatment::Pinned(pinned) => Role::Pinned(pinned),
        Treatment::Ordered { to_wal, .. } => {
            api.call_when_opened(crate::ordered::opened);
            Role::Ordered { is_relaxed: AtomicBool::new(false), to_wal }
        }
    };
    if let Role::Unsynced(_, unsynced) = &role {
        // SAFETY: the caller guarantees that `file` is valid, and the file is not hooked yet.
        unsafe { unsynced.begin(file, &*(*file).methods, false) };
    }
    // SAFETY: the caller guarantees that `file` is valid.
    unsafe { Hooked::put(file, role, Some(path.to_owned()), replace) };
}

/// Replaces SQLite's I/O methods of a log or journal. Returns false if the file must not be used.
unsafe fn hook_other(file: *mut sqlite3_file, path: &Path, is_log: bool, treatment: Treatment) -> bool {
    let part = if is_log { Part::Log } else { Part::Journal };
    let role = match treatment {
        Treatment::Unsynced(unsynced) => Role::Unsynced(part, unsynced),
        Treatment::Watched(seen) => Role::Watched(part, seen),
        Treatment::Pinned(_) => return true,
        Treatment::Ordered { .. } if !is_log => return true,
        Treatment::Ordered { window, .. } => {
            match Wal::new(path, window, |said| World::get().said.once(said)).and_then(Log::new) {
                Ok(log) => Role::Wal(log),
                Err(error) => {
                    let shown = path.display();
                    World::get().said.once(&format!("cannot open {shown} to sync it: {error}"));
                    return false;
                }
            }
        }
    };
    // SAFETY: the caller guarantees that `file` is valid.
    unsafe { Hooked::put(file, role, None, replace) };
    true
}

/// Applies the policy to a database that was open before this library was loaded. The database must have no
/// unsynced writes from an earlier boot.
///
/// # Safety
///
/// `file` is the database's main file, and `log` its write-ahead log or null. Both files are open, and no
/// other thread uses them.
pub unsafe fn adopt(api: &Api, path: &Path, file: *mut sqlite3_file, log: *mut sqlite3_file) {
    let treatment = match class::decide_on_open(path) {
        Decision::Treated(treatment) => treatment,
        Decision::Durable | Decision::Refused(_) => return,
    };
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    // SAFETY: the caller guarantees that the files are valid.
    unsafe {
        // Hook the log first, so that at every moment either SQLite or this library syncs the log.
        if !log.is_null()
            && Hooked::of(log).is_none()
            && !hook_other(log, Path::new(&wal), true, treatment.clone())
        {
            return;
        }
        hook_main(api, file, path, treatment);
    }
}

/// Replaces `xDelete` of SQLite's VFSes.
unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync_folder: c_int) -> c_int {
    let Some(patched) = patched(vfs).or_else(|| PATCHED[0].get()) else { return SQLITE_ERROR };
    let is_unsynced = || {
        // SAFETY: SQLite passes a valid C string.
        let database = database_of(&unsafe { path(name) });
        match World::get().databases.treatment(&database) {
            Some(Treatment::Unsynced(unsynced)) => unsynced.is_not_synced(),
            _ => false,
        }
    };
    let sync_folder = if sync_folder != 0 && guarded(is_unsynced, || false) { 0 } else { sync_folder };
    // SAFETY: the arguments come from SQLite.
    unsafe { (patched.delete)(vfs, name, sync_folder) }
}
