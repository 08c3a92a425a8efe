//! Measures the processor time that the sync-policy library adds to a transaction. Runs the same inserts with
//! and without the library, on a file system in memory, where syncs cost nothing.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use xtask::results::{Cell, StudyResult};

use crate::process;

const TRANSACTIONS: u32 = 10_000;
const ROUNDS: usize = 7;

/// The policy classes. Each round has one run without the library, followed by one run with the library for
/// each class.
const CLASSES: [&str; 4] = ["durable", "learn", "ordered", "cache"];

/// Measures, and keeps the result.
pub fn run() -> Result<()> {
    measure()?.keep(true)?;
    Ok(())
}

/// Measures. The short form of all benchmarks uses this result, which is not kept.
pub fn measure() -> Result<StudyResult> {
    let library = process::build_sync_library()?;
    let dir = tempfile::tempdir_in("/dev/shm")?;
    let statements = dir.path().join("statements.sql");
    let inserts: String = (0..TRANSACTIONS).map(|row| format!("INSERT INTO t VALUES ({row});\n")).collect();
    fs::write(&statements, format!("PRAGMA synchronous=FULL;\n{inserts}"))?;
    let run = |class: Option<&str>| -> Result<f64> {
        let database = dir.path().join("database");
        for end in ["", "-wal", "-shm", "-fonio-boot"] {
            let _ = fs::remove_file(format!("{}{end}", database.display()));
        }
        process::run(
            Command::new("sqlite3")
                .arg(&database)
                .arg("PRAGMA journal_mode=WAL; CREATE TABLE t (x)")
                .stdout(std::process::Stdio::null()),
        )?;
        // Discard the suggestions that the class `learn` prints.
        let mut command = Command::new("sh");
        command.args(["-c", "exec sqlite3 \"$0\" \"$1\" 2>/dev/null"]);
        command.arg(&database).arg(format!(".read {}", statements.display()));
        if let Some(class) = class {
            let policy = dir.path().join("policy.toml");
            let text = format!("[[database]]\npath = '{}'\nclass = '{class}'\n", database.display());
            fs::write(&policy, text)?;
            command.env("LD_PRELOAD", Path::new(&library)).env("FONIO_SYNC_POLICY", &policy);
        }
        Ok(process::measure(&mut command)?.cpu.as_secs_f64() * 1e6 / f64::from(TRANSACTIONS))
    };
    let mut without = Vec::new();
    let mut with = [const { Vec::new() }; CLASSES.len()];
    for _ in 0..ROUNDS {
        without.push(run(None)?);
        for (class, times) in CLASSES.iter().zip(&mut with) {
            times.push(run(Some(class))?);
        }
    }
    println!(
        "Processor time of a transaction of one insert, {TRANSACTIONS} of them in write-ahead mode in /dev/shm, {ROUNDS} rounds:\n"
    );
    let columns = ["class", "a transaction (minimum to maximum)", "difference to the same round without"];
    let title = "processor time that the sync-policy library adds";
    let mut result =
        StudyResult::begin("bench-sync-policy", title, "cargo xtask bench sync-policy", &columns)?;
    result.rounds = Some(ROUNDS as u64);
    let cell = |times: &[f64]| Cell::rounds(times.iter().copied(), "µs", 2).with_range();
    result.row("without the library", vec![cell(&without), "–".into()]);
    for (class, times) in CLASSES.iter().zip(&with) {
        let differences: Vec<f64> =
            times.iter().zip(&without).map(|(with, without)| with - without).collect();
        result.row(*class, vec![cell(times), cell(&differences)]);
    }
    Ok(result)
}
