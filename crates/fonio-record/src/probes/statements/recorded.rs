//! Keeps the statements of a capture, and turns them into rows.

use std::io;
use std::path::PathBuf;

use fonio_core::meta::LOST_STATEMENTS;
use fonio_core::{Nanos, RowSink, Statement, Timestamp, sql};
use rustc_hash::{FxHashMap, FxHashSet};

use super::layout::{Counters, RawStatement};

/// Maximum number of statement rows: 34 MB at 64 bytes each.
const ROWS_MAX: usize = 1 << 19;
/// Maximum number of different normalised statement texts: 1 MB.
const TEXTS_MAX: usize = 4096;
/// Maximum number of different original statement texts: 4 MB.
const HASHES_MAX: usize = 1 << 18;
/// Maximum number of connections that get their own number.
const CONNECTIONS_MAX: usize = 1 << 16;
/// Maximum number of remarks about individual files or processes.
const SENTENCES_MAX: usize = 5;

/// A remark on a recording: a stable name, a sentence, and how often it applies.
type Remark = (&'static str, String, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    tid: u32,
    connection: Option<u32>,
    entered: u64,
    exited: Option<u64>,
    steps: u64,
    stepping: Nanos,
    hash: u64,
}

#[derive(Debug, Default)]
pub(super) struct Kept {
    rows: Vec<Row>,
    /// The number of each normalised text, by the hash of the original text.
    by_hash: FxHashMap<u64, u32>,
    texts: Vec<String>,
    numbers: FxHashMap<String, u32>,
    connections: FxHashMap<(u32, u64), u32>,
    processes: FxHashSet<u32>,
    beyond: u64,
    texts_beyond: u64,
}

impl Kept {
    /// Adds a statement row. `exited` is the end time of the last step, if that step has ended.
    pub(super) fn add(&mut self, raw: &RawStatement, exited: Option<u64>) {
        self.processes.insert(raw.tgid);
        if self.rows.len() >= ROWS_MAX {
            self.beyond += 1;
            return;
        }
        let key = (raw.tgid, raw.connection);
        let is_known = raw.connection != 0
            && (self.connections.len() < CONNECTIONS_MAX || self.connections.contains_key(&key));
        let next = self.connections.len() as u32;
        let connection = is_known.then(|| *self.connections.entry(key).or_insert(next));
        self.rows.push(Row {
            tid: raw.tid,
            connection,
            entered: raw.entered_ns,
            exited,
            steps: raw.steps,
            stepping: Nanos(raw.stepping_ns),
            hash: raw.text,
        });
    }

    /// Adds the text of a statement, without its values.
    pub(super) fn add_text(&mut self, hash: u64, text: &[u8], is_cut: bool) {
        if self.by_hash.contains_key(&hash) {
            return;
        }
        let text = sql::normalised(text, is_cut);
        let known = self.numbers.get(&text).copied();
        if self.by_hash.len() >= HASHES_MAX || (known.is_none() && self.texts.len() >= TEXTS_MAX) {
            self.texts_beyond += 1;
            return;
        }
        let number = known.unwrap_or_else(|| {
            let number = self.texts.len() as u32;
            self.texts.push(text.clone());
            self.numbers.insert(text, number);
            number
        });
        self.by_hash.insert(hash, number);
    }

    pub(super) fn finish(
        self,
        (began, ended): (Timestamp, Timestamp),
        counters: Counters,
        refused: Vec<String>,
        late: Vec<(PathBuf, Timestamp)>,
    ) -> CapturedStatements {
        let Kept { mut rows, by_hash, texts, processes, beyond, texts_beyond, .. } = self;
        rows.retain(|row| row.entered < ended.0 && row.exited.is_none_or(|exited| exited >= began.0));
        rows.sort_unstable_by_key(|row| (row.entered, row.tid));
        CapturedStatements {
            rows,
            by_hash,
            texts,
            processes,
            counters,
            beyond,
            texts_beyond,
            began,
            refused,
            late,
        }
    }
}

/// A process that wrote to an SQLite journal or WAL, and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WithSqlite {
    pub process: u32,
    pub name: String,
}

#[derive(Debug)]
pub(crate) struct CapturedStatements {
    /// The statement rows, ordered by their start.
    rows: Vec<Row>,
    by_hash: FxHashMap<u64, u32>,
    texts: Vec<String>,
    processes: FxHashSet<u32>,
    counters: Counters,
    beyond: u64,
    texts_beyond: u64,
    began: Timestamp,
    refused: Vec<String>,
    late: Vec<(PathBuf, Timestamp)>,
}

impl CapturedStatements {
    /// Returns the threads that executed statements.
    pub(crate) fn tids(&self) -> impl Iterator<Item = u32> {
        self.rows.iter().map(|row| row.tid)
    }

    pub(crate) fn write(&self, sink: &mut dyn RowSink) -> io::Result<()> {
        for row in &self.rows {
            let text = self.by_hash.get(&row.hash).and_then(|number| self.texts.get(*number as usize));
            sink.statement(&Statement {
                tid: row.tid,
                connection: row.connection,
                entered: Timestamp(row.entered),
                exited: row.exited.map(Timestamp),
                steps: row.steps,
                stepping: row.stepping,
                text: text.cloned(),
            })?;
        }
        Ok(())
    }

