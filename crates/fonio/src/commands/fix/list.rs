//! Implements `fonio fix` and `fonio fix show`: the applied and kept settings, the fixes that suit this
//! machine, and one fix in detail.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use fonio_experiment::{Candidate, Fix as Listed, MeasuredWith, Real};
use fonio_host::{
    Applied, Group, HostError, Keeper, KeptFiles, Ledger, Loss, Scope, Settings, has_scheduler, how_to_get,
};
use fonio_system::MountTable;
use serde::Serialize;

use super::{Place, chosen, places};
use crate::cli::fix::{FixShow, Screen};
use crate::exit::Exit;
use crate::output;

/// The list of settings and fixes, as JSON output.
#[derive(Serialize)]
struct Document {
    /// The settings that fonio has changed; `null` if this user may not read them.
    here: Option<Vec<Here>>,
    fixes: Vec<Described>,
}

/// A setting of this machine that fonio has changed.
#[derive(Serialize)]
struct Here {
    #[serde(flatten)]
    setting: Applied,
    /// Whether the setting was applied since the last boot.
    applied: bool,
    /// The configuration files that keep the setting across reboots, if any.
    kept: Option<Vec<Place>>,
}

#[derive(Serialize)]
struct Described {
    name: &'static str,
    changes: &'static str,
    does: &'static str,
    loses: &'static str,
    safe: bool,
    needs_hardware: bool,
    source: &'static str,
    /// The kind of target to which fonio can apply the fix: `disk`, `mount`, `machine`, `unit`, `database` or
    /// `folder`. `null` if fonio cannot apply the fix.
    of: Option<&'static str>,
    by_hand: Option<&'static str>,
    /// The targets to which the fix can be applied now: devices, mounts, or `the machine`. Empty if there are
    /// no targets, or if the user has to name a unit, folder or database.
    suits: Vec<String>,
    /// The targets on which the fix's value is already in force.
    in_force: Vec<String>,
}

/// Returns the kind of target that the user has to name for a fix, with an example.
fn object(scope: Scope) -> (&'static str, &'static str) {
    match scope {
        Scope::Disk => ("disk (a device, or a folder on it)", "/dev/mmcblk0"),
        Scope::Mount => ("mount (a device, or a folder on it)", "/mnt/sd"),
        Scope::Machine => ("machine", ""),
        Scope::Folder => ("folder", "/var/log"),
        Scope::Database => ("SQLite database file", "/home/pi/notes.db"),
        Scope::Unit => ("systemd unit or control group", "backup.service"),
    }
}

/// Returns the placeholder for a setting's target in a command, with a leading space.
fn place(scope: Scope) -> &'static str {
    match scope {
        Scope::Disk => " DISK",
        Scope::Mount => " MOUNT",
        Scope::Machine => "",
        Scope::Folder => " FOLDER",
        Scope::Database => " DATABASE",
        Scope::Unit => " UNIT",
    }
}

/// Returns the scope that a fix changes; `None` if the fix is a manual change.
fn scope_of(fix: &Listed) -> Option<Scope> {
    match fix.real {
        Real::Trim => Some(Scope::Mount),
        _ => fix.setting().map(|setting| setting.scope()),
    }
}

/// Returns an error message that asks for the path of a fix.
pub(super) fn needs_path(name: &str, scope: Scope, keep: bool) -> String {
    let (what, example) = object(scope);
    let keep = if keep { " --keep" } else { "" };
    format!("{name} changes one {what}. Name it, such as `fonio fix apply {name} {example}{keep}`")
}

/// Returns instructions for installing the scheduler of a fix, if this scheduler is not part of Linux and the
/// running kernel lacks it.
fn missing_here(fix: &Listed) -> Option<String> {
    let setting = fix.setting()?;
    let name = setting.scheduler()?;
    let how = how_to_get(name).filter(|_| !has_scheduler(name))?;
    Some(format!("This kernel lacks the scheduler: {how}."))
}

/// Returns the record of changed settings; `None` if this user may not read the record.
fn visible<R>(record: Result<R, HostError>) -> Result<Option<R>, HostError> {
    match record {
        Err(HostError::System(error)) if error.source.kind() == ErrorKind::PermissionDenied => Ok(None),
        record => record.map(Some),
    }
}

