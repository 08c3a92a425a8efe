//! Replaces SQLite's I/O methods of an open file.
//!
//! Lifecycle: after SQLite has opened the file, [`Hooked::put`] installs a table of methods that contains our
//! functions. [`close`] restores the original table, closes the file and frees our table. The original table
//! belongs to SQLite and is never written.

use std::ffi::c_int;
use std::mem::offset_of;
use std::path::PathBuf;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::guarded;
use crate::log::Log;
use crate::open_databases::Treatment;
use crate::pins::Pinned;
use crate::seen::{Part, Seen};
use crate::sqlite::*;
use crate::unsynced::Unsynced;
use crate::world::World;

/// The role of a file for this library.
pub enum Role {
    /// A file of a database that is not synced once its header and its marker are on the disk.
    Unsynced(Part, Arc<Unsynced>),
    /// The main file of a database whose write-ahead log this library syncs.
    Ordered {
        /// Whether SQLite no longer syncs the commits of the database.
        is_relaxed: AtomicBool,
        /// Whether to change the database to write-ahead mode.
        to_wal: bool,
    },
    /// A write-ahead log that this library syncs.
    Wal(Log),
    /// The main file of a database whose connections get settings.
    Pinned(Arc<Pinned>),
    /// A file whose syncs are counted.
    Watched(Part, Arc<Seen>),
}

/// A function table in which some functions are replaced, and this library's data about the file.
#[repr(C)]
pub struct Hooked {
    /// The table of functions must be the first field: SQLite's pointer to the table is also the pointer to
    /// this structure.
    methods: sqlite3_io_methods,
    original: *const sqlite3_io_methods,
    /// The role of the file.
    pub role: Role,
    /// The path of the database, if this file is its main file.
    counted: Option<PathBuf>,
}

impl Hooked {
    /// Replaces methods of an open file: `xClose`, and the methods that `replace` selects for the role. A
    /// main file must already be counted as open; closing it decrements the count.
    ///
    /// # Safety
    ///
    /// `file` was opened by a VFS and is not hooked yet, and no other thread uses it.
    pub unsafe fn put(
        file: *mut sqlite3_file,
        role: Role,
        counted: Option<PathBuf>,
        replace: fn(&mut sqlite3_io_methods, &Role),
    ) {
        // SAFETY: the VFS has opened the file, so the file has a table.
        let original = unsafe { (*file).methods };
        // SAFETY: the table contains at least the functions of the version that it states.
        let mut methods = unsafe { copy(original) };
        methods.close = Some(close);
        replace(&mut methods, &role);
        let hooked = Box::into_raw(Box::new(Hooked { methods, original, role, counted }));
        // SAFETY: `methods` is the first field, and `close` frees it together with the rest.
        unsafe { (*file).methods = hooked.cast() };
    }

    /// Returns this library's data about the file, or `None` if the file is not hooked.
    ///
    /// # Safety
    ///
    /// `file` is open, and stays open for `'a`.
    pub unsafe fn of<'a>(file: *mut sqlite3_file) -> Option<&'a Hooked> {
        // SAFETY: an open file has a table, and only our tables contain our close function.
        unsafe {
            let methods = (*file).methods;
            let is_ours = (*methods).close.is_some_and(|other| ptr::fn_addr_eq(other, close as Close));
            is_ours.then(|| &*methods.cast::<Hooked>())
        }
    }

    /// Returns the VFS's own functions for the file.
    pub fn original(&self) -> &sqlite3_io_methods {
        // SAFETY: the VFS's table is valid while the file is open. All functions that we call exist in every
        // version of the table.
        unsafe { &*self.original }
    }

    /// Syncs the file with the VFS's own function.
    ///
    /// # Safety
    ///
    /// `file` is the file that contains this `Hooked`.
    pub unsafe fn sync_really(&self, file: *mut sqlite3_file, flags: c_int) -> c_int {
        // SAFETY: the caller guarantees that `file` is this open file.
        self.original().sync.map_or(SQLITE_OK, |sync| unsafe { sync(file, flags) })
    }

    /// Writes to the file with the VFS's own function.
    ///
    /// # Safety
    ///
    /// `file` is the file that contains this `Hooked`, and the other arguments come from SQLite.
    pub unsafe fn write_really(
        &self,
        file: *mut sqlite3_file,
        from: *const std::ffi::c_void,
        bytes: c_int,
        at: i64,
    ) -> c_int {
        // SAFETY: the caller guarantees that `file` is this open file.
        self.original().write.map_or(SQLITE_ERROR, |write| unsafe { write(file, from, bytes, at) })
    }
}

/// Copies the functions that exist in the version of the table.
unsafe fn copy(from: *const sqlite3_io_methods) -> sqlite3_io_methods {
    // SAFETY: zero is a valid number, and a null function is `None`.
    let mut to: sqlite3_io_methods = unsafe { std::mem::zeroed() };
    // SAFETY: every table of functions contains its version.
    let version = unsafe { (*from).version };
    let bytes = match version {
        ..=1 => offset_of!(sqlite3_io_methods, shm_map),
        2 => offset_of!(sqlite3_io_methods, fetch),
        3.. => size_of::<sqlite3_io_methods>(),
    };
    // SAFETY: a table of this version is `bytes` bytes long.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), (&raw mut to).cast::<u8>(), bytes) };
    // Our copy contains no functions of later versions.
    to.version = version.min(3);
    to
}

/// Replaces `xClose` of all hooked files.
unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite calls this once for each file with our table.
    let hooked = unsafe { Box::from_raw((*file).methods.cast_mut().cast::<Hooked>()) };
    let before = guarded(
        || match &hooked.role {
            Role::Wal(log) => log.wal_if_used().map_or(SQLITE_OK, |wal| {
                World::get().syncer.remove(&wal);
                wal.finish()
            }),
            _ => SQLITE_OK,
        },
        || SQLITE_IOERR_FSYNC,
    );
    // SAFETY: the VFS's own table closes the VFS's own file.
    let after = unsafe {
        (*file).methods = hooked.original;
        hooked.original().close.map_or(SQLITE_OK, |close| close(file))
    };
    guarded(
        || {
            if let Some(database) = &hooked.counted {
                let world = World::get();
                let last = world.databases.closed(database);
                if matches!(hooked.role, Role::Ordered { .. }) {
                    world.syncer.leave();
                }
                if let Some(Treatment::Watched(seen)) = last {
                    seen.suggest(database);
                }
            }
            drop(hooked);
        },
        || (),
    );
    if before != SQLITE_OK { before } else { after }
}

impl Role {
    /// Returns whether SQLite no longer syncs the commits of this database.
    pub fn is_relaxed(&self) -> bool {
        matches!(self, Role::Ordered { is_relaxed, .. } if is_relaxed.load(Ordering::Acquire))
    }
}
