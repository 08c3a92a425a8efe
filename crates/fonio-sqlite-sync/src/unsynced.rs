//! The class `cache`: decides from which moment on a database is not synced.
//!
//! A file is synced until it has the header of a SQLite database and the header is on the disk, and until its
//! marker is. The header shows after a power cut that the file is a database and may be removed.

use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use fonio_sync_policy::{Boots, Cache, HEADER, PolicyError, State};

use crate::sqlite::*;

/// A database of the class `cache` that is open in this process.
pub struct Unsynced {
    database: PathBuf,
    stage: AtomicU8,
    say: fn(&str),
}

/// The file has no header yet.
const EMPTY: u8 = 0;
const IS_NOT_SYNCED: u8 = 1;
/// The file is not a database, or the marker cannot be written.
const STAYS_DURABLE: u8 = 2;

impl Unsynced {
    /// Creates the state of the database at `path`. `say` prints messages.
    pub fn new(path: &Path, say: fn(&str)) -> Arc<Unsynced> {
        Arc::new(Unsynced { database: path.to_owned(), stage: AtomicU8::new(EMPTY), say })
    }

    /// Returns whether syncs of the database's files can be dropped.
    pub fn is_not_synced(&self) -> bool {
        self.stage.load(Ordering::Acquire) == IS_NOT_SYNCED
    }

    /// Stops syncing the database, if its header and its marker are on the disk. Call it when the main file
    /// was opened or synced.
    ///
    /// # Safety
    ///
    /// `file` is the database's open main file, and `methods` are the VFS's own functions for the file.
    pub unsafe fn begin(&self, file: *mut sqlite3_file, methods: &sqlite3_io_methods, is_synced: bool) {
        // SAFETY: the caller guarantees that the file is open.
        let stage = match unsafe { self.mark(file, methods, is_synced) } {
            Ok(true) => IS_NOT_SYNCED,
            Ok(false) => EMPTY,
            Err(error) => {
                (self.say)(&format!("{error}. {} stays durable.", self.database.display()));
                STAYS_DURABLE
            }
        };
        self.stage.store(stage, Ordering::Release);
    }

    /// Continues after a successful sync of the main file.
    ///
    /// # Safety
    ///
    /// The conditions are those of [`Unsynced::begin`].
    pub unsafe fn synced(&self, file: *mut sqlite3_file, methods: &sqlite3_io_methods) {
        if self.stage.load(Ordering::Acquire) == EMPTY {
            // SAFETY: the caller guarantees that the file is open.
            unsafe { self.begin(file, methods, true) };
        }
    }

    /// Marks the database; returns false if the file is empty.
    unsafe fn mark(
        &self,
        file: *mut sqlite3_file,
        methods: &sqlite3_io_methods,
        is_synced: bool,
    ) -> Result<bool, String> {
        let mut header = [0u8; HEADER.len()];
        let Some(read) = methods.read else { return Ok(false) };
        // SAFETY: the buffer has the given length. Reading a shorter file gives an error.
        let code = unsafe { read(file, header.as_mut_ptr().cast(), header.len() as c_int, 0) };
        if code != SQLITE_OK {
            return Ok(false);
        }
        if header != *HEADER {
            return Err(format!(
                "{} does not begin like a SQLite database, for example because it is encrypted",
                self.database.display()
            ));
        }
        let said = |error: PolicyError| error.to_string();
        let boots = Boots::read().map_err(said)?;
        let cache = Cache::at(&self.database);
        if !is_synced
            && cache.state(&boots).map_err(said)? != State::OfThisBoot
            && let Some(sync) = methods.sync
        {
            // SAFETY: the caller guarantees that the file is open.
            let code = unsafe { sync(file, SQLITE_SYNC_NORMAL) };
            if code != SQLITE_OK {
                return Err(format!("cannot sync {}: SQLite's error {code}", self.database.display()));
            }
        }
        cache.mark(&boots).map_err(said)?;
        Ok(true)
    }
}