/// Returns fonio's changes to this machine; `None` if this user may not read their record.
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

/// The targets on this machine to which a fix can be applied.
#[derive(Default)]
struct Suits {
    at: Vec<String>,
    /// The targets on which the fix's value is already in force.
    in_force: Vec<String>,
}

impl Suits {
    /// Determines the targets of a fix among `mounts`. A setting of a unit, folder or database has no targets
    /// until the user names a target.
    fn find(fix: &Listed, mounts: &[PathBuf]) -> Suits {
        let (Some(setting), Some(scope)) = (fix.setting(), scope_of(fix)) else {
            return Suits::default();
        };
        let root = [PathBuf::from("/")];
        let paths = match scope {
            Scope::Machine => &root[..],
            Scope::Disk | Scope::Mount => mounts,
            Scope::Unit | Scope::Folder | Scope::Database => &[],
        };
        let mut suits = Suits::default();
        for planned in paths.iter().filter_map(|path| setting.plan_or_current(path).ok()) {
            let at = match setting.scope() {
                Scope::Disk | Scope::Mount => planned.target.path().display().to_string(),
                _ => MACHINE.to_owned(),
            };
            let places = if planned.is_new() { &mut suits.at } else { &mut suits.in_force };
            if !places.contains(&at) {
                places.push(at);
            }
        }
        suits
    }
}

/// The target's name if a setting applies to the whole machine.
const MACHINE: &str = "the machine";

/// Returns one mount point of each writable file system on a device.
fn mounts() -> Vec<PathBuf> {
    let Ok(table) = MountTable::read() else { return Vec::new() };
    let mut seen: Vec<&str> = Vec::new();
    let mut is_first = |source| {
        let is_new = !seen.contains(&source);
        seen.push(source);
        is_new
    };
    let on_device = table.iter().filter(|mount| Path::new(&mount.source).starts_with("/dev"));
    let writable = on_device.filter(|mount| !mount.all_options().iter().any(|option| option == "ro"));
    writable.filter(|mount| is_first(mount.source.as_str())).map(|mount| mount.dir.clone()).collect()
}

/// Prints the applied fixes and the fixes that suit this machine.
pub(super) fn screen(arguments: &Screen) -> Result<Exit> {
    let is_chosen = |fix: &&Listed| chosen(arguments.choice).any(|other| other.name == fix.name);
    let fixes: Vec<&'static Listed> =
        Group::ALL.into_iter().flat_map(Listed::of_group).filter(is_chosen).collect();
    let (here, mounts) = (here()?, mounts());
    let mut out = output::screen();
    if arguments.json {
        let fixes = fixes.into_iter().map(|fix| described(fix, Suits::find(fix, &mounts))).collect();
        return output::json(&Document { here, fixes });
    }
    write_here(&mut out, here.as_deref())?;
    if arguments.all {
        write_all(&mut out, &fixes)?;
    } else {
        write_suitable(&mut out, &fixes, &mounts)?;
    }
    writeln!(
        out,
        "\nNext: `fonio fix show NAME` describes a fix, and prints the commands that measure, apply and keep it."
    )?;
    Ok(Exit::Fine)
}

