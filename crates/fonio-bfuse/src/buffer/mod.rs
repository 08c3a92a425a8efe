//! The write buffer of the study (Jeong and Won 2014, section 4): a fixed number of entries in memory collect
//! consecutive writes, and threads flush them. *Below* means in the file system of the source.
//!
//! Lifecycle of written data: *filling* (the data are in the last entry of their inode, which still has room)
//! → *sealed* (the entry is full, or another entry follows) → *in flight* (a thread is writing it) → written
//! to the source.
//!
//! Invariants, each protected by the lock of [`Pending`]:
//! 1. The pending data of an inode, including data in flight, are one range `start..end` of the file without
//!    holes. The inode's entries contain all data that are not in flight, in order. So pending data never
//!    overlap, and are flushed in the order of writing.
//! 2. A write that does not start at `end` drains all pending data first.
//! 3. At most one thread at a time writes an inode's entries to the source (`in_flight`).
//! 4. No thread waits for a free entry while it holds an inode's lock, because flushing an entry needs the
//!    inode's lock.
//! 5. The memory of all entries is allocated when the buffer is created. A writer that needs an entry waits
//!    until an entry is free.
//! 6. A failed flush is counted, and recorded in the inode's error sequence. Each open handle of the file
//!    gets the error of a failed flush once.

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

/// If the source's free space is less than this number of bytes plus twice the buffer size, nothing is
/// buffered, so that a write for which there is no space fails immediately.
const RESERVE_BYTES: u64 = 16 << 20;

/// Writes with fewer bytes do not use direct I/O, because the device would be idle after each short write.
const DIRECT_BYTES_MIN: usize = 256 << 10;

#[derive(Debug)]
pub(crate) struct Buffer {
    options: BufferOptions,
    pool: Pool,
    dirty: Mutex<Dirty>,
    /// Signalled when a manager has something to flush.
    work: Condvar,
    pub(crate) statistics: Arc<BufferStatistics>,
}

#[derive(Debug, Default)]
struct Dirty {
    /// Inodes with pending data, and the time of the first pending write of each inode; the oldest inode is
    /// first.
    by_age: VecDeque<(Instant, Arc<Pending>)>,
    /// Inodes with sealed entries. A manager flushes these entries at once.
    sealed: VecDeque<Arc<Pending>>,
    /// Number of writers that wait for a free entry.
    starving: usize,
    /// Number of managers that are writing full entries.
    flushing: usize,
    closed: bool,
}

/// Which entries of an inode a flush writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Take {
    /// Only sealed entries; the last entry, which still has room, is not flushed.
    Sealed,
    Everything,
}

impl Buffer {
    /// Allocates and locks the memory of the buffer. If the memory cannot be locked and the lock is
    /// `required`, fails with the error of the lock. If it is not required, the statistics report the failure.
    pub(crate) fn new(
        options: BufferOptions,
        statistics: Arc<BufferStatistics>,
        required: bool,
    ) -> std::io::Result<Self> {
        let mut pool = Pool::new(options.entries(), options.entry_bytes);
        let lock_error = pool.lock_error();
        let locked = if lock_error.is_none() { options.entries() * options.entry_bytes } else { 0 };
        if let Some(error) = lock_error.filter(|_| required) {
            return Err(error);
        }
        statistics.entries.set(options.entries() as u64);
        statistics.entry_bytes.set(options.entry_bytes as u64);
        statistics.is_locked.set(u64::from(locked > 0));
        statistics.locked_bytes.set(locked as u64);
        Ok(Self { options, pool, dirty: Mutex::default(), work: Condvar::new(), statistics })
    }

