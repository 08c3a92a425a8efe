//! Tests with hand-written statements, and with generated transactions of known statements.

use fonio_core::meta::{SHOWS_BLOCKED, SHOWS_CALLS};
use fonio_core::{ByteCount, Call, Content, DeviceId, File, Meta, Nanos, SqliteWrite, Timestamp};
use proptest::prelude::*;

use super::super::{Sqlite, SqliteTally};
use super::*;
use crate::question::context::{Context, Ending};
use crate::question::options::AnalysisOptions;
use crate::question::{Question, Row};

/// Parses `thread connection from-until text`. The text `?` means that the statement's text is unknown;
/// `until` is optional.
fn row(line: &str) -> Statement {
    let mut words = line.splitn(4, ' ');
    let mut next = || words.next().unwrap();
    let (tid, connection) = (next().parse().unwrap(), next().parse().ok());
    let (from, until) = next().split_once('-').unwrap();
    let (from, until) = (from.parse::<u64>().unwrap(), until.parse::<u64>().ok());
    let text = Some(next()).filter(|text| *text != "?").map(str::to_owned);
    Statement {
        tid,
        connection,
        entered: Timestamp(from),
        exited: until.map(Timestamp),
        steps: 1,
        stepping: Nanos(until.map_or(0, |until| until - from)),
        text,
    }
}

fn statements(lines: &[&str]) -> Statements {
    let mut statements = Statements::default();
    lines.iter().for_each(|line| statements.add(&row(line)));
    statements
}

/// Returns the statements of the transaction that thread 7 commits at `at`: `explicit: a; b`.
fn made(statements: &Statements, at: u64) -> Option<String> {
    let Made { is_explicit, mut by } = statements.made(7, Timestamp(at))?;
    by.sort_unstable();
    let texts: Vec<&str> = by.iter().map(|(text, _)| statements.texts[*text as usize].as_str()).collect();
    Some(format!("{}{}", if is_explicit { "explicit: " } else { "" }, texts.join("; ")))
}

#[test]
fn a_commit_belongs_to_the_statements_since_begin() {
    for (lines, at, expected) in [
        // A commit during an autocommit statement, at its start or end, and at other times.
        (&["7 0 10-20 INSERT INTO a"][..], 10, Some("INSERT INTO a")),
        (&["7 0 10-20 INSERT INTO a"], 20, Some("INSERT INTO a")),
        // A statement may commit after its last step, when it is reset.
        (&["7 0 10-20 INSERT INTO a"], 21, Some("INSERT INTO a")),
        (&["7 0 10-20 SELECT ?"], 21, None),
        (&["7 0 1-2 BEGIN", "7 0 3-4 INSERT INTO a", "7 0 10-20 COMMIT"], 21, None),
        (&["7 0 10-20 INSERT INTO a"], 9, None),
        (&["7 0 10- INSERT INTO a"], 500, Some("INSERT INTO a")),
        (&["7 0 10-20 ?"], 15, None),
        (&["8 0 10-20 INSERT INTO a"], 15, None),
        // An explicit transaction that also reads, and that follows another transaction.
        (
            &[
                "7 0 1-2 INSERT INTO z",
                "7 0 3-4 BEGIN",
                "7 0 5-6 INSERT INTO a",
                "7 0 7-8 SELECT ?",
                "7 0 9-10 UPDATE b",
                "7 0 11-20 COMMIT",
            ],
            15,
            Some("explicit: INSERT INTO a; UPDATE b"),
        ),
        // BEGIN was executed before the recording, or a statement after BEGIN is unknown.
        (&["7 0 5-6 INSERT INTO a", "7 0 11-20 COMMIT"], 15, None),
        (&["7 0 1-2 BEGIN", "7 0 3-4 ?", "7 0 11-20 END"], 15, None),
        (&["7 0 1-2 BEGIN", "7 0 3-4 ROLLBACK", "7 0 5-6 INSERT INTO a", "7 0 11-20 COMMIT"], 15, None),
        (&["7 0 1-2 BEGIN", "7 0 11-20 COMMIT"], 15, None),
        // Savepoints inside a transaction, and a transaction that is itself a savepoint.
        (
            &[
                "7 0 1-2 BEGIN",
                "7 0 3-4 SAVEPOINT s",
                "7 0 5-6 INSERT INTO a",
                "7 0 7-8 ROLLBACK TO s",
                "7 0 9-10 RELEASE s",
                "7 0 11-20 COMMIT",
            ],
            15,
            Some("explicit: INSERT INTO a"),
        ),
        (
            &[
                "7 0 1-2 UPDATE z",
                "7 0 3-4 SAVEPOINT s",
                "7 0 5-6 SAVEPOINT i",
                "7 0 7-8 INSERT INTO a",
                "7 0 9-10 RELEASE i",
                "7 0 11-20 RELEASE s",
            ],
            15,
            Some("explicit: INSERT INTO a"),
        ),
        // These statements belong to other connections of the same thread, or to other threads on the same
        // connection.
        (
            &[
                "7 0 1-2 BEGIN",
                "7 1 3-4 DELETE FROM other",
                "9 0 5-6 INSERT INTO a",
                "7 1 7-8 COMMIT",
                "7 0 11-20 COMMIT",
            ],
            15,
            Some("explicit: INSERT INTO a"),
        ),
        // If connections are unknown, the statements of the same thread are used.
        (
            &["7 x 1-2 BEGIN", "9 x 3-4 DELETE FROM other", "7 x 5-6 INSERT INTO a", "7 x 11-20 COMMIT"],
            15,
            Some("explicit: INSERT INTO a"),
        ),
    ] {
        assert_eq!(made(&statements(lines), at).as_deref(), expected, "{lines:?}");
    }
}

