//! The fourth step of a cure: a fix is tried, on the recreated stall if possible.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use fonio_analysis::compare::paired::{PAIRS_MIN, Paired, PairedAnswer};
use fonio_core::{ByteCount, Unit};
use fonio_experiment::{
    Candidate, Ended, LiveOptions, LivePlan, Program, RecreateChange, RecreateOptions, RecreateProgress,
    Recreated, RecreatedRun, Scene, SceneLimits, recreate, run_live,
};
use fonio_host::{Setting, WriteBack, is_io_group};
use fonio_system::device::from_dev;
use fonio_system::{MountTable, say};
use serde::Serialize;

use super::choices::{Choice, Copy, How};
use super::seen::Seen;
use super::slowed;
use crate::cli::cure::Cure;
use crate::cli::{Cli, Colour, Command, fix};
use crate::commands::fix as fixes;
use crate::output;
use crate::results::proof_directory;
use crate::roles::apart;

/// The way in which a fix is tried.
pub(super) enum Way {
    /// The calls of the stall are repeated with and without the fix.
    Recreate {
        scene: Box<Scene>,
        folder: PathBuf,
        /// The running processes of the program in the way, if the fix changes their I/O class.
        pids: Vec<u32>,
        /// The running processes of a copy in the way, which are stopped during the trial.
        paused: Vec<u32>,
        /// The limit of the program in the way, if the fix is one.
        limit: Option<Box<Setting>>,
    },
    /// The setting is switched on and off while the machine does its work.
    Live { plan: Box<LivePlan>, lasting: Duration, why: String },
    /// The command is run with and without the fix.
    Prove { words: Vec<String>, command: Vec<String> },
    /// The fix cannot be tried here, for this reason.
    None { why: String },
}

/// The result of a trial.
#[derive(Serialize)]
pub(super) struct Attempt {
    fix: String,
    /// The way of the trial: `recreated`, `live` or `command`.
    pub(super) way: &'static str,
    pub(super) helps: bool,
    /// The time with the fix divided by the time without it, and its interval.
    pub(super) ratio: Option<f64>,
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
    /// The ratio of the times in calls, if their difference was shown.
    pub(super) calls_ratio: Option<f64>,
    /// The figures in sentences.
    pub(super) lines: Vec<String>,
}

/// The most pairs of runs of a recreated stall.
const PAIRS: usize = 8;
/// If repeated calls take longer than this multiple of the recorded time, or so much less, fonio says so.
const MUCH_LONGER: f64 = 1.5;
/// The measured time of each slice of a trial on the machine in use.
const SLICE: Duration = Duration::from_secs(10);

impl Way {
    pub(super) fn of(seen: &Seen, choice: &Choice, arguments: &Cure) -> Result<Way> {
        if !arguments.command.is_empty() {
            return Way::prove(choice, arguments);
        }
        let not = match &choice.how {
            How::Database { file } => {
                return Ok(Way::None {
                    why: format!(
                        "The setting stays in {}, so it is tried with a command on a copy: fonio cure -- COMMAND",
                        file.display()
                    ),
                });
            }
            How::Setting { .. } | How::Unit { .. } | How::IoClass { .. } | How::Process { .. } => {
                match Way::recreate(seen, choice) {
                    Ok(way) => return Ok(way),
                    Err(error) => format!("{error:#}"),
                }
            }
        };
        match &choice.how {
            How::Setting { planned, .. } | How::Unit { planned } | How::Process { planned } => {
                if let Some(reason) = planned.target.cannot_switch() {
                    return Ok(Way::None {
                        why: format!("It cannot be tried while the machine is in use: {reason}."),
                    });
                }
                let write_back = WriteBack::of_machine()?;
                let carry_over =
                    if planned.target.disk().is_some() { write_back.interval } else { write_back.longest() };
                let plan = LivePlan {
                    version: LivePlan::VERSION,
                    fix: choice.name.clone(),
                    setting: (**planned).clone(),
                    unit: arguments.unit.clone(),
                    slice_s: SLICE.as_secs_f64(),
                    carry_over_s: carry_over.as_secs_f64(),
                    order_seed: 1,
                };
                let pairs = u32::try_from(2 * PAIRS_MIN).unwrap_or(u32::MAX);
                let lasting = plan.pair_time() * pairs + Duration::from_secs(30);
                Ok(Way::Live { plan: Box::new(plan), lasting, why: not })
            }
            _ => Ok(Way::None { why: format!("It cannot be tried: {not}.") }),
        }
    }

