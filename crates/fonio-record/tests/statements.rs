//! Records the SQL statements of sqlite3, Python and programs with their own SQLite, on a file system on a
//! loop device.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::loop_ext4;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use fonio_core::meta::{LOST_STATEMENTS, SHOWS_STATEMENTS};
use fonio_core::{Call, SqliteWrite, Statement};
use fonio_record::RecordOptions;
use fonio_testing::{Need, skip, skip_without};
use loop_ext4::{FileSystem, Recorded, options_of};

/// Returns the total number of steps of each statement.
fn steps(rows: &Recorded) -> BTreeMap<&str, u64> {
    let mut steps = BTreeMap::new();
    for row in &rows.statements {
        *steps.entry(row.text.as_deref().unwrap_or("?")).or_default() += row.steps;
    }
    steps
}

/// Returns the text of the statement that a thread executed during a call.
fn during<'a>(rows: &'a Recorded, call: &Call) -> Option<&'a str> {
    let runs = |row: &&Statement| {
        row.tid == call.tid && row.entered <= call.entered && row.exited.is_none_or(|at| at >= call.entered)
    };
    rows.statements.iter().rfind(runs)?.text.as_deref()
}

/// Records a command on the file system, with options from `change`. Returns `None` if the test was skipped.
fn recorded(
    system: &FileSystem,
    scratch: &Path,
    command: &[&str],
    change: impl Fn(&mut RecordOptions),
) -> Option<Recorded> {
    let mut options = RecordOptions { calls: true, ..options_of(system, scratch, command) };
    change(&mut options);
    let rows = Recorded::record(&options, "no-calls")?;
    let shows = |what: &str| rows.meta.source.shows.iter().any(|shown| shown == what);
    if options.statements && !shows(SHOWS_STATEMENTS) {
        skip(Need::Uprobes, "the kernel has no uprobes");
        return None;
    }
    Some(rows)
}

const TRANSACTIONS: u64 = 20;

/// Returns a script with autocommitted inserts of literal values, followed by an explicit transaction.
fn script(mode: &str) -> String {
    let inserts: String =
        (0..TRANSACTIONS).map(|n| format!("INSERT INTO t VALUES({n}, 'secret{n}');\n")).collect();
    format!(
        "PRAGMA journal_mode={mode}; CREATE TABLE t(x, y); {inserts} BEGIN; UPDATE t SET y = 'secret'; DELETE FROM t WHERE x = 7; COMMIT;"
    )
}

#[test]
fn the_statements_of_the_shell_are_recorded_without_values() {
    skip_without!(Sqlite3);
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(system) = FileSystem::ext4(&scratch.path().join("image")) else { return };
    for mode in ["DELETE", "WAL"] {
        let database = system.dir.path().join(format!("{mode}.db"));
        let command = ["sqlite3", database.to_str().unwrap(), &script(mode)];
        let Some(rows) = recorded(&system, scratch.path(), &command, |_| {}) else { return };
        assert!(
            !rows.codes().contains(&LOST_STATEMENTS) && !rows.codes().contains(&"no-statements"),
            "{:?}",
            rows.diagnostics
        );
        let steps = steps(&rows);
        let insert = "INSERT INTO t VALUES (?, ...)";
        assert_eq!(steps.get(insert), Some(&TRANSACTIONS), "{steps:?}");
        for text in
            ["BEGIN", "COMMIT", "UPDATE t SET y = ?", "DELETE FROM t WHERE x = ?", "CREATE TABLE t(x, y)"]
        {
            assert_eq!(steps.get(text), Some(&1), "{text}: {steps:?}");
        }
        assert!(!format!("{:?}", rows.statements).contains("secret"));
        let commits: Vec<&Call> = rows
            .calls
            .iter()
            .filter(|call| {
                let is_deleted = call.name.starts_with("unlink") && call.result == Some(0);
                call.sqlite_write == Some(SqliteWrite::WalCommit) || mode == "DELETE" && is_deleted
            })
            .collect();
        let inserts = commits.iter().filter(|call| during(&rows, call) == Some(insert)).count() as u64;
        assert_eq!(inserts, TRANSACTIONS, "{mode}: {:?}", rows.statements);
        assert_eq!(commits.iter().filter(|call| during(&rows, call) == Some("COMMIT")).count(), 1);
        let is_ordered = rows.statements.is_sorted_by_key(|row| (row.entered, row.tid));
        assert!(
            is_ordered
                && rows.statements.iter().all(|row| row.exited.unwrap() > row.entered && row.stepping.0 > 0)
        );
        assert!(
            rows.statements
                .iter()
                .all(|row| row.connection == Some(0)
                    && rows.threads.iter().any(|thread| thread.tid == row.tid))
        );
    }
    // If the option `statements` is off, no statement is recorded.
    let database = system.dir.path().join("off.db");
    let command = ["sqlite3", database.to_str().unwrap(), &script("DELETE")];
    let change = |options: &mut RecordOptions| options.statements = false;
    let Some(rows) = recorded(&system, scratch.path(), &command, change) else { return };
    assert!(rows.statements.is_empty() && rows.codes().iter().all(|code| !code.contains("statements")));
}

