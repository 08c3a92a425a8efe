//! `cargo xtask bench results`: measures the results service with millions of results: under load, when it is
//! killed, on a full disk, and with requests generated from its OpenAPI document. Everything runs on this
//! machine, and all connections are to 127.0.0.1.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;
use xtask::results::StudyResult;

use crate::results_service::{self, Service};
use crate::{process, tools};

/// The goals for the results service.
const PAGE_P99_MS: f64 = 50.0;
const PAGES_PER_S: u32 = 200;
const SUBMISSIONS_PER_S: u32 = 1000;
/// At a moderate rate, a submission must not wait for others.
const MODERATE_PER_S: u32 = 100;
const MODERATE_P50_MS: f64 = 50.0;
/// A rate beyond what the service can sustain.
const OVERLOAD_PER_S: u32 = 10 * SUBMISSIONS_PER_S;

/// Number of results in the database that is seeded for a complete measurement.
const RESULTS: u64 = 10_000_000;
/// The parts of the benchmark, in the order of execution.
const PARTS: [&str; 5] = ["ranking", "submissions", "kill", "full", "schema"];

/// The version of Schemathesis that tests the service.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";
/// The module with its hooks, and its text.
const HOOKS: (&str, &str) = ("results_hooks", include_str!("results_hooks.py"));

/// The options of `cargo xtask bench results`.
#[derive(Args)]
pub struct Arguments {
    /// Only these parts.
    #[arg(value_parser = PARTS)]
    parts: Vec<String>,
    /// Results in the seeded database.
    #[arg(long, value_name = "N", default_value_t = RESULTS)]
    results: u64,
    /// Duration of each load.
    #[arg(long, value_name = "S", default_value_t = 30)]
    seconds: u32,
    /// Number of times the service is killed.
    #[arg(long, value_name = "N", default_value_t = 100)]
    rounds: u32,
}

/// A goal, what was measured, and whether the goal is met (`None` if it was not measured).
struct Verdict {
    goal: String,
    measured: String,
    holds: Option<bool>,
}

impl Verdict {
    fn of(holds: bool, goal: impl Into<String>, measured: String) -> Verdict {
        Verdict { goal: goal.into(), measured, holds: Some(holds) }
    }
}

/// Measures the chosen parts. Writes, for each part, whether its goal is met.
pub fn run(options: &Arguments) -> Result<()> {
    tools::ensure(&[tools::BUILD])?;
    process::outlive_signals()?;
    results_service::build()?;
    let mut verdicts = Vec::new();
    for part in
        PARTS.iter().filter(|part| options.parts.is_empty() || options.parts.iter().any(|word| word == *part))
    {
        process::check_signals()?;
        eprintln!("bench results: {part} …");
        verdicts.extend(match *part {
            "ranking" => vec![ranking(options)?],
            "submissions" => submissions(options)?,
            "kill" => vec![kill(options)?],
            "full" => vec![full()?],
            _ => vec![schema()?],
        });
    }
    let Arguments { results, seconds, rounds, parts } = options;
    let command =
        format!("cargo xtask bench results --results {results} --seconds {seconds} --rounds {rounds}");
    let title = "goals of the results service";
    let mut result = StudyResult::begin("bench-results", title, &command, &["goal", "measured", ""])?;
    for verdict in &verdicts {
        let word = match verdict.holds {
            Some(true) => "met",
            Some(false) => "**missed**",
            None => "not measured",
        };
        result.row(&verdict.goal, vec![verdict.measured.as_str().into(), word.into()]);
    }
    result.keep(parts.is_empty() && *results >= RESULTS)?;
    if verdicts.iter().any(|verdict| verdict.holds == Some(false)) {
        bail!("some goals are not met");
    }
    Ok(())
}

