//! Drops the fsync calls of programs in which this library cannot find SQLite's functions, because the
//! programs are linked statically with SQLite.
//!
//! Fsync calls are dropped only for databases of rules with `drop-fsync`. The sync of a commit looks like the
//! sync of a checkpoint, so either all syncs of a database are dropped, or none. Before programs start, the
//! systemd unit (`fonio sync-policy boot`) removes stale databases.

use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use fonio_sync_policy::{Boots, COMPANIONS, Cache, Class, Policy, State, network_filesystem};

use crate::guarded;
use crate::world::World;

/// Interval between two checks of the policy file.
const LOOK: Duration = Duration::from_secs(1);

/// Replaces `fsync` of the C library.
///
/// # Safety
///
/// Every call is safe: the kernel checks the descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    if guarded(|| is_dropped(fd), || false) {
        return 0;
    }
    // SAFETY: the kernel checks the descriptor.
    unsafe { libc::syscall(libc::SYS_fsync, fd) as c_int }
}

/// Replaces `fdatasync` of the C library.
///
/// # Safety
///
/// Every call is safe: the kernel checks the descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    if guarded(|| is_dropped(fd), || false) {
        return 0;
    }
    // SAFETY: the kernel checks the descriptor.
    unsafe { libc::syscall(libc::SYS_fdatasync, fd) as c_int }
}

/// Returns whether the file belongs to a database whose syncs are dropped.
fn is_dropped(fd: c_int) -> bool {
    if fd < 0 {
        return false;
    }
    let policy = policy();
    if !policy.drops_fsync() {
        return false;
    }
    // SAFETY: the descriptor is borrowed only during the call, and the kernel checks it.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let Ok(stat) = rustix::fs::fstat(fd) else { return false };
    if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
        return false;
    }
    let Some(path) = path_of(fd) else { return false };
    let text = path.to_string_lossy();
    let database = COMPANIONS.iter().find_map(|end| text.strip_suffix(end)).unwrap_or(&text);
    let database = Path::new(database);
    policy.class(database) == Class::Cache { drop_fsync: true } && is_marked(database)
}

fn policy() -> std::sync::Arc<Policy> {
    static LAST: Mutex<Option<(Instant, std::sync::Arc<Policy>)>> = Mutex::new(None);
    // If another thread of the parent held this lock at a fork(2), the lock stays locked forever in the
    // child.
    let Ok(mut last) = LAST.try_lock() else { return World::get().policy() };
    match &*last {
        Some((when, policy)) if when.elapsed() < LOOK => policy.clone(),
        _ => {
            let policy = World::get().policy();
            *last = Some((Instant::now(), policy.clone()));
            policy
        }
    }
}

fn path_of(fd: BorrowedFd<'_>) -> Option<PathBuf> {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()
}

/// Returns whether the marker of a database names this boot; writes the marker if needed.
fn is_marked(database: &Path) -> bool {
    let world = World::get();
    let folder = database.parent().unwrap_or(Path::new("/"));
    let mark = || -> Result<(), String> {
        if let Some(name) = network_filesystem(folder).map_err(|error| error.to_string())? {
            return Err(format!("{} is on {name}", database.display()));
        }
        let boots = Boots::read().map_err(|error| error.to_string())?;
        let cache = Cache::at(database);
        if cache.state(&boots).map_err(|error| error.to_string())? == State::Stale {
            return Err(format!(
                "{} is a cache from a boot that did not end cleanly: stop the program, remove the database, and enable fonio-sync-policy.service, which removes such databases before programs start",
                database.display()
            ));
        }
        cache.mark(&boots).map_err(|error| error.to_string())
    };
    match mark() {
        Ok(()) => true,
        Err(error) => {
            world.said.once(&format!("{error}. {} stays durable.", database.display()));
            false
        }
    }
}
