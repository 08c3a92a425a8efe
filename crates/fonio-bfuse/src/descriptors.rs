//! Keeps the daemon's descriptors from running out.
//!
//! Each inode that the kernel remembers is a descriptor of ours (`crate::node`), and the kernel remembers inodes until it
//! wants their memory. When three quarters of our descriptors are taken, a thread asks the kernel to forget what nobody
//! uses, until half are free. Who finds none left all the same waits a moment for that. So applications meet `EMFILE`
//! only where the files that they have open are themselves too many.
//!
//! The thread holds no lock while it talks to the kernel, which may wait there for requests that we serve.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::filesystem::FileSystem;
use crate::protocol::{HEADER_OUT, Record, notify};

/// The first version that forgets inodes by their numbers.
const PRUNE_MINOR: u32 = 45;
/// What one message names: as many as the kernel takes at a time.
const BATCH: usize = 512;
/// Descriptors that are not inodes or open files: sockets, pipes, `/dev/fuse`.
const OWN: u64 = 48;
/// After the kernel could forget nothing.
const PAUSE: Duration = Duration::from_millis(200);
/// What the kernel forgets comes to us as requests. This long without any, so often, is all of them.
const SETTLE: Duration = Duration::from_millis(5);
const QUIET: usize = 3;
const SETTLES_MAX: usize = 100;
/// How long a request waits for a descriptor, at most: far longer than the kernel takes to forget.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// After so many times in vain nothing can be forgotten.
const VAIN_MAX: u64 = 2;

const UNPOISONED: &str = "no thread panics while it holds what is wanted of descriptors";

/// How many descriptors there are, and when the kernel is asked to forget.
#[derive(Debug)]
pub(crate) struct Descriptors {
    /// `RLIMIT_NOFILE`.
    pub(crate) limit: u64,
    /// More than this are too many, for inodes and open files together.
    high: u64,
    /// As many are to be left.
    low: u64,
    /// Spares the lock where the thread knows already.
    is_asked: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_wanted: bool,
    /// Somebody found none.
    is_needed: bool,
    /// Directories that the kernel has locked while somebody waits.
    locked: Vec<u64>,
    is_closed: bool,
    /// How often the kernel was asked.
    passes: u64,
    /// Of them the last ones, in which it forgot nothing.
    in_vain: u64,
}

