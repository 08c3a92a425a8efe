//! Tests the analysis of SQLite databases with handwritten calls and requests.

use fonio_core::meta::{SHOWS_BLOCKED, SHOWS_CALLS};
use fonio_core::{
    BlockedIn, ByteCount, DeviceId, Diagnostic, File, Meta, Nanos, Severity, SqliteWrite, Timestamp,
    WaitReason,
};
use proptest::prelude::*;

use super::*;
use crate::analyser::tests::{request, wait};
use crate::question::options::AnalysisOptions;

/// The files of the tests: number, path and kind of data.
const FILES: [(u32, &str, Content); 10] = [
    (1, "/d/a.db", Content::SqliteDb),
    (2, "/d/a.db-journal", Content::SqliteJournal),
    (3, "/d/a.db-wal", Content::SqliteWal),
    (4, "/d/a.db-shm", Content::Data),
    (5, "/d/b.db", Content::SqliteDb),
    (6, "/d/b.db-journal", Content::SqliteJournal),
    (7, "/d", Content::Data),
    (8, "/d/log", Content::Data),
    // The WAL of a database file that could not be read.
    (9, "/d/c.db-wal", Content::Data),
    (10, "/d/clip.mp4", Content::Data),
];

/// Parses `thread time name file [offset+bytes] [mark] [=result]`, in microseconds. A call takes 1 µs. The
/// text names a file by the end of its path.
fn call(text: &str) -> Call {
    let words: Vec<&str> = text.split_whitespace().collect();
    let entered = words[1].parse::<u64>().unwrap() * 1000;
    let file = FILES.iter().find(|(_, path, _)| path.strip_prefix("/d/").unwrap_or(path) == words[3]);
    let mut row = Call {
        call_id: 0,
        name: words[2].to_owned(),
        tid: words[0].parse().unwrap(),
        file_id: file.map(|(file, ..)| *file),
        offset: None,
        bytes: None,
        entered: Timestamp(entered),
        exited: Some(Timestamp(entered + 1000)),
        result: Some(0),
        sqlite_write: None,
        file_flags: None,
    };
    for word in &words[4..] {
        if let Some((offset, bytes)) = word.split_once('+') {
            row.offset = Some(offset.parse().unwrap());
            row.bytes = bytes.parse().ok().map(ByteCount);
            row.result = row.bytes.map(|bytes| bytes.0 as i64).or(Some(0));
        } else if let Some(result) = word.strip_prefix('=') {
            row.result = result.parse().ok();
        } else {
            row.sqlite_write = Some(SqliteWrite::from_name(word).unwrap_or_else(|| panic!("{text}")));
        }
    }
    row
}

/// Returns the calls of a transaction that changes one page, beginning at `at` microseconds.
fn transaction(mode: &str, thread: u32, at: u64, database: &str) -> Vec<String> {
    let steps: &[&str] = match mode {
        "delete" => &[
            "pwrite64 @-journal 0+512 journal_header",
            "pwrite64 @-journal 512+4",
            "pwrite64 @-journal 516+4096",
            "fdatasync @-journal",
            "fdatasync /d",
            "pwrite64 @-journal 0+12 journal_header",
            "fdatasync @-journal",
            "pwrite64 @ 0+4096",
            "fdatasync @",
            "unlink @-journal",
        ],
        "truncate" => &[
            "pwrite64 @-journal 0+512 journal_header",
            "pwrite64 @-journal 516+4096",
            "fdatasync @-journal",
            "pwrite64 @ 0+4096",
            "fdatasync @",
            "ftruncate @-journal 0+",
            "fdatasync @-journal",
        ],
        "persist" => &[
            "pwrite64 @-journal 0+512 journal_header",
            "pwrite64 @-journal 516+4096",
            "fdatasync @-journal",
            "pwrite64 @ 0+4096",
            "fdatasync @",
            "pwrite64 @-journal 0+28 journal_end",
            "fdatasync @-journal",
        ],
        // Transactions with `synchronous=OFF`.
        "off" => &["pwrite64 @-journal 0+512 journal_header", "pwrite64 @ 0+4096", "unlink @-journal"],
        "rollback" => &["pwrite64 @-journal 0+512 journal_header", "unlink @-journal"],
        // The rollback restores a page that was already written to the database.
        "spilled-rollback" => &[
            "pwrite64 @-journal 0+512 journal_header",
            "fdatasync @-journal",
            "pwrite64 @ 0+4096",
            "pread64 @-journal 0+8",
            "pread64 @-journal 516+4096",
            "pwrite64 @ 0+4096",
            "ftruncate @-journal 0+",
        ],
        // One statement of the transaction is rolled back; the rest is committed.
        "savepoint" => &[
            "pwrite64 @-journal 0+512 journal_header",
            "pread64 @-journal 516+4096",
            "pwrite64 @-journal 0+12 journal_header",
            "fdatasync @-journal",
            "pwrite64 @ 0+4096",
            "unlink @-journal",
        ],
        "unjournaled" => &["pwrite64 @ 0+4096", "fdatasync @"],
        other => panic!("{other}"),
    };
    let line = |(place, step): (usize, &&str)| {
        let step = step.replace('@', database);
        format!("{thread} {} {step}", at + 2 * place as u64)
    };
    steps.iter().enumerate().map(line).collect()
}

