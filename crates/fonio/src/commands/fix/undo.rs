//! `fonio fix undo`.

use std::io::{self, Write};

use anyhow::{Context, Result, bail};
use fonio_experiment::Candidate;
use fonio_host::{Applied, Kept, Setting, Settings, Undone};

use super::{Done, Place, hint, json, only, open, open_keeper, places, setting};
use crate::cli::fix::FixUndo;
use crate::commands::run;
use crate::exit::Exit;

/// Restores what was there before, and takes kept settings out of the files.
pub(super) fn undo(arguments: &FixUndo) -> Result<Exit> {
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
    // The target as the ledger has it: /dev/mmcblk0 for a folder on it.
    let only_at = match (&wanted, &arguments.target) {
        (Some((_, setting)), Some(target)) => Some(Settings::plan_or_current(setting, target)?.target),
        _ => None,
    };
    let is_here = |applied: &Applied| only_at.as_ref().is_none_or(|target| *target == applied.target);
    let is_named = |applied: &Applied| match &wanted {
        None => true,
        Some((_, setting)) if has_value || matches!(setting, Setting::Scheduler(_)) => {
            setting.is_in_force_as(applied)
        }
        Some((_, setting)) => setting.is_of(&applied.target),
    };
    let is_wanted = |applied: &Applied| is_here(applied) && is_named(applied);
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
        bail!("nothing to undo: {what} applied here. Settings that were not kept end at the next boot");
    }
    let mut done = Vec::new();
    for (applied, is_on_record) in &chosen {
        let of_kept = kept.iter().find(|kept| kept.applied.target == applied.target);
        let is_here = of_kept.is_none_or(|kept| *is_on_record || keeper.is_same_disk(kept));
        // Files that keep a setting can be what puts it in force.
        let mut undone = applied.would_undo()?;
        if !is_here {
            // Another disk has the name now.
            undone = Undone::NothingLeft;
        }
        if is_here {
            applied.check_undo()?;
        }
        if !arguments.dry_run {
            let _only = only(&applied.target)?;
            let is_first = applied.target.is_restored_first();
            if of_kept.is_some() && !is_first {
                keeper.forget(&applied.target).with_context(hint)?;
            }
            if is_here {
                settings.finish_undo(applied, &undone).with_context(hint)?;
            }
            if of_kept.is_some() && is_first {
                keeper.forget(&applied.target).with_context(hint)?;
            }
        }
        let (outcome, now) = match undone {
            Undone::Restored if arguments.dry_run => ("would_restore", None),
            Undone::Restored => ("restored", None),
            Undone::NothingLeft => ("nothing_left", None),
            Undone::ChangedSince(now) => ("changed_since", Some(now)),
        };
        done.push(Done { outcome, setting: applied, now, kept: of_kept.map(places).unwrap_or_default() });
    }
    let all_undone = done.iter().all(|done| done.now.is_none());
    let mut out = io::stdout().lock();
    if arguments.json {
        json(&mut out, &done)?;
    } else {
        for done in &done {
            writeln!(out, "{}", sentence(done))?;
            if let Some(needs) = done.setting.undo_needs() {
                writeln!(out, "{needs}")?;
            }
            for Place { file, lines } in &done.kept {
                let taken = if arguments.dry_run { "Would take out of" } else { "Taken out of" };
                writeln!(out, "{taken} {}:", file.display())?;
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
