//! The write buffer of the study (Jeong and Won 2014, section 4): a fixed number of entries in memory that
//! coalesce consecutive writes, and a thread that empties them.
//!
//! Lifecycle of written data: *filling* (the last entry of its inode, with room) → *sealed* (full, or followed by
//! another entry) → *in flight* (taken out by whoever flushes) → below.
//!
//! Invariants, each held under the lock of [`Pending`]:
//! 1. What an inode has pending, in flight included, is one range `start..end` of the file without holes; its
//!    entries hold `flushed..end` in order. So pending data never overlap, and the order of flushing is the order
//!    of writing.
//! 2. A write that does not continue at `end` finds nothing pending: everything is drained before it.
//! 3. At most one thread writes an inode's entries below at any time (`in_flight`).
//! 4. Nobody waits for a free entry while holding a lock of an inode: whoever flushes needs those locks.
//! 5. Memory is fixed when the buffer is made. A writer without an entry waits until one is free.
//! 6. Data that cannot be written are counted and leave an error in their inode's error sequence; whoever has
//!    the file open is told, each handle once.

mod error_sequence;
mod manager;
mod pending;
mod pool;

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::io::Errno;

pub(crate) use error_sequence::Seen;
pub(crate) use manager::Manager;
pub(crate) use pending::Pending;
use pending::State;
use pool::{ALIGNMENT, Entry, Pool};

use crate::options::BufferOptions;
use crate::statistics::BufferStatistics;

/// While less than this and twice the buffer is free below, nothing is buffered: a write that finds no space must
/// say so itself.
const RESERVE_BYTES: u64 = 16 << 20;

/// Shorter pieces would have a device wait for each of them.
const DIRECT_BYTES_MIN: usize = 256 << 10;

/// The buffer of one mount.
#[derive(Debug)]
pub(crate) struct Buffer {
    options: BufferOptions,
    pool: Pool,
    dirty: Mutex<Dirty>,
    /// Something to do for the manager.
    work: Condvar,
    statistics: Arc<BufferStatistics>,
}

/// What awaits flushing.
#[derive(Debug, Default)]
struct Dirty {
    /// Since when each has had data pending: the oldest first.
    by_age: VecDeque<(Instant, Arc<Pending>)>,
    /// With a sealed entry, to be flushed at once.
    sealed: VecDeque<Arc<Pending>>,
    /// Writers who wait for a free entry.
    starving: usize,
    /// Managers that are writing full entries.
    flushing: usize,
    closed: bool,
}

/// What a flush takes from an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Take {
    /// Full entries; the last goes on filling.
    Sealed,
    Everything,
}

impl Buffer {
    /// Makes a buffer with all of its memory.
    pub(crate) fn new(options: BufferOptions, statistics: Arc<BufferStatistics>) -> Self {
        let pool = Pool::new(options.entries(), options.entry_bytes);
        statistics.entries.set(options.entries() as u64);
        statistics.entry_bytes.set(options.entry_bytes as u64);
        statistics.locked.set(u64::from(pool.is_locked()));
        Self { options, pool, dirty: Mutex::default(), work: Condvar::new(), statistics }
    }

    /// Writes `data` at `offset` of the inode of `pending`, whose file below is `file`: into the buffer where it
    /// continues what is there, else through it.
    ///
    /// # Errors
    /// Those of the file below, for what is written through. What is buffered fails later, see
    /// [`Pending::error_for`].
    pub(crate) fn write(
        &self,
        pending: &Arc<Pending>,
        file: &Arc<OwnedFd>,
        offset: u64,
        data: &[u8],
    ) -> Result<(), Errno> {
        let mut state = pending.lock();
        if state.has_data() && state.end != offset {
            self.statistics.interrupted.add(1);
            state = self.drain_locked(pending, state);
        }
        if state.expected != offset {
            state.streamed = 0;
        }
        state.streamed += data.len() as u64;
        if !state.has_data() && (state.expected != offset || data.len() >= self.options.entry_bytes) {
            state.expected = offset + data.len() as u64;
            drop(state);
            return self.write_through(file, offset, data);
        }
        self.append(pending, state, file, offset, data)
    }

    fn write_through(&self, file: &OwnedFd, offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.statistics.through.add(1);
        write_all(file, offset, data)
    }

