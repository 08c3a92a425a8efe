//! Reads a device's reported wear and manufacturer from sysfs.

use std::path::{Path, PathBuf};

use fonio_core::DeviceKind;
use serde::Serialize;

use crate::sysfs::{entries, read_number, read_text};

/// Wear and manufacturer reported by a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Used life in percent. eMMC and UFS report a range of 10 %; this value is the upper end of the range.
    /// The value 110 means that the device reports its life as exceeded.
    pub life_used_percent: Option<u32>,
    /// Used life of the device's second type of memory (type B) in percent. In eMMC and UFS, this is mostly
    /// the MLC part.
    pub life_used_b_percent: Option<u32>,
    /// Reserved blocks: `normal`, `warning` (80 % used), `urgent` (90 % used).
    pub reserved_blocks: Option<String>,
    /// Name of the manufacturer, or its number if the device reports only a number.
    pub manufacturer: Option<String>,
    /// Month and year of manufacture, as reported by the device.
    pub made: Option<String>,
    /// The device's temperature in thousandths of a degree Celsius.
    pub temperature_millicelsius: Option<i64>,
    /// The sysfs files from which these fields were read.
    pub source: Vec<String>,
}

impl Health {
    /// Returns reasons to replace the device soon. Each reason is the predicate of a sentence that begins
    /// with the device's name.
    pub(crate) fn troubles(&self) -> impl Iterator<Item = String> {
        let used = self.life_used_percent.filter(|used| *used >= WORN_PERCENT);
        let reserve = self.reserved_blocks.as_deref().filter(|state| *state != "normal");
        let used = used.map(|used| format!("has used {used} % of its life"));
        used.into_iter().chain(reserve.map(|state| format!("has reserved blocks in the state \"{state}\"")))
    }
}

/// Minimum percentage of used life at which a device gets a warning.
const WORN_PERCENT: u32 = 80;

/// Returns the health of a device of this kind with sysfs folder `dir`.
pub(crate) fn of(kind: DeviceKind, dir: &Path) -> Option<Health> {
    match kind {
        DeviceKind::Emmc | DeviceKind::Sd => mmc_health(&dir.join("device")),
        DeviceKind::Ufs => ufs_health(dir),
        DeviceKind::Nvme => nvme_health(&dir.join("device")),
        _ => None,
    }
}

/// Reads the wear and manufacturer of eMMC and SD cards. eMMC 5.0 and later report their wear (`EXT_CSD`
/// bytes 267 to 269, JESD84-B51 7.4.31 to 7.4.33); SD cards do not. eMMC and SD cards report their
/// manufacturer.
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

/// Reads the UFS health descriptor (JESD220, bytes 2 to 4). The descriptor's directory is in the host
/// controller's directory.
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

/// Reads the temperature of an NVMe device (a hwmon directory below the controller). sysfs does not show the
/// wear of NVMe devices.
fn nvme_health(controller: &Path) -> Option<Health> {
    let is_monitor =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("hwmon"));
    // The sensor's directory is either `hwmon1` or `hwmon/hwmon1`.
    let monitors = entries(controller).into_iter().filter(is_monitor);
    let mut places = monitors.flat_map(|dir| std::iter::once(dir.clone()).chain(entries(&dir)));
    let file = places.find_map(|dir| Some(dir.join("temp1_input")).filter(|file| file.exists()))?;
    let temperature = read_number(&file)?;
    Some(Health {
        temperature_millicelsius: Some(temperature),
        source: vec![file.to_string_lossy().into_owned()],
        ..Health::default()
    })
}

/// Reads files below a directory, and collects the names of the files that exist.
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

/// Returns the upper end of a wear range: `0x01` is 0 to 10 % used, `0x0a` is 90 to 100 %, `0x0b` is more
/// than 100 %, and 0 means that the wear is not defined.
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

/// Returns the name of the manufacturer with this number, for most eMMC and SD devices. Sources: the kernel's
/// `drivers/mmc/core/card.h` and mmc-utils' `lsmmc.c`.
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

#[cfg(test)]
mod tests {
    use super::*;

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