/// Returns the folder with the seeded database. The database is kept for the next run.
fn seeded(results: u64) -> Result<PathBuf> {
    let folder = process::scratch(&format!("results-{results}"))?;
    let done = folder.join("seeded");
    if !done.exists() {
        for left in ["results.sqlite", "results.sqlite-wal", "results.sqlite-shm"] {
            let _ = fs::remove_file(folder.join(left));
        }
        eprintln!("bench results: seeding {results} results in {} (2 KB each) …", folder.display());
        process::run(load("seed").arg(&folder).arg(results.to_string()))?;
        fs::write(&done, "")?;
    }
    Ok(folder)
}

/// Returns a command that runs the program that seeds databases and generates load for services. `word` is
/// the program's first argument.
fn load(word: &str) -> Command {
    let mut command = Command::new(results_service::load());
    command.arg(word);
    command
}

/// Returns the command that runs the load generator on a service.
fn load_on(service: &Service, words: &[&str]) -> Command {
    let mut command = load(words[0]);
    command.arg(service.port.to_string()).args(&words[1..]);
    command
}

fn answer(command: &mut Command) -> Result<Value> {
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("{} failed: {}", process::shown(command), output.status);
    }
    serde_json::from_slice(&output.stdout).context("the output of the load generator is not valid JSON")
}

fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or(f64::NAN)
}

/// Measures how fast the service returns ranking pages on one processor.
fn ranking(options: &Arguments) -> Result<Verdict> {
    let folder = seeded(options.results)?;
    let seconds = options.seconds.to_string();
    let bare = answer(
        Command::new("taskset")
            .args(["--cpu-list", "0"])
            .arg(results_service::load())
            .arg("query")
            .arg(&folder)
            .arg("5"),
    )?;
    let service = Service::start(&folder, Some(0))?;
    // Warm up, because the first pages are read from the disk.
    answer(&mut load_on(&service, &["ranking", "50", "5"]))?;
    let before = service.processor_time()?;
    let pages = answer(&mut load_on(&service, &["ranking", &PAGES_PER_S.to_string(), &seconds]))?;
    let spent_s = (service.processor_time()? - before).as_secs_f64();
    let p99 = number(&pages, "p99_ms");
    let is_complete =
        number(&pages, "failed") == 0.0 && number(&pages, "per_s") > 0.98 * f64::from(PAGES_PER_S);
    Ok(Verdict::of(
        is_complete && p99 < PAGE_P99_MS,
        format!(
            "ranking pages at {PAGES_PER_S}/s on one processor: 99th percentile below {PAGE_P99_MS:.0} ms"
        ),
        format!(
            "{:.0} results: p50 {:.1} ms, p99 {p99:.1} ms, {:.0} of {:.0} failed, {:.2} ms of processor time for each; the query \
             alone in the database: p50 {:.2} ms, p99 {:.2} ms",
            number(&bare, "results"),
            number(&pages, "p50_ms"),
            number(&pages, "failed"),
            number(&pages, "answers") + number(&pages, "failed"),
            1e3 * spent_s / number(&pages, "answers"),
            number(&bare, "p50_ms"),
            number(&bare, "p99_ms"),
        ),
    ))
}

/// Measures submissions to a service with the seeded database: at a moderate rate, at the goal, and beyond it.
fn submissions(options: &Arguments) -> Result<Vec<Verdict>> {
    let folder = seeded(options.results)?;
    let file = folder.join("acknowledged");
    let service = Service::start(&folder, None)?;
    let moderate = Sent::at(&service, MODERATE_PER_S, options.seconds, &file)?;
    // The rate is slightly above the goal, so the service limits the throughput.
    let goal = Sent::at(&service, SUBMISSIONS_PER_S + SUBMISSIONS_PER_S / 20, options.seconds, &file)?;
    let overload = Sent::at(&service, OVERLOAD_PER_S, options.seconds, &file)?;
    Ok(vec![
        Verdict::of(
            moderate.p50_ms < MODERATE_P50_MS && moderate.lost == 0.0 && moderate.not_stored() == 0.0,
            format!(
                "{MODERATE_PER_S} submissions a second: median below {MODERATE_P50_MS:.0} ms, none refused"
            ),
            moderate.shown(),
        ),
        Verdict::of(
            goal.per_s >= f64::from(SUBMISSIONS_PER_S) && goal.lost == 0.0 && goal.not_stored() == 0.0,
            format!("{SUBMISSIONS_PER_S} submissions a second, none refused"),
            goal.shown(),
        ),
        Verdict::of(
            overload.lost == 0.0 && overload.failed == 0.0 && overload.refused == overload.told_to_wait,
            format!("{OVERLOAD_PER_S} submissions a second: 503 with `Retry-After` for each refused one"),
            format!("{}; {:.0} with 503 and `Retry-After`", overload.shown(), overload.told_to_wait),
        ),
    ])
}