fn tally_of(calls: &[String]) -> SqliteTally {
    let mut tally = SqliteTally::default();
    for (file_id, path, content) in FILES {
        let path = Some(path.to_owned());
        let device = Some(DeviceId::new(8, 1));
        tally.databases.file(&File { file_id, from: Timestamp(0), device, inode: Some(7), path, content });
    }
    let mut calls: Vec<Call> = calls.iter().map(|line| call(line)).collect();
    calls.sort_by_key(|call| call.entered);
    calls.iter().for_each(|call| tally.call(call));
    tally
}

fn meta() -> Meta {
    let mut meta = Meta::default();
    meta.source.shows = vec![SHOWS_CALLS.to_owned(), SHOWS_BLOCKED.to_owned()];
    meta
}

fn finished(tally: SqliteTally) -> Sqlite {
    tally.finish(&mut Ending::without_requests(&meta())).unwrap()
}

fn told(sqlite: &Sqlite) -> String {
    let mut text = String::new();
    for database in &sqlite.databases {
        let modes: Vec<String> =
            database.modes.iter().map(|mode| format!("{} {}", mode.transactions, mode.mode)).collect();
        text += &format!(
            "{}: [{}], {} rolled back, {} checkpoints, {} without journal, {} syncs\n",
            database.path,
            modes.join(", "),
            database.receipt.rollbacks,
            database.checkpoints,
            database.unjournaled_writes,
            database.receipt.mean.as_ref().map_or(0.0, |mean| mean.syncs),
        );
    }
    text
}

fn check(calls: &[String], expected: &[&str]) {
    assert_eq!(told(&finished(tally_of(calls))).lines().collect::<Vec<_>>(), expected);
}

fn transactions(modes: &[&str]) -> Vec<String> {
    let all = modes.iter().enumerate();
    all.flat_map(|(number, mode)| transaction(mode, 7, 1000 * number as u64, "a.db")).collect()
}

/// Returns the calls of a WAL transaction that writes the frames `frames`; the last frame is the commit.
fn wal(thread: u32, at: u64, frames: std::ops::Range<u64>) -> Vec<String> {
    let mut calls = Vec::new();
    for frame in frames.clone() {
        let offset = 32 + frame * 4120;
        let mark = if frame + 1 == frames.end { "wal_commit" } else { "wal_frame" };
        calls.push(format!("{thread} {} pwrite64 a.db-wal {offset}+24 {mark}", at + frame * 4));
        calls.push(format!("{thread} {} pwrite64 a.db-wal {}+4096", at + frame * 4 + 1, offset + 24));
    }
    calls
}

#[test]
fn each_rollback_mode_shows_its_commits() {
    check(
        &transactions(&["delete", "delete", "delete"]),
        &["/d/a.db: [3 delete], 0 rolled back, 0 checkpoints, 0 without journal, 4 syncs"],
    );
    check(
        &transactions(&["truncate", "truncate", "persist", "persist", "persist", "off"]),
        &[
            "/d/a.db: [1 delete, 2 truncate, 3 persist], 0 rolled back, 0 checkpoints, 0 without journal, 2.5 syncs",
        ],
    );
}

