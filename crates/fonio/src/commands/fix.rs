//! `fonio fix`: lists the fixes; applies, keeps and undoes those that are settings of the machine.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use fonio_experiment::{Candidate, FIXES, Fix as Listed, Real};
use fonio_host::{
    Applied, HostError, Keeper, Kept, KeptFiles, Ledger, OnlyChanger, Setting, Settings, Target, Undone,
};
use serde::Serialize;

use crate::cli::Colour;
use crate::cli::run::Fix;
use crate::commands::{live, run};
use crate::exit::Exit;

/// A setting that was applied or restored, for `--json`.
#[derive(Serialize)]
struct Done<'a> {
    /// `applied`, `restored`, `nothing_left`, `changed_since`, or with --dry-run `would_apply`, `would_restore`.
    outcome: &'a str,
    #[serde(flatten)]
    setting: &'a Applied,
    /// The current value, if somebody else has changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<String>,
    /// The file that keeps the setting across reboots, and its lines or option; on undoing, those that are taken out.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<(String, Vec<String>)>,
}

/// Lists the fixes, proves them, applies one or undoes them.
pub fn run(arguments: &Fix, colour: Colour) -> Result<Exit> {
    if arguments.live.live {
        return live::run(arguments);
    }
    match (&arguments.prove, arguments.arguments.is_empty()) {
        (Some(_), false) => return run::prove_command(arguments, colour),
        (Some(workload), true) => {
            ensure!(
                !workload.is_empty(),
                "--prove needs a workload (`fonio run` lists them), or a command after `--`"
            );
            return run::prove(workload, arguments, colour);
        }
        (None, _) => {}
    }
    if arguments.undo {
        return undo(arguments);
    }
    match (&arguments.name, &arguments.apply, &arguments.keep) {
        (Some(change), Some(path), _) => apply(change, path.as_deref(), false, arguments),
        (Some(change), None, Some(path)) => apply(change, path.as_deref(), true, arguments),
        _ => list(arguments),
    }
}

/// Returns the fixes that the flags leave.
pub(super) fn wanted(arguments: &Fix) -> impl Iterator<Item = &'static Listed> {
    let (safe, no_hardware) = (arguments.safe, arguments.no_hardware);
    FIXES.iter().filter(move |fix| (!safe || fix.loses.is_safe()) && !(no_hardware && fix.needs_hardware))
}

/// Returns the setting of a candidate, or an error that says how it is made by hand.
pub(super) fn setting(change: &Candidate) -> Result<(&'static Listed, Setting)> {
    let Some(fix) = change.fix() else { bail!("a device cannot be applied; it has to be replaced") };
    match (change.setting(), fix.real) {
        (Some(setting), _) => Ok((fix, setting)),
        (None, Real::ByHand(how)) => {
            bail!("{} is not a setting of this machine. {how} {}", fix.name, fix.loses.sentence())
        }
        (None, Real::Setting(_)) => bail!("{} needs a value", fix.name),
    }
}

