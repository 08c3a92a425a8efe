//! Computes the cost of SQLite transactions.
//!
//! The module finds transactions in the recorded calls, without changes to the application. A request with a
//! file belongs to that file's database. Journal and metadata requests of the file system, and flushes, have
//! no file. Such requests belong to the database on which the causing thread was working. A request belongs
//! to the transaction that was running at the time of the request. The statement that the thread was
//! executing (`sqlite3_step`) identifies the cause of a transaction.

mod finder;
mod names;
pub(crate) mod readers;
mod receipt;
mod slots;
mod spans;
mod statements;
#[cfg(test)]
mod tests;

use fonio_core::meta::{
    LOST_CALLS, LOST_STATEMENTS, SHOWS_BLOCKED, SHOWS_CALLS, SHOWS_SLOW_CALLS, SHOWS_STATEMENTS,
};
use fonio_core::{BlockedCount, ByteCount, Call, Content, Nanos, Op, Request, Timestamp, Wait};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figures::facts::{Facts, Frame};
use crate::question::context::{Context, Ending};
use crate::question::ratio::at;
use crate::question::seen::Seen;
use crate::question::{Question, Row};
use finder::{Act, Finder, Mode, Role, Step};
use names::Databases;
pub use readers::WalReader;
pub use receipt::{Amplification, MeanCost, Receipt, UsualCost};
use receipt::{Labels, Sums};
use slots::{Bytes, Cost, Outcome, Slots};
use spans::Spans;
pub use statements::StatementCost;
use statements::{ByStatement, Statements};

/// The transactions of SQLite databases. Present if the recording has file-system calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sqlite {
    /// Databases that were written, by descending number of transactions.
    pub databases: Vec<Database>,
    /// Number of databases beyond the maximum of 256. These databases are not listed, but `all` includes
    /// them.
    pub databases_beyond_cap: u64,
    /// All databases together.
    pub all: Receipt,
    /// Number of lost file-system calls. Each lost call can hide a transaction.
    pub calls_lost: u64,
    /// Number of writes to journals and WALs whose database is unknown. Each of these writes can hide a
    /// transaction. A write to the database of one of these journals counts as a write without a journal.
    pub journals_unknown: u64,
    /// Whether the recording has SQL statements.
    pub has_statements: bool,
    /// Number of lost executions and lost texts of SQL statements.
    pub statements_lost: u64,
    /// Number of autocommits, which are transactions of one statement without BEGIN. Absent if the statement
    /// of a transaction is unknown.
    pub autocommits: Option<u64>,
    /// True if no calls or block events were lost or filtered out, and if the database of every journal is
    /// known. If false, figures are unknown.
    pub is_complete: bool,
}

/// A database.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Database {
    /// The path of the database.
    pub path: String,
    /// Number of transactions by `journal_mode`, which is inferred from the calls.
    pub modes: Vec<ModeCount>,
    /// Cost of the database's transactions.
    pub receipt: Receipt,
    /// Cost of the transactions by their statements, by descending time in sync calls; at most 32 rows.
    pub statements: Vec<StatementCost>,
    /// Number of committed transactions in groups that are not listed.
    pub statements_beyond_cap: u64,
    /// Number of committed transactions whose statement is unknown, if statements were recorded.
    pub unknown_statements: u64,
    /// Number of autocommits, which are committed transactions of one statement without BEGIN. Absent if a
    /// statement is unknown.
    pub autocommits: Option<u64>,
    /// Number of checkpoints of the WAL.
    pub checkpoints: u64,
    /// Writes to the database without a journal (`journal_mode` OFF or MEMORY), or with one of the unknown
    /// journals in `journals_unknown`. Their transactions cannot be counted.
    pub unjournaled_writes: u64,
    /// Whether requests to the device of the database were recorded.
    pub is_on_recorded_device: bool,
    /// Whether transactions beyond the cap of 262,144 for all databases were dropped.
    pub is_cut: bool,
}

/// Transactions in one mode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModeCount {
    /// The name in `PRAGMA journal_mode`: `delete`, `truncate`, `persist` or `wal`.
    pub mode: String,
    /// Committed transactions.
    pub transactions: u64,
}