/// The outcome of submissions at a constant rate.
struct Sent {
    per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    acknowledged: f64,
    refused: f64,
    /// Refused submissions with the status 503 and the header `Retry-After`.
    told_to_wait: f64,
    failed: f64,
    /// Acknowledged submissions that the service does not have afterwards.
    lost: f64,
    /// Processor time for each acknowledged submission, of the service and of the load generator.
    service_ms: f64,
    load_ms: f64,
}

impl Sent {
    fn at(service: &Service, rate: u32, seconds: u32, file: &Path) -> Result<Sent> {
        process::check_signals()?;
        let _ = fs::remove_file(file);
        let shown = file.display().to_string();
        let before = service.processor_time()?;
        let sent =
            answer(&mut load_on(service, &["submit", &rate.to_string(), &seconds.to_string(), &shown]))?;
        let spent_s = (service.processor_time()? - before).as_secs_f64();
        let checked = answer(&mut load_on(service, &["check", &shown]))?;
        let acknowledged = number(&sent, "answers");
        Ok(Sent {
            per_s: number(&sent, "per_s"),
            p50_ms: number(&sent, "p50_ms"),
            p99_ms: number(&sent, "p99_ms"),
            acknowledged,
            refused: number(&sent, "refused"),
            told_to_wait: number(&sent, "refused_with_retry_after"),
            failed: number(&sent, "failed"),
            lost: number(&checked, "lost"),
            service_ms: 1e3 * spent_s / acknowledged,
            load_ms: 1e3 * number(&sent, "processor_s") / acknowledged,
        })
    }

    fn not_stored(&self) -> f64 {
        self.refused + self.failed
    }

    fn shown(&self) -> String {
        format!(
            "{:.0}/s acknowledged ({:.0} in all), p50 {:.1} ms, p99 {:.1} ms, {:.0} refused, {:.0} failed, {:.0} lost; \
             processor time: the service {:.2} ms for each, the load generator {:.2} ms",
            self.per_s,
            self.acknowledged,
            self.p50_ms,
            self.p99_ms,
            self.refused,
            self.failed,
            self.lost,
            self.service_ms,
            self.load_ms,
        )
    }
}

/// Repeatedly kills the service while it acknowledges submissions. After each restart, requests every
/// acknowledged result.
fn kill(options: &Arguments) -> Result<Verdict> {
    let folder = tempfile::tempdir_in(process::scratch("results")?)?;
    let file = folder.path().join("acknowledged");
    let shown = file.display().to_string();
    let (mut acknowledged, mut lost) = (0.0, 0.0);
    for round in 0..options.rounds {
        process::check_signals()?;
        let _ = fs::remove_file(&file);
        let service = Service::start(folder.path(), None)?;
        let mut sending = load_on(&service, &["submit", &SUBMISSIONS_PER_S.to_string(), "5", &shown])
            .stdout(Stdio::null())
            .spawn()?;
        // Kill the service after 0.2 to 0.8 s; the time is different in each round.
        std::thread::sleep(Duration::from_millis(200 + u64::from(round) * 37 % 600));
        service.kill()?;
        sending.wait()?;
        let service = Service::start(folder.path(), None)?;
        let checked = answer(&mut load_on(&service, &["check", &shown]))?;
        acknowledged += number(&checked, "acknowledged");
        lost += number(&checked, "lost");
    }
    Ok(Verdict::of(
        lost == 0.0 && acknowledged > 0.0,
        "nothing acknowledged is lost over `kill -9`",
        format!("{} rounds: {acknowledged:.0} acknowledged, {lost:.0} lost", options.rounds),
    ))
}

