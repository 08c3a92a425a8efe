//! Implements `fonio fix apply`.

use std::io::Write;
use std::path::Path;

use anyhow::{Result, ensure};
use fonio_experiment::{Fix as Listed, Real};
use fonio_host::{Applied, KeptFiles, Made, Planned, Scope, Setting, Trim};
use serde::Serialize;

use super::{Done, NEEDS_ROOT, Place, changes, followed, list, places, setting, with_hint};
use crate::cli::fix::FixApply;
use crate::exit::Exit;
use crate::{output, signals};

/// The result of a trim, as JSON output.
#[derive(Serialize)]
struct Trimmed<'a> {
    outcome: &'a str,
    dir: &'a Path,
    filesystem: &'a str,
    source: &'a str,
    /// Number of trimmed bytes; if `outcome` is `would_trim`, the free space of the file system.
    bytes: u64,
}

/// Applies a fix; with --keep, the fix also survives reboots.
pub(super) fn apply(arguments: &FixApply) -> Result<Exit> {
    let (fix, setting) = setting(&arguments.name)?;
    apply_to(arguments, fix, setting, arguments.target.as_deref())
}

/// Applies a fix with its setting to a path. The path of a process is its folder in `/proc`.
pub(super) fn apply_to(
    arguments: &FixApply,
    fix: &Listed,
    mut setting: Setting,
    path: Option<&Path>,
) -> Result<Exit> {
    let (change, keep) = (&arguments.name, arguments.keep);
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
        signals::recover()?;
    }
    let planned = Planned::of(&setting, path, keep)?;
    let Planned { change: Applied { target, old, new }, keep } = &planned;
    let (is_new, lasts) = (planned.change.is_new(), target.lasts());
    let (kept, brings_back) = if arguments.dry_run {
        (planned.would_keep(KeptFiles::of_machine())?, old.clone())
    } else {
        let Made { kept, brings_back } = changes()?.make(&planned).map_err(with_hint)?;
        (kept, brings_back)
    };
    if *keep && !arguments.dry_run {
        let target = arguments.target.as_ref().map(|path| format!(" {}", path.display())).unwrap_or_default();
        followed::begin(&format!("{}{target}", change.name()), &planned.change);
    }
    let kept_in: Vec<Place> = kept.iter().flat_map(places).collect();
    let mut out = output::screen();
    if arguments.json {
        let outcome = if arguments.dry_run { "would_apply" } else { "applied" };
        return output::json(&[Done { outcome, setting: &planned.change, now: None, kept: kept_in }]);
    }
    let would = if arguments.dry_run { "Would set " } else { "Set " };
    if is_new {
        writeln!(out, "{would}{target}: {old} -> {new}")?;
    } else {
        writeln!(out, "{target} is {new} already.")?;
    }
    if let Some(how) = setting.fitted_to(&planned.change) {
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
    if *keep && kept_in.is_empty() && !arguments.dry_run {
        writeln!(out, "It survives reboots anyway.")?;
    }
    let name = change.name();
    let to = if setting.is_of_machine() { String::new() } else { format!(" {}", path.display()) };
    if target.process().is_some() {
        if !arguments.dry_run {
            writeln!(
                out,
                "The change lasts until the process and its descendants end.\nNext: `fonio fix undo {name}{to}` moves them back to their former group."
            )?;
        }
        return Ok(Exit::Fine);
    }
    match (*keep, arguments.dry_run) {
        (false, true) => writeln!(out, "The change would last until the next boot.")?,
        (false, false) => writeln!(
            out,
            "The change lasts until the next boot; `fonio fix apply {name}{to} --keep` makes it permanent.\nNext: \
             `fonio fix undo {name}` restores {brings_back}."
        )?,
        (true, true) => {}
        (true, false) => writeln!(out, "Next: `fonio fix undo {name}` restores {brings_back}.")?,
    }
    Ok(Exit::Fine)
}

/// Applies a setting until the next boot. If the setting is already in force, `old` and `new` are equal.
pub fn apply_now(setting: &Setting, path: &Path) -> Result<Applied> {
    signals::recover()?;
    let planned = Planned { change: setting.plan_or_current(path)?, keep: false };
    if planned.change.is_new() {
        changes()?.make(&planned).map_err(with_hint)?;
    }
    Ok(planned.change)
}

fn trim(path: &Path, arguments: &FixApply) -> Result<Exit> {
    let Trim { dir, filesystem, source, bytes } = if arguments.dry_run {
        fonio_host::trim_plan(path)?
    } else {
        fonio_host::trim(path).map_err(with_hint)?
    };
    let mut out = output::screen();
    if arguments.json {
        let outcome = if arguments.dry_run { "would_trim" } else { "trimmed" };
        let (filesystem, source) = (filesystem.as_str(), source.as_str());
        return output::json(&Trimmed { outcome, dir: &dir, filesystem, source, bytes: bytes.0 });
    }
    let (of, bytes) = (format!("{} ({filesystem} on {source})", dir.display()), output::bytes(bytes));
    if arguments.dry_run {
        writeln!(out, "Would trim {of}, which has {bytes} free.")?;
        return Ok(Exit::Fine);
    }
    writeln!(out, "Trimmed {bytes} of {of}: the device can now reuse this space.")?;
    writeln!(
        out,
        "Trimming cannot be undone, and loses no data. Next: `fonio fix apply fstrim --keep` trims weekly, if systemd has fstrim.timer."
    )?;
    Ok(Exit::Fine)
}
