//! `fonio fix` without a change: what is applied and kept here, which fixes there are, and what each needs.

use std::io::{self, ErrorKind, Write};

use anyhow::Result;
use fonio_experiment::{Candidate, Fix as Listed, Group, Loss, Real};
use fonio_host::{
    Applied, HostError, Keeper, KeptFiles, Ledger, SMARTIO, Scope, Setting, Settings, has_scheduler,
    how_to_get,
};
use serde::Serialize;

use super::{Place, json, places, setting, wanted};
use crate::cli::run::Fix;
use crate::exit::Exit;

/// The list, for `--json`.
#[derive(Serialize)]
struct Document {
    /// `null` if this user may not see it.
    here: Option<Vec<Here>>,
    fixes: Vec<Described>,
}

/// A setting of this machine that fonio has changed.
#[derive(Serialize)]
struct Here {
    #[serde(flatten)]
    setting: Applied,
    /// Whether it was applied since the machine started.
    applied: bool,
    /// The files that keep it, if it is kept in files.
    kept: Option<Vec<Place>>,
}

/// A fix.
#[derive(Serialize)]
struct Described {
    name: &'static str,
    changes: &'static str,
    does: &'static str,
    loses: &'static str,
    safe: bool,
    needs_hardware: bool,
    source: &'static str,
    /// `disk`, `mount`, `machine`, `unit`, `database` or `folder`, if fonio can apply it.
    of: Option<&'static str>,
    by_hand: Option<&'static str>,
}

/// The names of the fixes by what they change, for the help.
pub fn groups() -> String {
    let mut text = "Fixes, by what they change:\n".to_owned();
    for group in Group::ALL {
        let names: Vec<&str> = group.fixes().map(|fix| fix.name).collect();
        text.push_str(&format!("  {:<21} {}\n", group.heading(), names.join(", ")));
    }
    text
}

/// Returns what the user has to name, with an example.
fn object(scope: Scope) -> (&'static str, &'static str) {
    match scope {
        Scope::Disk => ("disk: a device, or a folder on it", "/dev/mmcblk0"),
        Scope::Mount => ("mount: a device, or a folder on it", "/mnt/sd"),
        Scope::Machine => ("machine", ""),
        Scope::Folder => ("folder", "/var/log"),
        Scope::Database => ("database of SQLite: its file", "/home/pi/notes.db"),
        Scope::Unit => ("unit of systemd, or control group", "backup.service"),
    }
}

/// What to write in place of a missing path.
pub(super) fn needs_path(name: &str, scope: Scope, verb: &str) -> String {
    let (what, example) = object(scope);
    format!("{name} changes one {what}. Name it, such as `fonio fix {name} --{verb} {example}`")
}

/// Prints what a fix needs.
pub(super) fn needs(change: &Candidate) -> Result<Exit> {
    let (fix, setting) = setting(change)?;
    let scope = if matches!(fix.real, Real::Trim) { Scope::Mount } else { setting.scope() };
    let (name, mut out) = (change.name(), io::stdout().lock());
    writeln!(out, "{name}: {}.", fix.does)?;
    match scope {
        Scope::Machine => writeln!(out, "It changes the machine, so it needs no path.")?,
        _ => writeln!(out, "It changes one {}.", object(scope).0)?,
    }
    writeln!(out, "It needs {}.", setting.needs())?;
    if let Some(how) = missing_here(fix) {
        writeln!(out, "{how}")?;
    }
    writeln!(out, "{}", fix.loses.sentence())?;
    writeln!(out, "--keep keeps it across reboots by {}.", setting.kept_in())?;
    let of = object(scope).1;
    let of = if of.is_empty() { String::new() } else { format!(" {of}") };
    writeln!(out, "Next: `fonio fix {name} --dry-run --apply{of}` prints what would change.")?;
    Ok(Exit::Fine)
}

/// How to get the scheduler of a fix, if it is not part of Linux and this kernel does not have it.
fn missing_here(fix: &Listed) -> Option<String> {
    let name = match fix.real.setting()? {
        Setting::Scheduler(name) => name,
        Setting::Concurrency(_) => SMARTIO.to_owned(),
        _ => return None,
    };
    let how = how_to_get(&name).filter(|_| !has_scheduler(&name))?;
    Some(format!("This kernel does not have it: {how}."))
}

/// A record; `None` if this user may not read it.
fn visible<R>(record: Result<R, HostError>) -> Result<Option<R>, HostError> {
    match record {
        Err(HostError::System(error)) if error.source.kind() == ErrorKind::PermissionDenied => Ok(None),
        record => record.map(Some),
    }
}

