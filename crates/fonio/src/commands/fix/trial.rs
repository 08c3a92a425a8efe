//! Implements `fonio fix trial`, which tests a setting while the machine is in use.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fonio_core::Unit;
use fonio_experiment::{
    Ended, ExperimentError, LiveOptions, LiveOutcome, LivePlan, LiveProgress, LiveResult, OfArm,
    PressureShares, run_live,
};
use fonio_host::WriteBack;
use fonio_system::say;

use crate::cli::fix::FixTrial;
use crate::exit::Exit;
use crate::progress::{Done, Progress};
use crate::results::results_directory;
use crate::{output, signals};

/// Time added to the kernel's write-back delay, so that a slice includes all of the write-back. With the
/// kernel's default write-back times, the sum is 40 s.
const BESIDE_WRITE_BACK: Duration = Duration::from_secs(5);

const RESULTS: &str = "fonio-live";

pub fn run(arguments: &FixTrial) -> Result<Exit> {
    let candidate = &arguments.name;
    let (listed, setting) = super::setting(candidate).with_context(|| {
        format!("{} cannot be switched back and forth on a machine in use", candidate.name())
    })?;
    let earlier = earlier(arguments)?;
    let of_earlier = earlier.as_ref().map(|(_, plan)| plan);
    let path = arguments.target.clone().or_else(|| Some(of_earlier?.setting.target.path()));
    ensure!(
        setting.is_of_machine() || path.is_some(),
        "{} is a setting of one device or mount: name the device, or a folder on it, such as `fonio fix trial {} /mnt/sd`",
        candidate.name(),
        candidate.name()
    );
    ensure!(
        rustix::process::geteuid().is_root(),
        "recording and changing settings need root: run it with sudo"
    );
    let stop = signals::begin()?;
    let planned = setting.plan(path.as_deref().unwrap_or(Path::new("/")))?;
    if let Some(reason) = planned.target.cannot_switch() {
        bail!("{} cannot be switched back and forth on a machine in use: {reason}", candidate.name());
    }
    let write_back = WriteBack::of_machine()?;
    let default_carry_over =
        if planned.target.disk().is_some() { write_back.interval } else { write_back.longest() };
    let seconds = |given: Option<Duration>, of_earlier: Option<f64>, default: Duration| {
        given.map(|time| time.as_secs_f64()).or(of_earlier).unwrap_or(default.as_secs_f64())
    };
    let plan = LivePlan {
        version: LivePlan::VERSION,
        fix: candidate.name(),
        setting: planned,
        unit: arguments.unit.clone().or_else(|| of_earlier?.unit.clone()),
        slice_s: seconds(
            arguments.slice,
            of_earlier.map(|plan| plan.slice_s),
            write_back.longest() + BESIDE_WRITE_BACK,
        ),
        carry_over_s: seconds(
            arguments.carry_over,
            of_earlier.map(|plan| plan.carry_over_s),
            default_carry_over,
        ),
        order_seed: of_earlier
            .map_or_else(|| arguments.seed.unwrap_or_else(new_seed), |plan| plan.order_seed),
    };
    let folder = match earlier {
        Some((folder, _)) => folder,
        None => results_directory(arguments.out.as_deref(), RESULTS)?,
    };
    say!(
        "Switching {} between {} and {}, for at most {}. Each slice is measured for {}, starting {} after a \
         switch; the seed of the random order is {}. Slices go to {}.",
        plan.setting.target,
        plan.setting.old,
        plan.setting.new,
        Unit::S.format(arguments.lasting.as_secs_f64()),
        Unit::S.format(plan.slice_s),
        Unit::S.format(plan.carry_over_s),
        plan.order_seed,
        folder.display()
    );
    let options = LiveOptions { lasting: arguments.lasting, folder: &folder, stop: &stop };
    let shown = Progress::of("Testing, slice 1", Done::Lasting(arguments.lasting));
    let outcome = run_live(&plan, &options, &mut |progress| {
        if let LiveProgress::Slice { slice, .. } = &progress {
            shown.set(format!("Testing, slice {}", slice.number + 1), Done::Lasting(arguments.lasting));
        }
        tell(&plan, &progress);
    });
    drop(shown);
    let outcome = outcome.inspect_err(|_| {
        // Remove the output folder if it is new. Removing it fails if it contains slices.
        let _ = fs::remove_dir(&folder);
    })?;
    publish(outcome, arguments, &folder, listed.loses.sentence())
}

/// Returns the folder and the plan of the test to continue: the test named by `--resume`, or an unfinished
/// test in the output folder.
fn earlier(arguments: &FixTrial) -> Result<Option<(PathBuf, LivePlan)>> {
    let resume = arguments.resume.as_ref();
    let Some(folder) = resume.or(arguments.out.as_ref()) else { return Ok(None) };
    let plan = LivePlan::of_folder(folder)?;
    ensure!(plan.is_some() || resume.is_none(), "{} contains no test to continue", folder.display());
    Ok(plan.map(|plan| (folder.clone(), plan)))
}

