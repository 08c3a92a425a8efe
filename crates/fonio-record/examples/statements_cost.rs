//! Measures how much the probes for SQL statements slow down a program: `cargo xtask bench statements
//! [ROUNDS] [ROWS]`, as root, with python3.
//!
//! Python inserts rows into an in-memory database, in one transaction with one prepared statement. So each
//! row is one SQLite step without a system call. Runs without a recording, with calls, and with calls and
//! statements are interleaved. The program prints the time per step of each kind, and the differences between
//! neighbouring runs.

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};

use fonio_core::statistics::sample;
use fonio_record::{CommandOutput, CommandSetting, RecordOptions, record};

/// A program that writes the duration of the inserts in nanoseconds to a file.
const PYTHON: &str = "
import sqlite3, sys, time
rows = int(sys.argv[1])
db = sqlite3.connect(':memory:', isolation_level=None)
db.execute('CREATE TABLE t(x)')
db.execute('BEGIN')
values = [(x,) for x in range(rows)]
db.executemany('INSERT INTO t VALUES (?)', values[:1000])
began = time.perf_counter_ns()
db.executemany('INSERT INTO t VALUES (?)', values)
took = time.perf_counter_ns() - began
db.execute('COMMIT')
open(sys.argv[2], 'w').write(str(took))
";

/// What is recorded during the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recorded {
    Nothing,
    Calls,
    Statements,
}

const ALL: [Recorded; 3] = [Recorded::Nothing, Recorded::Calls, Recorded::Statements];

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let rounds = numbers.next().transpose()?.unwrap_or(10).max(1);
    let rows = numbers.next().transpose()?.unwrap_or(100_000).max(1);
    let folder = tempfile::tempdir()?;
    let mut steps: Vec<[f64; 3]> = Vec::new();
    // The first round is a warm-up and is not counted.
    for round in 0..=rounds {
        let mut times = [0.0; 3];
        // The order rotates, so that drift does not look like a cost.
        for place in 0..ALL.len() {
            let which = (place + round as usize) % ALL.len();
            times[which] = run(ALL[which], rows, folder.path())? / rows as f64;
        }
        if round > 0 {
            steps.push(times);
        }
    }
    println!("{rounds} rounds of {rows} steps in one transaction; medians");
    println!("  {:<24} {:>10}", "", "ns a step");
    for (which, name) in ["nothing recorded", "calls", "calls and statements"].into_iter().enumerate() {
        println!("  {name:<24} {:>10.0}", median(steps.iter().map(|times| times[which]).collect()));
    }
    let more = |than: usize| median(steps.iter().map(|times| times[2] - times[than]).collect());
    println!("  statements cost {:.0} ns per step more than calls", more(1));
    println!("  statements cost {:.0} ns per step more than no recording", more(0));
    Ok(())
}

/// Returns the duration of the inserts in nanoseconds.
fn run(recorded: Recorded, rows: u64, folder: &Path) -> Result<f64, Box<dyn Error>> {
    let took = folder.join("took");
    let mut command = Command::new("python3");
    command.args(["-c", PYTHON]).arg(rows.to_string()).arg(&took);
    if recorded == Recorded::Nothing {
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
            statements: recorded == Recorded::Statements,
            ..RecordOptions::new(folder.join("recording"))
        };
        let summary = record(&options, &mut |_| {})?;
        if summary.command_exit != Some(0) {
            return Err(format!("python3 ended with {:?}", summary.command_exit).into());
        }
        let expected = recorded == Recorded::Statements;
        if summary.rows.contains_key("statements") != expected {
            return Err(format!("the recording has these rows: {:?}", summary.rows).into());
        }
    }
    Ok(std::fs::read_to_string(took)?.trim().parse()?)
}

fn median(values: Vec<f64>) -> f64 {
    sample::median(&values).expect("it was measured")
}
