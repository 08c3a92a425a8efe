//! Finds the block devices, with their kind, wear and counters.

use std::fs;

use fonio_core::meta::{Device, Mount};
use fonio_core::{ByteCount, DeviceKind};
use serde::Serialize;

use crate::counters::{self, DiskCounters};
use crate::health::{self, Health};
use crate::kind;
use crate::machine::Machine;
use crate::sysfs::read_number;

/// A block device with its wear and counters.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StorageDevice {
    /// The block device: its queue limits, its file systems with their free space, and the devices below it.
    pub device: Device,
    /// The kind of the device.
    pub kind: DeviceKind,
    /// The kernel's sequence number of the disk: another disk with the same device number has another sequence
    /// number (`/sys/block/*/diskseq`, since Linux 5.15).
    #[serde(skip)]
    pub sequence: Option<u64>,
    /// Whether the device is flash storage.
    pub flash: bool,
    /// The wear that the device reports; `None` if it can be read only with special commands.
    pub health: Option<Health>,
    /// File systems mounted from this device, from its partitions, and from devices stacked on this device or
    /// its partitions.
    pub file_systems: Vec<Mount>,
    /// Bytes written to the device since boot (`/sys/block/*/stat`).
    pub written_bytes: Option<ByteCount>,
    /// Bytes read from the device since boot.
    pub read_bytes: Option<ByteCount>,
    /// Bytes written to the device during [`Writing::interval_ms`](crate::writers::Writing).
    pub written_now_bytes: Option<ByteCount>,
    /// Bytes read from the device during [`Writing::interval_ms`](crate::writers::Writing).
    pub read_now_bytes: Option<ByteCount>,
    /// Time since boot during which the device had requests in flight.
    pub busy_ms: Option<u64>,
    /// Time during [`Writing::interval_ms`](crate::writers::Writing) when the device had requests in flight.
    pub busy_now_ms: Option<u64>,
}

/// Finds all block devices. Flash devices come first; within both groups, devices are sorted by kind and
/// name.
pub(crate) fn find(machine: &Machine) -> Vec<StorageDevice> {
    let devices = machine.devices();
    let file_systems: Vec<Vec<Mount>> = devices.iter().map(|device| mounts_above(device, &devices)).collect();
    let mut found: Vec<StorageDevice> = devices
        .into_iter()
        .zip(file_systems)
        .map(|(device, file_systems)| describe(machine, device, file_systems))
        .collect();
    found.sort_by(|a, b| (!a.flash, a.kind, &a.device.name).cmp(&(!b.flash, b.kind, &b.device.name)));
    found
}

/// Returns the machine's block devices with their counters and wear. Does not measure the writes of
/// processes. The call takes some milliseconds.
pub fn storage_devices() -> Vec<StorageDevice> {
    storage_devices_of(&Machine::here())
}

/// Returns the block devices of a machine that is described by a copy of its files, such as a phone, with their counters and
/// wear.
pub fn storage_devices_of(machine: &Machine) -> Vec<StorageDevice> {
    let mut devices = find(machine);
    let counters = counters::read_disks(machine);
    for device in &mut devices {
        device.add_counters(None, counters.get(&device.device.id));
    }
    devices
}

/// Returns the file systems mounted from a device or from devices stacked on it.
fn mounts_above(device: &Device, all: &[Device]) -> Vec<Mount> {
    let mut found = device.mounts.clone();
    let mut reached = vec![device.id];
    // Each iteration goes one level up the stack.
    loop {
        let above: Vec<&Device> = all
            .iter()
            .filter(|above| !reached.contains(&above.id) && above.below.iter().any(|id| reached.contains(id)))
            .collect();
        if above.is_empty() {
            return found;
        }
        for device in above {
            reached.push(device.id);
            found.extend(device.mounts.iter().cloned());
        }
    }
}

fn describe(machine: &Machine, device: Device, file_systems: Vec<Mount>) -> StorageDevice {
    let dir = machine.device_dir(device.id);
    let dir = fs::canonicalize(&dir).unwrap_or(dir);
    let kind = kind::of(&dir);
    StorageDevice {
        device,
        kind,
        sequence: read_number(&dir.join("diskseq")),
        flash: kind.is_flash(),
        health: health::of(kind, &dir),
        file_systems,
        ..StorageDevice::default()
    }
}

impl StorageDevice {
    pub(crate) fn add_counters(&mut self, before: Option<&DiskCounters>, after: Option<&DiskCounters>) {
        let Some(after) = after else { return };
        self.busy_ms = Some(after.busy_ms);
        self.written_bytes = Some(after.written_bytes);
        self.read_bytes = Some(after.read_bytes);
        let Some(before) = before else { return };
        self.written_now_bytes = Some(after.written_bytes - before.written_bytes);
        self.read_now_bytes = Some(after.read_bytes - before.read_bytes);
        self.busy_now_ms = Some(after.busy_ms.saturating_sub(before.busy_ms));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};

    use expect_test::expect_file;
    use fonio_core::DeviceId;

