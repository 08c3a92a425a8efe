//! Counts the events of a running mount. The counters are relaxed atomics: each value is exact, but two
//! counters may be read at slightly different times.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use fonio_core::statistics::doublings::{Doublings, class_of, end_of};
use serde::{Deserialize, Serialize};

use crate::protocol::Opcode;

/// A counter or gauge that threads update without a lock.
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

impl From<&Counter> for u64 {
    fn from(counter: &Counter) -> Self {
        counter.get()
    }
}

impl From<&Counter> for bool {
    fn from(counter: &Counter) -> Self {
        counter.get() != 0
    }
}

#[derive(Debug)]
pub(crate) struct Histogram {
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

    /// Counts a duration, in nanoseconds.
    pub(crate) fn record(&self, time: Duration) {
        self.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn count(&self) -> u64 {
        self.classes().count()
    }

    pub(crate) fn sum(&self) -> u64 {
        self.sum.get()
    }

    pub(crate) fn classes(&self) -> Doublings {
        let mut classes = Doublings::default();
        self.of.iter().enumerate().for_each(|(class, count)| classes.add(class, count.get()));
        classes
    }
}

/// A snapshot of a histogram whose class bounds are powers of two.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Distribution {
    /// Number of values in the histogram.
    pub count: u64,
    /// Sum of all values in the histogram.
    pub sum: u64,
    /// Upper bound of the median value; `None` if there are no values.
    pub median: Option<u64>,
    /// Upper bound of the 99th percentile; `None` if there are no values.
    pub p99: Option<u64>,
    /// For each non-empty class: its exclusive upper bound and its number of values.
    pub buckets: Vec<(u64, u64)>,
}

impl From<&Histogram> for Distribution {
    fn from(histogram: &Histogram) -> Self {
        let classes = histogram.classes();
        let quantile = |thousandths| classes.class_of_quantile(thousandths).map(end_of);
        let filled = classes.counts().iter().enumerate().filter(|(_, count)| **count > 0);
        Self {
            count: classes.count(),
            sum: histogram.sum(),
            median: quantile(500),
            p99: quantile(990),
            buckets: filled.map(|(class, count)| (end_of(class), *count)).collect(),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct OpcodeStatistics {
    /// Time from receiving a request to sending its reply.
    pub(crate) time: Histogram,
    pub(crate) errors: Counter,
}

/// Declares the statistics of a running mount, and a struct for a snapshot of these statistics.
macro_rules! statistics {
    ($(#[$of:meta])* $live:ident, $report:ident: $($(#[$doc:meta])* $name:ident: $counted:ty => $reported:ty,)*) => {
        $(#[$of])*
        #[derive(Debug, Default)]
        pub(crate) struct $live {
            $($(#[$doc])* pub(crate) $name: $counted,)*
        }

        $(#[$of])*
        #[derive(Clone, Debug, Default, Serialize, Deserialize)]
        #[non_exhaustive]
        pub struct $report {
            $($(#[$doc])* pub $name: $reported,)*
        }

        impl $live {
            pub(crate) fn report(&self) -> $report {
                $report { $($name: (&self.$name).into(),)* }
            }
        }
    };
}

statistics! {
    /// Statistics of the write buffer.
    BufferStatistics, BufferReport:
    /// Number of entries in the buffer.
    entries: Counter => u64,
    /// Size of one buffer entry in bytes.
    entry_bytes: Counter => u64,
    /// Whether the buffer's memory is locked, so it cannot be swapped out.
    is_locked: Counter => bool,
    /// Number of bytes of the buffer's locked memory.
    locked_bytes: Counter => u64,
    /// Whether the kernel may make the threads that flush the buffer wait for write-back when memory is short:
    /// `PR_SET_IO_FLUSHER` needs CAP_SYS_RESOURCE.
    may_wait: Counter => bool,
    /// Number of bytes that the buffer currently contains.
    fill_bytes: Counter => u64,
    /// Number of writes that the buffer accepted.
    writes: Counter => u64,
    /// Number of bytes that the buffer accepted.
    bytes_in: Counter => u64,
    /// Number of writes that bypassed the buffer because they did not continue an earlier write.
    through: Counter => u64,
    /// Number of writes that did not continue the pending data and forced a flush.
    interrupted: Counter => u64,
    /// Number of reads that had to wait for a flush.
    read_drains: Counter => u64,
    /// Number of times that a writer waited for a free entry.
    waits: Counter => u64,
    /// Sizes of the buffer's write calls to the source. `writes` divided by the number of these calls gives
    /// the degree of coalescing.
    flush_bytes: Histogram => Distribution,
    /// Durations of flushes, in nanoseconds.
    flush_ns: Histogram => Distribution,
    /// Number of flushes that failed.
    errors: Counter => u64,
    /// Acknowledged bytes that could not be written to the source; the applications got an error.
    lost_bytes: Counter => u64,
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

#[derive(Debug, Default)]
pub(crate) struct Statistics {
    opcodes: OfOpcodes,
    pub(crate) write_bytes: Histogram,
    pub(crate) read_bytes: Histogram,
    /// Number of write calls to the source file system that bypassed the buffer.
    pub(crate) direct_writes: Counter,
    /// Number of opens for each [`crate::modes::Serving`].
    pub(crate) opened: [Counter; 4],
    /// Number of files for which the kernel refused passthrough, and the error of the last refusal.
    pub(crate) passthrough_refused: Counter,
    pub(crate) passthrough_errno: Counter,
    pub(crate) handles: Counter,
    /// Number of times that the daemon asked the kernel to forget inodes.
    pub(crate) prunes: Counter,
    pub(crate) threads: Counter,
}

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