/// Analyses WAL commits given as thread, begin and end in microseconds. Each commit has one sync call that
/// takes half of the commit's time.
fn with_commits(rows: &[String], commits: &[(u32, u64, u64)]) -> Sqlite {
    let mut tally = SqliteTally::default();
    let mut context = Context::new(&AnalysisOptions::default());
    for (file_id, path, content) in [(1, "/a.db", Content::SqliteDb), (2, "/a.db-wal", Content::SqliteWal)] {
        let (path, device, from) = (Some(path.to_owned()), Some(DeviceId::new(8, 1)), Timestamp(0));
        tally.row(Row::File(&File { file_id, from, device, inode: Some(7), path, content }), &mut context);
    }
    for (number, (tid, from, until)) in (0..).zip(commits) {
        let (from, until) = (from * 1000, until * 1000);
        let call = |name: &str, entered, exited, sqlite_write, result| Call {
            call_id: number,
            name: name.to_owned(),
            tid: *tid,
            file_id: Some(2),
            offset: Some(32 + number * 4120),
            bytes: Some(ByteCount(24)),
            entered: Timestamp(entered),
            exited: Some(Timestamp(exited)),
            result: Some(result),
            sqlite_write,
            file_flags: None,
        };
        let wrote = call("pwrite64", from, from + 10, Some(SqliteWrite::WalCommit), 24);
        let synced = call("fdatasync", from + (until - from) / 2, until, None, 0);
        [wrote, synced].iter().for_each(|call| tally.row(Row::Call(call), &mut context));
    }
    rows.iter().for_each(|line| tally.row(Row::Statement(&row(line)), &mut context));
    let mut meta = Meta::default();
    meta.source.shows = [SHOWS_CALLS, SHOWS_BLOCKED, "statements"].map(str::to_owned).to_vec();
    tally.finish(&mut Ending::without_requests(&meta)).unwrap()
}