#[test]
fn a_rollback_is_no_commit() {
    check(
        &transactions(&["delete", "rollback", "spilled-rollback", "savepoint", "rollback"]),
        &["/d/a.db: [2 delete], 3 rolled back, 0 checkpoints, 0 without journal, 2.5 syncs"],
    );
    // Another process rolls back a journal left by a crash; later it deletes a journal without a transaction.
    let hot = ["9 1 pread64 a.db-journal 516+4096", "9 2 pwrite64 a.db 0+4096", "9 3 unlink a.db-journal"];
    check(
        &hot.map(str::to_owned),
        &["/d/a.db: [], 0 rolled back, 0 checkpoints, 1 without journal, 0 syncs"],
    );
}

#[test]
fn without_a_journal_nothing_can_be_counted() {
    check(
        &transactions(&["unjournaled", "unjournaled"]),
        &["/d/a.db: [], 0 rolled back, 0 checkpoints, 2 without journal, 0 syncs"],
    );
}

#[test]
fn a_journal_whose_database_is_unknown_is_counted() {
    // The journal has no path, or the path of a later file with the journal's inode number, or the path of
    // the database.
    for name in ["unknown", "clip.mp4", "a.db"] {
        let mut calls = transactions(&["delete"]);
        let second = transaction("delete", 7, 5000, "a.db");
        calls.extend(second.iter().map(|call| call.replace("a.db-journal", name)));
        let sqlite = finished(tally_of(&calls));
        assert_eq!(sqlite.databases[0].receipt.transactions, 1, "{name}");
        assert_eq!((sqlite.journals_unknown, sqlite.is_complete), (2, false), "{name}");
    }
    let sqlite = finished(tally_of(&transactions(&["delete", "delete"])));
    assert_eq!((sqlite.journals_unknown, sqlite.is_complete), (0, true));
}

#[test]
fn a_wal_shows_commits_checkpoints_and_rollbacks() {
    let mut calls = vec!["7 1 pwrite64 a.db-wal 0+32 wal_header".to_owned()];
    calls.extend(wal(7, 10, 0..1));
    calls.push("7 20 fdatasync a.db-wal".into());
    calls.extend(wal(7, 30, 1..4));
    // A checkpoint writes two pages.
    calls.extend(["7 60 pwrite64 a.db 0+4096", "7 61 pwrite64 a.db 4096+4096"].map(str::to_owned));
    calls.push("7 62 fdatasync a.db".into());
    // SQLite restarts the WAL. A transaction that wrote frames is rolled back, so the next transaction
    // overwrites these frames.
    calls.push("7 70 pwrite64 a.db-wal 0+32 wal_header".into());
    calls.extend(wal(7, 80, 0..2));
    calls.extend(
        ["9 100 pwrite64 a.db-wal 8272+24 wal_frame", "9 101 pwrite64 a.db-wal 8296+4096"].map(str::to_owned),
    );
    calls.extend(wal(7, 110, 2..3));
    // SQLite writes the frame headers again with new checksums.
    calls.push("7 130 pwrite64 a.db-wal 8272+24 wal_commit".into());
    // The last connection runs a checkpoint and closes.
    calls.push("7 140 pwrite64 a.db 0+4096".into());
    calls.push("7 150 unlink a.db-wal".into());
    check(&calls, &["/d/a.db: [4 wal], 1 rolled back, 2 checkpoints, 0 without journal, 0.5 syncs"]);
}

#[test]
fn a_wal_of_an_unreadable_database_is_known_by_its_frames() {
    let calls = ["7 1 pwrite64 c.db-wal 32+24 wal_commit", "7 2 fdatasync c.db-wal"];
    check(
        &calls.map(str::to_owned),
        &["/d/c.db: [1 wal], 0 rolled back, 0 checkpoints, 0 without journal, 1 syncs"],
    );
}

