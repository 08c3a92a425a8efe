//! `cargo xtask bench fleet`: reports over generated fleets.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use serde::Deserialize;
use xtask::results::{Cell, StudyResult};
use xtask::{process, tools};

/// The version with which the package was tested.
const PYSPARK: &str = "pyspark==4.3.*";

/// The options of `cargo xtask bench fleet`.
#[derive(Args)]
pub struct Arguments {
    /// What to measure.
    #[arg(value_enum)]
    what: What,
    /// Numbers of devices, separated by commas; measurements other than `growth` use the first one.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [2_500, 5_000, 10_000])]
    devices: Vec<u64>,
    /// Number of days.
    #[arg(long, value_name = "N", default_value_t = 365)]
    days: u64,
    /// Number of fleets, each with a seed of its own.
    #[arg(long, value_name = "N", default_value_t = 20)]
    seeds: u64,
    /// The seed of the first fleet. A rule is scored on other seeds than those that were looked at while it was made.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    first_seed: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// The time and memory of reports over growing fleets.
    Growth,
    /// Whether reports name something in fleets without faults.
    Silent,
    /// Whether reports name the planted faults, and only them.
    Found,
    /// DuckDB and Spark on this machine. Needs Java, and downloads PySpark.
    Engines,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Growth => "growth",
            What::Silent => "silent",
            What::Found => "found",
            What::Engines => "engines",
        }
    }
}

/// A measurement of `python/tests/fleet/benchmark.py`.
#[derive(Deserialize)]
struct Measured {
    #[serde(default)]
    engine: String,
    #[serde(default)]
    devices: u64,
    #[serde(default)]
    days: u64,
    #[serde(default)]
    bytes: f64,
    #[serde(default)]
    processor_s: f64,
    #[serde(default)]
    memory_bytes: f64,
    #[serde(default)]
    found: Vec<String>,
    #[serde(default)]
    r#false: u64,
    #[serde(default)]
    outliers: u64,
    #[serde(default)]
    comparisons: u64,
}

/// The planted faults (`FAULTS` of the generator).
const FAULTS: [(&str, &str); 3] = [
    ("firmware", "a disk firmware that is slower"),
    ("unit", "a system with a unit that writes too much"),
    ("batch", "a batch of bad cards"),
];
const MIB: f64 = 1_048_576.0;
/// The days of data that a report over a large fleet reads: a quarter of a year.
const QUARTER_DAYS: f64 = 91.0;

pub fn run(arguments: &Arguments) -> Result<()> {
    tools::ensure_python_packages()?;
    if matches!(arguments.what, What::Engines) {
        ensure_spark()?;
    }
    let devices: Vec<String> = arguments.devices.iter().map(u64::to_string).collect();
    let devices = match arguments.what {
        What::Growth => devices.join(","),
        _ => devices[0].clone(),
    };
    let days = arguments.days;
    let seeds = match arguments.what {
        What::Silent | What::Found => {
            format!(" --seeds {} --first-seed {}", arguments.seeds, arguments.first_seed)
        }
        What::Growth | What::Engines => String::new(),
    };
    let command =
        format!("cargo xtask bench fleet {} --devices {devices} --days {days}{seeds}", arguments.what.name());
    let rows = measure(arguments)?;
    ensure!(!rows.is_empty(), "nothing was measured");
    match arguments.what {
        What::Growth => {
            growth(&rows, &command)?;
            cost(&rows, &command)
        }
        What::Silent => faultless(&rows, &command, arguments),
        What::Found => planted(&rows, &command, arguments),
        What::Engines => engines(&rows, &command),
    }
}

/// Installs PySpark in the tests' Python environment if it is missing. It needs Java.
fn ensure_spark() -> Result<()> {
    let java = Command::new("java").arg("-version").output();
    ensure!(
        java.is_ok_and(|output| output.status.success()),
        "Spark needs Java 17 or later; on Debian: apt-get install openjdk-17-jre-headless"
    );
    let python = process::scratch("python")?.join("bin/python3");
    let imported = Command::new(&python).args(["-c", "import pyspark"]).output();
    if !imported.is_ok_and(|output| output.status.success()) {
        println!("Installing PySpark (400 MB) …");
        process::run(Command::new(&python).args(["-m", "pip", "install", "--quiet", PYSPARK]))?;
    }
    Ok(())
}

