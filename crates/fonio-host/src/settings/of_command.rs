//! Runs a command in a control group of its own, which ends with the command.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fonio_system::{ProcessId, Task};

use super::cgroup::GROUPS;
use super::drop_in::{COMMA, UNSET};
use super::own_group::{self, Property, move_to};
use super::systemd;
use crate::error::HostError;
use crate::ledger::{Ledger, Step};
use crate::program::find_in_system;

/// How a command runs with a setting of its own control group.
#[derive(Debug)]
pub enum OfCommand {
    /// This command runs it in a scope of systemd. The scope ends with its last process.
    Scope(Command),
    /// The command must be started while this process is in a new group. The process must stay until the command
    /// ends, to remove the group.
    Group(GroupOfCommand),
}

/// The value of a control group for a command.
#[derive(Debug)]
pub struct GroupOfCommand {
    property: Property,
    value: String,
}

/// Keeps this process in a new control group.
#[derive(Debug)]
pub struct InGroup {
    /// The folder of the group to return to.
    back: PathBuf,
}

impl OfCommand {
    pub(super) fn new(property: Property, value: String, words: &[OsString]) -> Result<OfCommand, String> {
        own_group::check_own_folder()?;
        if systemd::check().is_err() {
            return Ok(OfCommand::Group(GroupOfCommand { property, value }));
        }
        let own = ProcessId::own();
        let group = own_group::group_of(own.pid).unwrap_or_default();
        let mut command = Command::new("systemd-run");
        find_in_system(&mut command);
        command.args(scope_words(&own_group::unit_of(own), own_group::slice_of(&group), &value)).args(words);
        Ok(OfCommand::Scope(command))
    }
}

impl GroupOfCommand {
    /// Creates the group and moves this process into it. Undoing the ledger removes the group. Fails with
    /// [`HostError::System`].
    pub fn enter(&self, ledger: &mut Ledger) -> Result<InGroup, HostError> {
        let own = std::process::id();
        let groups = Task::of(own).cgroups();
        let back = groups.as_ref().and_then(|groups| groups.unified()).unwrap_or("/");
        let back = Path::new(GROUPS).join(back.trim_start_matches('/'));
        let dir = Path::new(GROUPS).join(format!("fonio-{own}-{}", ledger.steps()));
        ledger.begin(Step::Cgroup { path: dir.clone() })?;
        fs::create_dir(&dir).map_err(HostError::system("make", &dir))?;
        self.property.write(&dir, &self.value)?;
        move_to(&dir, own)?;
        Ok(InGroup { back })
    }
}

impl Drop for InGroup {
    fn drop(&mut self) {
        // If the former group no longer exists, undoing the ledger moves this process to the root group.
        let _ = move_to(&self.back, std::process::id());
    }
}

/// Returns the words after `systemd-run` that come before the command.
fn scope_words(unit: &str, slice: &str, value: &str) -> Vec<String> {
    let mut words = vec!["--scope".to_owned(), "--quiet".to_owned(), "--collect".to_owned()];
    words.extend([format!("--unit={unit}"), format!("--slice={slice}")]);
    let assigned = value.split(COMMA).filter(|assignment| *assignment != UNSET);
    words.extend(assigned.map(|assignment| format!("--property={assignment}")));
    // The shell returns the usual exit codes if the program does not exist, and runs scripts without a `#!` line.
    words.extend(["--", "/bin/sh", "-c", "exec \"$@\"", "sh"].map(str::to_owned));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_runs_the_command_in_a_scope() {
        for (value, expected) in [
            (
                "IOReadBandwidthMax=/dev/sda 5, IOWriteBandwidthMax=/dev/sda 5",
                "--scope|--quiet|--collect|--unit=a.scope|--slice=user-0.slice|--property=IOReadBandwidthMax=/dev/sda 5|--property=IOWriteBandwidthMax=/dev/sda 5|--|/bin/sh|-c|exec \"$@\"|sh",
            ),
            (
                "unset",
                "--scope|--quiet|--collect|--unit=a.scope|--slice=user-0.slice|--|/bin/sh|-c|exec \"$@\"|sh",
            ),
            (
                "IOWeight=50",
                "--scope|--quiet|--collect|--unit=a.scope|--slice=user-0.slice|--property=IOWeight=50|--|/bin/sh|-c|exec \"$@\"|sh",
            ),
        ] {
            assert_eq!(scope_words("a.scope", "user-0.slice", value).join("|"), expected);
        }
    }
}
