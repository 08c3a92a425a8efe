//! A shared library for programs that use SQLite: it syncs each database as a policy says
//! ([`fonio_sync_policy`]), regardless of the program's own settings. `docs/sync-policy.md` describes it for
//! users.
//!
//! It never brings an SQLite of its own, but works on the one that the program uses: `library.rs` finds that. It comes into a
//! program in one of three ways: as an extension or as `SQLITE_EXTRA_INIT` (`extension.rs`), or by LD_PRELOAD
//! (`preload.rs`).
//!
//! # How it gets between SQLite and its files
//!
//! SQLite calls files through two tables of functions: that of a VFS, which opens files, and that of each open file. `vfs.rs`
//! replaces `xOpen` in the tables of SQLite's own VFSes for Unix, in place. Therefore every look-up of a VFS by name, every VFS that
//! an application has put above one of them, and those that were found before, come here too. When a file is open that the policy
//! concerns, `file.rs` gives it a copy of its table in which the few functions are replaced that matter for its class. The size
//! and the contents of SQLite's file object stay as they are, and all other functions, for example those for
//! locks and for the shared memory of a write-ahead log, are called without a detour. Databases of the class
//! `durable` are not touched at all.
//!
//! # Invariants
//!
//! - A file that is not understood, an error and a panic of ours lead to SQLite's own behaviour: more syncs, never fewer.
//! - No panic crosses the C interface: `guarded` wraps each function that C calls.
//! - Closing any descriptor of a file drops this process's locks on it (fcntl(2)). So nothing here opens a database that may be in
//!   use, nor the shared memory of its write-ahead log.

mod api;
mod class;
pub mod extension;
mod file;
pub mod fsync;
mod library;
mod open_databases;
mod ordered;
mod patched;
pub mod preload;
mod replaced;
mod say;
mod seen;
mod sqlite;
mod syncer;
mod vfs;
mod wal;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `ours`; after a panic in it, `theirs`.
fn guarded<T>(ours: impl FnOnce() -> T, theirs: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(ours)) {
        Ok(result) => result,
        Err(_) => theirs(),
    }
}