fn write_suitable(out: &mut impl Write, fixes: &[&'static Listed], mounts: &[PathBuf]) -> io::Result<()> {
    let mut rows: Vec<(String, Vec<&str>)> = Vec::new();
    let mut put = |place: &str, name| match rows.iter_mut().find(|(known, _)| known == place) {
        Some((_, names)) => names.push(name),
        None => rows.push((place.to_owned(), vec![name])),
    };
    let (mut in_force, mut elsewhere) = (Vec::new(), Vec::new());
    for fix in fixes {
        let suits = Suits::find(fix, mounts);
        let named = match scope_of(fix) {
            Some(Scope::Unit) => Some("a unit that you name"),
            Some(Scope::Folder) => Some("a folder that you name"),
            Some(Scope::Database) => Some("a database that you name"),
            _ => None,
        };
        let places = suits.at.iter().map(String::as_str).chain(named);
        let is_anywhere = places.map(|place| put(place, fix.name)).count() > 0;
        if !suits.in_force.is_empty() {
            in_force.push(fix.name);
        } else if !is_anywhere {
            elsewhere.push(fix.name);
        }
    }
    writeln!(out, "Fixes that suit this machine:")?;
    for (place, names) in &rows {
        row(out, place, names)?;
    }
    if !in_force.is_empty() {
        row(out, "in force already", &in_force)?;
    }
    if !elsewhere.is_empty() {
        writeln!(
            out,
            "\n{} more fixes need another kernel, another device or a manual change: `fonio fix --all` \
             describes every fix.",
            elsewhere.len()
        )?;
    }
    writeln!(out, "`sudo fonio check` says which fixes help here.")
}

/// Prints a target and the names of its fixes, wrapped to the width of the terminal.
fn row(out: &mut impl Write, place: &str, names: &[&str]) -> io::Result<()> {
    const LABEL: usize = 25;
    let width = output::columns().unwrap_or(80);
    let mut line = format!("  {place:<LABEL$}");
    let mut is_empty = true;
    for (at, name) in names.iter().enumerate() {
        let word = if at + 1 < names.len() { format!(" {name},") } else { format!(" {name}") };
        if !is_empty && line.chars().count() + word.len() > width {
            writeln!(out, "{line}")?;
            line = format!("  {:<LABEL$}", "");
        }
        line += &word;
        is_empty = false;
    }
    writeln!(out, "{line}")
}

fn write_all(out: &mut impl Write, fixes: &[&'static Listed]) -> io::Result<()> {
    for group in Group::ALL {
        let mut fixes = fixes.iter().filter(|fix| fix.changes == group).peekable();
        if fixes.peek().is_some() {
            writeln!(out, "{}", group.heading())?;
        }
        for fix in fixes {
            writeln!(out, "  {:<15} {}", fix.name, fix.does)?;
            if fix.loses != Loss::Nothing {
                writeln!(out, "  {:<15} {}", "", fix.loses.sentence())?;
            }
        }
    }
    writeln!(
        out,
        "\nWith a fix that has no such remark, a power cut loses no more data than without the fix."
    )
}

/// Prints a fix in detail: what it changes, needs and costs, and its commands.
pub(super) fn show(arguments: &FixShow) -> Result<Exit> {
    let change = &arguments.name;
    let mut out = output::screen();
    let Some(fix) = change.fix() else {
        anyhow::bail!(
            "{} means another device, so it can only be measured: `fonio fix prove {} WORKLOAD --on PROFILE`",
            change.name(),
            change.name()
        );
    };
    let suits = Suits::find(fix, &mounts());
    if arguments.json {
        return output::json(&described(fix, suits));
    }
    writeln!(out, "{}: {}.", written(change), fix.does)?;
    if let (Some(setting), Some(scope)) = (change.setting(), scope_of(fix)) {
        match scope {
            Scope::Machine => writeln!(out, "It changes the machine, so it needs no target.")?,
            _ => writeln!(out, "It changes one {}.", object(scope).0)?,
        }
        writeln!(out, "It needs {}.", setting.fix().needs)?;
        writeln!(out, "--keep makes it permanent with {}.", setting.kept_in())?;
    }
    if let Real::ByHand(how) = fix.real {
        writeln!(out, "{how}")?;
    }
    if let Some(how) = missing_here(fix) {
        writeln!(out, "{how}")?;
    }
    if !suits.at.is_empty() {
        writeln!(out, "It can be applied here to: {}.", suits.at.join(", "))?;
    }
    if !suits.in_force.is_empty() {
        writeln!(out, "It is already in force on: {}.", suits.in_force.join(", "))?;
    }
    writeln!(out, "{} Source: {}.", fix.loses.sentence(), fix.source)?;
    writeln!(out)?;
    next(change, fix).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    Ok(Exit::Fine)
}

/// Returns a fix as written on the command line, with a placeholder for a required value.
fn written(change: &Candidate) -> String {
    match change.setting().and_then(|setting| setting.missing_value()) {
        Some(word) => format!("{}={word}", change.name()),
        None => change.name(),
    }
}

fn next(change: &Candidate, fix: &Listed) -> Vec<String> {
    let name = written(change);
    let mut lines = Vec::new();
    match fix.measured_with() {
        MeasuredWith::WorkloadOrCommand => lines.push(format!(
            "`fonio fix prove {name} WORKLOAD --on PLACE` or `fonio fix prove {name} --on FOLDER -- CMD` measures the gain."
        )),
        MeasuredWith::WorkloadOrDatabases => lines.push(format!(
            "`fonio fix prove {name} WORKLOAD --on PLACE` or `fonio fix prove {name} -- CMD` measures the gain; \
             CMD gets copies of its databases."
        )),
        MeasuredWith::Workload => {
            lines.push(format!("`fonio fix prove {name} WORKLOAD --on PLACE` measures the gain."));
        }
        MeasuredWith::Emulated => lines.push(format!(
            "`fonio fix prove {name} WORKLOAD --on PROFILE` measures the gain on an emulated device; `fonio device list` lists them."
        )),
        MeasuredWith::Neither(_) => {}
    }
    if let Some(scope) = scope_of(fix) {
        let place = place(scope);
        lines.push(match fix.real {
            Real::Trim => format!(
                "`fonio fix apply {name}{place}` trims once, `fonio fix apply {name} --keep` trims weekly, and `fonio fix undo {name}` ends the weekly trimming."
            ),
            _ if change.setting().is_some_and(|setting| setting.is_kept_when_applied()) => {
                format!(
                    "`fonio fix apply {name}{place}` applies it permanently, and `fonio fix undo {name}` \
                     removes it."
                )
            }
            _ => format!(
                "`fonio fix apply {name}{place}` applies it (permanently with --keep), and `fonio fix undo \
                 {name}` removes it."
            ),
        });
        lines.push(format!("`fonio fix apply {name}{place} --dry-run` prints what would change."));
        if change.setting().is_some_and(|setting| setting.is_of_processes()) {
            lines.push(format!(
                "`fonio fix apply {name} --pid PID` applies it to a running process and its descendants, and \
                 `fonio fix apply {name} -- CMD` to a command."
            ));
        }
    }
    if let MeasuredWith::Neither(why) = fix.measured_with() {
        lines.push(format!("A workload or a command cannot measure the gain: {why}."));
    }
    if let Some(first) = lines.first_mut() {
        first.insert_str(0, "Next: ");
    }
    lines
}

fn described(fix: &'static Listed, suits: Suits) -> Described {
    let scope = scope_of(fix);
    Described {
        name: fix.name,
        changes: fix.changes.heading(),
        does: fix.does,
        loses: fix.loses.sentence(),
        safe: fix.loses.is_safe(),
        needs_hardware: fix.needs_hardware(),
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
        suits: suits.at,
        in_force: suits.in_force,
    }
}

fn write_here(out: &mut impl Write, here: Option<&[Here]>) -> Result<()> {
    match here {
        None => writeln!(out, "Run this with sudo to see which fixes are applied on this machine.\n")?,
        Some([]) => writeln!(out, "fonio has applied no fix on this machine.\n")?,
        Some(here) => {
            writeln!(out, "Applied on this machine (`fonio fix undo` restores the former settings):")?;
            for Here { setting, applied, kept } in here {
                let until = match (applied, kept) {
                    (true, None) if setting.target.process().is_some() => "until it ends",
                    (true, None) => "until the next boot",
                    (true, Some(_)) => "kept across reboots",
                    (false, _) => "kept across reboots, in force since boot",
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

#[cfg(test)]
mod tests {
    use fonio_experiment::FIXES;

    use super::*;

    #[test]
    fn only_commands_that_work_with_a_fix_are_offered() {
        let lines = |name: &str| {
            let change = Candidate::parse(name).expect("listed");
            next(&change, change.fix().expect("listed")).join("\n")
        };
        let shown = [
            "raid0",
            "db-in-ram",
            "bfq",
            "swappiness=20",
            "wal-full",
            "folder-on",
            "hot-range",
            "fstrim",
            "io-rate=10MB",
        ]
        .map(|name| format!("{name}\n{}\n", lines(name)));
        expect_test::expect_file!["commands.txt"].assert_eq(&shown.join("\n"));
        for fix in FIXES.iter() {
            let of_real = matches!(fix.real, Real::ByHand(_)) != lines(fix.name).contains("fix apply");
            assert!(of_real && lines(fix.name).starts_with("Next: "), "{}", fix.name);
        }
    }
}
