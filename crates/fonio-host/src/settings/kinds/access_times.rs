//! The setting that decides whether reading a file updates its access time.

use fonio_system::MountTable;
use rustix::mount::{MountFlags, mount_remount};

use crate::settings::kind::*;
use crate::settings::places::{mount_flags, mounted_at};

/// The values are `noatime`, `relatime` and `strictatime`. Other mounts of the same file system are not
/// affected.
pub(super) struct AccessTimes;

const FACTS: Facts = Facts {
    tag: "access_times",
    only_value: Some("noatime"),
    title: "access times",
    held: Held::MountOption(""),
    fixes: &[SettingFix {
        name: "noatime",
        changes: Group::Filesystem,
        does: "reading a file does not update its access time",
        needs: "a mount on a device",
        source: "mount's documentation",
        trial: Trial::MountOption("noatime", Filesystem::has_access_times),
        ..SettingFix::DEFAULT
    }],
    ..Facts::OF_MOUNT
};

impl Kind for AccessTimes {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn check(&self, _wanted: &Wanted<'_>, on: &Object) -> Result<(), Refusal> {
        mount_flags(&mounted_at(on.path())?.options)?;
        Ok(())
    }

    fn current(&self, on: &Object) -> Result<Option<String>, HostError> {
        Ok(MountTable::read()?.at(on.path()).map(|mounted| access_times(&mounted.options)))
    }

    fn set(&self, on: &Object, value: &str) -> Result<(), HostError> {
        let dir = on.path();
        let flags = mount_flags(&mounted_at(dir)?.options);
        let flags = flags.map_err(|reason| Refusal::Reason(reason).of(value, dir))?;
        let times = match value {
            "noatime" => MountFlags::NOATIME,
            "strictatime" => MountFlags::STRICTATIME,
            _ => MountFlags::RELATIME,
        };
        // With BIND, only the flags of this mount change.
        mount_remount(dir, MountFlags::BIND | flags | times, c"").map_err(HostError::system("remount", dir))
    }
}

fn access_times(options: &[String]) -> String {
    let known =
        ["noatime", "relatime"].into_iter().find(|known| options.iter().any(|option| option == known));
    known.unwrap_or("strictatime").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_times_are_one_of_three() {
        let of = |options: &str| access_times(&options.split(',').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(of("rw,relatime"), "relatime");
        assert_eq!(of("rw,nosuid,noatime"), "noatime");
        assert_eq!(of("rw"), "strictatime");
    }
}
