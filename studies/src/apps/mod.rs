//! `cargo studies apps`: runs each real program on emulated devices, and checks that its recordings name the files of its
//! data, and that its run times repeat.
//!
//! The run times of a second run are compared with those of the run before it (A/A): a difference between equal runs would
//! be a fault of the experiment.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::Args;
use fonio_analysis::compare::interval::{Change, compare_rounds};
use serde_json::Value;
use xtask::results::{Cell, StudyResult};

use crate::process;

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
    /// Run each app this many times on each device; an even number.
    #[arg(long, value_name = "N", default_value_t = 6)]
    runs: u32,
    /// Use this build of fonio instead of building it.
    #[arg(long, value_name = "PROGRAM")]
    fonio: Option<std::path::PathBuf>,
}

/// The measurements of an app on a device.
struct Row {
    app: String,
    device: &'static str,
    wall_s: Vec<f64>,
    requests: Vec<f64>,
    write_mib: Vec<f64>,
    /// The share of the data bytes whose file is named, in the run with the smallest share.
    named: f64,
    valid: bool,
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
    let mut rows = Vec::new();
    for name in chosen {
        for (device, scale) in &devices {
            process::check_signals()?;
            println!("{name} on {device} …");
            rows.push(
                measure(&fonio, name, device, *scale, arguments.runs)
                    .with_context(|| format!("{name} on {device}"))?,
            );
        }
    }
    let changes = compared(&rows);
    let columns = ["app", "device", "run time", "requests", "written", "files named", "second run / first"];
    let title = "real programs on emulated devices: their sessions, and whether these repeat";
    let is_complete = arguments.apps.is_empty() && arguments.on.is_empty();
    let mut result = StudyResult::begin("apps", title, "cargo studies apps", &columns)?;
    let mut claimed = 0;
    for (row, change) in rows.iter().zip(&changes) {
        claimed += u32::from(change.is_claimed());
        result.row(
            row.app.clone(),
            vec![
                row.device.into(),
                Cell::rounds(row.wall_s.iter().copied().map(Some), "s", 2).with_range(),
                Cell::rounds(row.requests.iter().copied().map(Some), "", 0),
                Cell::rounds(row.write_mib.iter().copied().map(Some), "MiB", 1),
                Cell::once(row.named * 100.0, "%", 1),
                told(change).into(),
            ],
        );
    }
    println!("\n{}", result.table());
    let unnamed = rows.iter().filter(|row| row.named < NAMED_LEAST).count();
    let invalid = rows.iter().filter(|row| !row.valid).count();
    println!(
        "{} rows with {} runs each ({build}). Rows with a difference between equal runs: {claimed}. Rows with less than \
         {:.0} % of the data bytes named: {unnamed}. Rows with an invalid measurement: {invalid}.",
        rows.len(),
        arguments.runs,
        NAMED_LEAST * 100.0
    );
    if is_complete {
        println!("The result is in {}.", result.keep(true)?.display());
    }
    Ok(())
}

/// Returns the names of the shipped apps.
fn names(fonio: &Path) -> Result<Vec<String>> {
    let listed = json(Command::new(fonio).args(["run", "--json"]))?;
    let names = listed.as_array().context("fonio run --json printed no array")?.iter();
    let names = names.filter_map(|listed| listed["name"].as_str()?.strip_prefix("app:"));
    Ok(names.map(str::to_owned).collect())
}

/// Compares each second run with the run before it. All intervals together hold with 95 % confidence.
fn compared(rows: &[Row]) -> Vec<Change> {
    let every_second =
        |row: &Row, from: usize| row.wall_s.iter().copied().skip(from).step_by(2).collect::<Vec<f64>>();
    let pairs: Vec<(Vec<f64>, Vec<f64>)> =
        rows.iter().map(|row| (every_second(row, 0), every_second(row, 1))).collect();
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
        app: app.to_owned(),
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