fn apply(change: &Candidate, path: Option<&Path>, keep: bool, arguments: &Fix) -> Result<Exit> {
    let (fix, setting) = setting(change)?;
    ensure!(
        setting.is_of_machine() || path.is_some(),
        "{} is a setting of one device or mount: name it, or a folder on it, such as `fonio fix {} --{} /mnt/sd`",
        change.name(),
        change.name(),
        if keep { "keep" } else { "apply" }
    );
    let path = path.unwrap_or(Path::new("/"));
    if !arguments.dry_run {
        run::recover()?;
    }
    let planned = Settings::plan_or_current(&setting, path)?;
    let is_new = planned.old != planned.new;
    if !keep && !is_new {
        return Err(Settings::plan(&setting, path).expect_err("it is in force").into());
    }
    let mut kept = None;
    let mut brings_back = planned.old.clone();
    if arguments.dry_run {
        if keep {
            kept = Some(open_keeper()?.plan(&planned)?);
        }
    } else {
        let _only = only(&planned.target)?;
        // A test may have ended between the plan and the lock.
        planned.expect_old()?;
        let (mut settings, mut keeper) = (open()?, open_keeper()?);
        // What was there before the first change, however often it was changed since.
        let first = |applied: &Applied| (applied.target == planned.target).then(|| applied.old.clone());
        let before = keeper.kept().iter().find_map(|kept| first(&kept.applied));
        let before = before.or_else(|| settings.applied().iter().find_map(first));
        brings_back = before.unwrap_or(brings_back);
        let from = Applied { old: brings_back.clone(), ..planned.clone() };
        if keep {
            keeper.plan(&from)?;
        }
        if is_new {
            settings.apply(&planned).with_context(hint)?;
        }
        if keep {
            kept = Some(keeper.keep(&from).with_context(hint).inspect_err(|_| {
                // The error says why; nothing stays changed.
                if is_new && settings.applied().contains(&planned) {
                    let _ = settings.undo(&planned);
                }
            })?);
        }
    }
    let place = kept.as_ref().map(place);
    let mut out = io::stdout().lock();
    if arguments.setup.json {
        let outcome = if arguments.dry_run { "would_apply" } else { "applied" };
        return json(&mut out, &[Done { outcome, setting: &planned, now: None, kept: place }]);
    }
    let Applied { target, old, new } = &planned;
    let would = if arguments.dry_run { "Would set " } else { "Set " };
    if is_new {
        writeln!(out, "{would}{target}: {old} -> {new}")?;
    } else {
        writeln!(out, "{target} is {new} already.")?;
    }
    if let Some((file, lines)) = &place {
        writeln!(out, "{} {file}:", if arguments.dry_run { "Would add to" } else { "Added to" })?;
        lines.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
    }
    writeln!(out, "{}", fix.loses.sentence())?;
    let name = change.name();
    let to = if setting.is_of_machine() { String::new() } else { format!(" {}", path.display()) };
    match (keep, arguments.dry_run) {
        (false, true) => writeln!(out, "It would last until the next boot.")?,
        (false, false) => writeln!(
            out,
            "It lasts until the next boot; `fonio fix {name} --keep{to}` keeps it.\nNext: `fonio fix {name} --undo` restores {brings_back}."
        )?,
        (true, true) => {}
        (true, false) => writeln!(out, "Next: `fonio fix {name} --undo` restores {brings_back}.")?,
    }
    Ok(Exit::Fine)
}

fn place(kept: &Kept) -> (String, Vec<String>) {
    let (file, lines) = kept.place(&KeptFiles::of_machine());
    (file.display().to_string(), lines)
}

fn undo(arguments: &Fix) -> Result<Exit> {
    if !arguments.dry_run {
        run::recover()?;
    }
    let (mut settings, mut keeper) = (open()?, open_keeper()?);
    let wanted = match &arguments.name {
        Some(change) => Some((change.name(), setting(change)?.1)),
        None => None,
    };
    // Without a value, `read-ahead` undoes whatever value was set.
    let has_value = matches!(&arguments.name, Some(Candidate::WithValue { .. }));
    let is_wanted = |applied: &Applied| match &wanted {
        None => true,
        Some((_, setting)) if has_value || matches!(setting, Setting::Scheduler(_)) => {
            setting.is_in_force_as(applied)
        }
        Some((_, setting)) => setting.is_of(&applied.target),
    };
    // After a reboot, only the record of kept settings is left.
    let kept: Vec<Kept> = keeper.kept().iter().filter(|kept| is_wanted(&kept.applied)).cloned().collect();
    let mut chosen: Vec<(Applied, bool)> = settings
        .applied()
        .iter()
        .filter(|applied| is_wanted(applied))
        .map(|applied| (applied.clone(), true))
        .collect();
    for kept in &kept {
        match chosen.iter_mut().find(|(applied, _)| applied.target == kept.applied.target) {
            // It was applied again after a reboot; what was there before is in the record of kept settings.
            Some((applied, _)) => applied.old.clone_from(&kept.applied.old),
            None => chosen.push((kept.applied.clone(), false)),
        }
    }
    // A scheduler that was set before a number of requests sets that number when it goes.
    chosen.reverse();
    if chosen.is_empty() {
        let what = wanted.map_or("no fix is".to_owned(), |(name, _)| format!("{name} is not"));
        bail!("nothing to undo: {what} applied here. Settings made with --apply end at the next boot");
    }
    let mut done = Vec::new();
    for (applied, is_on_record) in &chosen {
        let of_kept = kept.iter().find(|kept| kept.applied.target == applied.target);
        let is_here = of_kept.is_none_or(|kept| *is_on_record || keeper.is_same_disk(kept));
        let undone = if arguments.dry_run {
            applied.would_undo()?
        } else {
            let _only = only(&applied.target)?;
            if of_kept.is_some() {
                keeper.forget(&applied.target).with_context(hint)?;
            }
            match (is_here, is_on_record) {
                // Another disk has the name now.
                (false, _) => Undone::NothingLeft,
                (true, true) => settings.undo(applied).with_context(hint)?,
                (true, false) => applied.undo().with_context(hint)?,
            }
        };
        let (outcome, now) = match undone {
            Undone::Restored if arguments.dry_run => ("would_restore", None),
            Undone::Restored => ("restored", None),
            Undone::NothingLeft => ("nothing_left", None),
            Undone::ChangedSince(now) => ("changed_since", Some(now)),
        };
        done.push(Done { outcome, setting: applied, now, kept: of_kept.map(place) });
    }
    let all_undone = done.iter().all(|done| done.now.is_none());
    let mut out = io::stdout().lock();
    if arguments.setup.json {
        json(&mut out, &done)?;
    } else {
        for done in &done {
            writeln!(out, "{}", sentence(done))?;
            if let Some((file, lines)) = &done.kept {
                writeln!(
                    out,
                    "{} {file}:",
                    if arguments.dry_run { "Would take out of" } else { "Taken out of" }
                )?;
                lines.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
            }
        }
    }
    Ok(if all_undone { Exit::Fine } else { Exit::NotValid })
}

