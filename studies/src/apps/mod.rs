//! `cargo studies apps`: runs each real program on emulated devices, and checks that its recordings name the files of its
//! data, and that its run times repeat.
//!
//! The run times of a second run are compared with those of the run before it (A/A): a difference between equal runs would
//! be a fault of the experiment.
//!
//! The result file is written after each row. A later call with `--missing` measures the rows that the file lacks, so
//! that the study can be divided into several calls.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::Args;
use fonio_analysis::compare::interval::{Change, compare_rounds};
use serde_json::Value;
use xtask::results::{Cell, Origin, Quantity, StudyResult, folder};

use crate::process;

const ID: &str = "apps";
const COLUMNS: [&str; 8] =
    ["app", "device", "run time", "requests", "written", "files named", "valid", "second run / first"];
/// The place of the run times in a row of the result.
const RUN_TIME: usize = 1;
const VALID: [&str; 2] = ["no", "yes"];

/// The devices, with the share of the full amount of work that runs on them: a card of application class A1, the fast end of
/// the profiles, and the slow end.
const DEVICES: [(&str, f64); 3] = [("sd_a1", 1.0), ("emmc51", 1.0), ("ridata", SLOW_SCALE)];
const SLOW_SCALE: f64 = 0.05;
/// The smallest share of the data bytes whose file a recording must name.
const NAMED_LEAST: f64 = 0.98;

#[derive(Args)]
pub struct Arguments {
    /// Run these apps (default: all).
    #[arg(value_name = "APP")]
    apps: Vec<String>,
    /// Run these devices (default: all).
    #[arg(long, value_name = "PROFILE", value_delimiter = ',')]
    on: Vec<String>,
    /// Keep the rows of the result file, and measure only those that it lacks.
    #[arg(long)]
    missing: bool,
    /// Run each app this many times on each device; an even number.
    #[arg(long, value_name = "N", default_value_t = 6)]
    runs: u32,
    /// Use this build of fonio instead of building it.
    #[arg(long, value_name = "PROGRAM")]
    fonio: Option<std::path::PathBuf>,
}

/// The measurements of an app on a device.
struct Row {
    device: &'static str,
    wall_s: Vec<f64>,
    requests: Vec<f64>,
    write_mib: Vec<f64>,
    /// The share of the data bytes whose file is named, in the run with the smallest share.
    named: f64,
    valid: bool,
}

impl Row {
    /// Returns the cells of the row; the comparison of the runs follows when all rows are known.
    fn cells(&self) -> Vec<Cell> {
        vec![
            self.device.into(),
            Cell::rounds(self.wall_s.iter().copied().map(Some), "s", 2).with_range(),
            Cell::rounds(self.requests.iter().copied().map(Some), "", 0),
            Cell::rounds(self.write_mib.iter().copied().map(Some), "MiB", 1),
            Cell::once(self.named * 100.0, "%", 1),
            VALID[usize::from(self.valid)].into(),
            "–".into(),
        ]
    }
}

