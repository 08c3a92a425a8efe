//! Measures the cost that the probes for SQL statements cause in a Python program.
//!
//! The program inserts rows into a database in memory, all in one transaction with one prepared statement, so
//! each row is one step of SQLite and makes no system call. Runs without recording alternate with runs that
//! record calls, and with runs that record calls and statements.

use std::path::Path;
use std::process::{Command, Stdio};

use fonio_record::{CommandOutput, CommandSetting, RecordOptions, record};

use crate::{Result, row};

/// A program that writes the duration of the inserts in nanoseconds into a file.
const PYTHON: &str = include_str!("statements.py");

/// What is recorded while the program runs.
const RECORDED: [&str; 3] = ["nothing", "calls", "calls and statements"];

/// Measures the program with each of [`RECORDED`] in each round.
pub fn run(rounds: u64, rows: u64) -> Result<()> {
    let folder = tempfile::tempdir()?;
    // The first round only warms up and is not counted.
    for round in 0..=rounds {
        let mut step_ns = [0.0; 3];
        // The order rotates, so that a drift of the machine does not look like a cost.
        for place in 0..RECORDED.len() {
            let which = (place + round as usize) % RECORDED.len();
            step_ns[which] = took_ns(which, rows, folder.path())? / rows as f64;
        }
        if round > 0 {
            let [nothing, calls, statements] = step_ns;
            RECORDED.iter().zip(step_ns).for_each(|(name, ns)| row(name, &[Some(ns)]));
            row("statements, more than calls", &[Some(statements - calls)]);
            row("statements, more than nothing", &[Some(statements - nothing)]);
        }
    }
    Ok(())
}

/// Runs the program while recording one of [`RECORDED`].
fn took_ns(which: usize, rows: u64, folder: &Path) -> Result<f64> {
    let took = folder.join("took");
    let mut command = Command::new("python3");
    command.args(["-c", PYTHON]).arg(rows.to_string()).arg(&took);
    if which == 0 {
        if !command.stdout(Stdio::null()).status()?.success() {
            return Err("python3 failed".into());
        }
    } else {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let options = RecordOptions {
            overwrite: true,
            command: Some(words.map(ToOwned::to_owned).collect()),
            setting: CommandSetting { output: CommandOutput::Discard, ..CommandSetting::default() },
            calls: true,
            statements: which == 2,
            ..RecordOptions::new(folder.join("recording"))
        };
        let summary = record(&options, &mut |_| {})?;
        if summary.command_exit != Some(0) {
            return Err(format!("python3 ended with {:?}", summary.command_exit).into());
        }
        if summary.rows.contains_key("statements") != (which == 2) {
            return Err(format!("the recording has unexpected tables: {:?}", summary.rows).into());
        }
    }
    Ok(std::fs::read_to_string(took)?.trim().parse()?)
}