fn sentence(done: &Done<'_>) -> String {
    let Applied { target, old, new } = done.setting;
    match (done.outcome, &done.now) {
        ("would_restore", _) => format!("Would set {target}: {new} -> {old}"),
        ("restored", _) => format!("Set {target}: {new} -> {old}"),
        (_, Some(now)) => format!(
            "Left {target} unchanged: fonio had set {new}, but it is {now} now; before fonio it was {old}."
        ),
        _ => format!("Nothing to restore: {target}: {old} already, or gone."),
    }
}

fn json(out: &mut impl Write, done: &[Done<'_>]) -> Result<Exit> {
    writeln!(out, "{}", serde_json::to_string_pretty(done)?)?;
    Ok(Exit::Fine)
}

/// Refuses to change a setting that a test switches back and forth: its value would be taken for the user's own. No test
/// begins while the result exists.
fn only(target: &Target) -> Result<OnlyChanger> {
    match OnlyChanger::begin(&Ledger::default_dir(), target) {
        Err(error @ HostError::BeingTested { .. }) => Err(error.into()),
        only => only.with_context(hint),
    }
}

fn open() -> Result<Settings> {
    Settings::open(&Ledger::default_dir()).with_context(hint)
}

fn open_keeper() -> Result<Keeper> {
    Keeper::open(KeptFiles::of_machine()).with_context(hint)
}

pub(super) fn hint() -> String {
    if rustix::process::geteuid().is_root() {
        "the setting could not be changed".to_owned()
    } else {
        "changing settings needs root: run it with sudo".to_owned()
    }
}

fn list(arguments: &Fix) -> Result<Exit> {
    let one = arguments.name.as_ref().and_then(Candidate::fix).map(|fix| fix.name);
    let mut out = io::stdout().lock();
    for fix in wanted(arguments).filter(|fix| one.is_none_or(|name| name == fix.name)) {
        writeln!(out, "{:<14} {}", fix.name, fix.does)?;
        writeln!(out, "{:<14} {} Source: {}.", "", fix.loses.sentence(), fix.source)?;
        if one.is_some()
            && let Real::ByHand(how) = fix.real
        {
            writeln!(out, "{:<14} {how}", "")?;
        }
    }
    writeln!(
        out,
        "\nNext: `fonio fix NAME --prove WORKLOAD --on PLACE` or `fonio fix NAME --prove --on FOLDER -- COMMAND` measures the\ngain; `fonio fix NAME --apply PATH` applies the fix, and `--keep PATH` keeps it across reboots."
    )?;
    Ok(Exit::Fine)
}