impl Descriptors {
    /// Of a process that may have `limit`, of which its `threads` need some.
    pub(crate) fn new(limit: u64, threads: u64) -> Self {
        let all = limit.saturating_sub(OWN + 2 * threads).max(limit / 4);
        Self {
            limit,
            high: all / 4 * 3,
            low: all / 2,
            is_asked: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(UNPOISONED)
    }

    /// Whether so many in use are too many.
    pub(crate) fn are_short(&self, used: u64) -> bool {
        used > self.high
    }

    /// Has the kernel be asked to forget, soon.
    pub(crate) fn ask(&self) {
        if !self.is_asked.swap(true, Ordering::Relaxed) {
            self.lock().is_wanted = true;
            self.changed.notify_all();
        }
    }

    /// Calls `open` until it finds a descriptor, or none comes free. The kernel holds the directory `locked` meanwhile.
    pub(crate) fn find_one<T>(
        &self,
        locked: Option<u64>,
        mut open: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let started = Instant::now();
        let first = match open() {
            Err(Errno::MFILE | Errno::NFILE) => {
                let mut state = self.lock();
                state.locked.extend(locked);
                state.passes
            }
            outcome => return outcome,
        };
        let outcome = loop {
            let mut state = self.lock();
            (state.is_wanted, state.is_needed) = (true, true);
            self.changed.notify_all();
            let seen = state.passes;
            let still = |state: &mut State| state.passes == seen && !state.is_closed;
            let left = WAIT_MAX.saturating_sub(started.elapsed());
            let (state, _) = self.changed.wait_timeout_while(state, left, still).expect(UNPOISONED);
            let is_over = state.is_closed
                || state.in_vain.min(state.passes - first) >= VAIN_MAX
                || started.elapsed() >= WAIT_MAX;
            drop(state);
            match open() {
                Err(Errno::MFILE | Errno::NFILE) if !is_over => {}
                outcome => break outcome,
            }
        };
        if let Some(directory) = locked {
            let mut state = self.lock();
            let at = state.locked.iter().position(|known| *known == directory);
            state.locked.swap_remove(at.expect("it was put there"));
        }
        outcome
    }

    /// Whether somebody waits who keeps the kernel from forgetting names of this directory.
    fn is_locked(&self, directory: u64) -> bool {
        self.lock().locked.contains(&directory)
    }
}

/// The thread that asks, until this value is dropped.
#[derive(Debug)]
pub(crate) struct Pruner {
    file_system: Arc<FileSystem>,
    thread: Option<JoinHandle<()>>,
}

impl Pruner {
    /// Starts it for a kernel that speaks the protocol's version 7.`minor`.
    ///
    /// # Errors
    /// Where the system has no thread left.
    pub(crate) fn start(
        file_system: &Arc<FileSystem>,
        device: &Arc<OwnedFd>,
        minor: u32,
    ) -> std::io::Result<Self> {
        let (served, device) = (Arc::clone(file_system), Arc::clone(device));
        let way = if minor >= PRUNE_MINOR { prune } else { forget_names };
        let thread = std::thread::Builder::new()
            .name("fonio-forget".to_owned())
            .spawn(move || watch(&served, |ids| way(&served, &device, ids)))?;
        Ok(Self { file_system: Arc::clone(file_system), thread: Some(thread) })
    }
}

impl Drop for Pruner {
    fn drop(&mut self) {
        let descriptors = &self.file_system.descriptors;
        descriptors.lock().is_closed = true;
        descriptors.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It panics only where an invariant is broken; the message is on standard error then.
            let _ = thread.join();
        }
    }
}

fn watch(file_system: &FileSystem, forget: impl Fn(&[u64])) {
    let descriptors = &file_system.descriptors;
    let mut state = descriptors.lock();
    loop {
        while !state.is_wanted && !state.is_closed {
            state = descriptors.changed.wait(state).expect(UNPOISONED);
        }
        if state.is_closed {
            return;
        }
        state.is_wanted = false;
        let is_needed = std::mem::take(&mut state.is_needed);
        drop(state);
        descriptors.is_asked.store(false, Ordering::Relaxed);
        let used = file_system.descriptors_used();
        // Where the daemon itself takes more than it should, less is left for inodes.
        let enough = if is_needed { descriptors.low.min(used / 4 * 3) } else { descriptors.low };
        let mut is_in_vain = used > enough;
        while file_system.descriptors_used() > enough {
            let before = file_system.nodes.forgotten();
            pass(file_system, enough, &forget);
            // Directories can go once what was in them has gone: with the next pass.
            if file_system.nodes.forgotten() == before || descriptors.lock().is_closed {
                break;
            }
            is_in_vain = false;
        }
        state = descriptors.lock();
        state.passes += 1;
        state.in_vain = if is_in_vain { state.in_vain + 1 } else { 0 };
        descriptors.changed.notify_all();
        if is_in_vain && !state.is_closed {
            state = descriptors.changed.wait_timeout(state, PAUSE).expect(UNPOISONED).0;
        }
    }
}

/// Asks for what is more than `enough`, some more while that does not suffice, and at most for every inode once.
fn pass(file_system: &FileSystem, enough: u64, forget: impl Fn(&[u64])) {
    file_system.statistics.prunes.add(1);
    let too_many = || file_system.descriptors_used().saturating_sub(enough);
    let ids = file_system.nodes.ids();
    let mut asked = 0;
    for batch in ids.chunks(BATCH) {
        forget(batch);
        asked += batch.len() as u64;
        if asked >= too_many() {
            settle(file_system);
            asked = 0;
            if too_many() == 0 {
                return;
            }
        }
    }
    settle(file_system);
}

