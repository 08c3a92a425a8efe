//! The setting for the interval between ext4's journal commits, in seconds.

use std::path::Path;

use fonio_system::{MountPoint, MountTable};

use crate::settings::kind::*;
use crate::settings::places::{check_writable, mount_of, reconfigure};

/// The setting applies to all mounts of the file system.
pub(super) struct CommitInterval;

const FACTS: Facts = Facts {
    tag: "commit_interval",
    only_value: Some("30"),
    title: "ext4's commit interval in seconds",
    held: Held::MountOption("commit="),
    fixes: &[SettingFix {
        name: "commit-30s",
        changes: Group::Filesystem,
        does: "ext4 commits its journal every 30 s instead of every 5 s",
        needs: "a mount of ext3 or ext4",
        loses: Loss::Recent("A power cut can lose the last 30 s of unsynced data."),
        source: "ext4's documentation",
        trial: Trial::MountOption("commit=30", |of| matches!(of, Filesystem::Ext4 | Filesystem::Ext3)),
    }],
    ..Facts::OF_MOUNT
};

/// ext4's default commit interval (`JBD2_DEFAULT_MAX_COMMIT_AGE`).
const DEFAULT_S: &str = "5";

impl Kind for CommitInterval {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn object(&self, _wanted: &Wanted<'_>, path: &Path) -> Result<Object, Refusal> {
        let MountPoint { dir, filesystem, .. } = mount_of(path)?;
        if matches!(filesystem.as_str(), "ext3" | "ext4") {
            return Ok(Object::Mount(dir));
        }
        Err(Refusal::On(dir, format!("the file system is {filesystem}, and only ext4 has a commit interval")))
    }

    fn check(&self, _wanted: &Wanted<'_>, on: &Object) -> Result<(), Refusal> {
        check_writable(on.path())
    }

    fn current(&self, on: &Object) -> Result<Option<String>, HostError> {
        Ok(MountTable::read()?.at(on.path()).map(|mounted| {
            let mut options = mounted.filesystem_options.iter();
            let seconds = options.find_map(|option| option.strip_prefix("commit="));
            seconds.unwrap_or(DEFAULT_S).to_owned()
        }))
    }

    fn set(&self, on: &Object, value: &str) -> Result<(), HostError> {
        reconfigure(on.path(), "commit", Some(value)).map_err(HostError::system("remount", on.path()))
    }
}
