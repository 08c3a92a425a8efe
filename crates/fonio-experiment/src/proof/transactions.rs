//! Transactions that follow each other on one connection, and could be one transaction.
//!
//! fonio cannot combine them, because only the program knows which changes belong together. So this is advice:
//! the number of commits that larger transactions would save, and the time that these commits took.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use fonio_core::{Nanos, RowSink, Statement, Timestamp, Unit, ignore_rows, sql};
use fonio_recording::{Recording, Table, Tables};
use serde::{Deserialize, Serialize};

use crate::error::ExperimentError;

/// Transactions without a pause between them, in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Joinable {
    /// All write transactions.
    pub transactions: u64,
    /// The commits that one transaction for each series would save.
    pub saved_commits: u64,
    /// The time that these commits took, in seconds.
    pub saved_s: f64,
    /// The longest series.
    pub longest_series: u64,
}

/// Maximum time between two transactions of a series, as in a report's table of statements.
const PAUSE_MAX: Nanos = Nanos(1_000_000);
/// Minimum number of saved commits for advice.
const SAVED_MIN: u64 = 10;
/// Maximum number of statements that are looked at.
const STATEMENTS_MAX: usize = 1 << 20;

impl Joinable {
    /// Reads the statements of a recording. Returns `None` if larger transactions would save hardly anything, or
    /// if the recording has no statements.
    pub(crate) fn of(recording: &Path) -> Result<Option<Joinable>, ExperimentError> {
        let mut series = Series::default();
        Recording::open(recording)?.replay(&mut series, Tables::NONE.with(Table::Statements))?;
        Ok(Some(series.finish()).filter(|found| found.saved_commits >= SAVED_MIN))
    }

    /// Returns the advice as a sentence.
    pub fn sentence(&self) -> String {
        format!(
            "The command made {} write transactions, up to {} of them without a pause on one connection. If the changes \
             of each such series belong together, BEGIN and COMMIT around them save {} commits, which took {} in one \
             run without a fix. A power cut or an error then loses the whole unfinished series.",
            Unit::Count.format(self.transactions as f64),
            Unit::Count.format(self.longest_series as f64),
            Unit::Count.format(self.saved_commits as f64),
            Unit::S.format(self.saved_s)
        )
    }
}

/// The price of a write-ahead log whose transactions are not synced.
const LOSES_LAST: &str = "A power cut can lose the last transactions, never the database.";

impl Joinable {
    /// Returns the price of a fix that should lose nothing, with the reason, if the program does not sync each
    /// transaction with the fix. Some builds of SQLite sync a write-ahead log only at checkpoints
    /// (`SQLITE_DEFAULT_WAL_SYNCHRONOUS=1`, <https://www.sqlite.org/compile.html>). A durable transaction needs at least
    /// one request of its own, so fewer requests than transactions show this. `before` and `after` are the least
    /// requests of a run without and with the fix.
    pub(crate) fn price_without_syncs(&self, fix: &str, before: u64, after: u64) -> Option<Price> {
        if before < self.transactions || after >= self.transactions {
            return None;
        }
        let reason = format!(
            "{fix}: the command's {} write transactions needed only {} requests, so its SQLite does not sync each of them \
             with a write-ahead log. {LOSES_LAST} `PRAGMA synchronous=FULL` on each connection keeps them.",
            Unit::Count.format(self.transactions as f64),
            Unit::Count.format(after as f64)
        );
        Some(Price { power_cut: LOSES_LAST, reason })
    }
}

/// What a power cut can lose with a fix.
#[derive(Debug)]
pub(crate) struct Price {
    pub(crate) power_cut: &'static str,
    pub(crate) reason: String,
}

/// A transaction on a connection.
#[derive(Clone, Copy, Debug)]
struct Open {
    began: Timestamp,
    has_writes: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Connection {
    open: Option<Open>,
    /// When the last committed transaction ended, and the number of transactions of its series.
    last: Option<(Timestamp, u64)>,
}

#[derive(Debug, Default)]
struct Series {
    connections: BTreeMap<(Option<u32>, u32), Connection>,
    rows: usize,
    found: Joinable,
}

impl Series {
    fn add(&mut self, row: &Statement) {
        let (Some(text), Some(exited)) = (row.text.as_deref(), row.exited) else { return };
        // Without its number, a connection counts as one for each thread.
        let key = (row.connection, if row.connection.is_some() { 0 } else { row.tid });
        let connection = self.connections.entry(key).or_default();
        let is_setting = ["PRAGMA", "VACUUM", "ANALYZE"].iter().any(|word| text.starts_with(word));
        match sql::kind(text) {
            sql::Kind::Begin => connection.open = Some(Open { began: row.entered, has_writes: false }),
            sql::Kind::Write if is_setting => {}
            sql::Kind::Write => match &mut connection.open {
                Some(open) => open.has_writes = true,
                None => self.commit(key, row.entered, exited, row.stepping),
            },
            sql::Kind::Commit => {
                if let Some(open) = connection.open.take().filter(|open| open.has_writes) {
                    self.commit(key, open.began, exited, row.stepping);
                }
            }
            sql::Kind::Rollback => connection.open = None,
            // A savepoint inside of a transaction commits nothing; one that begins a transaction is rare.
            sql::Kind::Savepoint | sql::Kind::Release | sql::Kind::Read => {}
        }
    }

