//! What fixes change in a setup, so that they can be tried.

use fonio_host::{Concurrency, Filesystem, SMARTIO, Setting};
use fonio_workload::definition::{Journal, Synchronous, Workload};

use crate::setup::{Medium, Setup, Storage};

/// Why a fix cannot be tried with a command.
pub(super) const OF_PROGRAM: &str =
    "it changes what a program does; with a command, only settings can be tried";

/// Why a fix of services cannot be tried with a workload or a command, which are none.
pub(super) const OF_SERVICES: &str = "it changes services of the machine; record them with `fonio record` before and after it, and use `fonio compare`";

/// Why a controller of weights cannot be tried.
pub(super) const OF_WEIGHTS: &str = "it acts only between units that have weights (io-weight); record them with `fonio record` before and after it, and use `fonio compare`";

/// Why a fix of a folder cannot be tried: nothing else may use the folder meanwhile.
pub(super) const OF_FOLDERS: &str = "it mounts something over a folder that programs use; record them with `fonio record` before and after it, and use `fonio compare`";

/// Why a range cannot be tried with a command.
pub(super) const OF_RANGE: &str = "the folder of a command is in use; a workload gets a folder of its own";

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

/// Adds a mount option; in a directory, the setting of its mount that does the same.
pub(super) fn mount_option(
    setup: &mut Setup,
    option: &str,
    has: fn(Filesystem) -> bool,
    same: Setting,
) -> Result<(), &'static str> {
    if !setup.owns_filesystem() {
        return setting(setup, same);
    }
    if !has(setup.filesystem) {
        return Err("the file system does not have this option");
    }
    setup.mount_options.push(option.to_owned());
    Ok(())
}

pub(super) fn scheduler(setup: &mut Setup, name: &str) -> Result<(), &'static str> {
    if !setup.owns_filesystem() {
        return setting(setup, Setting::Scheduler(name.to_owned()));
    }
    setup.scheduler = Some(name.to_owned());
    Ok(())
}

pub(super) fn setting(setup: &mut Setup, setting: Setting) -> Result<(), &'static str> {
    setup.settings.push(setting);
    Ok(())
}

/// Puts the workload's folder into an image; the size is the fix's value.
pub(super) fn range(setup: &mut Setup, workload: Option<&Workload>) -> Result<(), &'static str> {
    workload.ok_or(OF_RANGE)?;
    setting(setup, Setting::HotRange { size: None, despite_writers: false })
}

/// Refuses a setting without the value that only the user can choose.
pub(super) fn check_values(setup: &Setup) -> Result<(), &'static str> {
    let lacks_value = |setting: &Setting| matches!(setting, Setting::HotRange { size: None, .. });
    if setup.settings.iter().any(lacks_value) {
        return Err("it needs a size, such as hot-range=16MiB");
    }
    Ok(())
}

/// Sets a limit of discards, where a file system can send them.
pub(super) fn discards(setup: &mut Setup, same: Setting) -> Result<(), &'static str> {
    if setup.owns_filesystem() && !setup.mount_options.iter().any(|option| option == "discard") {
        return Err("the file system is mounted without the option discard, so it discards nothing");
    }
    setting(setup, same)
}

/// Sets the limits of the scheduler smartio, which an emulated device must have for that.
pub(super) fn concurrency(setup: &mut Setup) -> Result<(), &'static str> {
    if setup.owns_filesystem() && setup.scheduler.as_deref() != Some(SMARTIO) {
        return Err("only the scheduler smartio has these limits; choose it with --scheduler smartio");
    }
    setting(setup, Setting::Concurrency(Concurrency::UNLIMITED))
}

pub(super) fn another_filesystem(setup: &mut Setup, filesystem: Filesystem) -> Result<(), &'static str> {
    if !setup.owns_filesystem() {
        return Err("fonio does not format the device of a directory");
    }
    if !setup.mount_options.is_empty() {
        return Err("the mount options are those of another file system");
    }
    setup.filesystem = filesystem;
    Ok(())
}