    fn append<'a>(
        &self,
        pending: &'a Arc<Pending>,
        mut state: MutexGuard<'a, State>,
        file: &Arc<OwnedFd>,
        mut offset: u64,
        mut data: &[u8],
    ) -> Result<(), Errno> {
        self.statistics.writes.add(1);
        loop {
            if !state.has_data() {
                state.begin(offset, file);
            }
            assert!(state.end == offset, "invariant 1: what is appended continues what is pending");
            let was_clean = !state.has_data();
            let copied = state.fill(data);
            offset += copied as u64;
            data = &data[copied..];
            self.statistics.filled(copied);
            let sealed = state.has_sealed();
            self.call_for_sealed(pending, &mut state);
            if copied > 0 && was_clean && !state.is_listed {
                state.is_listed = true;
                self.list(pending);
            }
            if data.is_empty() {
                state.expected = offset;
                if sealed && !self.options.thread {
                    drop(self.flush(pending, state, Take::Sealed));
                }
                return Ok(());
            }
            if let Some(entry) = self.pool.try_take() {
                if !state.has_data() && self.is_nearly_full(file) {
                    self.pool.give_back(entry);
                    state.expected = offset + data.len() as u64;
                    drop(state);
                    return self.write_through(file, offset, data);
                }
                state.entries.push_back(entry);
                continue;
            }
            if state.has_sealed() && !state.in_flight {
                // The manager has not come yet: where CPUs are short it may be long, and this thread has one.
                state = self.flush(pending, state, Take::Sealed);
                continue;
            }
            drop(state);
            self.statistics.waits.add(1);
            self.make_room();
            state = pending.lock();
            if state.end != offset {
                // Another thread wrote this inode meanwhile; the kernel serialises writes, so that was the
                // write-back of a mapped page.
                state = self.drain_locked(pending, state);
            }
        }
    }

    /// Waits until an entry is free, or makes one free where there is no manager.
    fn make_room(&self) {
        if self.options.thread {
            let mut dirty = self.lock_dirty();
            dirty.starving += 1;
            self.work.notify_one();
            drop(dirty);
            self.pool.wait();
            self.lock_dirty().starving -= 1;
        } else {
            let oldest = self.lock_dirty().by_age.pop_front();
            match oldest {
                Some((_, oldest)) => self.flush_listed(&oldest),
                // All entries are in the hands of threads that flush.
                None => self.pool.wait(),
            }
        }
    }

    fn is_nearly_full(&self, file: &OwnedFd) -> bool {
        let reserve = RESERVE_BYTES + 2 * (self.options.entries() * self.options.entry_bytes) as u64;
        // What cannot be asked is taken as full: then nothing is acknowledged that may not fit.
        rustix::fs::fstatvfs(file)
            .map_or(true, |below| below.f_bavail.saturating_mul(below.f_frsize) < reserve)
    }

    fn list(&self, pending: &Arc<Pending>) {
        let mut dirty = self.lock_dirty();
        dirty.by_age.push_back((Instant::now(), Arc::clone(pending)));
        if dirty.by_age.len() == 1 {
            self.work.notify_one();
        }
    }

    /// Writes below what the inode had pending when this was called, and waits for what is in flight.
    pub(crate) fn drain(&self, pending: &Arc<Pending>) {
        let state = pending.lock();
        drop(self.drain_locked(pending, state));
    }

    /// As [`Buffer::drain`], where the range `offset..offset + length` has anything pending.
    pub(crate) fn settle(&self, pending: &Arc<Pending>, offset: u64, length: u64) {
        let state = pending.lock();
        if state.has_data() && offset < state.end && offset.saturating_add(length) > state.start {
            self.statistics.read_drains.add(1);
            drop(self.drain_locked(pending, state));
        }
    }

    fn drain_locked<'a>(
        &self,
        pending: &'a Arc<Pending>,
        mut state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        let until = state.end;
        while state.has_data() && state.start < until {
            state = self.flush(pending, state, Take::Everything);
        }
        state
    }

    /// Writes entries below, or waits for the thread that does.
    fn flush<'a>(
        &self,
        pending: &'a Arc<Pending>,
        mut state: MutexGuard<'a, State>,
        take: Take,
    ) -> MutexGuard<'a, State> {
        if state.in_flight {
            return pending.wait(state);
        }
        let Some(taken) = state.take(take, self.sealed_max(), self.direct_after()) else { return state };
        state.in_flight = true;
        drop(state);
        let started = Instant::now();
        let mut offset = taken.offset;
        let mut failure = None;
        let mut ahead = write_together(&taken);
        for entry in taken.entries {
            let data = &entry.data()[ahead.min(entry.data().len())..];
            ahead -= entry.data().len() - data.len();
            let at = offset + (entry.data().len() - data.len()) as u64;
            if !data.is_empty()
                && let Err(error) = write_entry(&taken.file, taken.direct.as_deref(), at, data)
            {
                failure = Some(error);
                self.statistics.lost_bytes.add(data.len() as u64);
            }
            offset += entry.data().len() as u64;
            self.statistics.flushed(entry.data().len());
            self.pool.give_back(entry);
        }
        restore_modified(&taken.file, taken.modified);
        self.statistics.flush_time.record(started.elapsed());
        let mut state = pending.lock();
        state.in_flight = false;
        state.start = offset;
        if let Some(error) = failure {
            self.statistics.errors.add(1);
            state.errors.record(error);
        }
        self.call_for_sealed(pending, &mut state);
        pending.notify();
        state
    }

    /// Has a manager come for full entries, unless one has been called or has some in flight.
    fn call_for_sealed(&self, pending: &Arc<Pending>, state: &mut State) {
        if self.options.thread && state.has_sealed() && !state.in_flight && !state.is_urgent {
            state.is_urgent = true;
            self.lock_dirty().sealed.push_back(Arc::clone(pending));
            self.work.notify_one();
        }
    }

    /// Flushes an inode that was taken from the list by age, and puts it back where data came meanwhile.
    fn flush_listed(&self, pending: &Arc<Pending>) {
        let mut state = pending.lock();
        state.is_listed = false;
        let mut state = self.drain_locked(pending, state);
        if state.has_data() && !state.is_listed {
            state.is_listed = true;
            self.list(pending);
        }
    }

    /// Writes everything below that anybody wrote before.
    pub(crate) fn drain_all(&self) {
        let listed: Vec<_> = self.lock_dirty().by_age.drain(..).collect();
        for (_, pending) in listed {
            self.flush_listed(&pending);
        }
    }

    fn lock_dirty(&self) -> MutexGuard<'_, Dirty> {
        self.dirty.lock().expect("no thread panics while it holds the list of what is dirty")
    }

    /// How many full entries are written at a time: whoever writes shall find others free meanwhile.
    fn sealed_max(&self) -> usize {
        (self.options.entries() / 2).max(1)
    }

    /// How much of a stream goes through the page cache below before the rest goes past it.
    fn direct_after(&self) -> u64 {
        if self.options.direct { self.options.entry_bytes as u64 } else { u64::MAX }
    }

    /// How long data may stay in the buffer.
    fn interval(&self) -> Duration {
        self.options.flush
    }
}

