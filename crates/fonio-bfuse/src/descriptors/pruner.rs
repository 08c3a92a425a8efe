//! Runs a thread that asks the kernel to forget inodes when descriptors are scarce.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use super::UNPOISONED;
use crate::filesystem::FileSystem;
use crate::protocol::{HEADER_OUT, Record, notify};

/// First minor version of the protocol with a notification that forgets inodes by number.
const PRUNE_MINOR: u32 = 45;
/// Maximum number of inodes in a notification, as limited by the kernel.
const BATCH: usize = 512;
/// Pause after a pass that freed no descriptor.
const PAUSE: Duration = Duration::from_millis(200);
/// The kernel reports forgotten inodes as requests. After a few pauses of this length without such a request,
/// the kernel has reported all forgotten inodes.
const SETTLE: Duration = Duration::from_millis(5);
const QUIET: usize = 3;
const SETTLES_MAX: usize = 100;

/// The thread that asks the kernel to forget inodes. Dropping this value ends the thread.
#[derive(Debug)]
pub(crate) struct Pruner {
    file_system: Arc<FileSystem>,
    thread: Option<JoinHandle<()>>,
}

impl Pruner {
    /// Starts the thread; version 7.`minor` of the FUSE protocol is in use. Fails if the system cannot start
    /// another thread.
    pub(crate) fn start(file_system: &Arc<FileSystem>, minor: u32) -> std::io::Result<Self> {
        let served = Arc::clone(file_system);
        let way = if minor >= PRUNE_MINOR { prune } else { forget_names };
        let thread = std::thread::Builder::new()
            .name("fonio-forget".to_owned())
            .spawn(move || watch(&served, |ids| way(&served, ids)))?;
        Ok(Self { file_system: Arc::clone(file_system), thread: Some(thread) })
    }
}

impl Drop for Pruner {
    fn drop(&mut self) {
        let descriptors = &self.file_system.descriptors;
        descriptors.lock().is_closed = true;
        descriptors.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // The thread panics only on a broken invariant, and a panic prints a message to standard error.
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
        // If the daemon itself uses more descriptors than planned, fewer descriptors remain for inodes.
        let enough = if is_needed { descriptors.low.min(used / 4 * 3) } else { descriptors.low };
        let freed = file_system.nodes.freed();
        while file_system.descriptors_used() > enough {
            let before = file_system.nodes.forgotten();
            pass(file_system, enough, &forget);
            // The kernel can forget a directory only after its entries, so it forgets the directory in the
            // next pass.
            if file_system.nodes.forgotten() == before || descriptors.lock().is_closed {
                break;
            }
        }
        let is_in_vain = used > enough && file_system.nodes.freed() == freed;
        state = descriptors.lock();
        state.passes += 1;
        state.in_vain = if is_in_vain { state.in_vain + 1 } else { 0 };
        descriptors.changed.notify_all();
        if is_in_vain && !state.is_closed {
            state = descriptors.changed.wait_timeout(state, PAUSE).expect(UNPOISONED).0;
        }
    }
}

/// Asks the kernel to forget inodes until at most `enough` descriptors are in use. A pass names each inode in
/// at most one notification.
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

/// Waits until the kernel has reported the inodes that it has forgotten.
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

/// Sends `FUSE_NOTIFY_PRUNE` (Linux 6.18): the kernel forgets the inodes that are not in use.
fn prune(file_system: &FileSystem, ids: &[u64]) {
    let mut message = vec![0; HEADER_OUT + notify::PRUNE_BYTES + size_of_val(ids)];
    let length = u32::try_from(message.len()).expect("a batch is short");
    let mut record = Record::new(&mut message);
    record.u32(length).u32(notify::PRUNE).u64(0);
    record.u32(u32::try_from(ids.len()).expect("a batch is short")).u32(0).u64(0);
    for id in ids {
        record.u64(*id);
    }
    file_system.tell(&message);
}

/// Sends `FUSE_NOTIFY_INVAL_ENTRY` for each name, except names of directories: the kernel would detach a
/// directory even if it is the working directory of a process.
fn forget_names(file_system: &FileSystem, ids: &[u64]) {
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
        file_system.tell(&message);
    }
}