    fn recreate(seen: &Seen, choice: &Choice) -> Result<Way> {
        let diagnosis = seen.analysis.diagnosis.as_ref().context("no program waited")?;
        let name = diagnosis.program.as_deref().context("no program waited")?;
        let victim = Program { name, unit: diagnosis.unit.as_deref() };
        let culprit = diagnosis
            .culprit
            .as_deref()
            .map(|name| Program { name, unit: diagnosis.culprit_unit.as_deref() });
        let class = choice.io_class();
        let limit = choice.is_limit().then(|| limit_of(seen, choice)).transpose()?.map(Box::new);
        if matches!(choice.how, How::Unit { .. } | How::Process { .. }) && class.is_none() && limit.is_none()
        {
            bail!("the setting acts only on the processes of the unit");
        }
        let limits = SceneLimits { from: seen.from, ..SceneLimits::DEFAULT };
        let scene = Scene::of_recording(&seen.recording, victim, culprit, limits)?;
        let has_culprit = scene.has_culprit() || scene.written_back() > ByteCount(0);
        if class.is_some() && !scene.has_culprit() || limit.is_some() && !has_culprit {
            bail!("the recording has no calls of the program in the way");
        }
        let pids = match &choice.how {
            How::IoClass { pids } => pids.clone(),
            How::Unit { .. } if seen.is_new => slowed::processes(seen, "")?.pids,
            _ => Vec::new(),
        };
        let folder = folder_on(&scene).context("the file system of the stall has no folder for the trial")?;
        let copy = Copy::in_the_way(seen).filter(|_| seen.is_new);
        let paused = copy.map(|copy| copy.pids).unwrap_or_default();
        Ok(Way::Recreate { scene: Box::new(scene), folder, pids, paused, limit })
    }

    fn prove(choice: &Choice, arguments: &Cure) -> Result<Way> {
        let on = match &choice.how {
            How::Setting { path: Some(path), .. } if path.is_dir() => path.clone(),
            _ => std::env::current_dir().context("cannot find the current folder")?,
        };
        let mut words = ["fix", "prove", &choice.name, "--on"].map(str::to_owned).to_vec();
        words.push(on.display().to_string());
        if let How::Database { file } = &choice.how {
            words.extend(["--database".to_owned(), file.display().to_string()]);
        }
        let command = arguments.command.iter().map(|word| word.to_string_lossy().into_owned());
        Ok(Way::Prove { words, command: command.collect() })
    }

    pub(super) fn can_be_tried(&self) -> bool {
        !matches!(self, Way::None { .. })
    }

    pub(super) fn lines(&self, choice: &Choice) -> Vec<String> {
        match self {
            Way::Recreate { scene, folder, paused, limit, .. } => {
                let runs = 1 + 2 * PAIRS_MIN;
                let most = 1 + 2 * PAIRS;
                let seconds = scene.span.as_secs_f64() * 1.5;
                let written_back = scene.written_back();
                let mut lines = vec![
                    format!(
                        "The calls of {:.0} s of the recording are repeated below {}, {runs} to {most} times, with and \
                         without {}.",
                        scene.span.as_secs_f64(),
                        folder.display(),
                        choice.name
                    ),
                    format!(
                        "Each time writes at most {}; the trial takes about {}. Nobody's data is touched.",
                        output::bytes(scene.bytes),
                        Unit::S.format((runs as f64 * seconds).round())
                    ),
                ];
                let named: Vec<String> = paused.iter().map(|pid| format!("process {pid}")).collect();
                if !named.is_empty() {
                    lines.push(format!(
                        "For this time, the program in the way is stopped ({}, with all that it started); then it goes on.",
                        named.join(", ")
                    ));
                }
                if written_back > ByteCount(0) {
                    lines.push(format!(
                        "{} of this are data that the kernel wrote back in the recording; they are written back at the same \
                         times{}.",
                        output::bytes(written_back),
                        if limit.is_some() { ", but with the limit only as much as it allows" } else { "" }
                    ));
                }
                lines
            }
            Way::Live { plan, lasting, why } => [
                format!("The stall is not repeated: {why}."),
                format!(
                    "{} is switched between {} and {} while the machine does its work, for at most {}.",
                    plan.setting.target,
                    plan.setting.old,
                    plan.setting.new,
                    Unit::S.format(lasting.as_secs_f64())
                ),
            ]
            .into_iter()
            .chain(
                // `fonio fix trial` takes no process.
                (!matches!(choice.how, How::Process { .. }))
                    .then(|| format!("The same by hand: fonio fix trial {}", choice.words[2..].join(" "))),
            )
            .collect(),
            Way::Prove { words, command } => {
                vec![format!("fonio {} -- {}", output::joined(words), output::joined(command))]
            }
            Way::None { why } => vec![why.clone()],
        }
    }

