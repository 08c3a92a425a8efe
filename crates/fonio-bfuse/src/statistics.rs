//! Counters of a running mount. They are relaxed atomics: each is exact, but two of them can be from slightly different
//! moments.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use fonio_core::statistics::doublings::{Doublings, class_of};

use crate::protocol::Opcode;

/// A number that is increased or set.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    pub(crate) fn subtract(&self, less: u64) {
        self.0.fetch_sub(less, Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A histogram by powers of two.
#[derive(Debug)]
pub(crate) struct Histogram {
    /// The number of values in each class.
    of: [Counter; 65],
    sum: Counter,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { of: std::array::from_fn(|_| Counter::default()), sum: Counter::default() }
    }
}

impl Histogram {
    pub(crate) fn add(&self, value: u64) {
        self.of[class_of(value)].add(1);
        self.sum.add(value);
    }

    /// Counts a time, in nanoseconds.
    pub(crate) fn record(&self, time: Duration) {
        self.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn count(&self) -> u64 {
        self.classes().count()
    }

    pub(crate) fn sum(&self) -> u64 {
        self.sum.get()
    }

    /// The classes as they are now.
    pub(crate) fn classes(&self) -> Doublings {
        let mut classes = Doublings::default();
        self.of.iter().enumerate().for_each(|(class, count)| classes.add(class, count.get()));
        classes
    }
}

/// Statistics of one opcode.
#[derive(Debug, Default)]
pub(crate) struct OpcodeStatistics {
    /// Time from receiving a request to its answer.
    pub(crate) time: Histogram,
    pub(crate) errors: Counter,
}

/// Statistics of the write buffer.
#[derive(Debug, Default)]
pub(crate) struct BufferStatistics {
    pub(crate) entries: Counter,
    pub(crate) entry_bytes: Counter,
    /// 1 if the memory is locked, so that it cannot be swapped out.
    pub(crate) locked: Counter,
    /// Number of buffered writes.
    pub(crate) writes: Counter,
    /// Writes that bypassed the buffer.
    pub(crate) through: Counter,
    /// Writes that did not continue the pending data, so that these had to be flushed.
    pub(crate) interrupted: Counter,
    /// Reads and attribute changes that had to wait for a flush.
    pub(crate) read_drains: Counter,
    /// How often a writer waited for a free entry.
    pub(crate) waits: Counter,
    pub(crate) bytes_in: Counter,
    /// Bytes in the buffer now, those in flight included.
    pub(crate) fill_bytes: Counter,
    /// Sizes of the buffer's write calls below.
    pub(crate) flush_bytes: Histogram,
    pub(crate) flush_time: Histogram,
    pub(crate) errors: Counter,
    /// Bytes that were acknowledged and could not be written below.
    pub(crate) lost_bytes: Counter,
}

impl BufferStatistics {
    pub(crate) fn filled(&self, bytes: usize) {
        self.bytes_in.add(bytes as u64);
        self.fill_bytes.add(bytes as u64);
    }

    pub(crate) fn flushed(&self, bytes: usize) {
        self.fill_bytes.subtract(bytes as u64);
        self.flush_bytes.add(bytes as u64);
    }
}

/// Statistics of the whole mount.
#[derive(Debug, Default)]
pub(crate) struct Statistics {
    opcodes: OfOpcodes,
    /// Sizes of write requests.
    pub(crate) write_bytes: Histogram,
    pub(crate) read_bytes: Histogram,
    /// Write calls to the file system below, without those of the buffer.
    pub(crate) direct_writes: Counter,
    /// Opens, by how the file is served; see [`crate::modes::Serving`].
    pub(crate) opened: [Counter; 4],
    /// Files for which the kernel refused passthrough, and its last error.
    pub(crate) passthrough_refused: Counter,
    pub(crate) passthrough_errno: Counter,
    pub(crate) handles: Counter,
    /// How often the daemon asked the kernel to forget inodes.
    pub(crate) prunes: Counter,
    pub(crate) threads: Counter,
}

/// Statistics of each opcode.
#[derive(Debug)]
struct OfOpcodes([OpcodeStatistics; Opcode::COUNT]);

impl Default for OfOpcodes {
    fn default() -> Self {
        Self(std::array::from_fn(|_| OpcodeStatistics::default()))
    }
}

impl Statistics {
    pub(crate) fn of(&self, opcode: Opcode) -> &OpcodeStatistics {
        &self.opcodes.0[opcode.index()]
    }
}