const FULL: &str = "nothing acknowledged is lost on a full disk";

/// Submits results until the disk is full, and continues to submit after that.
fn full() -> Result<Verdict> {
    if !process::is_root() {
        let measured = "mounting a small disk needs root".to_owned();
        return Ok(Verdict { goal: FULL.to_owned(), measured, holds: None });
    }
    let folder = tempfile::tempdir_in(process::scratch("results")?)?;
    let disk = folder.path().join("disk");
    fs::create_dir(&disk)?;
    process::run(Command::new("mount").args(["-t", "tmpfs", "-o", "size=24m", "fonio-results"]).arg(&disk))?;
    let outcome = on_full_disk(&disk, &folder.path().join("acknowledged"));
    process::run(Command::new("umount").arg(&disk))?;
    outcome
}

fn on_full_disk(disk: &Path, file: &Path) -> Result<Verdict> {
    let shown = file.display().to_string();
    let service = Service::start(disk, None)?;
    let sent = answer(&mut load_on(&service, &["submit", &SUBMISSIONS_PER_S.to_string(), "15", &shown]))?;
    let checked = answer(&mut load_on(&service, &["check", &shown]))?;
    service.kill()?;
    let service = Service::start(disk, None)?;
    let again = answer(&mut load_on(&service, &["check", &shown]))?;
    let (refused, words) = (number(&sent, "refused"), sent["words"].as_str().unwrap_or_default().to_owned());
    let lost = number(&checked, "lost") + number(&again, "lost");
    let in_words = words.starts_with("507: the disk of the service is full");
    Ok(Verdict::of(
        lost == 0.0 && in_words && number(&sent, "failed") == 0.0 && number(&checked, "acknowledged") > 0.0,
        FULL,
        format!(
            "{:.0} acknowledged, {refused:.0} refused with 507, {lost:.0} lost, also after `kill -9`",
            number(&checked, "acknowledged"),
        ),
    ))
}

/// Sends valid and invalid requests, which Schemathesis generates from the OpenAPI document.
fn schema() -> Result<Verdict> {
    let venv = process::scratch("results")?.join("schemathesis");
    let program = venv.join("bin/schemathesis");
    if !program.exists() {
        process::run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        process::run(Command::new(venv.join("bin/pip")).args(["install", "--quiet", SCHEMATHESIS]))?;
    }
    let folder = tempfile::tempdir()?;
    let (module, text) = HOOKS;
    fs::write(folder.path().join(format!("{module}.py")), text)?;
    let service = Service::start(folder.path(), None)?;
    answer(&mut load_on(
        &service,
        &["submit", "100", "1", &folder.path().join("ids").display().to_string()],
    ))?;
    let mut command = Command::new(&program);
    command.env("SCHEMATHESIS_HOOKS", module);
    command.arg("run").arg(format!("http://127.0.0.1:{}/openapi.json", service.port));
    // The schema cannot express all requirements, so the service may reject documents that the schema allows.
    let options = "--exclude-checks positive_data_acceptance --max-examples 100 --seed 1 --no-color";
    command.args(options.split(' '));
    let output = command.current_dir(folder.path()).output().context("cannot start schemathesis")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        eprintln!("{text}");
    }
    let cases =
        text.lines().find(|line| line.contains(" generated, ")).unwrap_or("no test cases").trim().to_owned();
    Ok(Verdict::of(
        output.status.success() && !cases.contains("no test"),
        "no undocumented answer and no 5xx to requests of Schemathesis",
        format!("{SCHEMATHESIS}, all checks but positive_data_acceptance: {cases}"),
    ))
}
