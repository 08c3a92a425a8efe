//! `fonio fix apply`.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use fonio_experiment::Real;
use fonio_host::{Applied, Keeper, Kept, Scope, Setting, Settings, Trim};
use serde::Serialize;

use super::{Done, NEEDS_ROOT, Place, hint, json, list, only, open, open_keeper, places, setting};
use crate::cli::fix::FixApply;
use crate::commands::run;
use crate::exit::Exit;
use crate::output;

/// What was trimmed, for `--json`.
#[derive(Serialize)]
struct Trimmed<'a> {
    /// `trimmed` or `would_trim`.
    outcome: &'a str,
    dir: &'a Path,
    filesystem: &'a str,
    source: &'a str,
    /// With `would_trim`, the free space.
    bytes: u64,
}

/// Applies a fix, or with --keep applies and keeps it.
pub(super) fn apply(arguments: &FixApply) -> Result<Exit> {
    let (change, path, keep) = (&arguments.name, arguments.target.as_deref(), arguments.keep);
    let (fix, mut setting) = setting(change)?;
    if arguments.force {
        setting = setting.despite_writers();
    }
    let is_trim = matches!(fix.real, Real::Trim) && !keep;
    let scope = if is_trim { Scope::Mount } else { setting.scope() };
    ensure!(scope == Scope::Machine || path.is_some(), list::needs_path(&change.name(), scope, keep));
    let path = path.unwrap_or(Path::new("/"));
    if is_trim {
        return trim(path, arguments);
    }
    if !arguments.dry_run {
        ensure!(rustix::process::geteuid().is_root(), NEEDS_ROOT);
        run::recover()?;
    }
    let planned = Settings::plan_or_current(&setting, path)?;
    let is_new = planned.old != planned.new;
    let lasts = planned.target.lasts();
    let keep = (keep || lasts || planned.target.must_be_kept()) && (is_new || !lasts);
    if !keep && !is_new && !lasts {
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
        kept = if keep {
            Some(apply_and_keep(&mut settings, &mut keeper, &planned, &from)?)
        } else {
            if is_new {
                settings.apply(&planned).with_context(hint)?;
            }
            None
        };
    }
    let kept_in: Vec<Place> = kept.iter().flat_map(places).collect();
    let mut out = io::stdout().lock();
    if arguments.json {
        let outcome = if arguments.dry_run { "would_apply" } else { "applied" };
        return json(&mut out, &[Done { outcome, setting: &planned, now: None, kept: kept_in }]);
    }
    let Applied { target, old, new } = &planned;
    let would = if arguments.dry_run { "Would set " } else { "Set " };
    if is_new {
        writeln!(out, "{would}{target}: {old} -> {new}")?;
    } else {
        writeln!(out, "{target} is {new} already.")?;
    }
    if let Some(how) = setting.fitted_to(&planned) {
        writeln!(out, "Note: {how}.")?;
    }
    for Place { file, lines } in &kept_in {
        let added = if arguments.dry_run { "Would add to" } else { "Added to" };
        writeln!(out, "{added} {}:", file.display())?;
        lines.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
    }
    writeln!(out, "{}", fix.loses.sentence())?;
    if lasts && !is_new {
        return Ok(Exit::Fine);
    }
    if let Some(remains) = setting.remains_to_do(path) {
        writeln!(out, "{remains}")?;
    }
    if keep && kept_in.is_empty() && !arguments.dry_run {
        writeln!(out, "It outlasts reboots by itself.")?;
    }
    let name = change.name();
    let to = if setting.is_of_machine() { String::new() } else { format!(" {}", path.display()) };
    match (keep, arguments.dry_run) {
        (false, true) => writeln!(out, "It would last until the next boot.")?,
        (false, false) => writeln!(
            out,
            "It lasts until the next boot; `fonio fix apply {name}{to} --keep` keeps it.\nNext: `fonio fix undo {name}` restores {brings_back}."
        )?,
        (true, true) => {}
        (true, false) => writeln!(out, "Next: `fonio fix undo {name}` restores {brings_back}.")?,
    }
    Ok(Exit::Fine)
}

/// Applies and keeps a setting; if one of both fails, neither stays.
fn apply_and_keep(
    settings: &mut Settings,
    keeper: &mut Keeper,
    planned: &Applied,
    from: &Applied,
) -> Result<Kept> {
    let is_new = planned.old != planned.new;
    keeper.plan(from)?;
    if planned.target.lasts() {
        // The record that outlasts a reboot comes first, as the change does too.
        let kept = keeper.keep(from).with_context(hint)?;
        if is_new {
            settings.apply(planned).with_context(hint).inspect_err(|_| {
                // The error says why; nothing stays on record.
                let _ = keeper.forget(&planned.target);
            })?;
        }
        return Ok(kept);
    }
    if is_new {
        settings.apply(planned).with_context(hint)?;
    }
    keeper.keep(from).with_context(hint).inspect_err(|_| {
        // The error says why; nothing stays changed.
        if is_new && settings.applied().contains(planned) {
            let _ = settings.undo(planned);
        }
    })
}

/// Applies a setting until the next boot, unless it is in force already: `old` and `new` are then equal.
pub fn apply_now(setting: &Setting, path: &Path) -> Result<Applied> {
    run::recover()?;
    let planned = Settings::plan_or_current(setting, path)?;
    if planned.old != planned.new {
        let _only = only(&planned.target)?;
        // A test may have ended between the plan and the lock.
        planned.expect_old()?;
        open()?.apply(&planned).with_context(hint)?;
    }
    Ok(planned)
}

fn trim(path: &Path, arguments: &FixApply) -> Result<Exit> {
    let Trim { dir, filesystem, source, bytes } = if arguments.dry_run {
        fonio_host::trim_plan(path)?
    } else {
        fonio_host::trim(path).with_context(hint)?
    };
    let mut out = io::stdout().lock();
    if arguments.json {
        let outcome = if arguments.dry_run { "would_trim" } else { "trimmed" };
        let (filesystem, source) = (filesystem.as_str(), source.as_str());
        return json(&mut out, &Trimmed { outcome, dir: &dir, filesystem, source, bytes: bytes.0 });
    }
    let (of, bytes) = (format!("{} ({filesystem} on {source})", dir.display()), output::bytes(bytes));
    if arguments.dry_run {
        writeln!(out, "Would trim {of}, which has {bytes} free.")?;
        return Ok(Exit::Fine);
    }
    writeln!(out, "Trimmed {bytes} of {of}: the device now knows that they hold no data.")?;
    writeln!(
        out,
        "This cannot be undone, and loses no data. Next: `fonio fix apply fstrim --keep` trims weekly, if systemd has fstrim.timer."
    )?;
    Ok(Exit::Fine)
}
