//! Applies fixes to setups for trials.

use fonio_host::{Filesystem, Setting, Trial};
use fonio_workload::definition::{Journal, Synchronous, Workload};

use crate::setup::{Medium, Setup, Storage};

/// The reason why a fix of a program cannot be tried with a command.
pub(super) const OF_PROGRAM: &str =
    "the fix changes a program's behaviour; with a command, only settings can be tried";

/// The reason why a fix of a folder cannot be tried with a command.
pub(super) const OF_FOLDER: &str = "the command's folder is in use; a workload gets its own folder";

/// Tries a setting: changes the setting as on a machine in use, or passes the setting as an option of the new
/// file system or device.
pub(super) fn try_setting(
    trial: Trial,
    setting: Setting,
    setup: &mut Setup,
    workload: Option<&Workload>,
) -> Result<(), &'static str> {
    let is_own = setup.owns_filesystem();
    match trial {
        Trial::MountOption(option, has) if is_own => {
            if !has(setup.filesystem) {
                return Err("the file system does not have this option");
            }
            setup.mount_options.push(option.to_owned());
            return Ok(());
        }
        Trial::Scheduler if is_own => {
            setup.scheduler = setting.scheduler().map(str::to_owned);
            return Ok(());
        }
        Trial::WriteAheadLog => return each_database(setup, workload, Journal::Wal, Synchronous::Full),
        Trial::WithScheduler(name) if is_own && setup.scheduler.as_deref() != Some(name) => {
            return Err("only the scheduler smartio has these limits; choose it with --scheduler smartio");
        }
        Trial::Discards if is_own && !setup.mount_options.iter().any(|option| option == "discard") => {
            return Err("the file system is mounted without the option discard, so it discards nothing");
        }
        Trial::OwnFolder => {
            workload.ok_or(OF_FOLDER)?;
            if setting.missing_value().is_some() {
                return Err("give a size, such as hot-range=16MiB");
            }
        }
        Trial::Once(reason) | Trial::None(reason) => return Err(reason),
        Trial::AsMade
        | Trial::MountOption(..)
        | Trial::Scheduler
        | Trial::WithScheduler(_)
        | Trial::Discards => {}
    }
    setup.settings.push(setting);
    Ok(())
}

pub(super) fn move_place(
    setup: &mut Setup,
    workload: Option<&Workload>,
    place: &str,
    medium: Medium,
) -> Result<(), &'static str> {
    if !workload.ok_or(OF_PROGRAM)?.places.contains_key(place) {
        return Err("the workload has no such directory");
    }
    setup.moved.insert(place.to_owned(), medium);
    Ok(())
}

pub(super) fn each_database(
    setup: &mut Setup,
    workload: Option<&Workload>,
    journal: Journal,
    synchronous: Synchronous,
) -> Result<(), &'static str> {
    let workload = workload.ok_or(OF_PROGRAM)?;
    if workload.databases.is_empty() {
        return Err("the workload has no database");
    }
    for name in workload.databases.keys() {
        let change = setup.overrides.databases.entry(name.clone()).or_default();
        change.journal = Some(journal);
        change.synchronous = Some(synchronous);
    }
    Ok(())
}

pub(super) fn another_device(
    setup: &mut Setup,
    profile: impl FnOnce(&str) -> String,
) -> Result<(), &'static str> {
    match &mut setup.storage {
        Storage::Profile(name) => {
            *name = profile(name);
            Ok(())
        }
        _ => Err("only an emulated device can be replaced"),
    }
}

pub(super) fn another_filesystem(setup: &mut Setup, filesystem: Filesystem) -> Result<(), &'static str> {
    if !setup.owns_filesystem() {
        return Err("fonio does not format the device of a directory");
    }
    if !setup.mount_options.is_empty() {
        return Err("the setup has mount options for another file system");
    }
    setup.filesystem = filesystem;
    Ok(())
}
