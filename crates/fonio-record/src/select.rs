//! Finds the device numbers for the devices and paths that the user named.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use fonio_core::DeviceId;
use fonio_system::device;
use rustix::fs::FileType;

use crate::machine::{Machine, mounts};
use crate::{RecordError, Selector};

/// The disks to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    /// These disks, the disks that they map to, and the devices that are mapped to any of them, in order of number. The
    /// bios of a device above show whose data it is: dm-crypt's workers pass on encrypted data of any process.
    Only(Vec<DeviceId>),
    /// Every disk but these: loop devices over a file on another disk, where the same I/O is seen again.
    AllBut(Vec<DeviceId>),
}

impl Watched {
    /// The disks that were named.
    pub(crate) fn named(&self) -> &[DeviceId] {
        match self {
            Watched::Only(devices) => devices,
            Watched::AllBut(_) => &[],
        }
    }

    /// The kernel's event filter; `None` if every event passes.
    pub(crate) fn event_filter(&self) -> Option<String> {
        let (devices, comparison, join) = match self {
            Watched::Only(devices) => (devices, "==", "||"),
            Watched::AllBut(devices) => (devices, "!=", "&&"),
        };
        let terms: Vec<String> = devices.iter().map(|id| format!("dev{comparison}{}", id.0)).collect();
        (!terms.is_empty()).then(|| terms.join(join))
    }
}

/// Resolves the selectors. Without any, chooses disks so that each I/O is seen once.
pub(crate) fn resolve(machine: &Machine, selectors: &[Selector]) -> Result<Watched, RecordError> {
    if selectors.is_empty() {
        // A mapped device (dm, md) makes no requests of its own; a loop device does.
        let is_copy =
            |id: &DeviceId| machine.device_dir(*id).join("loop").exists() && !machine.below(*id).is_empty();
        let disks = machine.devices().into_iter().map(|device| device.id);
        return Ok(Watched::AllBut(disks.filter(is_copy).collect()));
    }
    let mut named = Vec::new();
    for selector in selectors {
        match selector {
            Selector::Device(name) => named.push(named_device(machine, name)?),
            Selector::Path(path) => named.extend(path_devices(machine, path)?),
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
    // There is no node in /dev, as in a container or on Android (/dev/block). sysfs knows disks and partitions by name.
    let bare = path.file_name().unwrap_or(name);
    let dev = machine.sys("class/block").join(bare).join("dev");
    if let Some(id) = crate::machine::read_text(&dev).as_deref().and_then(device::parse) {
        return Ok(id);
    }
    let mut present: Vec<String> = machine.devices().into_iter().filter_map(|device| device.name).collect();
    present.sort_unstable();
    Err(RecordError::UnknownDevice { name: text.into_owned(), present })
}

fn path_devices(machine: &Machine, path: &Path) -> Result<Vec<DeviceId>, RecordError> {
    let unknown = |source| RecordError::UnknownPath { path: path.to_owned(), source };
    let real = fs::canonicalize(path).map_err(unknown)?;
    let stat = rustix::fs::stat(&real).map_err(|errno| unknown(errno.into()))?;
    let file_type = FileType::from_raw_mode(stat.st_mode);
    if file_type == FileType::BlockDevice {
        return Ok(vec![device::from_dev(stat.st_rdev)]);
    }
    let id = device::from_dev(stat.st_dev);
    if id.major() != 0 {
        return Ok(vec![id]);
    }
    // btrfs and some others have device numbers of their own. Look up the mounted device; the innermost mount wins.
    let table = machine.mounts();
    let holding = table.iter().filter(|mount| real.starts_with(&mount.dir));
    let mount = holding.max_by_key(|mount| (mount.device == id, mount.dir.components().count()));
    match mount {
        Some(mount) => match mounts::block_device(mount) {
            Some(device) => Ok(vec![device]),
            None => Err(RecordError::NoDeviceBelow { path: path.to_owned(), fs: mount.filesystem.clone() }),
        },
        None => Err(RecordError::NoDeviceBelow { path: path.to_owned(), fs: "unknown".to_owned() }),
    }
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