/// Maximum number of transactions of all databases: 38 MB at 144 bytes each.
const SLOTS_MAX: usize = 1 << 18;
const LISTED_MAX: usize = 256;
/// Maximum number of groups of statements in the table of a database.
const STATEMENTS_MAX: usize = 32;

#[derive(Debug, Default)]
pub(crate) struct SqliteTally {
    has_calls: bool,
    has_waits: bool,
    databases: Databases,
    states: Vec<State>,
    spans: Spans,
    slots_count: usize,
    calls_lost: u64,
    journals_unknown: u64,
    statements: Statements,
    has_statements: bool,
    statements_lost: u64,
    /// For each thread: its blocked time in waits that were only counted.
    counted: FxHashMap<u32, Nanos>,
}

/// Maximum number of threads for which the time in counted waits is kept.
const THREADS_MAX: usize = 1 << 16;

#[derive(Debug, Default)]
struct State {
    finder: Finder,
    slots: Slots,
}

impl SqliteTally {
    fn cost_at(&mut self, tid: u32, time: Timestamp) -> Option<&mut Cost> {
        let database = self.spans.at(tid, time)?;
        self.states.get_mut(database)?.slots.at(time)
    }

    /// Takes a file-system call. Files come before calls, and calls are in order of their begin times.
    fn call(&mut self, row: &Call) {
        self.has_calls = true;
        // Failed calls changed nothing; the effect of unfinished calls is unknown.
        let (Some(result), Some(exited)) = (row.result, row.exited) else { return };
        if result < 0 {
            return;
        }
        let (entered, act) = (row.entered, act(row, result));
        let file = row.file_id;
        let is_journal = row.sqlite_write.is_some();
        if let Some(file) = file.filter(|_| is_journal) {
            self.databases.is_of_sqlite(file);
        }
        let of = file.and_then(|file| self.databases.of(file));
        if is_journal && !matches!(of, Some((_, Role::Journal | Role::Wal))) {
            // The path of the file is unknown, or is the path of another file.
            self.journals_unknown += 1;
            return;
        }
        let of_folder = || {
            let database = self.spans.last(row.tid).filter(|_| act == Act::Sync)?;
            self.databases.is_folder(file?, database).then_some((database, Role::Folder))
        };
        let Some((database, role)) = of.or_else(of_folder) else {
            if act == Act::Sync {
                self.spans.add(row.tid, entered, exited, None);
            }
            return;
        };
        self.spans.add(row.tid, entered, exited, Some(database));
        let state = at(&mut self.states, database);
        let bytes = ByteCount(u64::try_from(result).unwrap_or(0));
        let step = Step { role, act, offset: row.offset.unwrap_or(0), bytes };
        let (slots, count) = (&mut state.slots, &mut self.slots_count);
        state.finder.step(&step, &mut |event| {
            *count += usize::from(slots.event(event, (row.tid, entered), *count < SLOTS_MAX));
        });
        slots.until(exited);
        let Some(cost) = slots.at(entered) else { return };
        match act {
            Act::Sync => {
                cost.syncs += 1;
                cost.sync += exited - entered;
            }
            Act::Write(_) => {
                cost.write_calls += 1;
                cost.written += bytes;
            }
            _ => {}
        }
    }

    /// Takes a wait; waits come after all calls.
    fn wait(&mut self, row: &Wait) {
        let Some(operation) = row.blocked_in else { return };
        self.has_waits = true;
        let Some(ended) = row.ended else { return };
        if !operation.is_for_storage(row.reason) {
            return;
        }
        if let Some(cost) = self.cost_at(row.tid, row.began) {
            cost.blocked += ended - row.began;
        }
    }

    /// Takes a count of short waits; counts come after all calls.
    fn blocked_count(&mut self, row: &BlockedCount) {
        self.has_waits = true;
        if row.blocked_in.is_for_storage(row.reason)
            && (self.counted.len() < THREADS_MAX || self.counted.contains_key(&row.tid))
        {
            *self.counted.entry(row.tid).or_default() += row.total;
        }
    }
}

impl Question for SqliteTally {
    type Answer = Option<Sqlite>;

