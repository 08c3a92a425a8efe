//! The block devices of the status card: their kind and their wear.

use std::fs;
use std::path::{Path, PathBuf};

use fonio_core::ByteCount;
use fonio_core::meta::{Device, Mount};

use super::writers::DiskCounters;
use super::{DeviceKind, Health, StorageDevice};
use crate::machine::{Machine, read_number, read_text};

/// Finds every device; flash first, then by kind and name.
pub(super) fn find(machine: &Machine) -> Vec<StorageDevice> {
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

/// The file systems mounted from a device or from devices stacked on it.
fn mounts_above(device: &Device, all: &[Device]) -> Vec<Mount> {
    let mut found = device.mounts.clone();
    let mut reached = vec![device.id];
    // Stacks have a few levels; each round goes one level up.
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
    let kind = kind(&dir, &device);
    let flash = matches!(
        kind,
        DeviceKind::Emmc
            | DeviceKind::SdCard
            | DeviceKind::Ufs
            | DeviceKind::Nvme
            | DeviceKind::RawFlash
            | DeviceKind::SolidState
    );
    let health = match kind {
        DeviceKind::Emmc | DeviceKind::SdCard => mmc_health(&dir.join("device")),
        DeviceKind::Ufs => ufs_health(&dir),
        DeviceKind::Nvme => nvme_health(&dir.join("device")),
        _ => None,
    };
    StorageDevice {
        device,
        kind,
        flash,
        health,
        file_systems,
        written_bytes: None,
        read_bytes: None,
        written_now_bytes: None,
        read_now_bytes: None,
        busy_now_ms: None,
        busy_ms: None,
    }
}

/// The kind of a device, by its driver's place in sysfs.
fn kind(dir: &Path, device: &Device) -> DeviceKind {
    let name = device.name.as_deref().unwrap_or("");
    let path = dir.to_string_lossy();
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if starts(&["mmcblk"]) {
        return match read_text(&dir.join("device/type")).as_deref() {
            Some("SD") => DeviceKind::SdCard,
            _ => DeviceKind::Emmc,
        };
    }
    if starts(&["nvme"]) {
        DeviceKind::Nvme
    } else if starts(&["mtdblock", "ubiblock"]) {
        DeviceKind::RawFlash
    } else if starts(&["dm-"]) {
        DeviceKind::DeviceMapper
    } else if starts(&["md"]) {
        DeviceKind::Raid
    } else if starts(&["loop"]) {
        DeviceKind::Loop
    } else if starts(&["zram"]) {
        DeviceKind::Zram
    } else if starts(&["vd", "xvd"]) {
        DeviceKind::Virtual
    } else if path.contains("ufs") {
        DeviceKind::Ufs
    } else if path.contains("/usb") {
        DeviceKind::Usb
    } else if dir.join("device").exists() {
        match device.rotational {
            Some(true) => DeviceKind::HardDisk,
            Some(false) => DeviceKind::SolidState,
            None => DeviceKind::Other,
        }
    } else {
        DeviceKind::Other
    }
}

/// Reads eMMC and SD health. eMMC 5.0 and later state their wear (`EXT_CSD` bytes 267 to 269, JESD84-B51 7.4.31 to
/// 7.4.33); SD cards do not. Both name their manufacturer.
fn mmc_health(dir: &Path) -> Option<Health> {
    let mut source = Source::new(dir);
    let life = source.text("life_time");
    let (life_a, life_b) = match life.as_deref().map(|life| life.split_whitespace().collect::<Vec<_>>()) {
        Some(values) => (values.first().and_then(|v| tenths(v)), values.get(1).and_then(|v| tenths(v))),
        None => (None, None),
    };
    let reserved_blocks = source.text("pre_eol_info").and_then(|value| reserved(&value));
    let manufacturer =
        source.text("manfid").map(|id| mmc_manufacturer(&id).map_or(id.clone(), str::to_owned));
    let made = source.text("date");
    source.finish(Health {
        life_used_percent: life_a,
        life_used_b_percent: life_b,
        reserved_blocks,
        manufacturer,
        made,
        ..Health::default()
    })
}

/// Reads the UFS health descriptor (JESD220, bytes 2 to 4). Its directory is in that of the host controller.
fn ufs_health(dir: &Path) -> Option<Health> {
    let host = dir.ancestors().find(|parent| parent.join("health_descriptor").is_dir())?;
    let mut source = Source::new(host);
    let life_a = source.text("health_descriptor/life_time_estimation_a").and_then(|v| tenths(&v));
    let life_b = source.text("health_descriptor/life_time_estimation_b").and_then(|v| tenths(&v));
    let reserved_blocks = source.text("health_descriptor/eol_info").and_then(|v| reserved(&v));
    let manufacturer = source.text("string_descriptors/manufacturer_name");
    source.finish(Health {
        life_used_percent: life_a,
        life_used_b_percent: life_b,
        reserved_blocks,
        manufacturer,
        ..Health::default()
    })
}

/// Reads the temperature of an NVMe device (a hwmon directory below the controller). sysfs does not have its wear.
fn nvme_health(controller: &Path) -> Option<Health> {
    let hwmon = fs::read_dir(controller).ok()?.flatten().map(|entry| entry.path());
    let places: Vec<PathBuf> = hwmon
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("hwmon")))
        .flat_map(|path| {
            // Either `hwmon1` itself, or `hwmon/hwmon1`.
            let below = fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path());
            std::iter::once(path.clone()).chain(below.filter(|below| below.is_dir())).collect::<Vec<_>>()
        })
        .map(|path| path.join("temp1_input"))
        .collect();
    let file = places.into_iter().find(|path| path.exists())?;
    let temperature = read_number(&file)?;
    Some(Health {
        temperature_millicelsius: Some(temperature),
        source: vec![file.to_string_lossy().into_owned()],
        ..Health::default()
    })
}

