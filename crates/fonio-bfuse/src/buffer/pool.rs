//! The memory of the buffer: entries of one size, made once.

use std::sync::{Condvar, Mutex, MutexGuard};

use crate::kernel;

/// One entry: memory of fixed size, filled from the front.
#[derive(Debug)]
pub(super) struct Entry {
    memory: Box<[u8]>,
    used: usize,
}

impl Entry {
    /// What was put in.
    pub(super) fn data(&self) -> &[u8] {
        &self.memory[..self.used]
    }

    pub(super) fn is_full(&self) -> bool {
        self.used == self.memory.len()
    }

    /// Copies as much of `data` as fits, and returns how much that was.
    pub(super) fn fill(&mut self, data: &[u8]) -> usize {
        let bytes = data.len().min(self.memory.len() - self.used);
        self.memory[self.used..self.used + bytes].copy_from_slice(&data[..bytes]);
        self.used += bytes;
        bytes
    }
}

/// The entries that are free.
#[derive(Debug)]
pub(super) struct Pool {
    free: Mutex<Vec<Entry>>,
    freed: Condvar,
    is_locked: bool,
}

impl Pool {
    pub(super) fn new(entries: usize, entry_bytes: usize) -> Self {
        let mut is_locked = true;
        let free = (0..entries)
            .map(|_| {
                let memory = vec![0; entry_bytes].into_boxed_slice();
                // A user's limit may be lower than the buffer; the mount says so in its statistics.
                is_locked &= kernel::lock_memory(&memory).is_ok();
                Entry { memory, used: 0 }
            })
            .collect();
        Self { free: Mutex::new(free), freed: Condvar::new(), is_locked }
    }

    /// Whether the memory can never be swapped out.
    pub(super) fn is_locked(&self) -> bool {
        self.is_locked
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.free.lock().expect("no thread panics while it holds the free entries")
    }

    pub(super) fn try_take(&self) -> Option<Entry> {
        self.lock().pop()
    }

    pub(super) fn give_back(&self, mut entry: Entry) {
        entry.used = 0;
        self.lock().push(entry);
        self.freed.notify_one();
    }

    /// Waits until an entry is free; another thread may be quicker to take it.
    pub(super) fn wait(&self) {
        let mut free = self.lock();
        while free.is_empty() {
            free = self.freed.wait(free).expect("no thread panics while it holds the free entries");
        }
    }
}
