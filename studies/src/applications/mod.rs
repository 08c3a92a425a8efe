//! `cargo studies applications`: launches apps during an update and a backup, under SmartIO and the kernel's
//! schedulers in a guest. Also predicts the results from the recordings, with models of schedulers, including
//! CFQ.
//!
//! The recordings are kept, and the guest runs again only if the SmartIO module or the load changes. The
//! models replay the recordings that were made without a scheduler.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use clap::Args;
use fonio_analysis::compare::interval::compare_rounds;
use fonio_experiment::TimesFigures;
use serde_json::Value;
use xtask::results::{Cell, StudyResult};

use crate::schedulers::{self, interval};
use crate::{asked, process, smartio, tools};

const KERNEL: &str = "6.12";
const DEVICE: &str = "samsung_s5";
const ROUNDS: u32 = 8;
/// The workload that runs during the launches.
const UPDATE: &str = include_str!("update.toml");

/// The apps to launch for a study, and the conditions of their launches.
pub struct Load {
    /// The name of the workload, and its scale.
    workload: &'static str,
    scale: &'static str,
    /// The schedulers to compare, from the SmartIO module and from the kernel. Each is given as a fix for a
    /// device without a scheduler.
    fixes: &'static [&'static str],
    /// The name of the launching thread.
    thread: &'static str,
    /// The name of the phase with the launches.
    launches: &'static str,
    /// The name of the other spans that are measured, if there are any.
    span: Option<&'static str>,
    /// Whether models also replay the load.
    is_replayed: bool,
}

/// The launches of forty apps, one after the other.
pub const FORTY_APPS: Load = Load {
    workload: "fortyapps",
    scale: "0.02",
    fixes: &["smartio", "bfq", "mq-deadline", "kyber"],
    thread: "launcher",
    launches: "cold",
    span: None,
    is_replayed: true,
};

/// Forty apps react to user events, one app after the other.
pub const FORTY_EVENTS: Load = Load {
    workload: "fortyevents",
    scale: "0.02",
    fixes: &["smartio", "bfq"],
    thread: "user",
    launches: "events",
    span: None,
    is_replayed: false,
};

/// The use of one app: its launch, and the time until the feed responds to a drag.
pub const FACEBOOK: Load = Load {
    workload: "facebook",
    scale: "1",
    fixes: &["smartio", "bfq"],
    thread: "ui",
    launches: "launch",
    span: Some("drag"),
    is_replayed: false,
};

/// The measurements in the kernel and the predictions of the models, by scheduler.
pub struct Applications {
    /// The command that ran in the guest.
    pub command: String,
    /// The results of each scheduler; the first is `none`.
    pub schedulers: Vec<OfScheduler>,
}

/// The results of one scheduler. Each list contains one value per round.
#[derive(Default)]
pub struct OfScheduler {
    /// The scheduler's name in the kernel.
    pub name: String,
    /// The measurements in the kernel; `None` for a scheduler that the kernel lacks.
    pub kernel: Option<Measured>,
    /// The mean response time in seconds of the launching program's reads, in the model.
    pub model_read_s: Vec<f64>,
}

/// Measurements of a scheduler that runs in the kernel.
#[derive(Default)]
pub struct Measured {
    /// The mean response time in seconds of the launching program's reads.
    pub read_s: Vec<f64>,
    /// Time in seconds for which the launching program was blocked on storage.
    pub blocked_s: Vec<f64>,
    /// Total duration of the launches in seconds.
    pub launches_s: Vec<f64>,
    /// Total duration in seconds of all spans with the name that the load gives.
    pub spans_s: Vec<f64>,
    /// Share of processor time in which the processors were busy.
    pub active_share: Vec<f64>,
    /// Number of ticks in which processors were idle while I/O was outstanding.
    pub iowait_ticks: Vec<f64>,
    /// Where the time of each phase and of each mark went, in each round.
    pub times: Vec<Vec<TimesFigures>>,
    /// Bytes that the installer and the backup wrote to their files in a second.
    pub written_per_s: Vec<f64>,
}

impl Measured {
    /// Returns a figure of a phase or of a mark in each round; `None` for a round without it.
    pub fn part(&self, name: &str, of: fn(&TimesFigures) -> f64) -> Vec<Option<f64>> {
        self.times.iter().map(|round| round.iter().find(|part| part.name == name).map(of)).collect()
    }

    /// Returns the names of all parts of the first round whose names begin so.
    pub fn parts(&self, start: &str) -> Vec<String> {
        let names = self.times.first().into_iter().flatten().map(|part| &part.name);
        names.filter(|name| name.starts_with(start)).cloned().collect()
    }

    /// Returns what a scheduler that made all storage free could give: the part of the launches in which the program was
    /// not blocked on storage.
    fn without_waits(&self) -> Vec<f64> {
        self.blocked_s
            .iter()
            .zip(&self.launches_s)
            .map(|(blocked, launches)| 1.0 - blocked / launches)
            .collect()
    }
}

impl Applications {
    pub fn of(&self, name: &str) -> Result<&OfScheduler> {
        self.schedulers.iter().find(|of| of.name == name).with_context(|| format!("{name} was not run"))
    }
}

