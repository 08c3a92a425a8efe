//! Sums up the costs of transactions, for each database and for all.

use fonio_core::{ByteCount, Nanos, Unit};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::slots::{Bytes, Cost, Outcome, Slot};
use crate::figures::facts::Facts;
use crate::question::ratio::ratio;

/// Cost of transactions. Request counts are unknown if events or calls were lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Receipt {
    /// Number of transactions that were committed.
    pub transactions: u64,
    /// Number of transactions that were rolled back after they wrote to a file.
    pub rollbacks: u64,
    /// Mean cost of a committed transaction; absent if no transaction was committed.
    pub mean: Option<MeanCost>,
    /// Most frequent combination of sync calls, writes and flushes.
    pub usual: Option<UsualCost>,
    /// Bytes written to the device and by the application, from the first transaction on.
    pub amplification: Amplification,
}

/// The mean cost of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeanCost {
    /// Number of sync calls: fsync, fdatasync, sync_file_range, msync.
    pub syncs: f64,
    /// Time in sync calls, in nanoseconds.
    pub sync_ns: f64,
    /// Time for which threads were blocked on storage, in nanoseconds; absent if not recorded.
    pub blocked_ns: Option<f64>,
    /// Number of calls that write to the database, its journal or its WAL.
    #[serde(default)]
    pub write_calls: f64,
    /// Bytes that these calls wrote.
    #[serde(default)]
    pub written_bytes: f64,
    /// Write requests to the device. This and the following fields are absent if the device was not recorded.
    pub writes: Option<f64>,
    /// Flush requests to the device.
    pub flushes: Option<f64>,
    /// Bytes written to the device.
    pub bytes: Option<f64>,
    /// Bytes of the database file written to the device.
    pub database_bytes: Option<f64>,
    /// Bytes of the journal or WAL, and of the WAL's index, written to the device.
    pub journal_bytes: Option<f64>,
    /// Bytes of the file system's journal written to the device.
    pub fs_journal_bytes: Option<f64>,
    /// Bytes of the file system's metadata written to the device.
    pub fs_metadata_bytes: Option<f64>,
    /// Other bytes written to the device.
    pub other_bytes: Option<f64>,
}

/// Most frequent combination of sync calls, writes and flushes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsualCost {
    /// Number of sync calls.
    pub syncs: u64,
    /// Write requests.
    pub writes: u64,
    /// Flush requests.
    pub flushes: u64,
    /// The number of transactions with exactly these counts.
    pub transactions: u64,
}

/// Bytes written to the device for each byte that the application wrote.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Amplification {
    /// Bytes written by calls to the database, its journal and its WAL.
    pub written_bytes: ByteCount,
    /// Bytes written to the device; absent if the device was not recorded.
    pub device_bytes: Option<ByteCount>,
    /// Bytes written to the device for each byte that the application wrote.
    pub total: Option<f64>,
    /// Part of `total` for database, journal and WAL.
    pub data: Option<f64>,
    /// Part of `total` for the file system's metadata.
    pub fs_metadata: Option<f64>,
    /// Part of `total` for the file system's journal.
    pub fs_journal: Option<f64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    commits: u64,
    rollbacks: u64,
    committed: Cost,
    all: Cost,
    counts: FxHashMap<(u64, u64, u64), u64>,
    /// Total time of waits for which the recording has only counts.
    pub(super) counted_blocked: Nanos,
}

/// Maximum number of distinct combinations of sync calls, writes and flushes.
const COMBINATIONS_MAX: usize = 4096;

impl Sums {
    pub(super) fn slot(&mut self, slot: &Slot) {
        self.all.add(&slot.cost);
        match slot.outcome {
            Outcome::Commit(_) => {
                self.commits += 1;
                self.committed.add(&slot.cost);
                let counts = (slot.cost.syncs, slot.cost.writes, slot.cost.flushes);
                if self.counts.len() < COMBINATIONS_MAX || self.counts.contains_key(&counts) {
                    *self.counts.entry(counts).or_default() += 1;
                }
            }
            Outcome::Rollback => self.rollbacks += 1,
            Outcome::Open => {}
        }
    }

    pub(super) fn absorb(&mut self, other: &Sums) {
        self.commits += other.commits;
        self.rollbacks += other.rollbacks;
        self.committed.add(&other.committed);
        self.all.add(&other.all);
        for (counts, transactions) in &other.counts {
            *self.counts.entry(*counts).or_default() += transactions;
        }
        self.counted_blocked += other.counted_blocked;
    }

    /// Whether at least 95 % of the blocked time is in waits with rows. Waits that were only counted cannot
    /// be assigned to transactions.
    pub(super) fn is_blocked_by_rows(&self) -> bool {
        self.counted_blocked.0 <= self.committed.blocked.0 / 20
    }

