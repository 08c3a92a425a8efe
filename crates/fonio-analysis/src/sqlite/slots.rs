//! Computes the cost of each transaction from its calls and requests.
//!
//! A transaction's costs run from its first write to the next transaction's first write. A checkpoint, and
//! calls after a commit, are therefore charged to the preceding transaction.

use fonio_core::{ByteCount, Nanos, Timestamp};

use super::finder::{Event, Mode};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bytes {
    Database,
    /// The rollback journal, the WAL, and the index of the WAL.
    Journal,
    FsJournal,
    FsMetadata,
    Other,
}

pub(super) const KINDS: usize = 5;

/// The cost of a transaction: syncs, bytes, requests and blocked time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// Number of sync calls; `sync` is the time in these calls.
    pub syncs: u64,
    pub sync: Nanos,
    /// Number of calls that write, and of the bytes that they wrote.
    pub write_calls: u64,
    pub written: ByteCount,
    /// Number of write requests; `flushes` counts flush requests.
    pub writes: u64,
    pub flushes: u64,
    pub bytes: [ByteCount; KINDS],
    /// Time for which threads were blocked on storage, in waits with rows.
    pub blocked: Nanos,
}

impl Cost {
    pub(super) fn add(&mut self, other: &Cost) {
        self.syncs += other.syncs;
        self.sync += other.sync;
        self.write_calls += other.write_calls;
        self.written += other.written;
        self.writes += other.writes;
        self.flushes += other.flushes;
        for (sum, bytes) in self.bytes.iter_mut().zip(other.bytes) {
            *sum += bytes;
        }
        self.blocked += other.blocked;
    }

    pub(super) fn device_bytes(&self) -> ByteCount {
        self.bytes.iter().copied().sum()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Open,
    Commit(Mode),
    Rollback,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub begun: Timestamp,
    pub outcome: Outcome,
    /// Thread and begin time of the call that committed the transaction.
    pub committed: Option<(u32, Timestamp)>,
    /// The end of the transaction's last call.
    pub until: Timestamp,
    pub cost: Cost,
}

#[derive(Debug, Default)]
pub(super) struct Slots {
    pub slots: Vec<Slot>,
    /// The costs of calls and requests before the first transaction.
    pub before: Cost,
    /// Begin time of the first transaction that did not get a slot. Later costs are not counted.
    pub full_at: Option<Timestamp>,
    pub checkpoints: u64,
    /// Number of writes to the database without a journal.
    pub unjournaled: u64,
}

impl Slots {
    /// Processes an event of the finder; `tid` and `at` are the thread and the time of the call. Returns
    /// whether the event used a slot. If `has_room` is false, events use no slots.
    pub(super) fn event(&mut self, event: Event, (tid, at): (u32, Timestamp), has_room: bool) -> bool {
        match event {
            Event::Begin => {
                self.end(Outcome::Rollback, None);
                if self.full_at.is_none() && has_room {
                    self.slots.push(Slot {
                        begun: at,
                        outcome: Outcome::Open,
                        committed: None,
                        until: at,
                        cost: Cost::default(),
                    });
                    return true;
                }
                self.full_at.get_or_insert(at);
            }
            Event::Commit(mode) => self.end(Outcome::Commit(mode), Some((tid, at))),
            Event::Rollback => self.end(Outcome::Rollback, None),
            Event::Checkpoint => self.checkpoints += 1,
            Event::Unjournaled => self.unjournaled += 1,
        }
        false
    }

    fn end(&mut self, outcome: Outcome, committed: Option<(u32, Timestamp)>) {
        if let (None, Some(slot)) = (self.full_at, self.slots.last_mut())
            && slot.outcome == Outcome::Open
        {
            (slot.outcome, slot.committed) = (outcome, committed);
        }
    }

    /// Extends the current transaction to the end of a call.
    pub(super) fn until(&mut self, exited: Timestamp) {
        if let (None, Some(slot)) = (self.full_at, self.slots.last_mut()) {
            slot.until = slot.until.max(exited);
        }
    }

    /// Returns the costs of the transaction to which `time` is charged; `None` after the last transaction
    /// with a slot.
    pub(super) fn at(&mut self, time: Timestamp) -> Option<&mut Cost> {
        if self.full_at.is_some_and(|full| time >= full) {
            return None;
        }
        match self.slots.partition_point(|slot| slot.begun <= time).checked_sub(1) {
            Some(at) => Some(&mut self.slots[at].cost),
            None => Some(&mut self.before),
        }
    }
}