/// Returns a seed that is independent of the machine's load. The seed is short because users type it.
fn new_seed() -> u64 {
    RandomState::new().build_hasher().finish() % 1_000_000
}

pub(in crate::commands) fn tell(plan: &LivePlan, progress: &LiveProgress<'_>) {
    match progress {
        LiveProgress::Slice { slice, blocked, left } => {
            let value = if slice.with_setting { &plan.setting.new } else { &plan.setting.old };
            say!(
                "slice {} (pair {}, {value}): blocked {} per second; at most {} left",
                slice.number,
                slice.pair,
                Unit::S.format(*blocked),
                Unit::S.format(left.as_secs_f64().round()),
            );
        }
        LiveProgress::Pair { paired } => {
            let bounds = match (paired.low, paired.high) {
                (None, None) => "too few pairs for an interval".to_owned(),
                (low, high) => {
                    let high = high.map_or_else(|| "any".to_owned(), |high| format!("{high:.2}"));
                    format!("{:.2} to {high}", low.unwrap_or(0.0))
                }
            };
            if let Some(ratio) = paired.ratio {
                let pairs = if paired.pairs == 1 { "pair" } else { "pairs" };
                say!(
                    "after {} {pairs}: blocked {ratio:.2} times as long with the setting ({bounds})",
                    paired.pairs
                );
            }
        }
        LiveProgress::Note(text) => say!("note: {text}"),
        _ => {}
    }
}

fn publish(outcome: LiveOutcome, arguments: &FixTrial, folder: &Path, loses: &str) -> Result<Exit> {
    let LiveOutcome { result, ended } = outcome;
    let mut out = output::screen();
    if arguments.json {
        output::json(&result)?;
    } else {
        show(&mut out, &result, folder, loses)?;
    }
    out.flush()?;
    match ended {
        Ended::Error(ExperimentError::Interrupted) => {
            say!(
                "Stopped; {} is {} again. Continue with `--resume {}`.",
                result.plan.setting.target,
                result.plan.setting.old,
                folder.display()
            );
            // The signal that ended the test determines the exit code.
            Ok(Exit::NotValid)
        }
        Ended::Error(error) => Err(error).context("the test ended early"),
        _ if result.paired.pairs == 0 => Ok(Exit::NotValid),
        _ => Ok(Exit::Fine),
    }
}

fn show(out: &mut impl Write, result: &LiveResult, folder: &Path, loses: &str) -> io::Result<()> {
    writeln!(out, "{}", result.verdict)?;
    if let (Some(without), Some(with)) = (&result.without, &result.with) {
        let setting = &result.plan.setting;
        writeln!(
            out,
            "\n{:<34} {:>14} {:>14}",
            "means of the valid pairs",
            setting_text(&setting.old),
            setting_text(&setting.new)
        )?;
        for (what, text) in ROWS {
            if let (Some(without), Some(with)) = (text(without), text(with)) {
                writeln!(out, "{what:<34} {without:>14} {with:>14}")?;
            }
        }
        writeln!(
            out,
            "The verdict above uses only the first line, compared within pairs; the other lines explain it."
        )?;
    }
    if result.slices_left_out > 0 {
        writeln!(out, "Slices left out: {}.", result.slices_left_out)?;
    }
    writeln!(out, "{loses}")?;
    writeln!(
        out,
        "\nSlices: {}; the same folder has a recording of each slice, for `fonio report`.",
        folder.join("slices.csv").display()
    )
}

/// Shortens the value of a setting to fit into a column heading.
fn setting_text(value: &str) -> String {
    let short: String = value.chars().take(14).collect();
    if short.len() < value.len() {
        format!("{}…", &value.chars().take(13).collect::<String>())
    } else {
        short
    }
}

/// The label of a table row, and the function that returns its value.
type Row = (&'static str, fn(&OfArm) -> Option<String>);

const ROWS: [Row; 6] = [
    ("blocked on storage, per second", |arm| Some(Unit::S.format(arm.blocked))),
    ("waits of at least 100 ms, per minute", |arm| Some(format!("{:.1}", arm.long_per_min))),
    ("I/O pressure, some", |arm| share(arm.machine_pressure, |pressure| pressure.some)),
    ("I/O pressure, full", |arm| share(arm.machine_pressure, |pressure| pressure.full)),
    ("I/O pressure in the unit, some", |arm| share(arm.unit_pressure, |pressure| pressure.some)),
    ("I/O pressure in the unit, full", |arm| share(arm.unit_pressure, |pressure| pressure.full)),
];

fn share(pressure: Option<PressureShares>, of: fn(PressureShares) -> Option<f64>) -> Option<String> {
    Some(Unit::Share.format(of(pressure?)?))
}
