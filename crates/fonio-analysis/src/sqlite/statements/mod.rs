//! Finds the SQL statements that a transaction executed.
//!
//! A transaction is committed by a call that a thread issues while it steps a statement. If the statement is
//! COMMIT, the transaction is explicit; it consists of the modifying statements since BEGIN on the same
//! connection. Any other statement is an autocommit.

use fonio_core::{Nanos, Statement, Timestamp, sql};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::receipt::{MeanCost, Sums};
use super::slots::{Outcome, Slot};

/// Maximum number of statement runs kept: 42 MB at 40 bytes each.
const RUNS_MAX: usize = 1 << 20;
/// Maximum number of different statement texts; the recorder has the same maximum.
const TEXTS_MAX: usize = 4096;
/// Maximum number of statement runs searched backwards from COMMIT for BEGIN.
const BACK_MAX: usize = 4096;
/// Maximum number of statements listed per transaction. Transactions with the same list form a group.
const NAMED_MAX: usize = 4;
const GROUPS_MAX: usize = 256;
/// Maximum time between two transactions that follow each other without a pause (our choice).
const PAUSE_MAX: Nanos = Nanos(1_000_000);

/// Cost of transactions with the same statements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatementCost {
    /// The modifying statements without their values, by descending run time; at most 4.
    pub statements: Vec<String>,
    /// Maximum number of further statements per transaction.
    pub more: u64,
    /// Whether the transactions were begun explicitly; otherwise they are autocommits.
    pub is_explicit: bool,
    /// Committed transactions.
    pub transactions: u64,
    /// Mean cost of a transaction. `blocked_ns` is absent if short waits, which are only counted, exceed 5 %
    /// of the time blocked on this database.
    pub mean: MeanCost,
    /// Total time in sync calls, in nanoseconds.
    pub sync_ns: Nanos,
    /// Longest time in sync calls of one transaction, in nanoseconds.
    pub worst_sync_ns: Nanos,
    /// Total time for which threads were blocked on storage, in nanoseconds; absent if `blocked_ns` of `mean`
    /// is absent.
    pub blocked_ns: Option<Nanos>,
    /// Number of autocommits that began within 1 ms after another autocommit with the same statement and
    /// thread.
    pub without_pause: u64,
}

/// A run: consecutive steps of one statement by one thread.
#[derive(Clone, Copy, Debug)]
struct Run {
    entered: Timestamp,
    exited: Timestamp,
    stepping: Nanos,
    text: Option<u32>,
    connection: Option<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Statements {
    /// Runs of statements, in order of their begin times.
    runs: Vec<Run>,
    texts: Vec<String>,
    kinds: Vec<sql::Kind>,
    numbers: FxHashMap<String, u32>,
    /// Indices of the runs of each thread; `by_connection` has the indices of the runs on each connection.
    by_thread: FxHashMap<u32, Vec<u32>>,
    by_connection: FxHashMap<u32, Vec<u32>>,
    /// Number of statement runs and texts dropped because the tables were full.
    pub(super) beyond: u64,
}

/// The statements of a transaction: the numbers of their texts, in order, and their run times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Made {
    is_explicit: bool,
    by: Vec<(u32, Nanos)>,
}

impl Statements {
    /// Adds the steps of one row. Rows must be added in order of their begin times.
    pub(super) fn add(&mut self, row: &Statement) {
        if self.runs.len() >= RUNS_MAX {
            self.beyond += 1;
            return;
        }
        let at = self.runs.len() as u32;
        let text = row.text.as_deref().and_then(|text| self.number(text));
        self.runs.push(Run {
            entered: row.entered,
            exited: row.exited.unwrap_or(Timestamp::MAX),
            stepping: row.stepping,
            text,
            connection: row.connection,
        });
        self.by_thread.entry(row.tid).or_default().push(at);
        if let Some(connection) = row.connection {
            self.by_connection.entry(connection).or_default().push(at);
        }
    }

    fn number(&mut self, text: &str) -> Option<u32> {
        if let Some(number) = self.numbers.get(text) {
            return Some(*number);
        }
        if self.texts.len() >= TEXTS_MAX {
            self.beyond += 1;
            return None;
        }
        let number = self.texts.len() as u32;
        self.texts.push(text.to_owned());
        self.kinds.push(sql::kind(text));
        self.numbers.insert(text.to_owned(), number);
        Some(number)
    }

    /// Returns the statements of the transaction that a thread committed at `at`; `None` if they are unknown.
    fn made(&self, tid: u32, at: Timestamp) -> Option<Made> {
        let of_thread = self.by_thread.get(&tid)?;
        let runs = &self.runs;
        let run = of_thread.partition_point(|run| runs[*run as usize].entered <= at).checked_sub(1)?;
        let run = of_thread[run];
        let Run { exited, text, connection, stepping, .. } = runs[run as usize];
        let text = text?;
        let kind = self.kinds[text as usize];
        // A statement that returns rows, such as INSERT … RETURNING, may commit on reset, after its last
        // step.
        if exited < at && kind != sql::Kind::Write {
            return None;
        }
        let is_release = match kind {
            sql::Kind::Commit => false,
            sql::Kind::Release => true,
            _ => return Some(Made { is_explicit: false, by: vec![(text, stepping)] }),
        };
        let list = connection.and_then(|connection| self.by_connection.get(&connection)).unwrap_or(of_thread);
        let end = list.partition_point(|other| *other < run);
        let by = self.since_begin(&list[end.saturating_sub(BACK_MAX)..end], is_release)?;
        (!by.is_empty()).then_some(Made { is_explicit: true, by })
    }

