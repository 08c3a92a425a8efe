//! `fonio fix` without a change: what is applied and kept here, which fixes there are, and what each needs.

use std::io::{self, ErrorKind, Write};

use anyhow::Result;
use fonio_experiment::{Candidate, Fix as Listed, MeasuredWith, Real};
use fonio_host::{
    Applied, Group, HostError, Keeper, KeptFiles, Ledger, Loss, Scope, Settings, has_scheduler, how_to_get,
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
        let names: Vec<&str> = Listed::of_group(group).map(|fix| fix.name).collect();
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

/// The place of a setting in a command, as a word to replace, with a space before it.
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

/// What a fix changes; `None` if it is made by hand.
fn scope_of(fix: &Listed) -> Option<Scope> {
    match fix.real {
        Real::Trim => Some(Scope::Mount),
        _ => fix.setting().map(|setting| setting.scope()),
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
    let (name, mut out) = (written(change), io::stdout().lock());
    writeln!(out, "{name}: {}.", fix.does)?;
    match scope {
        Scope::Machine => writeln!(out, "It changes the machine, so it needs no path.")?,
        _ => writeln!(out, "It changes one {}.", object(scope).0)?,
    }
    writeln!(out, "It needs {}.", setting.fix().needs)?;
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
    let setting = fix.setting()?;
    let name = setting.scheduler()?;
    let how = how_to_get(name).filter(|_| !has_scheduler(name))?;
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
        let fixes = Group::ALL.into_iter().flat_map(Listed::of_group).filter(|fix| is_wanted(fix));
        return json(&mut out, &Document { here, fixes: fixes.map(described).collect() });
    }
    if one.is_none() {
        write_here(&mut out, here.as_deref())?;
    }
    for group in Group::ALL {
        let mut fixes = Listed::of_group(group).filter(|fix| is_wanted(fix)).peekable();
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
    match arguments.name.as_ref().and_then(|change| Some((change, change.fix()?))) {
        Some((change, fix)) => {
            writeln!(out)?;
            next(change, fix).iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
        None => writeln!(
            out,
            "\nNext: `fonio fix NAME` describes a fix, and prints the commands that measure, apply and keep it."
        )?,
    }
    Ok(Exit::Fine)
}

/// A change as it is written on the command line, with a word in place of a value that it must have.
fn written(change: &Candidate) -> String {
    match change.setting().and_then(|setting| setting.missing_value()) {
        Some(word) => format!("{}={word}", change.name()),
        None => change.name(),
    }
}

/// The commands that can be used with a fix.
fn next(change: &Candidate, fix: &Listed) -> Vec<String> {
    let name = written(change);
    let fonio = format!("fonio fix {name}");
    let mut lines = Vec::new();
    match fix.measured_with() {
        MeasuredWith::WorkloadOrCommand => lines.push(format!(
            "`{fonio} --prove WORKLOAD --on PLACE` or `{fonio} --prove --on FOLDER -- COMMAND` measures the gain."
        )),
        MeasuredWith::Workload => lines.push(format!("`{fonio} --prove WORKLOAD --on PLACE` measures the gain.")),
        MeasuredWith::Emulated => lines.push(format!(
            "`{fonio} --prove WORKLOAD --on PROFILE` measures the gain on an emulated device; `fonio device list` lists them."
        )),
        MeasuredWith::Neither(_) => {}
    }
    if let Some(scope) = scope_of(fix) {
        let place = place(scope);
        lines.push(match fix.real {
            Real::Trim => format!(
                "`{fonio} --apply{place}` trims once, `{fonio} --keep` trims weekly, and `{fonio} --undo` ends that."
            ),
            _ if change.setting().is_some_and(|setting| setting.is_kept_when_applied()) => {
                format!(
                    "`{fonio} --apply{place}` applies it, also across reboots, and `{fonio} --undo` takes it back."
                )
            }
            _ => format!(
                "`{fonio} --apply{place}` applies it, `{fonio} --keep{place}` keeps it across reboots, and `{fonio} --undo` takes it back."
            ),
        });
        lines.push(format!("`{fonio} --dry-run` says what it needs."));
    }
    if let MeasuredWith::Neither(why) = fix.measured_with() {
        lines.push(format!("A workload or a command cannot measure the gain: {why}."));
    }
    if let Some(first) = lines.first_mut() {
        first.insert_str(0, "Next: ");
    }
    lines
}

fn described(fix: &'static Listed) -> Described {
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
        for (name, expected) in [
            (
                "raid0",
                expect_test::expect![
                    "Next: `fonio fix raid0 --prove WORKLOAD --on PROFILE` measures the gain on an emulated device; `fonio device list` lists them."
                ],
            ),
            (
                "db-in-ram",
                expect_test::expect![
                    "Next: `fonio fix db-in-ram --prove WORKLOAD --on PLACE` measures the gain."
                ],
            ),
            (
                "bfq",
                expect_test::expect![[r#"
                Next: `fonio fix bfq --prove WORKLOAD --on PLACE` or `fonio fix bfq --prove --on FOLDER -- COMMAND` measures the gain.
                `fonio fix bfq --apply DISK` applies it, `fonio fix bfq --keep DISK` keeps it across reboots, and `fonio fix bfq --undo` takes it back.
                `fonio fix bfq --dry-run` says what it needs."#]],
            ),
            (
                "swappiness=20",
                expect_test::expect![[r#"
                Next: `fonio fix swappiness=20 --prove WORKLOAD --on PLACE` or `fonio fix swappiness=20 --prove --on FOLDER -- COMMAND` measures the gain.
                `fonio fix swappiness=20 --apply` applies it, `fonio fix swappiness=20 --keep` keeps it across reboots, and `fonio fix swappiness=20 --undo` takes it back.
                `fonio fix swappiness=20 --dry-run` says what it needs."#]],
            ),
            (
                "wal-full",
                expect_test::expect![[r#"
                    Next: `fonio fix wal-full --prove WORKLOAD --on PLACE` measures the gain.
                    `fonio fix wal-full --apply DATABASE` applies it, also across reboots, and `fonio fix wal-full --undo` takes it back.
                    `fonio fix wal-full --dry-run` says what it needs."#]],
            ),
            (
                "folder-on",
                expect_test::expect![[r#"
                    Next: `fonio fix folder-on=DIR --apply FOLDER` applies it, also across reboots, and `fonio fix folder-on=DIR --undo` takes it back.
                    `fonio fix folder-on=DIR --dry-run` says what it needs.
                    A workload or a command cannot measure the gain: it mounts something over a folder that programs use; record them with `fonio record` before and after it, and use `fonio compare`."#]],
            ),
            (
                "hot-range",
                expect_test::expect![[r#"
                Next: `fonio fix hot-range=SIZE --prove WORKLOAD --on PLACE` measures the gain.
                `fonio fix hot-range=SIZE --apply FOLDER` applies it, also across reboots, and `fonio fix hot-range=SIZE --undo` takes it back.
                `fonio fix hot-range=SIZE --dry-run` says what it needs."#]],
            ),
            (
                "fstrim",
                expect_test::expect![[r#"
                Next: `fonio fix fstrim --apply MOUNT` trims once, `fonio fix fstrim --keep` trims weekly, and `fonio fix fstrim --undo` ends that.
                `fonio fix fstrim --dry-run` says what it needs.
                A workload or a command cannot measure the gain: it changes the device, which cannot be undone, so runs without it could not follow."#]],
            ),
        ] {
            expected.assert_eq(&lines(name));
        }
        for fix in FIXES.iter() {
            let of_real = matches!(fix.real, Real::ByHand(_)) != lines(fix.name).contains("--apply");
            assert!(of_real && lines(fix.name).starts_with("Next: "), "{}", fix.name);
        }
    }
}
