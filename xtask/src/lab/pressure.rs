//! The part *pressure* of `cargo xtask lab test`: puts a complete Debian under pressure while an emulated card
//! is in use. The machine must go on, whatever happens to the card's server.
//!
//! The guest panics if a thread is blocked for four minutes, so a machine that hangs ends the case.

use std::collections::BTreeMap;

use anyhow::Result;
use fonio_lab::{LabError, SystemOptions};

use crate::lab::steps::{Steps, in_debian};
use crate::process;
use xtask::results::{Cell, Row, StudyResult, folder};

/// The script that runs in the guest and prints lines with a name and a value.
const SCRIPT: &str = include_str!("pressure.sh");

/// The profile of the card.
const CARD: &str = include_str!("pressure_card.toml");

/// Maximum time after which callers of `sync` and of the card return once the server goes on or is dead.
const RETURNED_MS_MAX: f64 = 5000.0;
/// Maximum time by which fonio may take longer to start while the server is stopped.
const START_MS_MAX: f64 = 1000.0;
/// Maximum factor by which a writer on another disk may become slower.
const SLOWER_MAX: f64 = 2.0;

/// The values that the script printed.
type Values = BTreeMap<String, String>;

/// A fact that must hold, and its test.
type Promise = (&'static str, fn(&Values) -> bool);

struct Case {
    /// The name by which the script knows the case.
    name: &'static str,
    drivers: &'static [&'static str],
    what: &'static str,
    memory_mib: u64,
    promises: &'static [Promise],
}

const CASES: &[Case] = &[
    Case {
        name: "swap",
        drivers: &["ublk", "loop"],
        what: "Swap on the card, and programs that need more memory than the machine has",
        memory_mib: 640,
        promises: &[
            ("at least 32 MiB of the swap are used", |of| number(of, "used_swap_mib") >= 32.0),
            ("the programs go on with swapped memory", |of| number(of, "rounds") >= 2.0),
            ("no memory of the server is swapped out", |of| is(of, "server_swap_kib", "0")),
            ("the card can be removed", |of| of.contains_key("stopped_ms")),
        ],
    },
    Case {
        name: "dirty",
        drivers: &["ublk", "loop"],
        what: "Dirty pages on the card, and nearly no free memory",
        memory_mib: 1024,
        promises: &[
            ("240 MiB are written", |of| is(of, "written_mib", "240")),
            ("and read back", |of| is(of, "data", "intact")),
            ("sync returns", |of| of.contains_key("sync_ms")),
        ],
    },
    Case {
        name: "full",
        drivers: &["ublk"],
        what: "A full disk under the image of the card",
        memory_mib: 1024,
        promises: &[
            ("fsync fails", |of| is(of, "fsync", "failed")),
            ("fonio reports the reason", |of| is(of, "reason", "reported")),
            ("the card can be removed", |of| of.contains_key("stopped_ms")),
        ],
    },
    Case {
        name: "stopped",
        drivers: &["ublk", "loop"],
        what: "A server that is stopped for a minute, with 64 MiB dirty on the card",
        memory_mib: 2048,
        promises: STOPPED,
    },
    Case {
        name: "killed",
        drivers: &["ublk", "loop"],
        what: "A server that is stopped for a minute and then killed, with 1 GiB dirty on the card",
        memory_mib: 8192,
        promises: STOPPED,
    },
];

const STOPPED: &[Promise] = &[
    ("the server was stopped", |of| is(of, "state", "T")),
    ("so much is dirty on the card", |of| is(of, "dirty", "enough")),
    ("a writer on another disk keeps half its speed", |of| {
        number(of, "during_writer_ms") <= SLOWER_MAX * number(of, "before_writer_ms")
    }),
    ("and so do its fsyncs", |of| {
        number(of, "during_fsync_ms") <= SLOWER_MAX * number(of, "before_fsync_ms")
    }),
    ("fonio starts, at most 1 s slower", |of| {
        number(of, "during_fonio_ms") <= START_MS_MAX + number(of, "before_fonio_ms")
    }),
    ("then fsync on the card returns within 5 s", |of| number(of, "fsync_returned_ms") <= RETURNED_MS_MAX),
    ("and so does sync", |of| number(of, "sync_returned_ms") <= RETURNED_MS_MAX),
];

/// Returns the number with this name, or NaN, which fulfils no promise.
fn number(values: &Values, name: &str) -> f64 {
    values.get(name).and_then(|value| value.parse().ok()).unwrap_or(f64::NAN)
}

fn is(values: &Values, name: &str, expected: &str) -> bool {
    values.get(name).is_some_and(|value| value == expected)
}

/// The file of the results.
const ID: &str = "lab-pressure";

/// The columns with two times, each the least of three: those before the server was stopped, and those while
/// it was.
const BEFORE_AND_DURING: [(&str, &str); 3] = [
    ("another disk: 64 MiB and fsync", "writer_ms"),
    ("another disk: 20 fsyncs", "fsync_ms"),
    ("start of fonio", "fonio_ms"),
];

/// The columns with one time, from the moment in which the server went on or died.
const AFTERWARDS: [(&str, &str); 2] =
    [("fsync on the card returned after", "fsync_returned_ms"), ("sync returned after", "sync_returned_ms")];