fn measure(arguments: &Arguments) -> Result<Vec<Measured>> {
    let python = process::scratch("python")?.join("bin/python3");
    // A folder of its own, because two measurements can run at the same time.
    let folder = process::scratch(&format!("fleet-{}", arguments.what.name()))?;
    let mut command = Command::new(python);
    command.arg("python/tests/fleet/benchmark.py").arg(arguments.what.name()).arg(&folder);
    command.arg(arguments.days.to_string());
    match arguments.what {
        What::Growth => command.args(arguments.devices.iter().map(u64::to_string)),
        _ => command
            .arg(arguments.devices[0].to_string())
            .args([arguments.seeds, arguments.first_seed].map(|n| n.to_string())),
    };
    command.current_dir(process::root()).env("PYTHONPATH", "python").stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start Python")?;
    let out = BufReader::new(child.stdout.take().context("the output is a pipe")?);
    let mut rows = Vec::new();
    for line in out.lines() {
        let line = line?;
        println!("{line}");
        rows.push(serde_json::from_str(&line).with_context(|| format!("an unexpected line: {line}"))?);
    }
    let status = child.wait()?;
    process::remove_folder(&folder)?;
    ensure!(status.success(), "python/tests/fleet/benchmark.py failed");
    Ok(rows)
}

fn growth(rows: &[Measured], command: &str) -> Result<()> {
    // The elapsed time is left out: it depends on what else the machine does.
    let columns = ["fleet", "device-days", "Parquet files", "processor time", "memory"];
    let title = "Reports over growing fleets, with 400 MB for DuckDB (`--memory`)";
    let mut result = StudyResult::begin("fleet-growth", title, command, &columns)?;
    for row in rows {
        let name = format!("{} devices, {} days", row.devices, row.days);
        result.row(
            name,
            vec![
                Cell::count(row.devices * row.days),
                Cell::once(row.bytes / MIB, "MiB", 0),
                Cell::once(row.processor_s, "s", 1),
                Cell::once(row.memory_bytes / MIB, "MiB", 0),
            ],
        );
    }
    result.keep(true).map(drop)
}

fn cost(rows: &[Measured], command: &str) -> Result<()> {
    let largest = rows.iter().max_by_key(|row| row.devices * row.days).context("there is a row")?;
    let device_days = (largest.devices * largest.days) as f64;
    let (bytes, seconds) = (largest.bytes / device_days, largest.processor_s / device_days);
    let columns = ["fleet", "stored in a year", "processor time of a report over 91 days"];
    let title = "What fleets need, computed from the largest measured fleet";
    let mut result = StudyResult::begin("fleet-cost", title, command, &columns)?;
    for (name, devices) in [("10,000 devices", 1e4), ("1 million devices", 1e6), ("100 million devices", 1e8)]
    {
        result.row(
            name,
            vec![
                Cell::once(devices * 365.0 * bytes / 1e12, "TB", 3),
                Cell::once(devices * QUARTER_DAYS * seconds / 3600.0, "h", 2),
            ],
        );
    }
    result.remark = format!(
        "Computed, not measured: {bytes:.0} bytes and {:.1} µs of processor time for each device and day, as in the largest fleet of the table above.",
        seconds * 1e6
    );
    result.keep(true).map(drop)
}

fn faultless(rows: &[Measured], command: &str, arguments: &Arguments) -> Result<()> {
    let columns =
        ["fleets without faults", "fleets", "with a false cause", "with a false outlier", "comparisons"];
    let title = "What reports name in fleets without faults";
    let mut result = StudyResult::begin("fleet-silent", title, command, &columns)?;
    let count = |is: &dyn Fn(&Measured) -> bool| Cell::count(rows.iter().filter(|row| is(row)).count());
    result.row(
        format!("{} devices, {} days", arguments.devices[0], arguments.days),
        vec![
            Cell::count(rows.len()),
            count(&|row| row.r#false > 0),
            count(&|row| row.outliers > 0),
            Cell::count(rows.iter().map(|row| row.comparisons).sum::<u64>()),
        ],
    );
    result.seed = Some(arguments.first_seed);
    result.keep(true).map(drop)
}

fn planted(rows: &[Measured], command: &str, arguments: &Arguments) -> Result<()> {
    let columns = ["planted fault", "fleets", "found"];
    let title = format!(
        "What reports find in fleets of {} devices and {} days",
        arguments.devices[0], arguments.days
    );
    let mut result = StudyResult::begin("fleet-found", &title, command, &columns)?;
    for (id, name) in FAULTS {
        let found = rows.iter().filter(|row| row.found.iter().any(|found| found == id)).count();
        result.row(name, vec![Cell::count(rows.len()), Cell::count(found)]);
    }
    let false_ones = rows.iter().filter(|row| row.r#false > 0).count();
    result.row("a false cause", vec![Cell::count(rows.len()), Cell::count(false_ones)]);
    result.seed = Some(arguments.first_seed);
    result.keep(true).map(drop)
}

fn engines(rows: &[Measured], command: &str) -> Result<()> {
    let columns = ["engine", "device-days", "processor time"];
    let title = "One report with DuckDB and with Spark on this machine";
    let mut result = StudyResult::begin("fleet-engines", title, command, &columns)?;
    for row in rows {
        let name = if row.engine == "spark" { "Spark (local mode)" } else { "DuckDB" };
        result.row(name, vec![Cell::count(row.devices * row.days), Cell::once(row.processor_s, "s", 1)]);
    }
    result.keep(true).map(drop)
}