#[derive(Args)]
pub struct Arguments {
    /// Use this build of fonio instead of building it.
    #[arg(long, value_name = "PROGRAM")]
    fonio: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    show(&measure(&FORTY_APPS, arguments.fonio.as_deref())?)
}

/// Measures the apps under each scheduler, or loads earlier measurements that were made with the same module.
pub fn measure(load: &Load, fonio: Option<&Path>) -> Result<Applications> {
    tools::ensure(&[tools::BUILD, tools::GUEST, tools::KERNEL])?;
    process::outlive_signals()?;
    let fonio = schedulers::fonio(fonio)?;
    let built = smartio::module(KERNEL)?;
    let folder = process::scratch("kernel/applications")?;
    let guest = folder.join("guest");
    std::fs::create_dir_all(&guest)?;
    std::fs::copy(&built.module, guest.join("smartio-iosched.ko"))?;
    std::fs::write(guest.join("update.toml"), UPDATE)?;
    let command = format!(
        "fonio run {} --scale {} --background guest/update.toml --on {DEVICE} --fix {} --runs {ROUNDS}",
        load.workload,
        load.scale,
        load.fixes.join(",")
    );
    let inputs = [&std::fs::read(&built.module)?, UPDATE.as_bytes(), command.as_bytes()].concat();
    let kept = format!("results-{}", schedulers::short(&inputs));
    let results = folder.join(&kept);
    if !results.join("summary.json").exists() {
        let script = format!("insmod guest/smartio-iosched.ko && {command} --output {kept}");
        let mut run = process::bound_to_this(&fonio);
        run.args(["lab", "run", KERNEL, "--copy", "guest", "--bring", &kept, "--", "sh", "-c", &script]);
        process::run(run.current_dir(&folder).stdout(Stdio::null()))?;
    }
    let summary: Value = serde_json::from_slice(&std::fs::read(results.join("summary.json"))?)?;
    let mut found = Applications { command, schedulers: Vec::new() };
    for variation in list(&summary, "variations")? {
        let name = variation["name"].as_str().context("a setup has no name")?;
        let scheduler = name.split_once(", ").map_or("none", |(_, fix)| fix);
        let mut kernel = Measured::default();
        for run in list(variation, "runs")? {
            let recording = folder.join(run["recording"].as_str().context("a run has no recording")?);
            let models: &[&str] =
                if scheduler == "none" && load.is_replayed { &[] } else { &["--scheduler", "noop"] };
            let replay = replay(&fonio, &recording, models)?;
            kernel.read_s.push(of_thread(load.thread, &replay["recorded"])?);
            kernel.launches_s.push(number(&run["phases_s"][load.launches])?);
            if let Some(span) = load.span {
                kernel.spans_s.push(number(&run["spans_s"][span])?);
            }
            let times = [&run["phase_times"], &run["span_times"]].map(|of| parts(of.clone()));
            kernel.times.push(times.into_iter().collect::<Result<Vec<_>>>()?.concat());
            let beside = &run["beside"];
            kernel.written_per_s.push(number(&beside["file_bytes"])? / number(&beside["ran_s"])?);
            let report = asked::report(&fonio, &recording)?;
            kernel.blocked_s.push(blocked(load.thread, &report["analysis"]["blocked"])?);
            let cpu = &report["analysis"]["machine"]["cpu"];
            kernel.iowait_ticks.push(number(&cpu["iowait_ticks"])?);
            kernel.active_share.push(number(&cpu["active_share"])?);
            if scheduler == "none" && load.is_replayed {
                for run in list(&replay, "runs")? {
                    let name = run["scheduler"].as_str().context("a run has no scheduler")?;
                    found
                        .add(if name == "noop" { "none" } else { name })
                        .model_read_s
                        .push(of_thread(load.thread, &run["programs"])?);
                }
            }
        }
        found.add(scheduler).kernel = Some(kernel);
    }
    ensure!(!found.schedulers.is_empty(), "{} has no setups", results.display());
    Ok(found)
}

impl Applications {
    fn add(&mut self, name: &str) -> &mut OfScheduler {
        let at = self.schedulers.iter().position(|of| of.name == name).unwrap_or_else(|| {
            self.schedulers.push(OfScheduler { name: name.to_owned(), ..OfScheduler::default() });
            self.schedulers.len() - 1
        });
        &mut self.schedulers[at]
    }
}

fn replay(fonio: &Path, recording: &Path, more: &[&str]) -> Result<Value> {
    let model = format!("model:{DEVICE}");
    let mut words = vec!["replay".as_ref(), recording.as_os_str(), "--on".as_ref(), model.as_ref()];
    words.extend(more.iter().map(OsStr::new));
    asked::answer(fonio, &words)
}

fn of_thread(name: &str, programs: &Value) -> Result<f64> {
    let programs = programs.as_array().context("programs are a list")?;
    let of = programs
        .iter()
        .find(|of| of["name"] == name)
        .with_context(|| format!("the recording has no reads of {name}"))?;
    Ok(number(&of["reads"]["sum_s"])? / number(&of["reads"]["count"])?)
}