    /// Tries the fix. Afterwards, the machine is as before.
    pub(super) fn perform(self, choice: &Choice, stop: &AtomicBool) -> Result<Attempt> {
        match self {
            Way::Recreate { scene, folder, pids, paused, limit } => {
                let change = match (&choice.how, choice.io_class(), &limit) {
                    (_, Some(class), _) => RecreateChange::IoClass { class, pids: &pids },
                    (_, _, Some(setting)) => RecreateChange::Limit {
                        setting,
                        command: &apart()?,
                        is_grouped: paused.iter().any(|pid| is_io_group(*pid)),
                    },
                    (How::Setting { planned, .. }, ..) => RecreateChange::Setting(planned),
                    _ => bail!("{} is not tried on repeated calls", choice.name),
                };
                let options =
                    RecreateOptions { folder: &folder, paused: &paused, pairs: PAIRS, seed: 1, stop };
                recreated(&scene, change, &options, choice)
            }
            Way::Live { plan, lasting, .. } => live(&plan, lasting, stop),
            Way::Prove { words, command } => {
                let proof = proof_directory(None)?;
                let output = ["--output".to_owned(), proof.display().to_string(), "--".to_owned()];
                proved(choice, &[&words[..], &output, &command].concat(), &proof)
            }
            Way::None { why } => bail!("{why}"),
        }
    }
}

/// Returns a folder on the file system of a scene: the folder for temporary files that survive a reboot, or the mount
/// point.
fn folder_on(scene: &Scene) -> Option<PathBuf> {
    let is_on =
        |folder: &Path| fs::metadata(folder).is_ok_and(|found| from_dev(found.dev()) == scene.filesystem);
    let temporary = Path::new("/var/tmp");
    if is_on(temporary) {
        return Some(temporary.to_owned());
    }
    MountTable::read().ok()?.iter().map(|mount| mount.dir.clone()).find(|dir| is_on(dir))
}

/// Returns the limit of a fix on the disk of the stall.
fn limit_of(seen: &Seen, choice: &Choice) -> Result<Setting> {
    let setting =
        Candidate::parse(&choice.name)?.setting().context("the limit is not a setting of this machine")?;
    let copy = Copy::in_the_way(seen).context("the copy has ended")?;
    let disk = copy.device.name.as_deref().context("the disk has no name")?;
    Ok(setting.on_disk_of(&Path::new("/dev").join(disk))?)
}

fn recreated(
    scene: &Scene,
    change: RecreateChange<'_>,
    options: &RecreateOptions<'_>,
    choice: &Choice,
) -> Result<Attempt> {
    let spent = |run: &RecreatedRun| Unit::S.format(run.victim.in_calls.as_secs_f64());
    let mut pairs = 1..=PAIRS;
    let result = recreate(scene, change, options, &mut |progress| match progress {
        RecreateProgress::First(run) => say!(
            "as it was: {} in calls (in the recording {}), the longest {}",
            spent(run),
            Unit::S.format(scene.recorded.in_calls.as_secs_f64()),
            Unit::S.format(run.victim.longest.as_secs_f64())
        ),
        RecreateProgress::Pair(without, with) => say!(
            "pair {}: {} in calls without the fix, {} with it",
            pairs.next().unwrap_or_default(),
            spent(without),
            spent(with)
        ),
        _ => {}
    })?;
    Ok(of_recreated(&result, choice))
}

fn of_recreated(result: &Recreated, choice: &Choice) -> Attempt {
    let time = |seconds: f64| Unit::S.format(seconds);
    let recorded = &result.recorded;
    if !result.is_like_recorded() {
        return Attempt {
            fix: choice.name.clone(),
            way: "recreated",
            helps: false,
            ratio: None,
            low: None,
            high: None,
            calls_ratio: None,
            lines: vec![format!(
                "The stall did not come back: the repeated calls took {}, in the recording {}. So nothing is shown.",
                time(result.first.victim.in_calls.as_secs_f64()),
                time(recorded.in_calls.as_secs_f64())
            )],
        };
    }
    let mut lines = vec![format!(
        "{:<34} {:>12} {:>12} {:>12}",
        "medians of the repeated stall", "recorded", "without", "with the fix"
    )];
    let mut row =
        |what: &str, recorded: String, figures: Option<(f64, f64)>, text: &dyn Fn(f64) -> String| {
            if let Some((without, with)) = figures {
                lines.push(format!("{what:<34} {recorded:>12} {:>12} {:>12}", text(without), text(with)));
            }
        };
    row(
        "longest call",
        time(recorded.longest.as_secs_f64()),
        result.medians(|run| Some(run.victim.longest.as_secs_f64())),
        &time,
    );
    row(
        "time in calls, in all threads",
        time(recorded.in_calls.as_secs_f64()),
        result.medians(|run| Some(run.victim.in_calls.as_secs_f64())),
        &time,
    );
    row(
        "rate of the program in the way",
        "–".to_owned(),
        result.medians(RecreatedRun::culprit_rate),
        &|rate| Unit::BytesPerS.format(rate),
    );
    lines.push(format!(
        "{} Time in calls: {}. Longest calls: {}.",
        opening(result),
        ratio(&result.paired),
        ratio(&result.longest)
    ));
    let times = result.first.victim.in_calls.as_secs_f64() / recorded.in_calls.as_secs_f64();
    if !(MUCH_LONGER.recip()..=MUCH_LONGER).contains(&times) {
        lines.push(format!(
            "The repeated calls take {times:.1} times as long as the recorded ones, so the gain in daily use can differ."
        ));
    }
    // The figure that shows something is the one that is remembered.
    let shown = if result.paired.answer.is_claimed() { &result.paired } else { &result.longest };
    let Paired { ratio, low, high, .. } = *shown;
    Attempt {
        fix: choice.name.clone(),
        way: "recreated",
        helps: result.helps(),
        ratio,
        low,
        high,
        calls_ratio: result.paired.ratio.filter(|_| result.paired.answer.is_claimed()),
        lines,
    }
}