    fn row(&mut self, row: Row, _: &mut Context) {
        match row {
            Row::File(row) => self.databases.file(row),
            Row::Call(row) => self.call(row),
            // Steps of statements arrive in order of their begin times.
            Row::Statement(row) => {
                self.has_statements = true;
                self.statements.add(row);
            }
            Row::Wait(row) => self.wait(row),
            Row::BlockedCount(row) => self.blocked_count(row),
            Row::Diagnostic(row) if row.code == LOST_CALLS => {
                self.calls_lost = self.calls_lost.saturating_add(row.count);
            }
            Row::Diagnostic(row) if row.code == LOST_STATEMENTS => {
                self.statements_lost = self.statements_lost.saturating_add(row.count);
            }
            _ => {}
        }
    }

    /// Takes a request; requests come after all calls.
    #[inline]
    fn request(&mut self, row: &Request, _: &Seen) {
        if !self.has_calls || !matches!(row.op, Op::Write | Op::WriteZeroes | Op::ZoneAppend | Op::Flush) {
            return;
        }
        let time = row.queued.unwrap_or(row.order_time());
        let of_file = row.file_id.and_then(|file| self.databases.of(file));
        let of = match (of_file, row.file_id) {
            (Some((database, role)), _) => Some((database, bytes_of(row.content, Some(role)))),
            // Skip requests for data of other files. Keep flushes, which may be for the database's folder.
            (None, Some(file)) if row.op != Op::Flush && self.databases.has_path(file) => None,
            (None, _) => {
                let cause = row.cause_tid.or(row.tid);
                let database = cause.and_then(|tid| self.spans.at(tid, time));
                database.map(|database| (database, bytes_of(row.content, None)))
            }
        };
        let Some((database, kind)) = of else { return };
        let Some(cost) = self.states.get_mut(database).and_then(|state| state.slots.at(time)) else { return };
        if row.op == Op::Flush {
            cost.flushes += 1;
        } else {
            cost.writes += 1;
            cost.bytes[kind as usize] += row.bytes;
        }
    }

    /// Returns the answer, or `None` if the recording has no file-system calls.
    fn finish(self, end: &mut Ending) -> Option<Sqlite> {
        let shows = |what: &str| end.meta.source.shows.iter().any(|shown| shown == what);
        // Slow calls alone do not show transactions.
        if (!self.has_calls && !shows(SHOWS_CALLS)) || shows(SHOWS_SLOW_CALLS) {
            return None;
        }
        let has_blocked = self.has_waits || shows(SHOWS_BLOCKED);
        let mut sums: Vec<Sums> = Vec::new();
        for state in &self.states {
            let mut sum = Sums::default();
            state.slots.slots.iter().for_each(|slot| sum.slot(slot));
            sums.push(sum);
        }
        for (tid, time) in &self.counted {
            if let Some(sum) = self.spans.only(*tid).and_then(|database| sums.get_mut(database)) {
                sum.counted_blocked += *time;
            }
        }
        let mut all = Sums::default();
        sums.iter().for_each(|sum| all.absorb(sum));
        let is_cut = self.states.iter().any(|state| state.slots.full_at.is_some());
        let has_gaps = self.calls_lost > 0 || self.journals_unknown > 0;
        let has_gaps = has_gaps || self.spans.beyond > 0 || self.databases.beyond > 0 || is_cut;
        let every = sums.iter().all(Sums::is_on_recorded_device);
        let has_statements = self.has_statements || shows(SHOWS_STATEMENTS);
        let statements_lost = self.statements_lost + self.statements.beyond;
        let mut autocommits = has_statements.then_some(0);
        let mut databases: Vec<Database> = (self.states.iter().zip(&sums).zip(&self.databases.paths))
            .filter(|((state, _), _)| !state.slots.slots.is_empty() || state.slots.unjournaled > 0)
            .map(|((state, sum), path)| {
                let is_on_recorded_device = sum.is_on_recorded_device();
                let by = ByStatement::of(&state.slots.slots, &self.statements);
                let (unknown, beyond) = (by.unknown, by.beyond);
                let own_autocommits = (has_statements && unknown == 0).then_some(by.autocommits);
                autocommits = autocommits.zip(own_autocommits).map(|(sum, own)| sum + own);
                let has_time = has_blocked && sum.is_blocked_by_rows();
                let mut statements = by.costs(&self.statements, has_time, is_on_recorded_device);
                let left_out: u64 =
                    statements.iter().skip(STATEMENTS_MAX).map(|cost| cost.transactions).sum();
                statements.truncate(STATEMENTS_MAX);
                Database {
                    path: path.clone(),
                    modes: modes(&state.slots),
                    receipt: sum.receipt(has_blocked, is_on_recorded_device),
                    statements,
                    statements_beyond_cap: beyond + left_out,
                    unknown_statements: if has_statements { unknown } else { 0 },
                    autocommits: own_autocommits,
                    checkpoints: state.slots.checkpoints,
                    unjournaled_writes: state.slots.unjournaled,
                    is_on_recorded_device,
                    is_cut: state.slots.full_at.is_some(),
                }
            })
            .collect();
        databases.sort_by(|a, b| {
            let key = |database: &Database| (database.receipt.transactions, database.unjournaled_writes);
            key(b).cmp(&key(a)).then_with(|| a.path.cmp(&b.path))
        });
        let databases_beyond_cap = databases.len().saturating_sub(LISTED_MAX) as u64;
        databases.truncate(LISTED_MAX);
        Some(Sqlite {
            databases,
            databases_beyond_cap,
            all: all.receipt(has_blocked, every),
            calls_lost: self.calls_lost,
            journals_unknown: self.journals_unknown,
            has_statements,
            statements_lost,
            autocommits,
            is_complete: !has_gaps && !end.lost.is_any() && !end.is_filtered,
        })
    }