/// What fonio has changed on this machine; `None` if this user may not see it.
fn here() -> Result<Option<Vec<Here>>> {
    let files = KeptFiles::of_machine();
    let Some(applied) = visible(Settings::on_record(&Ledger::default_dir()))? else { return Ok(None) };
    let Some(kept) = visible(Keeper::on_record(&files))? else { return Ok(None) };
    let mut here: Vec<Here> =
        applied.into_iter().map(|setting| Here { setting, applied: true, kept: None }).collect();
    for kept in kept {
        let places = Some(places(&kept));
        match here.iter_mut().find(|known| known.setting.target == kept.applied.target) {
            Some(known) => {
                known.setting.old.clone_from(&kept.applied.old);
                known.kept = places;
            }
            None => here.push(Here { setting: kept.applied, applied: false, kept: places }),
        }
    }
    Ok(Some(here))
}

pub(super) fn list(arguments: &Fix) -> Result<Exit> {
    let one = arguments.name.as_ref().and_then(Candidate::fix).map(|fix| fix.name);
    let is_wanted = |fix: &Listed| {
        one.is_none_or(|name| name == fix.name) && wanted(arguments).any(|other| other.name == fix.name)
    };
    let here = here()?;
    let mut out = io::stdout().lock();
    if arguments.setup.json {
        let fixes = Group::ALL.into_iter().flat_map(Group::fixes).filter(|fix| is_wanted(fix));
        return json(&mut out, &Document { here, fixes: fixes.map(described).collect() });
    }
    if one.is_none() {
        write_here(&mut out, here.as_deref())?;
    }
    for group in Group::ALL {
        let mut fixes = group.fixes().filter(|fix| is_wanted(fix)).peekable();
        if fixes.peek().is_some() && one.is_none() {
            writeln!(out, "{}", group.heading())?;
        }
        for fix in fixes {
            writeln!(out, "  {:<15} {}", fix.name, fix.does)?;
            if one.is_some() {
                writeln!(out, "  {:<15} {} Source: {}.", "", fix.loses.sentence(), fix.source)?;
                if let Real::ByHand(how) = fix.real {
                    writeln!(out, "  {:<15} {how}", "")?;
                }
                if let Some(how) = missing_here(fix) {
                    writeln!(out, "  {:<15} {how}", "")?;
                }
            } else if fix.loses != Loss::Nothing {
                writeln!(out, "  {:<15} {}", "", fix.loses.sentence())?;
            }
        }
    }
    if one.is_none() {
        writeln!(out, "\nWith a fix that has no remark, a power cut loses no more data than without it.")?;
    }
    writeln!(
        out,
        "\nNext: `fonio fix NAME --prove WORKLOAD --on PLACE` or `fonio fix NAME --prove --on FOLDER -- COMMAND` measures the\ngain; `fonio fix NAME --apply PATH` applies the fix, and `--keep PATH` keeps it across reboots.\n`fonio fix NAME --dry-run` says what a fix needs."
    )?;
    Ok(Exit::Fine)
}

fn described(fix: &'static Listed) -> Described {
    let scope = match fix.real {
        Real::Trim => Some(Scope::Mount),
        real => real.setting().map(|setting| setting.scope()),
    };
    Described {
        name: fix.name,
        changes: fix.changes.heading(),
        does: fix.does,
        loses: fix.loses.sentence(),
        safe: fix.loses.is_safe(),
        needs_hardware: fix.needs_hardware,
        source: fix.source,
        of: scope.map(|scope| match scope {
            Scope::Disk => "disk",
            Scope::Mount => "mount",
            Scope::Machine => "machine",
            Scope::Unit => "unit",
            Scope::Database => "database",
            Scope::Folder => "folder",
        }),
        by_hand: match fix.real {
            Real::ByHand(how) => Some(how),
            _ => None,
        },
    }
}

fn write_here(out: &mut impl Write, here: Option<&[Here]>) -> Result<()> {
    match here {
        None => writeln!(out, "Run it with sudo to see which fixes are applied on this machine.\n")?,
        Some([]) => writeln!(out, "No fix of fonio's is applied on this machine.\n")?,
        Some(here) => {
            writeln!(out, "Applied on this machine (`fonio fix --undo` restores what was there before):")?;
            for Here { setting, applied, kept } in here {
                let until = match (applied, kept) {
                    (true, None) => "until the next boot",
                    (true, Some(_)) => "kept across reboots",
                    (false, _) => "kept across reboots, in force since the boot",
                };
                let Applied { target, old, new } = setting;
                writeln!(out, "  {target}: {new} (before: {old}); {until}")?;
                for Place { file, .. } in kept.iter().flatten() {
                    writeln!(out, "    {}", file.display())?;
                }
            }
            writeln!(out)?;
        }
    }
    Ok(())
}