    use super::*;

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Creates the sysfs of a phone that has an eMMC with a dm-crypt device on one partition, an SD card, a
    /// UFS disk and an NVMe disk.
    fn phone(root: &Path) {
        let sys = root.join("sys");
        let disks = [
            ("devices/platform/mmc0/mmc0:0001/block/mmcblk0", "179:0"),
            ("devices/platform/mmc1/mmc1:aaaa/block/mmcblk1", "179:32"),
            ("devices/platform/1d84000.ufshc/host0/target0/0:0:0:0/block/sda", "8:0"),
            ("devices/pci0000:00/nvme/nvme0/nvme0n1", "259:0"),
            ("devices/virtual/block/dm-0", "252:0"),
            ("devices/virtual/block/loop0", "7:0"),
        ];
        for (place, id) in disks {
            let dir = sys.join(place);
            let name = dir.file_name().unwrap().to_owned();
            write(dir.join("dev"), id);
            write(dir.join("size"), if name == "loop0" { "0" } else { "1000" });
            write(dir.join("queue/rotational"), "0");
            write(dir.join("queue/scheduler"), "[none] bfq\n");
            for link in [sys.join("dev/block").join(id), sys.join("block").join(&name)] {
                fs::create_dir_all(link.parent().unwrap()).unwrap();
                symlink(&dir, link).unwrap();
            }
        }
        let mmc = sys.join("devices/platform/mmc0/mmc0:0001");
        let partition = mmc.join("block/mmcblk0/mmcblk0p2");
        write(partition.join("dev"), "179:2");
        write(partition.join("partition"), "2");
        symlink(&partition, sys.join("dev/block/179:2")).unwrap();
        symlink(&mmc, mmc.join("block/mmcblk0/device")).unwrap();
        write(mmc.join("type"), "MMC\n");
        write(mmc.join("name"), "BJTD4R\n");
        write(mmc.join("life_time"), "0x03 0x0b\n");
        write(mmc.join("pre_eol_info"), "0x02\n");
        write(mmc.join("manfid"), "0x000015\n");
        write(mmc.join("date"), "06/2017\n");
        let sd = sys.join("devices/platform/mmc1/mmc1:aaaa");
        symlink(&sd, sd.join("block/mmcblk1/device")).unwrap();
        write(sd.join("type"), "SD\n");
        write(sd.join("manfid"), "0x000099\n");
        let ufs = sys.join("devices/platform/1d84000.ufshc");
        write(ufs.join("health_descriptor/life_time_estimation_a"), "0x01\n");
        write(ufs.join("health_descriptor/life_time_estimation_b"), "0x02\n");
        write(ufs.join("health_descriptor/eol_info"), "0x01\n");
        write(ufs.join("string_descriptors/manufacturer_name"), "KIOXIA\n");
        let nvme = sys.join("devices/pci0000:00/nvme/nvme0");
        symlink(&nvme, nvme.join("nvme0n1/device")).unwrap();
        write(nvme.join("hwmon1/temp1_input"), "40850\n");
        let dm = sys.join("devices/virtual/block/dm-0");
        write(dm.join("dm/uuid"), "CRYPT-PLAIN-userdata\n");
        fs::create_dir_all(dm.join("slaves")).unwrap();
        symlink(&partition, dm.join("slaves/mmcblk0p2")).unwrap();
        write(
            root.join("proc/self/mountinfo"),
            "30 1 252:0 / /no-such-data rw,noatime - f2fs /dev/block/dm-0 rw,discard\n\
             31 1 179:2 / /no-such-bind rw - ext4 /dev/block/mmcblk0p2 rw\n",
        );
    }

    #[test]
    fn a_phone() {
        let root = tempfile::tempdir().unwrap();
        phone(root.path());
        let machine = Machine::at(root.path());
        let mut shown = String::new();
        for found in find(&machine) {
            shown += &format!(
                "{} {:?} flash={} encrypted={:?} below={:?} mounts={:?}\n",
                found.device.name.as_deref().unwrap(),
                found.kind,
                found.flash,
                found.device.encrypted,
                found.device.below.iter().map(ToString::to_string).collect::<Vec<_>>(),
                found.file_systems.iter().map(|mount| mount.at.as_str()).collect::<Vec<_>>(),
            );
            if let Some(health) = found.health {
                shown += &format!(
                    "    used {:?} {:?}, reserve {:?}, by {:?} {:?}, {:?}, {} files\n",
                    health.life_used_percent,
                    health.life_used_b_percent,
                    health.reserved_blocks,
                    health.manufacturer,
                    health.made,
                    health.temperature_millicelsius,
                    health.source.len()
                );
            }
        }
        expect_file!["devices_expected.txt"].assert_eq(&shown);
        let encrypted = [DeviceId::new(252, 0)];
        assert_eq!(machine.with_all_below(&encrypted), [DeviceId::new(179, 0), DeviceId::new(252, 0)]);
        assert_eq!(machine.disk_of(DeviceId::new(179, 2)), DeviceId::new(179, 0));
    }
}