    fn commit(&mut self, key: (Option<u32>, u32), began: Timestamp, ended: Timestamp, took: Nanos) {
        let connection = self.connections.entry(key).or_default();
        let follows =
            |(last, _): &(Timestamp, u64)| began.since(*last).is_some_and(|pause| pause <= PAUSE_MAX);
        let length = match connection.last.filter(follows) {
            Some((_, length)) => {
                self.found.saved_commits += 1;
                self.found.saved_s += took.as_secs_f64();
                length + 1
            }
            None => 1,
        };
        connection.last = Some((ended, length));
        self.found.transactions += 1;
        self.found.longest_series = self.found.longest_series.max(length);
    }

    fn finish(self) -> Joinable {
        self.found
    }
}

impl RowSink for Series {
    fn statement(&mut self, row: &Statement) -> io::Result<()> {
        self.rows += 1;
        if self.rows <= STATEMENTS_MAX {
            self.add(row);
        }
        Ok(())
    }
    ignore_rows! {
        began, request, bio, link, call, wait, blocked_count, file, thread, mark, sample, diagnostic, settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds statements of one connection: when each begins, how long it takes, in microseconds, and its text.
    fn of(statements: &[(u64, u64, &str)]) -> Joinable {
        let mut series = Series::default();
        for (at, took, text) in statements {
            let row = Statement {
                tid: 1,
                connection: Some(1),
                entered: Timestamp(at * 1000),
                exited: Some(Timestamp((at + took) * 1000)),
                steps: 1,
                stepping: Nanos(took * 1000),
                text: Some((*text).to_owned()),
            };
            series.statement(&row).expect("memory takes it");
        }
        series.finish()
    }

    #[test]
    fn fewer_requests_than_transactions_lose_transactions() {
        let found = Joinable { transactions: 97, ..Joinable::default() };
        for (before, after, is_told) in [
            (1100, 13, true),
            (703, 311, false),
            (703, 97, false),
            // The program syncs nothing in either setup.
            (10, 9, false),
        ] {
            let price = found.price_without_syncs("wal-full", before, after);
            assert_eq!(price.is_some(), is_told, "{before} {after}");
        }
    }

    #[test]
    fn commits_in_a_row_could_be_one() {
        let (insert, begin, commit) = ("INSERT INTO t VALUES (?)", "BEGIN", "COMMIT");
        let counts = |found: Joinable| (found.transactions, found.longest_series, found.saved_commits);
        // Autocommits: the third comes after a pause.
        let autocommits =
            of(&[(0, 500, insert), (600, 500, insert), (9000, 500, insert), (9600, 400, insert)]);
        assert_eq!(counts(autocommits), (4, 2, 2));
        assert!((autocommits.saved_s - 0.0009).abs() < 1e-9, "{autocommits:?}");
        // Explicit transactions count once each; their commits take the time.
        let explicit = [
            (0, 1, begin),
            (2, 5, insert),
            (8, 5, insert),
            (20, 300, commit),
            (400, 1, begin),
            (402, 5, insert),
            (410, 200, commit),
        ];
        let found = of(&explicit);
        assert_eq!((counts(found), found.saved_s), ((2, 2, 1), 0.0002));
        // Reads, settings and transactions that change nothing commit nothing.
        let nothing =
            [(0, 1, begin), (2, 5, "SELECT * FROM t"), (8, 5, commit), (20, 5, "PRAGMA journal_mode")];
        assert_eq!(counts(of(&nothing)), (0, 0, 0));
        let undone = [(0, 1, begin), (2, 5, insert), (8, 5, "ROLLBACK"), (20, 5, commit)];
        assert_eq!(counts(of(&undone)), (0, 0, 0));
    }
}