#[test]
fn transactions_are_grouped_by_their_statements() {
    let rows: Vec<String> = [
        "7 0 0-99000 INSERT INTO a",
        "8 1 0-200000 INSERT INTO a",
        "7 0 100000-110000 BEGIN",
        "7 0 110001-150000 INSERT INTO a",
        "7 0 150001-190000 UPDATE b",
        "7 0 190001-300000 COMMIT",
    ]
    .map(str::to_owned)
    .to_vec();
    let commits = [(7, 10, 20), (7, 30, 50), (8, 60, 62), (7, 70, 90), (7, 200, 260), (9, 280, 290)];
    let sqlite = with_commits(&rows, &commits);
    let database = &sqlite.databases[0];
    assert_eq!((database.receipt.transactions, database.unknown_statements), (6, 1));
    // One statement is unknown, so the number of autocommits is unknown.
    assert_eq!((database.autocommits, sqlite.autocommits, sqlite.has_statements), (None, None, true));
    let [explicit, autocommits] = database.statements.as_slice() else { panic!("{:?}", database.statements) };
    assert!(explicit.is_explicit && !autocommits.is_explicit);
    assert_eq!(explicit.statements, ["INSERT INTO a", "UPDATE b"]);
    assert_eq!(
        (explicit.transactions, explicit.sync_ns, explicit.worst_sync_ns),
        (1, Nanos(30_000), Nanos(30_000))
    );
    assert_eq!(autocommits.statements, ["INSERT INTO a"]);
    assert_eq!(
        (autocommits.transactions, autocommits.sync_ns, autocommits.worst_sync_ns),
        (4, Nanos(26_000), Nanos(10_000))
    );
    assert_eq!((autocommits.mean.syncs, autocommits.blocked_ns), (1.0, Some(Nanos(0))));
    // Only the second autocommit of thread 7 counts, because another thread committed between the other
    // autocommits.
    assert_eq!((explicit.without_pause, autocommits.without_pause), (0, 1));
    let sqlite = with_commits(&rows, &commits[..5]);
    assert_eq!((sqlite.databases[0].autocommits, sqlite.autocommits), (Some(4), Some(4)));
}

#[test]
fn a_pause_ends_a_series() {
    let rows = ["7 0 0-99000000 INSERT INTO a".to_owned()];
    let sqlite = with_commits(&rows, &[(7, 10, 20), (7, 1020, 1030), (7, 2031, 2040)]);
    assert_eq!(sqlite.databases[0].statements[0].without_pause, 1);
}

#[test]
fn many_statements_are_bounded() {
    let texts = TEXTS_MAX as u64 + 10;
    let rows: Vec<String> =
        (0..texts).map(|n| format!("7 0 {}-{} INSERT INTO t{n}", n * 2000, n * 2000 + 1999)).collect();
    let commits: Vec<(u32, u64, u64)> = (0..texts).map(|n| (7, n * 2, n * 2 + 1)).collect();
    let sqlite = with_commits(&rows, &commits);
    let database = &sqlite.databases[0];
    assert_eq!(
        (database.statements.len(), database.unknown_statements, sqlite.statements_lost),
        (32, 10, 10)
    );
    let listed: u64 = database.statements.iter().map(|cost| cost.transactions).sum();
    assert_eq!(listed + database.statements_beyond_cap + database.unknown_statements, texts);
}

proptest! {
    /// Generates transactions with known statements, executed by several threads with a connection each.
    #[test]
    fn each_commit_finds_the_statements_that_made_it(
        plan in prop::collection::vec((0u32..3, any::<bool>(), prop::collection::vec(0usize..6, 1..5)), 1..30)
    ) {
        // Transactions of one thread are sequential; transactions of different threads overlap.
        let texts = ["INSERT INTO a", "UPDATE b", "DELETE FROM c", "SELECT d", "SAVEPOINT s", "RELEASE s"];
        let mut rows: Vec<(u64, String)> = Vec::new();
        let mut expected = Vec::new();
        let mut clocks = [0u64, 3, 7];
        for (thread, is_explicit, ops) in &plan {
            let clock = &mut clocks[*thread as usize];
            let mut put = |text: &str| {
                *clock += 10;
                rows.push((*clock, format!("{} {thread} {}-{} {text}", thread + 7, *clock, *clock + 5)));
                *clock + 2
            };
            if !is_explicit {
                let text = texts[ops[0] % 3];
                expected.push((*thread, put(text), false, vec![text]));
                continue;
            }
            put("BEGIN");
            ops.iter().for_each(|op| { put(texts[*op]); });
            let at = put("COMMIT");
            let mut writes: Vec<&str> = ops.iter().filter(|op| **op < 3).map(|op| texts[*op]).collect();
            writes.sort_unstable();
            writes.dedup();
            expected.push((*thread, at, true, writes));
        }
        rows.sort();
        let mut statements = Statements::default();
        rows.iter().for_each(|(_, line)| statements.add(&row(line)));
        for (thread, at, is_explicit, writes) in expected {
            let found = statements.made(thread + 7, Timestamp(at)).map(|made| {
                let mut texts: Vec<&str> = made.by.iter().map(|(text, _)| &*statements.texts[*text as usize]).collect();
                texts.sort_unstable();
                (made.is_explicit, texts)
            });
            prop_assert_eq!(found, (!writes.is_empty()).then_some((is_explicit, writes)));
        }
    }
}