    /// Whether the device of the database was recorded. In this case, the sync calls caused recorded
    /// requests.
    pub(super) fn is_on_recorded_device(&self) -> bool {
        self.all.syncs == 0 || self.all.writes + self.all.flushes > 0
    }

    /// Returns the summed costs as a receipt. `has_blocked` and `has_device` say whether waits of threads and
    /// requests were recorded.
    pub(super) fn receipt(&self, has_blocked: bool, has_device: bool) -> Receipt {
        let per = |sum: u64| sum as f64 / self.commits as f64;
        let on_device = |sum: u64| has_device.then(|| per(sum));
        let committed = &self.committed;
        let bytes = |kind: Bytes| on_device(committed.bytes[kind as usize].0);
        let blocked = committed.blocked + self.counted_blocked;
        let mean = (self.commits > 0).then(|| MeanCost {
            syncs: per(committed.syncs),
            sync_ns: per(committed.sync.0),
            write_calls: per(committed.write_calls),
            written_bytes: per(committed.written.0),
            blocked_ns: has_blocked.then(|| per(blocked.0)),
            writes: on_device(committed.writes),
            flushes: on_device(committed.flushes),
            bytes: on_device(committed.device_bytes().0),
            database_bytes: bytes(Bytes::Database),
            journal_bytes: bytes(Bytes::Journal),
            fs_journal_bytes: bytes(Bytes::FsJournal),
            fs_metadata_bytes: bytes(Bytes::FsMetadata),
            other_bytes: bytes(Bytes::Other),
        });
        let usual = (self.counts.iter().filter(|_| has_device))
            .map(|(&(syncs, writes, flushes), &transactions)| (transactions, syncs, writes, flushes))
            .max();
        let usual = usual.map(|(transactions, syncs, writes, flushes)| UsualCost {
            syncs,
            writes,
            flushes,
            transactions,
        });
        let written = self.all.written;
        let part = |kinds: &[Bytes]| {
            let sum: ByteCount = kinds.iter().map(|kind| self.all.bytes[*kind as usize]).sum();
            has_device.then(|| ratio(sum, written)).flatten()
        };
        let amplification = Amplification {
            written_bytes: written,
            device_bytes: has_device.then(|| self.all.device_bytes()),
            total: has_device.then(|| ratio(self.all.device_bytes(), written)).flatten(),
            data: part(&[Bytes::Database, Bytes::Journal]),
            fs_metadata: part(&[Bytes::FsMetadata]),
            fs_journal: part(&[Bytes::FsJournal]),
        };
        Receipt { transactions: self.commits, rollbacks: self.rollbacks, mean, usual, amplification }
    }
}

/// Words with which the labels of a receipt's figures are built.
pub(super) struct Labels<'a> {
    /// The prefix of each label, with the name of the database.
    pub(super) before: &'a str,
    pub(super) transaction: &'a str,
    /// The words that follow `bytes on the device per byte` in a label.
    pub(super) wrote: &'a str,
}

pub(super) fn figures(name: &str, labels: &Labels, receipt: Option<&Receipt>, facts: &mut Facts) {
    let Labels { before, transaction, wrote } = labels;
    let transactions = receipt.map(|receipt| receipt.transactions);
    facts.count(format!("{name}.transactions"), format!("{before}{transaction}s"), transactions);
    let label = format!("{before}{transaction}s rolled back");
    facts.count(format!("{name}.rollbacks"), label, receipt.map(|receipt| receipt.rollbacks));
    let mean = receipt.and_then(|receipt| receipt.mean.as_ref());
    for (figure, label, value, unit) in [
        ("syncs", "sync calls per", mean.map(|mean| mean.syncs), Unit::Number),
        ("writes", "device writes per", mean.and_then(|mean| mean.writes), Unit::Number),
        ("flushes", "device flushes per", mean.and_then(|mean| mean.flushes), Unit::Number),
        ("bytes", "bytes on the device per", mean.and_then(|mean| mean.bytes), Unit::Bytes),
        ("sync_time", "time in sync calls per", mean.map(|mean| mean.sync_ns), Unit::Ns),
        ("blocked", "time blocked on storage, per", mean.and_then(|mean| mean.blocked_ns), Unit::Ns),
    ] {
        let label = format!("{before}{label} {transaction}");
        facts.put(format!("{name}.{figure}_per_transaction"), label, unit, value);
    }
    let total = receipt.and_then(|receipt| receipt.amplification.total);
    let label = format!("{before}bytes on the device per byte {wrote}");
    facts.put(format!("{name}.write_amplification"), label, Unit::Ratio, total);
}