#[test]
fn databases_processes_and_other_files_are_kept_apart() {
    let mut calls = transaction("truncate", 7, 0, "a.db");
    calls.extend(transaction("delete", 8, 1, "b.db"));
    calls.extend(transaction("truncate", 8, 100, "a.db"));
    // Failed calls, and calls on files of no database, are ignored.
    calls.push("7 300 unlink a.db-journal =-2".into());
    calls.push("7 310 pwrite64 log 0+4096".into());
    calls.push("7 311 fdatasync log".into());
    calls.push("7 312 fsync /d".into());
    check(
        &calls,
        &[
            "/d/a.db: [2 truncate], 0 rolled back, 0 checkpoints, 0 without journal, 3 syncs",
            "/d/b.db: [1 delete], 0 rolled back, 0 checkpoints, 0 without journal, 4 syncs",
        ],
    );
}

fn take(tally: &mut SqliteTally, row: &Request) {
    tally.request(row, &Context::new(&AnalysisOptions::default()).see(row));
}

/// Adds the requests of two transactions that begin at 0 and 1000 µs, and a request of another file.
fn with_requests(mut tally: SqliteTally) -> SqliteTally {
    let mut id = 0;
    let mut give = |line: &str, file: Option<u32>, content: Content, cause: Option<u32>| {
        id += 1;
        let row = Request { file_id: file, content, cause_tid: cause, ..request(id, line) };
        take(&mut tally, &row);
    };
    for at in [6, 1006] {
        let line = |rest: &str| format!("{rest} q{at} d{at} c{}", at + 1);
        give(&line("WS 0+16"), Some(2), Content::SqliteJournal, Some(7));
        give(&line("WM 800+24"), None, Content::FsJournal, Some(7));
        give(&line("FF"), None, Content::FsJournal, Some(7));
        // A flush caused by an fsync of the folder, and a flush of a thread without calls.
        give(&line("FF"), Some(7), Content::Unknown, Some(7));
        give(&line("FF"), None, Content::Unknown, Some(99));
        give(&line("W 1600+8"), Some(8), Content::Data, Some(7));
    }
    give("W 0+8 q1018 d1018 c1019", Some(1), Content::SqliteDb, None);
    give("WM 0+8 q1018 d1018 c1019", None, Content::FsMetadata, Some(7));
    // After a thread's last call, its requests no longer belong to the transaction.
    give("WM 0+8 q9000 d9000 c9001", None, Content::FsJournal, Some(7));
    tally
}

#[test]
fn requests_count_for_the_transaction_in_which_they_were_made() {
    let mut tally = tally_of(&transactions(&["delete", "delete"]));
    tally.wait(&wait("7 fsync 6 7"));
    tally.wait(&wait("99 fsync 6 7"));
    let counted = BlockedCount {
        tid: 7,
        blocked_in: BlockedIn::Fsync,
        reason: WaitReason::Storage,
        from: Timestamp(0),
        until: Timestamp(1_000_000),
        below: Nanos(1000),
        count: 3,
        total: Nanos(500),
    };
    tally.blocked_count(&counted);
    tally.blocked_count(&BlockedCount { tid: 99, ..counted });
    let sqlite = finished(with_requests(tally));
    let receipt = &sqlite.databases[0].receipt;
    assert_eq!(*receipt, sqlite.all);
    let mean = receipt.mean.as_ref().unwrap();
    assert_eq!((mean.syncs, mean.writes, mean.flushes), (4.0, Some(3.0), Some(2.0)));
    assert_eq!(mean.bytes, Some(24576.0));
    let parts = [
        mean.database_bytes,
        mean.journal_bytes,
        mean.fs_journal_bytes,
        mean.fs_metadata_bytes,
        mean.other_bytes,
    ];
    assert_eq!(parts, [2048.0, 8192.0, 12288.0, 2048.0, 0.0].map(Some));
    assert_eq!((mean.sync_ns, mean.blocked_ns), (4000.0, Some(750.0)));
    let usual = receipt.usual.clone().unwrap();
    assert_eq!((usual.syncs, usual.writes, usual.flushes, usual.transactions), (4, 4, 2, 1));
    let amplification = &receipt.amplification;
    // Each transaction wrote 512 + 4 + 4096 + 12 + 4096 bytes.
    assert_eq!(
        (amplification.written_bytes, amplification.device_bytes),
        (ByteCount(17440), Some(ByteCount(49152)))
    );
    let (total, parts) = (
        amplification.total.unwrap(),
        [amplification.data.unwrap(), amplification.fs_metadata.unwrap(), amplification.fs_journal.unwrap()],
    );
    assert!((total - parts.iter().sum::<f64>()).abs() < 1e-9 && total > 2.8);
    assert!(sqlite.is_complete && sqlite.databases[0].is_on_recorded_device);
}