/// Waits until what the kernel forgot has come to us.
fn settle(file_system: &FileSystem) {
    let mut quiet = 0;
    for _ in 0..SETTLES_MAX {
        let before = file_system.nodes.forgotten();
        std::thread::sleep(SETTLE);
        quiet = if file_system.nodes.forgotten() == before { quiet + 1 } else { 0 };
        if quiet == QUIET {
            return;
        }
    }
}

/// `FUSE_NOTIFY_PRUNE`, Linux 6.18: what nobody uses of these is forgotten.
fn prune(_: &FileSystem, device: &OwnedFd, ids: &[u64]) {
    let mut message = vec![0; HEADER_OUT + notify::PRUNE_BYTES + size_of_val(ids)];
    let length = u32::try_from(message.len()).expect("a batch is short");
    let mut record = Record::new(&mut message);
    record.u32(length).u32(notify::PRUNE).u64(0);
    record.u32(u32::try_from(ids.len()).expect("a batch is short")).u32(0).u64(0);
    for id in ids {
        record.u64(*id);
    }
    tell(device, &message);
}

/// `FUSE_NOTIFY_INVAL_ENTRY`, one name at a time. Directories stay: the kernel forgets the name of one even where
/// somebody works in it.
fn forget_names(file_system: &FileSystem, device: &OwnedFd, ids: &[u64]) {
    for id in ids {
        let Some(node) = file_system.nodes.get(*id) else { continue };
        let is_in_use = node.is_directory || node.lock_open().opens > 0;
        if is_in_use || file_system.descriptors.is_locked(node.parent()) {
            continue;
        }
        let Some(name) = file_system.name_of(&node) else { continue };
        let mut message = vec![0; HEADER_OUT + notify::INVAL_ENTRY_BYTES + name.len() + 1];
        let length = u32::try_from(message.len()).expect("a name is short");
        let mut record = Record::new(&mut message);
        record.u32(length).u32(notify::INVAL_ENTRY).u64(0);
        record.u64(node.parent()).u32(u32::try_from(name.len()).expect("a name is short")).u32(0);
        record.bytes(&name);
        tell(device, &message);
    }
}

/// What the kernel does not know any more it need not forget.
fn tell(device: &OwnedFd, message: &[u8]) {
    let _ = rustix::io::write(device.as_fd(), message);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn a_quarter_is_kept_free_even_of_few() {
        for limit in [64, 256, 1024, 1 << 20] {
            let descriptors = Descriptors::new(limit, 8);
            assert!(descriptors.low < descriptors.high && descriptors.high < limit, "{descriptors:?}");
            assert!(descriptors.are_short(limit) && !descriptors.are_short(descriptors.low));
        }
    }

    #[test]
    fn who_finds_none_waits_and_is_told_in_the_end() {
        let descriptors = Descriptors::new(1024, 8);
        assert_eq!(descriptors.find_one(None, || Err::<(), _>(Errno::NOENT)), Err(Errno::NOENT));
        assert!(!descriptors.lock().is_wanted);
        // The thread has asked, and the kernel has forgotten, or nothing.
        let pass = |has_helped: bool| {
            let mut state = descriptors.lock();
            state.passes += 1;
            state.in_vain = if has_helped { 0 } else { state.in_vain + 1 };
            descriptors.changed.notify_all();
        };
        let calls = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                descriptors.find_one(Some(7), || {
                    if calls.fetch_add(1, Ordering::Relaxed) < 3 { Err(Errno::MFILE) } else { Ok(()) }
                })
            });
            while !waits.is_finished() {
                pass(true);
            }
            assert_eq!(waits.join().expect("it does not panic"), Ok(()));
            assert_eq!(calls.load(Ordering::Relaxed), 4);
            let gives_up = scope.spawn(|| descriptors.find_one(None, || Err::<(), _>(Errno::MFILE)));
            while !gives_up.is_finished() {
                pass(false);
            }
            assert_eq!(gives_up.join().expect("it does not panic"), Err(Errno::MFILE));
        });
        let state = descriptors.lock();
        assert!(state.is_wanted && state.locked.is_empty());
    }
}