/// Runs the apps and prints the table.
pub fn run(arguments: &Arguments) -> Result<()> {
    ensure!(process::is_root(), "emulated devices need root: run it with sudo");
    ensure!(
        arguments.runs >= 6 && arguments.runs.is_multiple_of(2),
        "--runs must be even and at least 6, because each second run is compared with the one before it"
    );
    process::outlive_signals()?;
    let (fonio, build) = process::fonio_of_study(arguments.fonio.as_deref())?;
    let names = names(&fonio)?;
    for name in &arguments.apps {
        ensure!(names.contains(name), "no app is called {name}; the apps are {}", names.join(", "));
    }
    let chosen = names.iter().filter(|name| arguments.apps.is_empty() || arguments.apps.contains(name));
    let devices: Vec<(&'static str, f64)> = DEVICES
        .into_iter()
        .filter(|(device, _)| arguments.on.is_empty() || arguments.on.iter().any(|on| on == device))
        .collect();
    ensure!(!devices.is_empty(), "the devices are {}", DEVICES.map(|(device, _)| device).join(", "));
    let is_part = !arguments.apps.is_empty() || !arguments.on.is_empty();
    let kept =
        if arguments.missing { kept(&folder().join(ID).with_extension("json"), &names)? } else { None };
    let mut result = StudyResult::begin(ID, TITLE, "cargo studies apps", &COLUMNS)?;
    if let Some(kept) = kept {
        result.remark = remark(&result, &kept);
        result.rows = kept.rows;
    }
    for name in chosen {
        for (device, scale) in &devices {
            if result.rows.iter().any(|row| is_of(row, name, device)) {
                continue;
            }
            process::check_signals()?;
            println!("{name} on {device} …");
            let row = measure(&fonio, name, device, *scale, arguments.runs)
                .with_context(|| format!("{name} on {device}"))?;
            result.row(name.clone(), row.cells());
            if !is_part || arguments.missing {
                compare(&mut result)?;
                result.keep(true)?;
            }
        }
    }
    let claimed = compare(&mut result)?;
    println!("\n{}", result.table());
    let count = |is_wrong: &dyn Fn(&xtask::results::Row) -> bool| {
        result.rows.iter().filter(|row| is_wrong(row)).count()
    };
    println!(
        "{} rows of {} ({build}). Rows with a difference between equal runs: {claimed}. Rows with less than {:.0} % of the data \
         bytes named: {}. Rows with an invalid measurement: {}.",
        result.rows.len(),
        names.len() * DEVICES.len(),
        NAMED_LEAST * 100.0,
        count(&|row| first(&row.cells[4]).is_none_or(|named| named < NAMED_LEAST * 100.0)),
        count(&|row| row.cells[5] != Cell::from(VALID[1])),
    );
    Ok(())
}

const TITLE: &str = "real programs on emulated devices: their sessions, and whether these repeat";

/// Reads the rows that were measured before. Rows of apps that no longer exist are left out.
fn kept(path: &Path, names: &[String]) -> Result<Option<StudyResult>> {
    if !path.exists() {
        return Ok(None);
    }
    let mut kept = StudyResult::read(path)?;
    ensure!(kept.columns == COLUMNS, "{} has other columns; leave out --missing", path.display());
    kept.rows.retain(|row| names.contains(&row.name));
    Ok(Some(kept))
}

/// Names the commits of the rows that an earlier call has measured.
fn remark(result: &StudyResult, kept: &StudyResult) -> String {
    let commit = |result: &StudyResult| match &result.origin {
        Origin::Measured { commit, .. } | Origin::Transcribed { commit, .. } => commit[..10].to_owned(),
    };
    let mut commits: BTreeSet<String> = kept.remark.split([' ', ',', '.']).map(str::to_owned).collect();
    commits.retain(|word| word.len() == 10 && word.bytes().all(|byte| byte.is_ascii_hexdigit()));
    commits.insert(commit(kept));
    commits.remove(&commit(result));
    match commits.is_empty() {
        true => String::new(),
        false => {
            format!("Earlier rows were measured at {}.", commits.into_iter().collect::<Vec<_>>().join(", "))
        }
    }
}

fn is_of(row: &xtask::results::Row, app: &str, device: &str) -> bool {
    row.name == app && row.cells[0] == Cell::from(device)
}

fn values(cell: &Cell) -> Option<Vec<f64>> {
    match cell {
        Cell::Quantity(Quantity { values, .. }) => values.iter().copied().collect(),
        Cell::Text(_) => None,
    }
}

fn first(cell: &Cell) -> Option<f64> {
    values(cell)?.first().copied()
}

/// Compares each second run with the run before it, over all rows together, and writes the last column. Returns the
/// number of rows with a difference.
fn compare(result: &mut StudyResult) -> Result<usize> {
    let times = result.rows.iter().map(|row| values(&row.cells[RUN_TIME]));
    let times = times.collect::<Option<Vec<_>>>().context("a row has no run times")?;
    let changes = compared(&times);
    for (row, change) in result.rows.iter_mut().zip(&changes) {
        *row.cells.last_mut().context("a row has cells")? = told(change).into();
    }
    Ok(changes.iter().filter(|change| change.is_claimed()).count())
}

/// Returns the names of the shipped apps.
fn names(fonio: &Path) -> Result<Vec<String>> {
    let listed = json(Command::new(fonio).args(["run", "--json"]))?;
    let names = listed.as_array().context("fonio run --json printed no array")?.iter();
    let names = names.filter_map(|listed| listed["name"].as_str()?.strip_prefix("app:"));
    Ok(names.map(str::to_owned).collect())
}

/// Compares each second run with the run before it. All intervals together hold with 95 % confidence.
fn compared(rows: &[Vec<f64>]) -> Vec<Change> {
    let every_second =
        |times: &Vec<f64>, from: usize| times.iter().copied().skip(from).step_by(2).collect::<Vec<f64>>();
    let pairs: Vec<(Vec<f64>, Vec<f64>)> =
        rows.iter().map(|times| (every_second(times, 0), every_second(times, 1))).collect();
    let pairs: Vec<(&[f64], &[f64])> =
        pairs.iter().map(|(first, second)| (first.as_slice(), second.as_slice())).collect();
    compare_rounds(&pairs)
}

/// An interval whose ends differ by a larger factor says nothing.
const TOO_WIDE: f64 = 4.0;

fn told(change: &Change) -> String {
    match (change.low, change.ratio, change.high) {
        (Some(low), Some(ratio), Some(high)) if high <= TOO_WIDE * low => {
            format!("{ratio:.2} ({low:.2} to {high:.2})")
        }
        (_, Some(ratio), _) => format!("{ratio:.2} (the interval is too wide)"),
        _ => "–".to_owned(),
    }
}

fn measure(fonio: &Path, app: &str, device: &'static str, scale: f64, runs: u32) -> Result<Row> {
    let out = process::scratch("apps")?.join(format!("{app}-{device}"));
    process::remove_folder(&out)?;
    let mut command = Command::new(fonio);
    command.args(["run", &format!("app:{app}"), "--on", device, "--runs", &runs.to_string()]);
    command.args(["--scale", &scale.to_string(), "--write-back", "--json", "-o"]).arg(&out);
    let series = json(&mut command)?;
    let variation = &series["variations"][0];
    let of_runs = variation["runs"].as_array().context("the result has no runs")?;
    let number =
        |run: &Value, key: &str| run[key].as_f64().with_context(|| format!("the result has no {key}"));
    let all = |key: &str| of_runs.iter().map(|run| number(run, key)).collect::<Result<Vec<f64>>>();
    let mut named: f64 = 1.0;
    for run in of_runs {
        let recording = run["recording"].as_str().context("the result names no recording")?;
        let report = json(Command::new(fonio).args(["report", recording, "--json"]))?;
        let unknown = report["analysis"]["files"]["unknown_share"].as_f64();
        // A run without requests for data has nothing to name.
        named = named.min(1.0 - unknown.unwrap_or(0.0));
    }
    let row = Row {
        device,
        wall_s: all("wall_s")?,
        requests: all("requests")?,
        write_mib: all("write_bytes")?.into_iter().map(|bytes| bytes / f64::from(1 << 20)).collect(),
        named,
        valid: of_runs.iter().all(|run| run["valid"].as_bool() == Some(true)),
    };
    process::remove_folder(&out)?;
    Ok(row)
}

fn json(command: &mut Command) -> Result<Value> {
    let out = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("cannot start fonio")?;
    // A measurement that is not valid ends with exit code 3 and has a result.
    ensure!(matches!(out.status.code(), Some(0 | 3)), "{} failed: {}", process::shown(command), out.status);
    serde_json::from_slice(&out.stdout).context("fonio printed no JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(rows: &[(&str, [f64; 6])]) -> StudyResult {
        let mut result = StudyResult::begin(ID, TITLE, "cargo studies apps", &COLUMNS).expect("a result");
        for (name, times) in rows {
            let row = Row {
                device: "sd_a1",
                wall_s: times.to_vec(),
                requests: vec![10.0],
                write_mib: vec![1.0],
                named: 1.0,
                valid: true,
            };
            result.row(*name, row.cells());
        }
        result
    }

    #[test]
    fn equal_runs_do_not_differ_and_others_do() {
        let equal = ("redis", [1.00, 1.01, 1.01, 1.00, 1.00, 1.00]);
        let mut steady = result(&[equal]);
        assert_eq!(compare(&mut steady).expect("times"), 0);
        assert_ne!(steady.rows[0].cells[6], Cell::from("–"), "the comparison is in the row");
        let mut slower = result(&[equal, ("git", [1.00, 2.00, 1.01, 2.01, 1.00, 2.00])]);
        assert_eq!(compare(&mut slower).expect("times"), 1);
    }

    #[test]
    fn rows_of_earlier_calls_are_kept_with_their_commits() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("apps.json");
        let times = [1.0; 6];
        assert_eq!(kept(&path, &[]).expect("no file"), None);
        let mut old = result(&[("redis", times), ("gone", times)]);
        old.origin = Origin::Transcribed { commit: "0123456789abcdef".to_owned(), file: "a".to_owned() };
        std::fs::write(&path, old.text().expect("a text")).expect("a file");
        let kept = kept(&path, &["redis".to_owned()]).expect("a result").expect("there is a file");
        assert_eq!(kept.rows.len(), 1);
        assert!(is_of(&kept.rows[0], "redis", "sd_a1") && !is_of(&kept.rows[0], "redis", "ridata"));
        let mut new = result(&[]);
        new.remark = remark(&new, &kept);
        assert_eq!(new.remark, "Earlier rows were measured at 0123456789.");
        assert_eq!(remark(&result(&[]), &new).matches("0123456789").count(), 1);
    }
}