/// Reads files below a directory and remembers which exist.
struct Source<'a> {
    dir: &'a Path,
    read: Vec<String>,
}

impl<'a> Source<'a> {
    fn new(dir: &'a Path) -> Source<'a> {
        Source { dir, read: Vec::new() }
    }

    fn text(&mut self, name: &str) -> Option<String> {
        let path = self.dir.join(name);
        let text = read_text(&path)?;
        self.read.push(path.to_string_lossy().into_owned());
        Some(text)
    }

    fn finish(self, health: Health) -> Option<Health> {
        let any = health != Health::default();
        any.then_some(Health { source: self.read, ..health })
    }
}

/// The upper end of a wear range: `0x01` is 0 to 10 % used, `0x0a` 90 to 100 %, `0x0b` more than that; 0 is "not
/// defined".
fn tenths(text: &str) -> Option<u32> {
    match hexadecimal(text)? {
        value @ 1..=11 => Some(value * 10),
        _ => None,
    }
}

fn reserved(text: &str) -> Option<String> {
    let word = match hexadecimal(text)? {
        1 => "normal",
        2 => "warning",
        3 => "urgent",
        _ => return None,
    };
    Some(word.to_owned())
}

fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// The manufacturers of most eMMC and SD devices by number, as in the kernel's `drivers/mmc/core/card.h` and mmc-utils'
/// `lsmmc.c`.
fn mmc_manufacturer(id: &str) -> Option<&'static str> {
    Some(match hexadecimal(id)? & 0xff {
        0x02 | 0x45 => "SanDisk",
        0x03 => "SanDisk (SD)",
        0x11 => "Toshiba/Kioxia",
        0x13 | 0xfe => "Micron",
        0x15 => "Samsung",
        0x1b => "Samsung (SD)",
        0x70 => "Kingston",
        0x90 => "SK Hynix",
        _ => return None,
    })
}

impl StorageDevice {
    pub(super) fn add_counters(&mut self, before: Option<&DiskCounters>, after: Option<&DiskCounters>) {
        let Some(after) = after else { return };
        self.busy_ms = Some(after.busy_ms);
        self.written_bytes = Some(ByteCount(after.written_bytes));
        self.read_bytes = Some(ByteCount(after.read_bytes));
        let Some(before) = before else { return };
        self.written_now_bytes = Some(ByteCount(after.written_bytes.saturating_sub(before.written_bytes)));
        self.read_now_bytes = Some(ByteCount(after.read_bytes.saturating_sub(before.read_bytes)));
        self.busy_now_ms = Some(after.busy_ms.saturating_sub(before.busy_ms));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use expect_test::expect;
    use fonio_core::DeviceId;

    use super::*;

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A phone's sysfs: eMMC with a dm-crypt device on one partition, an SD card, a UFS disk, an NVMe disk.
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
        expect![[r#"
            mmcblk0 Emmc flash=true encrypted=None below=[] mounts=["/no-such-bind", "/no-such-data"]
                used Some(30) Some(110), reserve Some("warning"), by Some("Samsung") Some("06/2017"), None, 4 files
            mmcblk1 SdCard flash=true encrypted=None below=[] mounts=[]
                used None None, reserve None, by Some("0x000099") None, None, 1 files
            sda Ufs flash=true encrypted=None below=[] mounts=[]
                used Some(10) Some(20), reserve Some("normal"), by Some("KIOXIA") None, None, 4 files
            nvme0n1 Nvme flash=true encrypted=None below=[] mounts=[]
                used None None, reserve None, by None None, Some(40850), 1 files
            dm-0 DeviceMapper flash=false encrypted=Some(true) below=["179:0"] mounts=["/no-such-data"]
        "#]].assert_eq(&shown);
        let encrypted = [DeviceId::new(252, 0)];
        assert_eq!(machine.with_all_below(&encrypted), [DeviceId::new(179, 0), DeviceId::new(252, 0)]);
        assert_eq!(machine.disk_of(DeviceId::new(179, 2)), DeviceId::new(179, 0));
    }

    #[test]
    fn wear_registers() {
        for (text, expected) in [
            ("0x00", None),
            ("0x01", Some(10)),
            ("0x0a", Some(100)),
            ("0x0b", Some(110)),
            ("0x0c", None),
            ("3", None),
        ] {
            assert_eq!(tenths(text), expected, "{text}");
        }
    }
}
