//! Implements `fonio fix undo`.

use std::io::Write;

use anyhow::{Result, bail};
use fonio_host::{Applied, Undone};
use fonio_system::say;

use super::{Done, Place, changes, places, setting, with_hint};
use crate::cli::fix::FixUndo;
use crate::exit::Exit;
use crate::{output, signals};

/// Restores the settings that fonio changed, and removes kept settings from the configuration files.
pub(super) fn undo(arguments: &FixUndo) -> Result<Exit> {
    if !arguments.dry_run {
        signals::recover()?;
    }
    let mut changes = changes()?;
    let wanted = arguments.name.as_ref().map(setting).transpose()?.map(|(_, setting)| setting);
    let to_undo = changes.to_undo(wanted.as_ref(), arguments.target.as_deref());
    if to_undo.is_empty() {
        const RULE: &str = "Settings that were not kept end at the next boot";
        // To undo everything is possible again and again; a name says that something must be there.
        if let Some(fix) = &arguments.name {
            bail!("nothing to undo: {} is not applied here. {RULE}", fix.name());
        }
        if arguments.json {
            output::json(&[(); 0])?;
        } else {
            writeln!(output::screen(), "Nothing to undo: no fix is applied here. {RULE}.")?;
        }
        return Ok(Exit::Fine);
    }
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for undoing in &to_undo {
        let undone = if arguments.dry_run { changes.would_undo(undoing) } else { changes.undo(undoing) };
        let (outcome, now) = match undone {
            Ok(Undone::Restored) if arguments.dry_run => ("would_restore", None),
            Ok(Undone::Restored) => ("restored", None),
            Ok(Undone::NothingLeft) => ("nothing_left", None),
            Ok(Undone::ChangedSince(now)) => ("changed_since", Some(now)),
            Err(error) => {
                failed.push(with_hint(error));
                continue;
            }
        };
        let kept = undoing.kept.as_ref().map(places).unwrap_or_default();
        done.push(Done { outcome, setting: &undoing.change, now, kept });
    }
    let all_undone = done.iter().all(|done| done.now.is_none());
    let mut out = output::screen();
    if arguments.json {
        output::json(&done)?;
    } else {
        for done in &done {
            writeln!(out, "{}", sentence(done))?;
            if let Some(needs) = done.setting.target.restore_needs() {
                writeln!(out, "{needs}")?;
            }
            for Place { file, lines } in &done.kept {
                let taken = if arguments.dry_run { "Would take out of" } else { "Taken out of" };
                writeln!(out, "{taken} {}:", file.display())?;
                lines.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
            }
        }
    }
    // Settings whose undo did not fail are already undone and reported.
    if let Some(last) = failed.pop() {
        failed.iter().for_each(|error| say!("error: {error:#}"));
        return Err(last);
    }
    Ok(if all_undone { Exit::Fine } else { Exit::NotValid })
}

fn sentence(done: &Done<'_>) -> String {
    let Applied { target, old, new } = done.setting;
    match (done.outcome, &done.now) {
        ("would_restore", _) => format!("Would set {target}: {new} -> {old}"),
        ("restored", _) => format!("Set {target}: {new} -> {old}"),
        (_, Some(now)) => {
            format!("Left {target} unchanged: fonio set {new} (before: {old}), but it is now {now}.")
        }
        _ => format!("Nothing to restore: {target} is already {old}, or it no longer exists."),
    }
}