/// Returns for how many seconds a program was blocked on storage. A program without a wait is not listed.
fn blocked(name: &str, analysed: &Value) -> Result<f64> {
    let programs = analysed["programs"].as_array().context("the recording has no waits")?;
    let of = programs.iter().filter(|of| of["name"] == name);
    of.map(|of| Ok(number(&of["time_ns"])? / 1e9)).sum()
}

fn parts(times: Value) -> Result<Vec<TimesFigures>> {
    if times.is_null() {
        return Ok(Vec::new());
    }
    serde_json::from_value(times).context("the times of the results have another form")
}

fn list<'a>(value: &'a Value, name: &str) -> Result<&'a Vec<Value>> {
    value[name].as_array().with_context(|| format!("the results have no `{name}`"))
}

fn number(value: &Value) -> Result<f64> {
    value.as_f64().with_context(|| format!("{value} in the results is not a number"))
}

fn show(found: &Applications) -> Result<()> {
    let columns = [
        "scheduler",
        "a read of the launching program",
        "the same in the model",
        "model over kernel",
        "it was blocked",
        "cold launches",
        "the same without waits",
        "iowait ticks",
    ];
    let title = "apps launched during an installation and a backup";
    let mut result = StudyResult::begin("applications", title, "cargo studies applications", &columns)?;
    result.rounds = Some(ROUNDS.into());
    for of in &found.schedulers {
        let none = Measured::default();
        let kernel = of.kernel.as_ref().unwrap_or(&none);
        let cell = |values: &[f64], factor: f64, unit: &str, decimals: usize| {
            let values: Vec<f64> = values.iter().map(|value| value * factor).collect();
            if values.is_empty() { "–".into() } else { Cell::rounds(values, unit, decimals).with_range() }
        };
        let errors = of.model_read_s.iter().zip(&kernel.read_s).map(|(model, kernel)| model / kernel);
        let cells = vec![
            cell(&kernel.read_s, 1e3, "ms", 2),
            cell(&of.model_read_s, 1e3, "ms", 2),
            cell(&errors.collect::<Vec<_>>(), 1.0, "", 2),
            cell(&kernel.blocked_s, 1e3, "ms", 0),
            cell(&kernel.launches_s, 1.0, "s", 2),
            cell(&kernel.without_waits(), 1.0, "times", 3),
            cell(&kernel.iowait_ticks, 1.0, "", 0),
        ];
        result.row(&of.name, cells);
    }
    result.remark = compare(found)?;
    println!("\n{}", result.remark);
    result.keep(true)?;
    Ok(())
}

/// The name of a figure, and the function that returns the figure's values.
type Figure = (&'static str, fn(&Measured) -> &Vec<f64>);

const COMPARED: [Figure; 3] = [
    ("a read of the launching program", |of| &of.read_s),
    ("it was blocked", |of| &of.blocked_s),
    ("cold launches", |of| &of.launches_s),
];

/// Returns a sentence for each figure, with the ratio of SmartIO to each other scheduler, computed round by
/// round. The load and the overlap of requests differ between builds of fonio, so other builds give other
/// ratios.
fn compare(found: &Applications) -> Result<String> {
    let kernel =
        |name: &str| found.of(name)?.kernel.as_ref().with_context(|| format!("the kernel has no {name}"));
    let own = kernel("smartio")?;
    let others: Vec<&OfScheduler> =
        found.schedulers.iter().filter(|of| of.kernel.is_some() && of.name != "smartio").collect();
    let mut text =
        "Ratio of SmartIO to each other scheduler: the mean of the rounds, with its 95 % interval:"
            .to_owned();
    for (what, of) in COMPARED {
        let pairs: Vec<(&[f64], &[f64])> = others
            .iter()
            .filter_map(|other| other.kernel.as_ref())
            .map(|other| (of(other).as_slice(), of(own).as_slice()))
            .collect();
        let told: Vec<String> = others
            .iter()
            .zip(compare_rounds(&pairs))
            .map(|(other, change)| format!("{} {}", other.name, interval(&change)))
            .collect();
        let _ = write!(text, " {what}: {}.", told.join("; "));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launcher_is_found_among_programs() {
        let programs = serde_json::json!([
            { "name": "installer", "reads": { "count": 1, "sum_s": 9.0 } },
            { "name": "launcher", "reads": { "count": 4, "sum_s": 2.0 } },
        ]);
        assert_eq!(of_thread("launcher", &programs).expect("it is there"), 0.5);
        of_thread("launcher", &serde_json::json!([])).expect_err("nobody reads");
        let analysed = serde_json::json!({ "programs": [
            { "name": "installer", "time_ns": 9e9 },
            { "name": "launcher", "time_ns": 25e8 },
        ] });
        assert_eq!(blocked("launcher", &analysed).expect("it waited"), 2.5);
        assert_eq!(blocked("ui", &analysed).expect("it did not wait"), 0.0);
        blocked("ui", &Value::Null).expect_err("there are no waits");
    }
}