    /// Writes `data` at `offset` of the inode of `pending`. `file` is the open source file. Data that
    /// continue the last write are buffered; all other data are written directly. Returns errors of a direct
    /// write to the source file. Errors of buffered data are returned later, by [`Pending::error_for`].
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
            assert!(state.end == offset, "invariant 1: appended data continue the pending data");
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
                // No manager has taken the sealed entries yet. On a busy CPU, a manager may take long to
                // start, so this thread flushes the entries.
                state = self.flush(pending, state, Take::Sealed);
                continue;
            }
            drop(state);
            self.statistics.waits.add(1);
            self.make_room();
            state = pending.lock();
            if state.end != offset {
                // Another thread has written to this inode while this thread waited for an entry. The kernel
                // serialises writes, so the other thread's write was the write-back of a mapped page.
                state = self.drain_locked(pending, state);
            }
        }
    }

    /// Waits until an entry is free. If there are no managers, flushes an inode to free an entry.
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
                // Other threads are already flushing all inodes that have data.
                None => self.pool.wait(),
            }
        }
    }

    fn is_nearly_full(&self, file: &OwnedFd) -> bool {
        let reserve = RESERVE_BYTES + 2 * (self.options.entries() * self.options.entry_bytes) as u64;
        // If the free space is unknown, do not buffer, because acknowledged data might not fit.
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

    /// Writes the inode's pending data to the source, and waits for data in flight. Data that arrive during
    /// the call may stay in the buffer.
    pub(crate) fn drain(&self, pending: &Arc<Pending>) {
        let state = pending.lock();
        drop(self.drain_locked(pending, state));
    }

    /// Drains the inode if the range `offset..offset + length` contains pending data.
    pub(crate) fn drain_range(&self, pending: &Arc<Pending>, offset: u64, length: u64) {
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

    /// Writes entries of an inode to the source. If another thread is already writing them, waits for that
    /// thread.
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
        self.statistics.flush_ns.record(started.elapsed());
        let mut state = pending.lock();
        assert!(state.in_flight && offset <= state.end, "invariant 1: data in flight are pending");
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

    /// Wakes a manager for sealed entries, unless a manager was already woken or some entries are in flight.
    fn call_for_sealed(&self, pending: &Arc<Pending>, state: &mut State) {
        if self.options.thread && state.has_sealed() && !state.in_flight && !state.is_urgent {
            state.is_urgent = true;
            self.lock_dirty().sealed.push_back(Arc::clone(pending));
            self.work.notify_one();
        }
    }

    /// Flushes an inode taken from the list by age, and adds the inode to the list again if new data have
    /// arrived.
    fn flush_listed(&self, pending: &Arc<Pending>) {
        let mut state = pending.lock();
        state.is_listed = false;
        let mut state = self.drain_locked(pending, state);
        if state.has_data() && !state.is_listed {
            state.is_listed = true;
            self.list(pending);
        }
    }

    /// Writes to the source all data that were pending when this function was called.
    pub(crate) fn drain_all(&self) {
        let listed: Vec<_> = self.lock_dirty().by_age.drain(..).collect();
        for (_, pending) in listed {
            self.flush_listed(&pending);
        }
    }

    fn lock_dirty(&self) -> MutexGuard<'_, Dirty> {
        self.dirty.lock().expect("no thread panics while it holds the lock of the dirty list")
    }

    /// Returns the maximum number of sealed entries in one flush. Limiting the flush leaves free entries for
    /// writers.
    fn sealed_max(&self) -> usize {
        (self.options.entries() / 2).max(1)
    }

    /// Returns the number of bytes after which a stream bypasses the page cache of the source file.
    fn direct_after(&self) -> u64 {
        if self.options.direct { self.options.entry_bytes as u64 } else { u64::MAX }
    }

    /// Returns the maximum time for which data stay in the buffer.
    fn interval(&self) -> Duration {
        self.options.flush
    }
}

/// Writes all of `data` to a file. If a write fails, the data before the failed position have been written.
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

/// Writes several entries with one call if they bypass the page cache, and returns the number of bytes
/// written. A single call keeps the device busy until the flushing thread runs again. If the call fails, the
/// caller writes each entry separately, so that only data that cannot be written are lost.
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

/// Writes an entry, bypassing the page cache if possible. A long stream would evict all other pages from the
/// page cache, and page allocation is the most expensive part of a flush.
fn write_entry(file: &OwnedFd, direct: Option<&OwnedFd>, offset: u64, data: &[u8]) -> Result<(), Errno> {
    let is_aligned = offset.is_multiple_of(ALIGNMENT as u64) && data.len().is_multiple_of(ALIGNMENT);
    if let Some(direct) = direct.filter(|_| is_aligned && data.len() >= DIRECT_BYTES_MIN) {
        match write_all(direct, offset, data) {
            // The file system does not support direct I/O for this file.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => {}
            outcome => return outcome,
        }
    }
    write_all(file, offset, data)
}

/// Sets a source file's modification time to the time of the application's last write.
fn restore_modified(file: &OwnedFd, modified: Option<rustix::fs::Timespec>) {
    if let Some(modified) = modified {
        let omit = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
        let times = rustix::fs::Timestamps { last_access: omit, last_modification: modified };
        // A daemon run by a user can set times only on the user's own files. On other files, the modification
        // time is later than the application's write by at most the flush interval.
        let _ = rustix::fs::futimens(file, &times);
    }
}

#[cfg(test)]
mod tests;
