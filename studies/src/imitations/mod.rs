//! `cargo studies imitations`: compares workloads that imitate an app with a real program that does the same.
//!
//! An imitation and a program do different amounts of work, so shapes are compared: the share of reads, mean sizes,
//! sequentiality, syncs for each written MiB, and the share of the run time with requests in flight. The limits below were
//! set before the first comparison.

mod shape;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;
use xtask::results::{Cell, StudyResult};

use crate::process;
use shape::{METRICS, Shape};

/// A workload, and the app and script that do what it imitates.
struct Pair {
    imitation: &'static str,
    program: &'static str,
}

const fn pair(imitation: &'static str, program: &'static str) -> Pair {
    Pair { imitation, program }
}

const PAIRS: &[Pair] = &[
    pair("webbench", "app:chromium"),
    pair("rlbench", "app:sqlite:long"),
    pair("appinstall", "app:dpkg"),
    pair("video_recording", "app:ffmpeg"),
    pair("gallery", "app:thumbnails"),
    pair("email_sync", "app:mail:long"),
    pair("maps", "app:map"),
    pair("video_playback", "app:ffmpeg:cold"),
];

/// An imitation may differ from the program in this many of the compared metrics, and still deserves its name.
const MISSES_MAX: usize = 1;

#[derive(Args)]
pub struct Arguments {
    /// Compare these imitations (default: all).
    #[arg(value_name = "WORKLOAD")]
    imitations: Vec<String>,
    /// The emulated device.
    #[arg(long, value_name = "PROFILE", default_value = "sd_a1")]
    on: String,
    /// Run each workload and each program this many times.
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: u32,
    /// Use this build of fonio instead of building it.
    #[arg(long, value_name = "PROGRAM")]
    fonio: Option<PathBuf>,
}

/// Runs the pairs and prints the table.
pub fn run(arguments: &Arguments) -> Result<()> {
    ensure!(process::is_root(), "emulated devices need root: run it with sudo");
    process::outlive_signals()?;
    let (fonio, build) = process::fonio_of_study(arguments.fonio.as_deref())?;
    let known = || PAIRS.iter().map(|pair| pair.imitation).collect::<Vec<_>>();
    for name in &arguments.imitations {
        ensure!(
            known().contains(&name.as_str()),
            "no program does what {name} imitates; use: {}",
            known().join(", ")
        );
    }
    let is_chosen = |pair: &&Pair| {
        arguments.imitations.is_empty() || arguments.imitations.iter().any(|name| name == pair.imitation)
    };
    let columns: Vec<&str> = ["program", "verdict"]
        .into_iter()
        .chain(METRICS.iter().map(|metric| metric.name))
        .chain(["requests", "written", "read"])
        .collect();
    let title = "imitations compared with real programs";
    let mut result = StudyResult::begin("imitations", title, "cargo studies imitations", &columns)?;
    let (mut alike, mut all) = (0, 0);
    for pair in PAIRS.iter().filter(is_chosen) {
        let shape = |work: &str| {
            println!("{work} on {} …", arguments.on);
            measure(&fonio, work, &arguments.on, arguments.runs).with_context(|| work.to_owned())
        };
        let (imitation, program) = (shape(pair.imitation)?, shape(pair.program)?);
        let compared: Vec<Option<bool>> =
            METRICS.iter().map(|metric| metric.is_alike(&imitation, &program)).collect();
        let known = compared.iter().flatten().count();
        let missed = compared.iter().flatten().filter(|is_alike| !**is_alike).count();
        let deserves = known > 0 && missed <= MISSES_MAX;
        alike += u32::from(deserves);
        all += 1;
        let verdict = format!("{}: {} of {known} alike", if deserves { "yes" } else { "no" }, known - missed);
        let mut cells = vec![Cell::from(pair.program), Cell::from(verdict)];
        cells.extend(
            METRICS
                .iter()
                .zip(&compared)
                .map(|(metric, is_alike)| Cell::from(metric.shown(&imitation, &program, *is_alike))),
        );
        let totals = [
            (imitation.requests, program.requests, "", 0),
            (imitation.written_mib, program.written_mib, " MiB", 1),
            (imitation.read_mib, program.read_mib, " MiB", 1),
        ];
        cells.extend(totals.map(|(imitation, program, unit, decimals)| {
            Cell::from(format!("{imitation:.decimals$} / {program:.decimals$}{unit}"))
        }));
        result.row(pair.imitation, cells);
    }
    println!("\n{}", result.table());
    println!(
        "{alike} of {all} imitations deserve their name: they differ from the program in at most {MISSES_MAX} of the compared metrics \
         ({} runs each, {build}). Each cell has the imitation's value and the program's; ! marks a difference.",
        arguments.runs
    );
    if arguments.imitations.is_empty() {
        println!("The result is in {}.", result.keep(true)?.display());
    }
    Ok(())
}

/// Runs a workload or an app, and returns the medians of its runs.
fn measure(fonio: &Path, work: &str, device: &str, runs: u32) -> Result<Shape> {
    let out = process::scratch("imitations")?.join(work.replace(':', "-"));
    process::remove_folder(&out)?;
    let mut command = Command::new(fonio);
    command.args(["run", work, "--on", device, "--runs", &runs.to_string(), "--write-back", "--json", "-o"]);
    let series = json(command.arg(&out))?;
    let of_runs = series["variations"][0]["runs"].as_array().context("the result has no runs")?;
    let mut shapes = Vec::new();
    for run in of_runs {
        let recording = run["recording"].as_str().context("the result names no recording")?;
        let report = json(Command::new(fonio).args(["report", recording, "--json"]))?;
        shapes.push(Shape::of(&report["analysis"])?);
    }
    process::remove_folder(&out)?;
    Shape::median(&shapes).context("no run ended")
}

fn json(command: &mut Command) -> Result<Value> {
    let out = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("cannot start fonio")?;
    // A measurement that is not valid ends with exit code 3 and has a result.
    ensure!(matches!(out.status.code(), Some(0 | 3)), "{} failed: {}", process::shown(command), out.status);
    serde_json::from_slice(&out.stdout).context("fonio printed no JSON")
}
