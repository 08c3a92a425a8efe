//! Finds the device numbers of the devices and paths named by the user.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use fonio_core::DeviceId;
use fonio_machine::Machine;
use fonio_system::device;
use rustix::fs::FileType;

use crate::error::RecordError;
use crate::options::Selector;

/// The disks whose requests are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    /// Only the listed disks: disks that the user named, the disks below the named disks, and the mapped
    /// devices above any of these disks, sorted by device number. The bios of an upper device show whose data
    /// they carry; below an upper device, the workers of dm-crypt issue the encrypted data of all processes.
    Only(Vec<DeviceId>),
    /// Every disk except the listed loop devices. Each of these devices is over a file on another disk, where
    /// the same I/O appears again.
    AllBut(Vec<DeviceId>),
}

impl Watched {
    /// Returns the disks that the user named.
    pub(crate) fn named(&self) -> &[DeviceId] {
        match self {
            Watched::Only(devices) => devices,
            Watched::AllBut(_) => &[],
        }
    }

    /// Returns the filter for block events in the kernel's syntax; `None` if every event passes.
    pub(crate) fn event_filter(&self) -> Option<String> {
        let (devices, comparison, join) = match self {
            Watched::Only(devices) => (devices, "==", "||"),
            Watched::AllBut(devices) => (devices, "!=", "&&"),
        };
        let terms: Vec<String> = devices.iter().map(|id| format!("dev{comparison}{}", id.0)).collect();
        (!terms.is_empty()).then(|| terms.join(join))
    }
}

/// Resolves the user's device selectors. Without selectors, chooses disks that show each I/O only once.
pub(crate) fn resolve(machine: &Machine, selectors: &[Selector]) -> Result<Watched, RecordError> {
    if selectors.is_empty() {
        // A mapped device (dm, md) has no requests of its own; a loop device has its own requests.
        let is_copy =
            |id: &DeviceId| machine.device_dir(*id).join("loop").exists() && !machine.below(*id).is_empty();
        let disks = machine.devices().into_iter().map(|device| device.id);
        return Ok(Watched::AllBut(disks.filter(is_copy).collect()));
    }
    let mut named = Vec::new();
    for selector in selectors {
        match selector {
            Selector::Device(name) => named.push(named_device(machine, name)?),
            Selector::Path(path) => named.push(path_device(machine, path)?),
        }
    }
    Ok(Watched::Only(machine.with_mapping(&machine.with_mapped(&named))))
}

fn named_device(machine: &Machine, name: &OsStr) -> Result<DeviceId, RecordError> {
    let text = name.to_string_lossy();
    let known = |id: DeviceId| machine.device_dir(id).exists().then_some(id);
    if let Some(id) = device::parse(&text).and_then(known) {
        return Ok(id);
    }
    let path = if text.contains('/') { PathBuf::from(name) } else { Path::new("/dev").join(name) };
    if let Ok(stat) = rustix::fs::stat(&path)
        && FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice
        && let Some(id) = known(device::from_dev(stat.st_rdev))
    {
        return Ok(id);
    }
    // The device has no node in /dev, which is usual in a container and on Android (Android has its nodes in
    // /dev/block). sysfs has a directory for each disk and partition by name.
    let bare = path.file_name().unwrap_or(name);
    if let Some(id) = machine.device_named(bare) {
        return Ok(id);
    }
    let mut present: Vec<String> = machine.devices().into_iter().filter_map(|device| device.name).collect();
    present.sort_unstable();
    Err(RecordError::UnknownDevice { name: text.into_owned(), present })
}

fn path_device(machine: &Machine, path: &Path) -> Result<DeviceId, RecordError> {
    let found = machine
        .device_below(path)
        .map_err(|source| RecordError::UnknownPath { path: path.to_owned(), source })?;
    found.ok_or_else(|| {
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let fs =
            machine.mounts().holding(&real).map_or("unknown".to_owned(), |mount| mount.filesystem.clone());
        RecordError::NoDeviceBelow { path: path.to_owned(), fs }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_named_and_what_passes() {
        let (card, looped) = (DeviceId::new(179, 0), DeviceId::new(7, 1));
        let only = Watched::Only(vec![card]);
        assert_eq!((only.named(), only.event_filter()), (&[card][..], Some(format!("dev=={}", card.0))));
        let all_but = Watched::AllBut(vec![looped]);
        assert_eq!((all_but.named(), all_but.event_filter()), (&[][..], Some(format!("dev!={}", looped.0))));
        assert_eq!(Watched::AllBut(Vec::new()).event_filter(), None);
    }
}
