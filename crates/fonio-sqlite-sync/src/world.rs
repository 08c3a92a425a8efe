//! The state of this library in a process.
//!
//! A child of fork(2) has only the calling thread, and locks that other threads held stay locked in the
//! child. So a child process begins with a new state of this library. SQLite does not allow the child to use
//! databases that its parent opened.

use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, Once};

use fonio_sync_policy::{DEFAULT, Policy, Source, VARIABLE};

use crate::open_databases::OpenDatabases;
use crate::say::Said;
use crate::syncer::Syncer;

pub struct World {
    policy: Mutex<Source>,
    pub databases: OpenDatabases,
    /// The thread that syncs write-ahead logs.
    pub syncer: Syncer,
    pub said: Said,
}

static WORLD: AtomicPtr<World> = AtomicPtr::new(ptr::null_mut());

impl World {
    /// Returns the state of this library in the current process.
    pub fn get() -> &'static World {
        static FIRST: Once = Once::new();
        FIRST.call_once(|| {
            WORLD.store(World::new(), Ordering::Release);
            // SAFETY: both functions stay valid, because this library is never unloaded.
            unsafe {
                libc::pthread_atfork(None, None, Some(in_child));
                libc::atexit(at_exit);
            }
        });
        // SAFETY: the pointer was stored above, and no world is ever freed.
        unsafe { &*WORLD.load(Ordering::Acquire) }
    }

    fn new() -> *mut World {
        Box::into_raw(Box::new(World {
            policy: Mutex::new(source()),
            databases: OpenDatabases::default(),
            syncer: Syncer::default(),
            said: Said::default(),
        }))
    }

    /// Returns the current policy.
    pub fn policy(&self) -> Arc<Policy> {
        let Ok(mut source) = self.policy.lock() else { return Arc::default() };
        let (policy, error) = source.current();
        drop(source);
        if let Some(error) = error {
            self.said.once(&format!("{error}. Every database stays durable."));
        }
        policy
    }
}

fn source() -> Source {
    // SAFETY: `getauxval` reads a number that the kernel passed to the program.
    let is_privileged = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    // A user who starts a set-user-ID program must not control the policy for its databases.
    match std::env::var_os(VARIABLE).filter(|path| !is_privileged && !path.is_empty()) {
        Some(path) => Source::new(Path::new(&path)),
        None => Source::new(Path::new(DEFAULT)),
    }
}

unsafe extern "C" fn in_child() {
    WORLD.store(World::new(), Ordering::Release);
}

/// Syncs remaining writes when a program exits without closing its databases.
extern "C" fn at_exit() {
    crate::guarded(|| World::get().syncer.sync_all(), || ());
}
