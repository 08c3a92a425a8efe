//! Counters of a running mount. They are relaxed atomics: each is exact, but two of them can be from slightly different
//! moments.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

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
    /// `of[k]` counts values of `2^(k-1)` to `2^k - 1`; `of[0]` counts zeros.
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
        self.of[(u64::BITS - value.leading_zeros()) as usize].add(1);
        self.sum.add(value);
    }

    /// Counts a time, in nanoseconds.
    pub(crate) fn record(&self, time: Duration) {
        self.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn count(&self) -> u64 {
        self.of.iter().map(Counter::get).sum()
    }

    pub(crate) fn sum(&self) -> u64 {
        self.sum.get()
    }

    /// Exclusive upper bounds of the non-empty buckets, each with its number of values.
    pub(crate) fn buckets(&self) -> Vec<(u64, u64)> {
        let counted = self.of.iter().enumerate().map(|(power, count)| (power, count.get()));
        counted.filter(|(_, count)| *count > 0).map(|(power, count)| (bound(power), count)).collect()
    }

    /// Upper bound of the value below which `share` of all values lie; `None` without values.
    pub(crate) fn quantile(&self, share: f64) -> Option<u64> {
        let buckets = self.buckets();
        let total: u64 = buckets.iter().map(|(_, count)| count).sum();
        let wanted = share * total as f64;
        let mut seen = 0;
        buckets.into_iter().find_map(|(bound, count)| {
            seen += count;
            (seen as f64 >= wanted).then_some(bound)
        })
    }
}

fn bound(power: usize) -> u64 {
    1u64.checked_shl(u32::try_from(power).expect("a power of two below 65")).unwrap_or(u64::MAX)
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
#[derive(Debug)]
pub(crate) struct Statistics {
    opcodes: [OpcodeStatistics; Opcode::COUNT],
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

impl Default for Statistics {
    fn default() -> Self {
        Self {
            opcodes: std::array::from_fn(|_| OpcodeStatistics::default()),
            write_bytes: Histogram::default(),
            read_bytes: Histogram::default(),
            direct_writes: Counter::default(),
            opened: Default::default(),
            passthrough_refused: Counter::default(),
            passthrough_errno: Counter::default(),
            handles: Counter::default(),
            prunes: Counter::default(),
            threads: Counter::default(),
        }
    }
}

impl Statistics {
    pub(crate) fn of(&self, opcode: Opcode) -> &OpcodeStatistics {
        &self.opcodes[opcode.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::Histogram;

    #[test]
    fn quantiles_are_upper_bounds() {
        let histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        for value in [0, 1, 3, 4096, 4097, u64::MAX] {
            histogram.add(value);
        }
        assert_eq!(histogram.buckets(), [(1, 1), (2, 1), (4, 1), (8192, 2), (u64::MAX, 1)]);
        assert_eq!(histogram.quantile(0.5), Some(4));
        assert_eq!(histogram.quantile(0.8), Some(8192));
        assert_eq!(histogram.quantile(1.0), Some(u64::MAX));
    }
}