    /// Returns the modifying statements from the transaction's beginning to the end of `list`; `None` if the
    /// beginning or a text is unknown. A transaction committed by RELEASE begins at its savepoint.
    fn since_begin(&self, list: &[u32], is_release: bool) -> Option<Vec<(u32, Nanos)>> {
        let mut by: Vec<(u32, Nanos)> = Vec::new();
        let mut depth = 1;
        for run in list.iter().rev() {
            let run = &self.runs[*run as usize];
            let text = run.text?;
            match self.kinds[text as usize] {
                sql::Kind::Begin => return Some(by),
                sql::Kind::Commit | sql::Kind::Rollback => return None,
                sql::Kind::Release => depth += 1,
                sql::Kind::Savepoint => {
                    depth -= 1;
                    if is_release && depth == 0 {
                        return Some(by);
                    }
                }
                sql::Kind::Read => {}
                sql::Kind::Write => match by.iter_mut().find(|(known, _)| *known == text) {
                    Some((_, sum)) => *sum += run.stepping,
                    None => by.push((text, run.stepping)),
                },
            }
        }
        None
    }
}

#[derive(Debug, Default)]
struct Group {
    sums: Sums,
    sync: Nanos,
    worst_sync: Nanos,
    blocked: Nanos,
    more: usize,
    ran: Vec<(u32, Nanos)>,
    without_pause: u64,
}

#[derive(Debug, Default)]
pub(super) struct ByStatement {
    groups: FxHashMap<(bool, Vec<u32>), Group>,
    /// Number of committed transactions without a known statement, or in groups beyond the maximum number.
    pub(super) unknown: u64,
    pub(super) beyond: u64,
    /// Autocommits: committed transactions of one statement without BEGIN.
    pub(super) autocommits: u64,
}

impl ByStatement {
    pub(super) fn of(slots: &[Slot], statements: &Statements) -> ByStatement {
        let mut all = ByStatement::default();
        // Thread, statement and end of the previous transaction, if it was an autocommit.
        let mut before: Option<(u32, u32, Timestamp)> = None;
        for slot in slots {
            let last = before.take();
            let (Outcome::Commit(_), Some((tid, at))) = (slot.outcome, slot.committed) else { continue };
            let Some(Made { is_explicit, mut by }) = statements.made(tid, at) else {
                all.unknown += 1;
                continue;
            };
            all.autocommits += u64::from(!is_explicit);
            by.sort_unstable();
            let more = by.len().saturating_sub(NAMED_MAX);
            by.truncate(NAMED_MAX);
            let key = (is_explicit, by.iter().map(|(text, _)| *text).collect::<Vec<u32>>());
            if all.groups.len() >= GROUPS_MAX && !all.groups.contains_key(&key) {
                all.beyond += 1;
                continue;
            }
            let group = all.groups.entry(key).or_default();
            group.add(slot, &by, more);
            if !is_explicit {
                let text = by[0].0;
                let follows = last.is_some_and(|(thread, other, until)| {
                    (thread, other) == (tid, text) && slot.begun - until <= PAUSE_MAX
                });
                group.without_pause += u64::from(follows);
                before = Some((tid, text, slot.until));
            }
        }
        all
    }

    /// Returns the costs of each group; the group with the most time in sync calls is first. `has_blocked` is
    /// true if the blocked time is known.
    pub(super) fn costs(
        self,
        statements: &Statements,
        has_blocked: bool,
        has_device: bool,
    ) -> Vec<StatementCost> {
        let mut costs: Vec<StatementCost> = self
            .groups
            .into_iter()
            .map(|((is_explicit, _), group)| group.cost(statements, is_explicit, (has_blocked, has_device)))
            .collect();
        costs.sort_by(|a, b| {
            let key = |cost: &StatementCost| (cost.sync_ns, cost.transactions);
            key(b)
                .cmp(&key(a))
                .then_with(|| (&a.statements, a.is_explicit).cmp(&(&b.statements, b.is_explicit)))
        });
        costs
    }
}

impl Group {
    fn add(&mut self, slot: &Slot, by: &[(u32, Nanos)], more: usize) {
        self.sums.slot(slot);
        self.sync += slot.cost.sync;
        self.worst_sync = self.worst_sync.max(slot.cost.sync);
        self.blocked += slot.cost.blocked;
        self.more = self.more.max(more);
        if self.ran.is_empty() {
            self.ran = by.iter().map(|(text, _)| (*text, Nanos(0))).collect();
        }
        for ((_, sum), (_, time)) in self.ran.iter_mut().zip(by) {
            *sum += *time;
        }
    }

    fn cost(
        self,
        statements: &Statements,
        is_explicit: bool,
        (has_blocked, has_device): (bool, bool),
    ) -> StatementCost {
        let mut ran = self.ran;
        ran.sort_by_key(|(text, time)| (std::cmp::Reverse(*time), *text));
        let receipt = self.sums.receipt(has_blocked, has_device);
        StatementCost {
            statements: ran.iter().map(|(text, _)| statements.texts[*text as usize].clone()).collect(),
            more: self.more as u64,
            is_explicit,
            transactions: receipt.transactions,
            mean: receipt.mean.unwrap_or_default(),
            sync_ns: self.sync,
            worst_sync_ns: self.worst_sync,
            blocked_ns: has_blocked.then_some(self.blocked),
            without_pause: self.without_pause,
        }
    }
}

#[cfg(test)]
mod tests;