/// Returns the names of the cases.
pub fn names() -> Vec<&'static str> {
    CASES.iter().map(|case| case.name).collect()
}

/// Runs the named cases, or all, each in a new guest. Returns the number of promises that were not kept.
///
/// The result file gets a row for each case when the case has ended, and keeps the rows of the other cases.
pub fn run(only: &[String]) -> Result<u32> {
    let built = process::build_fonio_for_tests()?;
    let folder = tempfile::tempdir()?;
    let fonio = fonio_lab::stripped(&built, &folder.path().join("fonio"))?;
    let script = folder.path().join("pressure.sh");
    let card = folder.path().join("card.toml");
    std::fs::write(&script, SCRIPT)?;
    std::fs::write(&card, CARD)?;
    let (mut tried, mut broken) = (0, 0);
    for case in CASES.iter().filter(|case| only.is_empty() || only.iter().any(|name| name == case.name)) {
        for driver in case.drivers {
            let options = SystemOptions {
                memory_mib: case.memory_mib,
                files: vec![
                    (fonio.clone(), "/usr/bin/fonio".into()),
                    (script.clone(), "/root/pressure.sh".into()),
                    (card.clone(), "/root/card.toml".into()),
                ],
                ..SystemOptions::default()
            };
            let mut values = Values::new();
            let broken_here = in_debian(&format!("{} ({driver})", case.what), &options, |steps| {
                values = check(steps, case, driver)?;
                Ok(())
            })?;
            tried += case.promises.len() + 1;
            broken += broken_here;
            keep(row(case, driver, broken_here, &values))?;
        }
    }
    println!("\nPromised: all of these. Tried: {tried}. Failed: {broken}.\n");
    Ok(broken)
}

fn row(case: &Case, driver: &str, broken: u32, values: &Values) -> Row {
    let seconds = |name: &str| number(values, name) / 1000.0;
    let mut cells = vec![Cell::count(case.promises.len() + 1), Cell::count(broken)];
    cells.extend(BEFORE_AND_DURING.map(|(_, name)| {
        let [before, during] = ["before", "during"].map(|when| seconds(&format!("{when}_{name}")));
        if during.is_nan() { "".into() } else { format!("{before:.2} s, {during:.2} s").into() }
    }));
    cells.extend(AFTERWARDS.map(|(_, name)| match seconds(name) {
        time if time.is_nan() => "".into(),
        time => Cell::once(time, "s", 2),
    }));
    Row { name: format!("{} ({driver})", case.what), cells }
}

/// Replaces the row with this name in the result file, or adds it.
fn keep(row: Row) -> Result<()> {
    let mut columns = vec!["case", "promises", "not kept"];
    columns.extend(BEFORE_AND_DURING.iter().chain(&AFTERWARDS).map(|(title, _)| *title));
    let title = "a machine under pressure while an emulated card is in use";
    let mut result = StudyResult::begin(ID, title, "cargo xtask lab test pressure", &columns)?;
    let path = folder().join(ID).with_extension("json");
    if path.exists() {
        result.rows = StudyResult::read(&path)?.rows;
    }
    match result.rows.iter_mut().find(|known| known.name == row.name) {
        Some(known) => *known = row,
        None => result.rows.push(row),
    }
    result.keep(true).map(drop)
}

fn check(steps: &mut Steps<'_, '_>, case: &Case, driver: &str) -> Result<Values> {
    process::check_signals()?;
    let (mut said, mut errors) = (Vec::new(), Vec::new());
    let words = ["sh", "/root/pressure.sh", case.name, driver];
    let (holds, found) = match steps.system.run_to(&words, &mut said, &mut errors) {
        Ok(code) => (code == 0, String::from_utf8_lossy(&errors).into_owned()),
        Err(LabError::GuestEnded { lines, .. }) => (false, lines.join("\n")),
        Err(other) => return Err(other.into()),
    };
    steps.promise("no thread was blocked for good", holds, &found);
    let said = String::from_utf8_lossy(&said).into_owned();
    let values = values(&said);
    for (what, holds) in case.promises {
        steps.promise(what, holds(&values), "");
    }
    for (name, value) in &values {
        println!("  {name} {value}");
    }
    Ok(values)
}

/// Reads lines with a name and a value.
fn values(said: &str) -> Values {
    let pairs = said.lines().filter_map(|line| line.trim().split_once(' '));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_value_keeps_no_promise() {
        let empty = Values::new();
        for case in CASES {
            for (what, holds) in case.promises {
                assert!(!holds(&empty), "{}: {what}", case.name);
            }
            assert!(SCRIPT.contains(case.name), "the script knows {}", case.name);
        }
    }

    #[test]
    fn the_values_of_the_script_are_read() {
        let said = "state T\ndirty enough\nbefore_writer_ms 100\nduring_writer_ms 199\nbefore_fsync_ms 10\nduring_fsync_ms 30\n";
        let values = values(said);
        let kept: Vec<bool> = STOPPED.iter().map(|(_, holds)| holds(&values)).collect();
        assert_eq!(kept, [true, true, true, false, false, false, false]);
    }
}