#[test]
fn without_requests_the_cost_is_unknown_unless_nothing_was_synced() {
    let receipt = |modes: &[&str]| finished(tally_of(&transactions(modes))).all;
    let mean = receipt(&["delete"]).mean.unwrap();
    assert_eq!((mean.syncs, mean.writes, mean.bytes), (4.0, None, None));
    let unsynced = receipt(&["off", "off"]);
    let mean = unsynced.mean.unwrap();
    assert_eq!((mean.syncs, mean.writes, mean.flushes, mean.bytes), (0.0, Some(0.0), Some(0.0), Some(0.0)));
    assert_eq!(unsynced.amplification.total, Some(0.0));
}

#[test]
fn losses_and_filters_make_it_incomplete() {
    let tally = || tally_of(&transactions(&["delete"]));
    let lost = Diagnostic {
        severity: Severity::Warning,
        code: LOST_CALLS.to_owned(),
        message: String::new(),
        file: None,
        record: None,
        offset: None,
        count: 3,
    };
    let mut with_loss = tally();
    let mut context = Context::new(&AnalysisOptions::default());
    with_loss.row(Row::Diagnostic(&lost), &mut context);
    with_loss.row(Row::Diagnostic(&Diagnostic { code: "lost-waits".to_owned(), ..lost }), &mut context);
    let sqlite = finished(with_loss);
    assert_eq!((sqlite.calls_lost, sqlite.is_complete), (3, false));
    let is_complete = |lost_events, is_filtered| {
        let meta = meta();
        let mut end = Ending::without_requests(&meta);
        (end.lost.events, end.is_filtered) = (lost_events, is_filtered);
        tally().finish(&mut end).unwrap().is_complete
    };
    assert_eq!([is_complete(0, false), is_complete(1, false), is_complete(0, true)], [true, false, false]);
    assert!(SqliteTally::default().finish(&mut Ending::without_requests(&Meta::default())).is_none());
    assert_eq!(finished(SqliteTally::default()).databases, []);
}

proptest! {
    /// For any calls and requests, the sums agree and nothing panics.
    #[test]
    fn any_calls_are_counted_once(
        steps in prop::collection::vec((0usize..9, 0usize..7, 0u64..4, 0u64..3, 0u32..3, -1i64..3), 0..200)
    ) {
        let names = ["pwrite64", "pread64", "fdatasync", "ftruncate", "unlink", "openat", "sync"];
        let mut tally = tally_of(&[]);
        for (at, (file, name, place, mark, tid, result)) in steps.iter().enumerate() {
            let entered = Timestamp(1000 * at as u64);
            let marks = SqliteWrite::ALL;
            tally.call(&Call {
                call_id: at as u64,
                name: names[*name].to_owned(),
                tid: *tid,
                file_id: Some(FILES[*file].0),
                offset: (*place < 3).then_some(*place * 4096),
                bytes: None,
                entered,
                exited: (*result < 2).then_some(Timestamp(entered.0 + 500)),
                result: Some(*result * 4096),
                sqlite_write: marks.get(*mark as usize + *place as usize).copied(),
                file_flags: None,
            });
        }
        for at in 0..steps.len() as u64 {
            let line = format!("WS 0+8 q{at} d{at} c{}", at + 1);
            let file_id = (at % 3 > 0).then_some(at as u32 % 9 + 1);
            take(&mut tally, &Request { file_id, cause_tid: Some(at as u32 % 3), ..request(at, &line) });
        }
        let sqlite = finished(tally);
        let transactions: u64 = sqlite.databases.iter().map(|database| database.receipt.transactions).sum();
        prop_assert_eq!(transactions, sqlite.all.transactions);
        for database in &sqlite.databases {
            let modes: u64 = database.modes.iter().map(|mode| mode.transactions).sum();
            prop_assert_eq!(modes, database.receipt.transactions);
            if let Some(usual) = &database.receipt.usual {
                prop_assert!(usual.transactions <= database.receipt.transactions);
            }
        }
    }
}
