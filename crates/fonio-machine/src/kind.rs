//! Determines the kind of a block device from its name and its path in sysfs.

use std::path::Path;

use fonio_core::DeviceKind;

use crate::sysfs::{read_number, read_text};

/// Prefixes of the kernel's names for disks, each with its device kind. eMMC and SD cards have the same
/// prefix.
const NAMES: [(&str, DeviceKind); 13] = [
    ("mmcblk", DeviceKind::Emmc),
    ("nvme", DeviceKind::Nvme),
    ("mtdblock", DeviceKind::RawFlash),
    ("ubiblock", DeviceKind::RawFlash),
    ("dm-", DeviceKind::DeviceMapper),
    ("md", DeviceKind::Raid),
    ("loop", DeviceKind::Loop),
    ("zram", DeviceKind::Memory),
    ("ram", DeviceKind::Memory),
    ("vd", DeviceKind::Virtual),
    ("xvd", DeviceKind::Virtual),
    ("ublkb", DeviceKind::Virtual),
    ("nbd", DeviceKind::Virtual),
];

/// Returns the kind of the disk with the sysfs folder `dir`. The path of this folder must not contain links.
pub(crate) fn of(dir: &Path) -> DeviceKind {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    if let Some((_, kind)) = NAMES.iter().find(|(prefix, _)| name.starts_with(prefix)) {
        return match read_text(&dir.join("device/type")).as_deref() {
            Some("SD") if *kind == DeviceKind::Emmc => DeviceKind::Sd,
            _ => *kind,
        };
    }
    // SATA, UFS and USB devices all look like SCSI disks.
    let path = dir.to_string_lossy();
    if path.contains("ufs") {
        return DeviceKind::Ufs;
    }
    if path.contains("/usb") {
        return DeviceKind::Usb;
    }
    match read_number::<u32>(&dir.join("queue/rotational")) {
        _ if !dir.join("device").exists() => DeviceKind::Other,
        Some(0) => DeviceKind::SolidState,
        Some(_) => DeviceKind::HardDisk,
        None => DeviceKind::Other,
    }
}