    /// Figures are also listed for a recording without calls, so that a budget for one of these figures is
    /// reported as unknown.
    fn figures(sqlite: &Option<Sqlite>, _: &Frame, facts: &mut Facts) {
        let complete = sqlite.as_ref().filter(|sqlite| sqlite.is_complete);
        let all = Labels { before: "", transaction: "SQLite transaction", wrote: "that SQLite wrote" };
        receipt::figures("sqlite", &all, complete.map(|sqlite| &sqlite.all), facts);
        // A lost statement run may have been BEGIN.
        let known = complete.filter(|sqlite| sqlite.statements_lost == 0);
        let label = "SQLite transactions of one statement, without BEGIN";
        facts.count("sqlite.autocommits", label, known.and_then(|sqlite| sqlite.autocommits));
        for database in sqlite.iter().flat_map(|sqlite| &sqlite.databases) {
            let (name, before) = (format!("database[{}]", database.path), format!("{}, ", database.path));
            let labels = Labels { before: &before, transaction: "transaction", wrote: "written" };
            receipt::figures(&name, &labels, complete.map(|_| &database.receipt), facts);
            let label = format!("{before}transactions of one statement, without BEGIN");
            let autocommits = known.and(database.autocommits);
            facts.count(format!("{name}.autocommits"), label, autocommits);
        }
    }
}

fn modes(slots: &Slots) -> Vec<ModeCount> {
    let count = |mode: Mode| {
        let commits = slots.slots.iter().filter(|slot| slot.outcome == Outcome::Commit(mode));
        ModeCount { mode: mode.name().to_owned(), transactions: commits.count() as u64 }
    };
    Mode::ALL.into_iter().map(count).filter(|count| count.transactions > 0).collect()
}

/// Returns the effect of a call that returned `result`.
fn act(row: &Call, result: i64) -> Act {
    match row.name.as_str() {
        "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" if result > 0 => {
            Act::Write(row.sqlite_write)
        }
        "read" | "pread64" | "readv" | "preadv" | "preadv2" if result > 0 => Act::Read,
        "fsync" | "fdatasync" | "sync_file_range" | "msync" | "sync" | "syncfs" => Act::Sync,
        "ftruncate" | "truncate" => row.offset.map_or(Act::Other, Act::Truncate),
        "unlink" | "unlinkat" => Act::Delete,
        _ => Act::Other,
    }
}

fn bytes_of(content: Content, role: Option<Role>) -> Bytes {
    match (content, role) {
        (Content::FsJournal, _) => Bytes::FsJournal,
        (Content::FsMetadata, _) => Bytes::FsMetadata,
        (_, Some(Role::Database)) => Bytes::Database,
        (_, Some(Role::Journal | Role::Wal | Role::Shm)) => Bytes::Journal,
        (_, Some(Role::Folder) | None) => Bytes::Other,
    }
}
