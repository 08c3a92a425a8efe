//! Defines the kinds of block devices.

use serde::{Deserialize, Serialize};

/// The kind of a block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// eMMC.
    Emmc,
    /// An SD card.
    Sd,
    /// UFS.
    Ufs,
    /// NVMe.
    Nvme,
    /// Raw flash (`mtdblock`, `ubiblock`).
    RawFlash,
    /// Another non-rotational device.
    SolidState,
    /// A USB device.
    Usb,
    /// A device served by another machine or by a program; its hardware is unknown.
    Virtual,
    /// A hard disk.
    HardDisk,
    /// A device-mapper device: LVM, LUKS.
    DeviceMapper,
    /// A software RAID array (`md`).
    Raid,
    /// A loop device, which is a file used as a block device.
    Loop,
    /// A RAM disk or compressed memory (zram).
    Memory,
    /// Another kind, or an unknown kind.
    #[default]
    Other,
}

impl DeviceKind {
    /// Returns the name of the kind for users, such as "SD card".
    pub fn label(self) -> &'static str {
        match self {
            DeviceKind::Emmc => "eMMC",
            DeviceKind::Sd => "SD card",
            DeviceKind::Ufs => "UFS",
            DeviceKind::Nvme => "NVMe",
            DeviceKind::RawFlash => "raw flash",
            DeviceKind::SolidState => "solid-state disk",
            DeviceKind::Usb => "USB device",
            DeviceKind::Virtual => "virtual device",
            DeviceKind::HardDisk => "hard disk",
            DeviceKind::DeviceMapper => "device mapper",
            DeviceKind::Raid => "RAID",
            DeviceKind::Loop => "loop device",
            DeviceKind::Memory => "disk in memory",
            DeviceKind::Other => "device",
        }
    }

    /// Whether devices of this kind are certainly flash. USB devices and virtual disks can be flash without
    /// reporting this fact.
    pub fn is_flash(self) -> bool {
        matches!(
            self,
            DeviceKind::Emmc
                | DeviceKind::Sd
                | DeviceKind::Ufs
                | DeviceKind::Nvme
                | DeviceKind::RawFlash
                | DeviceKind::SolidState
        )
    }

    /// Whether the device's data is stored elsewhere: in memory, in a file, or on underlying devices.
    pub fn is_layer(self) -> bool {
        matches!(self, DeviceKind::DeviceMapper | DeviceKind::Raid | DeviceKind::Loop | DeviceKind::Memory)
    }

    /// Whether measurements of the device say nothing about hardware.
    pub fn hides_hardware(self) -> bool {
        matches!(self, DeviceKind::Virtual | DeviceKind::Loop | DeviceKind::Memory)
    }
}
