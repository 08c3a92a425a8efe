//! `fonio fix`: lists the fixes; applies and undoes those that are settings of the machine.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use fonio_experiment::{Candidate, FIXES, Fix as Listed, Real};
use fonio_host::{Applied, Ledger, Settings, Undone};
use serde::Serialize;

use crate::cli::Colour;
use crate::cli::run::Fix;
use crate::commands::run;
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
    /// Where to put a line that makes the setting permanent, and the line.
    #[serde(skip_serializing_if = "Option::is_none")]
    permanent: Option<(String, String)>,
}

/// Lists the fixes, proves them, applies one or undoes them.
pub fn run(arguments: &Fix, colour: Colour) -> Result<Exit> {
    if let Some(workload) = &arguments.prove {
        return run::prove(workload, arguments, colour);
    }
    if arguments.undo {
        return undo(arguments);
    }
    match (&arguments.name, &arguments.apply) {
        (Some(change), Some(path)) => apply(change, path, arguments),
        _ => list(arguments),
    }
}

/// Returns the fixes that the flags leave.
pub(super) fn wanted(arguments: &Fix) -> impl Iterator<Item = &'static Listed> {
    let (safe, no_hardware) = (arguments.safe, arguments.no_hardware);
    FIXES.iter().filter(move |fix| (!safe || fix.loses.is_safe()) && !(no_hardware && fix.needs_hardware))
}

fn listed(change: &Candidate) -> Result<&'static Listed> {
    match change {
        Candidate::Listed(fix) => Ok(*fix),
        Candidate::Device(_) => bail!("a device cannot be applied; it has to be replaced"),
    }
}

fn apply(change: &Candidate, path: &Path, arguments: &Fix) -> Result<Exit> {
    let fix = listed(change)?;
    let setting = match fix.real {
        Real::Setting(setting) => setting(),
        Real::ByHand(how) => {
            bail!("{} is not a setting of this machine. {how} {}", fix.name, fix.loses.sentence())
        }
    };
    let planned = Settings::plan(&setting, path)?;
    let (place, line) = planned.target.permanent(&planned.new);
    let mut brings_back = None;
    if !arguments.dry_run {
        brings_back = Some(open()?.apply(&planned).with_context(needs_root)?);
    }
    let mut out = io::stdout().lock();
    if arguments.setup.json {
        let outcome = if arguments.dry_run { "would_apply" } else { "applied" };
        return json(
            &mut out,
            &[Done { outcome, setting: &planned, now: None, permanent: Some((place, line)) }],
        );
    }
    let Applied { target, old, new } = &planned;
    writeln!(out, "{}{target}: {old} -> {new}", if arguments.dry_run { "Would set " } else { "Set " })?;
    writeln!(out, "{}", fix.loses.sentence())?;
    writeln!(out, "It lasts until the next boot. To make it permanent, {place}:\n  {line}")?;
    if let Some(brings_back) = brings_back {
        writeln!(out, "Next: `fonio fix {} --undo` restores {brings_back}.", fix.name)?;
    }
    Ok(Exit::Fine)
}

fn undo(arguments: &Fix) -> Result<Exit> {
    let mut settings = open()?;
    let wanted = match &arguments.name {
        Some(change) => {
            let fix = listed(change)?;
            let setting = fix.real.setting();
            let setting =
                setting.with_context(|| format!("{} is not a setting of this machine", fix.name))?;
            Some((fix.name, setting))
        }
        None => None,
    };
    let chosen: Vec<Applied> = settings
        .applied()
        .iter()
        .filter(|applied| wanted.as_ref().is_none_or(|(_, setting)| setting.is_in_force_as(applied)))
        .cloned()
        .collect();
    if chosen.is_empty() {
        let what = wanted.map_or("no fix is".to_owned(), |(name, _)| format!("{name} is not"));
        bail!("{what} applied here; settings, and fonio's record of them, last until the next boot");
    }
    let mut done = Vec::new();
    for applied in &chosen {
        let undone =
            if arguments.dry_run { None } else { Some(settings.undo(applied).with_context(needs_root)?) };
        let (outcome, now) = match undone {
            None => ("would_restore", None),
            Some(Undone::Restored) => ("restored", None),
            Some(Undone::NothingLeft) => ("nothing_left", None),
            Some(Undone::ChangedSince(now)) => ("changed_since", Some(now)),
        };
        done.push(Done { outcome, setting: applied, now, permanent: None });
    }
    let all_undone = done.iter().all(|done| done.now.is_none());
    let mut out = io::stdout().lock();
    if arguments.setup.json {
        json(&mut out, &done)?;
    } else {
        for done in &done {
            writeln!(out, "{}", sentence(done))?;
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
        _ => format!("Nothing to restore: {target} is already {old}, or does not exist any more."),
    }
}

fn json(out: &mut impl Write, done: &[Done<'_>]) -> Result<Exit> {
    writeln!(out, "{}", serde_json::to_string_pretty(done)?)?;
    Ok(Exit::Fine)
}

fn open() -> Result<Settings> {
    Settings::open(&Ledger::default_dir()).with_context(|| "cannot record the previous settings".to_owned())
}

fn needs_root() -> String {
    "changing settings needs root: run it with sudo".to_owned()
}

fn list(arguments: &Fix) -> Result<Exit> {
    let one = arguments.name.as_ref().map(Candidate::name);
    let mut out = io::stdout().lock();
    for fix in wanted(arguments).filter(|fix| one.as_deref().is_none_or(|name| name == fix.name)) {
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
        "\nNext: `fonio fix NAME --prove WORKLOAD --on PLACE` measures the gain; `fonio fix NAME --apply PATH` applies the fix."
    )?;
    Ok(Exit::Fine)
}
