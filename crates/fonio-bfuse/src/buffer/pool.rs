//! Provides the memory of the buffer: entries of equal size, allocated once.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard};

use crate::kernel;

/// Maximum alignment that direct I/O requires of memory, offsets and lengths.
pub(super) const ALIGNMENT: usize = 4096;
/// Size of a huge page on most processors.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A buffer entry: memory of fixed size that is filled from the front.
#[derive(Debug)]
pub(super) struct Entry {
    memory: Box<[u8]>,
    /// Index of the first aligned byte in `memory`.
    from: usize,
    bytes: usize,
    used: usize,
}

impl Entry {
    pub(super) fn data(&self) -> &[u8] {
        &self.memory[self.from..self.from + self.used]
    }

    pub(super) fn is_full(&self) -> bool {
        self.used == self.bytes
    }

    /// Copies as much of `data` as fits, and returns the number of bytes copied.
    pub(super) fn fill(&mut self, data: &[u8]) -> usize {
        let bytes = data.len().min(self.bytes - self.used);
        let at = self.from + self.used;
        self.memory[at..at + bytes].copy_from_slice(&data[..bytes]);
        self.used += bytes;
        bytes
    }
}

#[derive(Debug)]
pub(super) struct Pool {
    free: Mutex<Vec<Entry>>,
    freed: Condvar,
    entries: usize,
    /// The error of locking the memory; `None` if the memory is locked.
    lock_error: Option<io::Error>,
}

impl Pool {
    pub(super) fn new(entries: usize, entry_bytes: usize) -> Self {
        let mut lock_error = None;
        let free = (0..entries)
            .map(|_| {
                let is_huge = entry_bytes.is_multiple_of(HUGE_PAGE_BYTES);
                let alignment = if is_huge { HUGE_PAGE_BYTES } else { ALIGNMENT };
                let memory = vec![0; entry_bytes + alignment].into_boxed_slice();
                let from = memory.as_ptr().align_offset(alignment);
                let bytes = &memory[from..from + entry_bytes];
                if is_huge {
                    // With huge pages, a flush passes one page to the device instead of 512. Huge pages are
                    // optional.
                    let _ = kernel::ask_for_huge_pages(bytes);
                }
                if let Err(error) = kernel::lock_memory(bytes) {
                    lock_error.get_or_insert(error);
                }
                Entry { memory, from, bytes: entry_bytes, used: 0 }
            })
            .collect();
        Self { free: Mutex::new(free), freed: Condvar::new(), entries, lock_error }
    }

    /// Returns the reason why the memory can be swapped out; `None` if it is locked.
    pub(super) fn lock_error(&mut self) -> Option<io::Error> {
        self.lock_error.take()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.free.lock().expect("no thread panics while it holds the lock of the free entries")
    }

    pub(super) fn try_take(&self) -> Option<Entry> {
        self.lock().pop()
    }

    pub(super) fn give_back(&self, mut entry: Entry) {
        entry.used = 0;
        let mut free = self.lock();
        assert!(free.len() < self.entries, "invariant 5: each entry is returned only once");
        free.push(entry);
        drop(free);
        self.freed.notify_one();
    }

    /// Waits until an entry is free. Another thread may take the entry first.
    pub(super) fn wait(&self) {
        let mut free = self.lock();
        while free.is_empty() {
            free =
                self.freed.wait(free).expect("no thread panics while it holds the lock of the free entries");
        }
    }
}