/// Two threads with one connection each execute statements that are prepared once, some of them before the
/// recording.
const PYTHON: &str = include_str!("statements.py");

#[test]
fn a_process_that_runs_already_shows_the_statements_that_it_had_prepared() {
    skip_without!(Python);
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(system) = FileSystem::ext4(&scratch.path().join("image")) else { return };
    let folder = system.dir.path();
    let mut python =
        Command::new("python3").args(["-c", PYTHON]).arg(folder).stderr(Stdio::inherit()).spawn().unwrap();
    while !(folder.join("ready1").exists() && folder.join("ready2").exists()) {
        assert!(python.try_wait().unwrap().is_none(), "python3 ended");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let go = format!(
        "touch {}/go; while kill -0 {} 2>/dev/null; do sleep 0.1; done",
        folder.display(),
        python.id()
    );
    // A thread waits for the process, so that it does not stay a zombie after its end.
    let pid = python.id();
    let waiter = std::thread::spawn(move || python.wait().unwrap());
    let recorded = recorded(&system, scratch.path(), &["sh", "-c", &go], |options| {
        options.calls = false;
        options.calls_of = vec![pid];
    });
    std::fs::write(folder.join("go"), "").unwrap();
    assert!(waiter.join().unwrap().success());
    let Some(rows) = recorded else { return };
    let steps = steps(&rows);
    for n in [1, 2] {
        assert_eq!(steps.get(&*format!("INSERT INTO t{n} VALUES (?)")), Some(&120), "{steps:?}");
        assert_eq!(steps.get(&*format!("UPDATE t{n} SET x = x + ?")), Some(&1), "{steps:?}");
    }
    assert_eq!((steps.get("BEGIN IMMEDIATE"), steps.get("COMMIT")), (Some(&2), Some(&2)));
    // Each thread uses only its own database connection.
    let mut pairs: Vec<(u32, u32)> =
        rows.statements.iter().map(|row| (row.tid, row.connection.unwrap())).collect();
    pairs.sort_unstable();
    pairs.dedup();
    assert_eq!(pairs.len(), 2, "{pairs:?}");
    // Consecutive steps of a statement share a row.
    assert!(rows.statements.iter().any(|row| row.steps == 100), "{:?}", rows.statements);
}

/// Builds a program with Debian's static SQLite, with or without symbols.
fn own_sqlite(folder: &Path, strip: bool) -> Option<std::path::PathBuf> {
    let source = folder.join("own.c");
    std::fs::write(
        &source,
        "#include <sqlite3.h>\nint main(int n, char **a) { sqlite3 *db; return sqlite3_open(a[1], &db) || sqlite3_exec(db, a[2], 0, 0, 0); }\n",
    )
    .unwrap();
    let program = folder.join(if strip { "stripped" } else { "own" });
    let mut cc = Command::new("cc");
    cc.arg(&source).args(strip.then_some("-s")).args(["-o"]).arg(&program);
    let made = cc.args(["-l:libsqlite3.a", "-lm", "-lpthread", "-ldl"]).stderr(Stdio::null()).status();
    made.is_ok_and(|status| status.success()).then_some(program)
}

#[test]
fn a_program_with_its_own_sqlite_is_recorded_if_it_has_symbols() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(system) = FileSystem::ext4(&scratch.path().join("image")) else { return };
    for strip in [false, true] {
        let Some(program) = own_sqlite(scratch.path(), strip) else {
            return skip(Need::StaticSqlite, "cc cannot build a program with libsqlite3.a here");
        };
        let database = system.dir.path().join(format!("{strip}.db"));
        let command = [program.to_str().unwrap(), database.to_str().unwrap(), &script("DELETE")];
        let Some(rows) = recorded(&system, scratch.path(), &command, |_| {}) else { return };
        let silent = rows.diagnostics.iter().find(|found| found.code == "no-statements");
        if strip {
            assert!(rows.statements.is_empty());
            let message = &silent.unwrap().message;
            assert!(message.starts_with("the SQL statements of stripped (process "), "{message}");
        } else {
            assert_eq!(
                steps(&rows).get("INSERT INTO t VALUES (?, ...)"),
                Some(&TRANSACTIONS),
                "{:?}",
                steps(&rows)
            );
            assert!(silent.is_none(), "{silent:?}");
        }
    }
}
