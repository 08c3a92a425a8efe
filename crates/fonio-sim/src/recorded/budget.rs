//! Limits the memory that a replay needs, because a recording can come from a stranger.
//!
//! The rows of a recording are counted with the memory that they need later, in the sequence. So a recording that
//! is too large is found before its sequence is computed.

use fonio_core::ByteCount;
use rustc_hash::FxHashSet;
use thiserror::Error;

/// Maximum size of the accesses, waits and threads of a recording in memory. The program and the reader of the
/// recording also need memory, and fonio stays below 512 MiB.
const MEMORY_MAX: ByteCount = ByteCount(320 << 20);
/// Maximum size of all buffers of a replay. While it runs, the rows of the recording are not in memory.
const BUFFERS_MAX: ByteCount = ByteCount(256 << 20);
/// Maximum number of threads of a replay at a time.
pub const LANES_MAX: usize = 4096;

/// Size of a collected row, including the growth of the list of rows.
pub const ROW: u64 = 120;
/// Size of an access in the sequence, with its entries in the tables of causes and signals.
pub const ACCESS: u64 = 240;
/// Size of a wait.
pub const WAIT: u64 = 40;
/// Size of a file.
pub const FILE: u64 = 250;
/// Size of a thread, with its name and the first entries of its lists.
const THREAD: u64 = 640;

/// The reason why a recording is too large for a replay.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum TooLarge {
    /// The recording has too many accesses, waits, files or threads.
    #[error(
        "its accesses, waits, files and threads need more than {} of memory, which is enough for {} accesses",
        MEMORY_MAX.to_exact_text(),
        MEMORY_MAX.0 / (ROW + ACCESS)
    )]
    Memory,
    /// Too many threads ran at the same time.
    #[error("more than {LANES_MAX} of its threads ran at the same time")]
    Threads,
    /// The threads' buffers are too large.
    #[error("the buffers of its threads need more than {} of memory", BUFFERS_MAX.to_exact_text())]
    Buffers,
}

/// The memory that is left for the rows of a recording.
#[derive(Debug)]
pub struct Budget {
    left: u64,
    is_exceeded: bool,
    threads: FxHashSet<u32>,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { left: MEMORY_MAX.0, is_exceeded: false, threads: FxHashSet::default() }
    }
}

impl Budget {
    /// Takes memory for a row, and returns whether there is enough. After the first failure, no row gets memory,
    /// so the rows in memory have no gaps.
    pub fn take(&mut self, bytes: u64) -> bool {
        match self.left.checked_sub(bytes) {
            Some(left) if !self.is_exceeded => self.left = left,
            _ => self.is_exceeded = true,
        }
        !self.is_exceeded
    }

    /// Takes memory for a thread that was not seen before, and returns whether there is enough.
    pub fn take_thread(&mut self, tid: u32) -> bool {
        let is_known = self.threads.contains(&tid);
        let has_room = is_known || self.take(THREAD);
        if has_room && !is_known {
            self.threads.insert(tid);
        }
        has_room
    }

    /// Returns the memory of rows that are no longer needed.
    pub fn give_back(&mut self, bytes: u64) {
        self.left += bytes;
    }

    /// Fails if a row got no memory.
    pub fn check(&self) -> Result<(), TooLarge> {
        if self.is_exceeded { Err(TooLarge::Memory) } else { Ok(()) }
    }
}

/// Fails if the buffers are too large together. `largest` has the size of the largest buffer of each thread.
pub fn check_buffers(largest: impl IntoIterator<Item = u64>) -> Result<(), TooLarge> {
    let all = largest.into_iter().fold(0, u64::saturating_add);
    if all > BUFFERS_MAX.0 { Err(TooLarge::Buffers) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_without_memory_ends_the_budget() {
        let mut budget = Budget::default();
        assert!(budget.take(MEMORY_MAX.0 - THREAD - 1));
        assert!(budget.take_thread(7) && budget.take_thread(7) && budget.check().is_ok());
        assert!(!budget.take(2), "one byte is left");
        // A smaller row does not get the rest.
        assert!(!budget.take(1) && !budget.take_thread(8));
        assert_eq!(budget.check(), Err(TooLarge::Memory));
        assert!(check_buffers([BUFFERS_MAX.0]).is_ok());
        assert_eq!(check_buffers([u64::MAX, 1]), Err(TooLarge::Buffers));
    }
}