/// Writes all of `data` at `offset`.
///
/// # Errors
/// The file's; what lies before the error is written.
pub(crate) fn write_all(file: &OwnedFd, mut offset: u64, mut data: &[u8]) -> Result<(), Errno> {
    while !data.is_empty() {
        match rustix::io::pwrite(file, data, offset) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => {
                offset += written as u64;
                data = &data[written..];
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes several entries in one call where they go past the page cache, and returns how many bytes were written: a device
/// then has something to do for longer before our thread is on a CPU again. Where it fails each entry is written by itself,
/// so that no more is lost than what cannot be written.
fn write_together(taken: &pending::Taken) -> usize {
    let are_aligned = taken.offset.is_multiple_of(ALIGNMENT as u64)
        && taken.entries.iter().all(|entry| entry.data().len().is_multiple_of(ALIGNMENT));
    match &taken.direct {
        Some(direct) if are_aligned && taken.entries.len() > 1 => {
            let pieces: Vec<_> = taken.entries.iter().map(|entry| IoSlice::new(entry.data())).collect();
            rustix::io::pwritev(direct, &pieces, taken.offset).unwrap_or(0)
        }
        _ => 0,
    }
}

/// Writes an entry, past the page cache where that can be: a long stream would only push everything else out of it, and
/// making pages costs more of the CPU than all else that a flush does.
fn write_entry(file: &OwnedFd, direct: Option<&OwnedFd>, offset: u64, data: &[u8]) -> Result<(), Errno> {
    let is_aligned = offset.is_multiple_of(ALIGNMENT as u64) && data.len().is_multiple_of(ALIGNMENT);
    if let Some(direct) = direct.filter(|_| is_aligned && data.len() >= DIRECT_BYTES_MIN) {
        match write_all(direct, offset, data) {
            // The file system takes no direct I/O here after all.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => {}
            outcome => return outcome,
        }
    }
    write_all(file, offset, data)
}

/// The file was modified when the application wrote it, not now.
fn restore_modified(file: &OwnedFd, modified: Option<rustix::fs::Timespec>) {
    if let Some(modified) = modified {
        let omit = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
        let times = rustix::fs::Timestamps { last_access: omit, last_modification: modified };
        // A user's daemon may set times of its own files only; elsewhere the time is at most the interval late.
        let _ = rustix::fs::futimens(file, &times);
    }
}

#[cfg(test)]
mod tests;