    /// Returns remarks for the user about missing statements. `with_sqlite` lists the processes that use
    /// SQLite.
    pub(crate) fn remarks(&self, with_sqlite: &[WithSqlite]) -> Vec<Remark> {
        let mut remarks = Vec::new();
        let missing = self.counters.ring_full + self.counters.not_noted + self.beyond;
        if missing > 0 {
            let message = format!(
                "{missing} executions of SQL statements were not recorded, because the tables were full; record for a shorter time"
            );
            remarks.push((LOST_STATEMENTS, message, missing));
        }
        let texts = self.counters.texts_lost + self.texts_beyond;
        if texts > 0 {
            let message = format!(
                "{texts} SQL statements have no text, because the table of different texts was full; use parameters in them instead of values"
            );
            remarks.push((LOST_STATEMENTS, message, texts));
        }
        remarks.extend(several(self.refused.clone()).map(|message| (NO_STATEMENTS, message, 1)));
        let silent = with_sqlite.iter().filter(|with| !self.processes.contains(&with.process));
        let silent = silent.map(|WithSqlite { process, name }| {
            format!(
                "the SQL statements of {name} (process {process}) are not recorded: none of its files has the symbol sqlite3_step, or the process ended before fonio found the file; use SQLite's shared library, or a build that is not stripped"
            )
        });
        remarks.extend(several(silent.collect()).map(|message| (NO_STATEMENTS, message, 1)));
        let late = self.late.iter().map(|(path, at)| {
            let after_ms = at.since(self.began).unwrap_or_default().0 / 1_000_000;
            format!(
                "SQL statements executed by {} are recorded only from {after_ms} ms on, when fonio found this file in a process",
                path.display()
            )
        });
        remarks.extend(several(late.collect()).map(|message| ("late-statements", message, 1)));
        remarks
    }
}

/// The code of the remark on statements that are not recorded.
pub(crate) const NO_STATEMENTS: &str = "no-statements";

/// Returns the first sentences, and a sentence with the number of further sentences.
fn several(mut sentences: Vec<String>) -> impl Iterator<Item = String> {
    let more = sentences.len().saturating_sub(SENTENCES_MAX);
    sentences.truncate(SENTENCES_MAX);
    let more = (more > 0).then(|| format!("the same problem in {more} more cases"));
    sentences.into_iter().chain(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tid: u32, entered_ns: u64, text: u64) -> RawStatement {
        RawStatement { text, connection: 77, entered_ns, steps: 1, tid, tgid: 5, ..RawStatement::default() }
    }

    #[test]
    fn rows_find_their_text_whenever_it_comes() {
        let mut kept = Kept::default();
        kept.add(&row(7, 30, 1), Some(40));
        kept.add_text(1, b"INSERT INTO t VALUES (1)", false);
        kept.add_text(2, b"insert into t values (2)", false);
        kept.add(&row(7, 20, 2), Some(25));
        kept.add(&row(8, 20, 3), None);
        // One row is before the capture, and one row is after it.
        kept.add(&row(8, 1, 1), Some(2));
        kept.add(&row(8, 900, 1), None);
        let captured = kept.finish((Timestamp(10), Timestamp(100)), Counters::default(), vec![], vec![]);
        let found: Vec<(u32, u64, Option<&str>)> = captured
            .rows
            .iter()
            .map(|row| {
                let text = captured.by_hash.get(&row.hash).map(|at| captured.texts[*at as usize].as_str());
                (row.tid, row.entered, text)
            })
            .collect();
        let text = Some("INSERT INTO t VALUES (?)");
        assert_eq!(found, [(7, 20, text), (8, 20, None), (7, 30, text)]);
        assert_eq!(captured.texts.len(), 1);
        assert!(captured.rows.iter().all(|row| row.connection == Some(0)));
    }

    #[test]
    fn what_is_missing_is_told() {
        let mut kept = Kept::default();
        kept.add(&row(7, 30, 1), Some(40));
        let counters = Counters { ring_full: 2, texts_lost: 3, not_noted: 1 };
        let late = vec![(PathBuf::from("/app/libmozsqlite3.so"), Timestamp(45_000_000))];
        let captured = kept.finish((Timestamp(0), Timestamp(100)), counters, vec!["x".to_owned(); 8], late);
        let with = |process, name: &str| WithSqlite { process, name: name.to_owned() };
        let remarks = captured.remarks(&[with(5, "seen"), with(6, "stripped")]);
        let counts: Vec<(&str, u64)> = remarks.iter().map(|(code, _, count)| (*code, *count)).collect();
        assert_eq!(counts[..2], [(LOST_STATEMENTS, 3), (LOST_STATEMENTS, 3)]);
        let text: Vec<&str> = remarks.iter().map(|(_, message, _)| message.as_str()).collect();
        assert_eq!(text[2..8], ["x", "x", "x", "x", "x", "the same problem in 3 more cases"]);
        assert!(text[8].contains("stripped (process 6)") && text[9].contains("from 45 ms on"), "{text:?}");
        assert_eq!(text.len(), 10);
    }
}
