//! The setting that keeps a file's changed timestamps in memory until the file is synced, for at most a day.

use fonio_system::MountTable;

use crate::settings::kind::*;
use crate::settings::places::{check_writable, reconfigure};

/// The values are `lazytime` and `nolazytime`. A value applies to all mounts of the file system.
pub(super) struct LazyTimes;

const FACTS: Facts = Facts {
    tag: "lazy_times",
    only_value: Some("lazytime"),
    title: "lazy times",
    held: Held::MountOption(""),
    fixes: &[SettingFix {
        name: "lazytime",
        changes: Group::Filesystem,
        does: "changed timestamps of a file stay in memory until the file is synced, for at most a day",
        needs: "a mount on a device",
        loses: Loss::Recent(
            "A power cut can lose the timestamps of the last day; the data are as safe as before.",
        ),
        source: "mount's documentation",
        trial: Trial::MountOption("lazytime", |_| true),
    }],
    ..Facts::OF_MOUNT
};

impl Kind for LazyTimes {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn check(&self, _wanted: &Wanted<'_>, on: &Object) -> Result<(), Refusal> {
        check_writable(on.path())
    }

    fn current(&self, on: &Object) -> Result<Option<String>, HostError> {
        Ok(MountTable::read()?.at(on.path()).map(|mounted| {
            let is_lazy = mounted.filesystem_options.iter().any(|option| option == "lazytime");
            if is_lazy { "lazytime" } else { "nolazytime" }.to_owned()
        }))
    }

    fn set(&self, on: &Object, value: &str) -> Result<(), HostError> {
        reconfigure(on.path(), value, None).map_err(HostError::system("remount", on.path()))
    }
}
