//! Applies fixes to setups for trials.

use fonio_host::{Filesystem, Setting, Trial};
use fonio_workload::DatabaseOverride;
use fonio_workload::definition::{Journal, Synchronous};

use super::Measured;
use crate::setup::{Medium, Setup, Storage};

/// The reason why a fix of a program cannot be tried with a command.
pub(super) const OF_PROGRAM: &str =
    "the fix changes a program's behaviour, which can be changed only in a workload";

/// The reason why a fix of databases cannot be tried with a command on a new file system.
const NO_DATABASE: &str = "a command on a new file system has no database there; mount the device with \
     `fonio device emulate PROFILE --fs ext4 --mount DIR`, and run the command in that folder";

/// The reason why a fix of a folder cannot be tried with a command.
pub(super) const OF_FOLDER: &str = "the command's folder is in use; a workload gets its own folder";

/// Tries a setting: changes the setting as on a machine in use, or passes the setting as an option of the new
/// file system or device.
pub(super) fn try_setting(
    trial: Trial,
    setting: Setting,
    setup: &mut Setup,
    measured: Measured<'_>,
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
        Trial::WriteAheadLog => return each_database(setup, measured, wal_full(measured)),
        Trial::WithScheduler(name) if is_own && setup.scheduler.as_deref() != Some(name) => {
            return Err("only the scheduler smartio has these limits; choose it with --scheduler smartio");
        }
        Trial::Discards if is_own && !setup.mount_options.iter().any(|option| option == "discard") => {
            return Err("the file system is mounted without the option discard, so it discards nothing");
        }
        Trial::OwnFolder => {
            measured.workload().ok_or(OF_FOLDER)?;
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
    measured: Measured<'_>,
    place: &str,
    medium: Medium,
) -> Result<(), &'static str> {
    if !measured.workload().ok_or(OF_PROGRAM)?.places.contains_key(place) {
        return Err("the workload has no such directory");
    }
    setup.moved.insert(place.to_owned(), medium);
    Ok(())
}

/// Changes every database of the workload, or the databases that the command uses.
pub(super) fn each_database(
    setup: &mut Setup,
    measured: Measured<'_>,
    change: &dyn Fn(&mut DatabaseOverride),
) -> Result<(), &'static str> {
    match measured {
        Measured::Workload(workload) if workload.databases.is_empty() => Err("the workload has no database"),
        Measured::Workload(workload) => {
            for name in workload.databases.keys() {
                change(setup.overrides.databases.entry(name.clone()).or_default());
            }
            Ok(())
        }
        Measured::Command if setup.owns_filesystem() => Err(NO_DATABASE),
        Measured::Command => {
            change(&mut setup.of_command);
            Ok(())
        }
        Measured::Replay => Err(OF_PROGRAM),
    }
}

/// Adds the given settings to the settings of a database.
pub(super) fn merge(into: &mut DatabaseOverride, from: &DatabaseOverride) {
    into.journal = from.journal.or(into.journal);
    into.synchronous = from.synchronous.or(into.synchronous);
    into.autocheckpoint = from.autocheckpoint.or(into.autocheckpoint);
}

/// Returns the change of a write-ahead log that is synced at every commit. A command's file keeps only the
/// journal mode, as after `fonio fix apply`; the level is the command's own.
fn wal_full(measured: Measured<'_>) -> &'static dyn Fn(&mut DatabaseOverride) {
    match measured {
        Measured::Command => &|change| change.journal = Some(Journal::Wal),
        Measured::Workload(_) | Measured::Replay => &|change| {
            change.journal = Some(Journal::Wal);
            change.synchronous = Some(Synchronous::Full);
        },
    }
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
