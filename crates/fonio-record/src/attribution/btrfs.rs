//! Finds the mounted btrfs file systems, and the device numbers that appear in the events of btrfs
//! (`/sys/fs/btrfs`).

use std::collections::BTreeMap;
use std::fs;

use fonio_core::DeviceId;
use fonio_machine::{Machine, mounts, read_device_id};
use fonio_system::MountPoint;
use fonio_tracefs::ring_buffer::Btrfs;

use crate::attribution::files::subvolume;

/// Returns every mounted btrfs file system, sorted by its number.
pub(crate) fn mounted(machine: &Machine) -> Vec<Btrfs> {
    let table = machine.mounts();
    let mut by_number: BTreeMap<DeviceId, Vec<&MountPoint>> = BTreeMap::new();
    for mount in table.of_kind("btrfs") {
        by_number.entry(mount.device).or_default().push(mount);
    }
    let found = by_number.into_iter().filter_map(|(fs, of_fs)| {
        let (id, unit, devices) =
            of_fs.iter().find_map(|mount| described(machine, mounts::block_device(mount)?))?;
        let mut subvolumes = of_fs.iter().map(|mount| subvolume(mount));
        let first = subvolumes.next().flatten();
        let subvolume = first.filter(|_| subvolumes.all(|other| other == first));
        Some(Btrfs { id, fs, unit, subvolume, devices })
    });
    found.collect()
}

/// Returns the id, the write-back device number and the devices of the btrfs on a device.
fn described(machine: &Machine, device: DeviceId) -> Option<([u8; 16], u32, Vec<DeviceId>)> {
    for entry in fs::read_dir(machine.sys("fs/btrfs")).ok()?.flatten() {
        // The folder also contains an entry `features`, which is not a file system.
        let Some(id) = entry.file_name().to_str().and_then(Btrfs::parse_id) else { continue };
        let links = fs::read_dir(entry.path().join("devices")).into_iter().flatten().flatten();
        let devices: Vec<DeviceId> =
            links.filter_map(|link| read_device_id(&link.path().join("dev"))).collect();
        if devices.contains(&device) {
            let bdi = fs::read_link(entry.path().join("bdi")).ok()?;
            let unit = bdi.file_name()?.to_str()?.strip_prefix("btrfs-")?.parse().ok()?;
            return Some((id, unit, devices));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn numbers_from_sysfs() {
        let root = tempfile::tempdir().unwrap();
        let of_fs = root.path().join("sys/fs/btrfs/00000000-0000-0000-0000-000000000007");
        let disk = root.path().join("sys/block/sdb");
        fs::create_dir_all(of_fs.join("devices")).unwrap();
        fs::create_dir_all(root.path().join("sys/fs/btrfs/features")).unwrap();
        fs::create_dir_all(&disk).unwrap();
        fs::write(disk.join("dev"), "8:16\n").unwrap();
        symlink(&disk, of_fs.join("devices/sdb")).unwrap();
        symlink("../../../devices/virtual/bdi/btrfs-4", of_fs.join("bdi")).unwrap();
        let machine = Machine::at(root.path());
        let (disk, mut id) = (DeviceId::new(8, 16), [0; 16]);
        id[15] = 7;
        assert_eq!(described(&machine, disk), Some((id, 4, vec![disk])));
        assert_eq!(described(&machine, DeviceId::new(8, 0)), None);
    }
}
