//! A shared library for programs that use SQLite. The library syncs each database according to a policy
//! ([`fonio_sync_policy`]), regardless of the program's own settings. `docs/sync-policy.md` is the user
//! documentation.
//!
//! The library does not contain SQLite, but uses the SQLite library of the program, which `library.rs` finds.
//! A program loads this library in one of three ways: as an extension or as `SQLITE_EXTRA_INIT`
//! (`extension.rs`), or by LD_PRELOAD (`preload.rs`).
//!
//! # Interception of file operations
//!
//! SQLite accesses files through two function tables: a VFS has a table to open files, and each open file has
//! its own table. `vfs.rs` replaces `xOpen` in place, in the tables of SQLite's own Unix VFSes. The
//! replacement also covers VFSes that the program looks up by name or has looked up before, and the
//! application's own VFSes on top of such VFSes. If the policy affects an open file, `file.rs` gives the file
//! a copy of its table, and replaces in this copy the few functions that matter for the file's class.
//! SQLite's file object keeps its size and contents. All other functions, such as those for locks and shared
//! memory, are called directly. Databases of the class `durable` are not modified at all.
//!
//! # Invariants
//!
//! - If a file is unknown, or an error or a panic occurs in this library, SQLite's own behaviour applies:
//!   there are more syncs, never fewer.
//! - No panic crosses the C interface: `guarded` wraps each function that C calls.
//! - fsync(2) can be called in a signal handler, so `fsync.rs` allocates no memory and takes no lock.
//! - The library is never unloaded, because SQLite's tables point to its functions.
//! - Closing any descriptor of a file drops this process's locks on it (fcntl(2)). So this library never
//!   opens a database that may be in use, or the shared memory of its write-ahead log.

mod api;
mod class;
pub mod extension;
mod file;
pub mod fsync;
mod known;
mod library;
mod log;
mod open_databases;
mod ordered;
mod patched;
mod pinned;
mod pins;
pub mod preload;
mod replaced;
mod say;
mod seen;
mod sqlite;
mod syncer;
mod unsynced;
mod vfs;
mod wal;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `ours`; if it panics, runs `theirs`.
fn guarded<T>(ours: impl FnOnce() -> T, theirs: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(ours)) {
        Ok(result) => result,
        Err(_) => theirs(),
    }
}
