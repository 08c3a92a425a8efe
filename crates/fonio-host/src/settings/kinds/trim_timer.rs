//! Tells a device which blocks the file system does not use, either once or weekly through systemd.

use std::fs::File;
use std::path::{Path, PathBuf};

use fonio_core::ByteCount;
use fonio_machine::mounts::block_device;
use fonio_machine::{Machine, read_number};
use rustix::io::Errno;
use rustix::ioctl::{self, Opcode, Updater};

use crate::settings::kind::*;
use crate::settings::places::mount_of;

/// The systemd timer of util-linux that trims file systems weekly.
const TIMER: &str = "fstrim.timer";

/// The setting for weekly trimming of mounted file systems. The values are `enabled` and `disabled`.
pub(super) struct TrimTimer;

const FACTS: Facts = Facts {
    tag: "trim_timer",
    only_value: Some("enabled"),
    scope: Scope::Machine,
    title: "systemd's weekly fstrim.timer",
    of_machine: TIMER,
    kept_in: "systemd, with `fstrim.timer` enabled",
    undone: "the timer returns to its former state; trimmed blocks stay trimmed",
    held: Held::Itself,
    lasts: true,
    cannot_switch: Some("the timer runs only once a week"),
    fixes: &[SettingFix {
        name: "fstrim",
        changes: Group::Filesystem,
        does: "tells the device which blocks the file system does not use: once, and with --keep weekly",
        needs: "a device that can discard; for the weekly timer, systemd",
        source: "util-linux's documentation",
        trial: Trial::Once("it changes the device irreversibly, so no run without it could follow"),
        ..SettingFix::DEFAULT
    }],
    ..Facts::DEFAULT
};

impl Kind for TrimTimer {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn object(&self, _wanted: &Wanted<'_>, _path: &Path) -> Result<Object, Refusal> {
        let refused = |reason| Err(Refusal::On(TIMER.into(), reason));
        if let Err(reason) = systemd::check() {
            return refused(reason);
        }
        match self.current(&Object::Machine)?.as_deref() {
            Some("enabled" | "disabled") => Ok(Object::Machine),
            Some("masked") => refused(format!("{TIMER} is masked: run `systemctl unmask {TIMER}`")),
            Some(other) => refused(format!("the state of {TIMER} is {other}")),
            None => refused(format!("systemd has no {TIMER}; on Debian: apt-get install util-linux")),
        }
    }

    /// Returns the setting's value; `None` if systemd does not run or the timer does not exist.
    fn current(&self, _on: &Object) -> Result<Option<String>, HostError> {
        if systemd::check().is_err() {
            return Ok(None);
        }
        let state = systemd::property(TIMER, "UnitFileState")?;
        Ok((!state.is_empty()).then_some(state))
    }

    /// Enables and starts the weekly timer, or disables and stops it.
    fn set(&self, _on: &Object, value: &str) -> Result<(), HostError> {
        let verb = if value == "enabled" { "enable" } else { "disable" };
        systemd::systemctl(&[verb, "--now", TIMER]).map(drop)
    }
}

/// `struct fstrim_range` of linux/fs.h.
#[repr(C)]
struct Range {
    start: u64,
    /// Before the call, the maximum length of the range in bytes; afterwards, the number of trimmed bytes.
    length: u64,
    length_min: u64,
}

const FITRIM: Opcode = ioctl::opcode::read_write::<Range>(b'X', 121);

/// A file system that was trimmed, or that can be trimmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trim {
    /// The mount point of the file system.
    pub dir: PathBuf,
    /// The type of the file system, such as `ext4`.
    pub filesystem: String,
    /// The device of the file system.
    pub source: String,
    /// The number of bytes reported to the device as unused. ext4 reports each range only once per mount.
    pub bytes: ByteCount,
}

/// Returns the file system that [`trim`] would trim for `path`, with its free bytes. Does not change
/// anything. Fails with [`HostError::NotSettable`] with the reason why the file system cannot be trimmed.
pub fn trim_plan(path: &Path) -> Result<Trim, HostError> {
    let mounted = mount_of(path)?;
    let refused =
        |reason| HostError::NotSettable { setting: "fstrim".to_owned(), path: mounted.dir.clone(), reason };
    let machine = Machine::here();
    let Some(disk) = block_device(&mounted).map(|id| machine.disk_of(id)) else {
        return Err(refused(format!("the file system {} is not on a device", mounted.filesystem)));
    };
    if read_number(&machine.device_dir(disk).join("queue/discard_max_bytes")) == Some(0) {
        let name = machine.name_of(disk).unwrap_or_default();
        return Err(refused(format!(
            "{name} cannot discard (its discard_max_bytes is 0): the device, its adapter or a layer such as LUKS does not support discard"
        )));
    }
    if mounted.options.iter().any(|option| option == "ro") {
        return Err(refused("it is read-only".to_owned()));
    }
    let free = rustix::fs::statvfs(&mounted.dir).map_err(HostError::system("look at", &mounted.dir))?;
    let bytes = ByteCount(free.f_bfree * free.f_frsize);
    Ok(Trim { dir: mounted.dir, filesystem: mounted.filesystem, source: mounted.source, bytes })
}

/// Trims the file system that contains `path`. Trimming cannot be undone, but loses no data. Fails with
/// [`HostError::NotSettable`] with the reason why the file system cannot be trimmed.
pub fn trim(path: &Path) -> Result<Trim, HostError> {
    let planned = trim_plan(path)?;
    let dir = &planned.dir;
    let open = File::open(dir).map_err(HostError::system("open", dir))?;
    let mut range = Range { start: 0, length: u64::MAX, length_min: 0 };
    // SAFETY: FITRIM reads and writes a `struct fstrim_range`, whose layout `Range` has, and keeps no pointer
    // to it.
    match unsafe { ioctl::ioctl(&open, Updater::<FITRIM, Range>::new(&mut range)) } {
        Ok(()) => Ok(Trim { bytes: ByteCount(range.length), ..planned }),
        Err(Errno::OPNOTSUPP | Errno::NOTTY) => Err(HostError::NotSettable {
            setting: "fstrim".to_owned(),
            path: dir.clone(),
            reason: format!("{} on {} does not support trimming", planned.filesystem, planned.source),
        }),
        Err(error) => Err(HostError::system("trim", dir)(error)),
    }
}
