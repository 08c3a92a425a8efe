//! The state of this library in a process.
//!
//! A child of fork(2) has only the calling thread, and locks that other threads held stay locked in the
//! child. So a child process begins with a new state of this library, which takes over the open databases.
//! SQLite does not allow a child to use connections of its parent, but programs that put themselves into the
//! background do so. [`crate::log`] continues the syncs of such connections in the child.
//!
//! A child of vfork(2) shares the memory of its parent, and therefore also this state.

use std::ffi::c_void;
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use fonio_sync_policy::{DEFAULT, Policy, Source, VARIABLE};

use crate::library;
use crate::open_databases::OpenDatabases;
use crate::pins::Pins;
use crate::say::{self, Said};
use crate::syncer::Syncer;

pub struct World {
    policy: Mutex<Source>,
    pub databases: OpenDatabases,
    /// The thread that syncs write-ahead logs.
    pub syncer: Syncer,
    pub said: Said,
    /// Settings that the environment gives connections.
    pub pins: Pins,
    /// Held while this library replaces functions of SQLite.
    pub attaching: Mutex<()>,
}

static WORLD: AtomicPtr<World> = AtomicPtr::new(ptr::null_mut());

/// Points to the stage of this process. The kernel sets the stage to [`NEW`] in a child of fork(2), also if
/// the program does not call fork through the C library.
static STAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
/// The stage, if the kernel cannot clear memory in a child (before Linux 4.14).
static STAGE_WITHOUT_KERNEL: AtomicU32 = AtomicU32::new(NEW);

const NEW: u32 = 0;
const BEGINNING: u32 = 1;
const READY: u32 = 2;

impl World {
    /// Returns the state of this library in the current process.
    pub fn get() -> &'static World {
        let stage = stage();
        while stage.load(Ordering::Acquire) != READY {
            match stage.compare_exchange(NEW, BEGINNING, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => {
                    // SAFETY: the pointer is null or comes from the parent process, and no world is freed.
                    let before = unsafe { WORLD.load(Ordering::Acquire).as_ref() };
                    WORLD.store(Box::into_raw(Box::new(World::new(before))), Ordering::Release);
                    stage.store(READY, Ordering::Release);
                }
                Err(_) => std::thread::yield_now(),
            }
        }
        // SAFETY: the pointer was stored above, and no world is ever freed.
        unsafe { &*WORLD.load(Ordering::Acquire) }
    }

    fn new(before: Option<&World>) -> World {
        World {
            policy: Mutex::new(Source::new(&policy_file())),
            databases: before.map(|before| before.databases.inherited()).unwrap_or_default(),
            syncer: Syncer::default(),
            said: Said::default(),
            pins: before.map_or_else(Pins::of_environment, |before| before.pins.clone()),
            attaching: Mutex::default(),
        }
    }

    /// Identifies this state; a child process has another number than its parent.
    pub fn number(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Returns the current policy.
    pub fn policy(&self) -> Arc<Policy> {
        // A proof measures the given settings alone.
        if !self.pins.is_empty() {
            return Arc::default();
        }
        let Ok(mut source) = self.policy.lock() else { return Arc::default() };
        let (policy, error) = source.current();
        drop(source);
        if let Some(error) = error {
            say::policy_error_is_said();
            self.said.once(&format!("{error}. Every database stays durable."));
        }
        policy
    }
}

/// Returns the path of the policy file.
pub fn policy_file() -> PathBuf {
    // SAFETY: `getauxval` reads a number that the kernel passed to the program.
    let is_privileged = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    // A user who starts a set-user-ID program must not control the policy for its databases.
    let chosen = std::env::var_os(VARIABLE).filter(|path| !is_privileged && !path.is_empty());
    chosen.map_or_else(|| DEFAULT.into(), PathBuf::from)
}

/// Returns the stage of this process. The first call prepares the library's end.
fn stage() -> &'static AtomicU32 {
    // SAFETY: the pointer is null, or points to memory that is never freed.
    if let Some(stage) = unsafe { STAGE.load(Ordering::Acquire).as_ref() } {
        return stage;
    }
    let new = cleared_in_children().unwrap_or((&raw const STAGE_WITHOUT_KERNEL).cast_mut());
    let before = STAGE.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire);
    if before.is_ok() {
        library::keep(stage as *const c_void);
        // SAFETY: both functions stay valid, because the library is never unloaded.
        unsafe {
            if ptr::eq(new, &raw const STAGE_WITHOUT_KERNEL) {
                libc::pthread_atfork(None, None, Some(in_child));
            }
            libc::atexit(at_exit);
        }
    }
    // SAFETY: both pointers point to memory that is never freed; another thread's memory is leaked once.
    unsafe { &*before.err().unwrap_or(new) }
}

/// Returns a number in memory that the kernel clears in children; `None` if the kernel cannot do this.
fn cleared_in_children() -> Option<*mut AtomicU32> {
    let bytes = 4096;
    // SAFETY: the memory is new, and nothing else uses it.
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = libc::mmap(ptr::null_mut(), bytes, protection, kind, -1, 0);
        if page == libc::MAP_FAILED {
            return None;
        }
        if libc::madvise(page, bytes, libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(page, bytes);
            return None;
        }
        Some(page.cast())
    }
}

unsafe extern "C" fn in_child() {
    STAGE_WITHOUT_KERNEL.store(NEW, Ordering::Release);
}

/// Syncs remaining writes when a program exits without closing its databases.
extern "C" fn at_exit() {
    crate::guarded(
        || {
            if stage().load(Ordering::Acquire) == READY {
                World::get().syncer.sync_all();
            }
        },
        || (),
    );
}