/// Says what the pairs show.
fn opening(result: &Recreated) -> String {
    let pairs = result.pairs.len();
    let answers = [result.paired.answer, result.longest.answer];
    if result.helps() {
        format!("It helps, in {pairs} pairs of runs.")
    } else if answers.contains(&PairedAnswer::Higher) {
        format!("It makes things worse, in {pairs} pairs of runs.")
    } else if answers == [PairedAnswer::LittleDifference; 2] {
        format!("It changes little, in {pairs} pairs of runs.")
    } else {
        format!("{pairs} pairs of runs do not show whether it helps.")
    }
}

/// Returns the ratio of a figure with its interval, in words.
fn ratio(paired: &Paired) -> String {
    let Some(ratio) = paired.ratio else { return "unknown".to_owned() };
    let interval = match (paired.low, paired.high) {
        (Some(low), Some(high)) => format!(" ({low:.2} to {high:.2})"),
        _ => String::new(),
    };
    format!("{ratio:.2} times as long with the fix{interval}")
}

fn live(plan: &LivePlan, lasting: Duration, stop: &AtomicBool) -> Result<Attempt> {
    let folder = proof_directory(None)?;
    let options = LiveOptions { lasting, folder: &folder, stop };
    let outcome = run_live(plan, &options, &mut |progress| fixes::tell_live(plan, &progress))?;
    if let Ended::Error(error) = outcome.ended {
        return Err(error).context("the trial ended early");
    }
    let mut lines = vec![outcome.result.verdict.clone()];
    if let (Some(without), Some(with)) = (&outcome.result.without, &outcome.result.with) {
        lines.push(format!(
            "Waits of at least 100 ms, per minute: {:.1} without the fix, {:.1} with it.",
            without.long_per_min, with.long_per_min
        ));
    }
    lines.push(format!("The slices are in {}.", folder.display()));
    let Paired { ratio, low, high, answer, .. } = outcome.result.paired;
    Ok(Attempt {
        fix: plan.fix.clone(),
        way: "live",
        helps: answer == PairedAnswer::Lower,
        ratio,
        low,
        high,
        // A slice measures blocked time, as the recording does.
        calls_ratio: ratio.filter(|_| answer.is_claimed()),
        lines,
    })
}

/// Runs `fonio fix prove`, and reads its result.
fn proved(choice: &Choice, words: &[String], results: &Path) -> Result<Attempt> {
    let cli = Cli::try_parse_from(["fonio".to_owned()].iter().chain(words))
        .context("the proof cannot be started")?;
    let Some(Command::Fix(arguments)) = cli.command else {
        bail!("the words are not those of `fonio fix prove`")
    };
    let fix::FixCommand::Prove(_) = arguments.command.as_ref().context("no command")? else {
        bail!("the words are not those of `fonio fix prove`")
    };
    fixes::run(&arguments, Colour::Auto)?;
    let summary = results.join("summary.json");
    let text = fs::read(&summary).with_context(|| format!("cannot read {}", summary.display()))?;
    let series: fonio_experiment::Series =
        serde_json::from_slice(&text).with_context(|| format!("cannot understand {}", summary.display()))?;
    let tried = series.variations.last().context("the proof has no result")?;
    let change = tried.times.change.as_ref();
    let (ratio, low, high) = match change {
        Some(change) => (change.ratio, change.low, change.high),
        None => (None, None, None),
    };
    Ok(Attempt {
        fix: choice.name.clone(),
        way: "command",
        helps: high.is_some_and(|high| high < 1.0),
        ratio,
        low,
        high,
        calls_ratio: None,
        lines: vec![format!("The runs are in {}.", results.display())],
    })
}
