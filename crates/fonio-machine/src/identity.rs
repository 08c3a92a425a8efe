//! Identifies a device: its model, its manufacturer, its revisions, and the bus that limits its throughput.
//!
//! Files with serial numbers (`cid`, `serial`, `wwid`) are never opened, so a description cannot contain a
//! serial number.

use std::fs;
use std::path::Path;

use fonio_core::{ByteCount, DeviceId, DeviceIdentity, DeviceKind};

use crate::kind;
use crate::machine::Machine;
use crate::sysfs::{chosen, read_number, read_text};

impl Machine {
    /// Returns the identity of the device at the bottom of the stack below `id`; `None` if this device does
    /// not exist or contains no medium.
    pub fn identity(&self, id: DeviceId) -> Option<DeviceIdentity> {
        let dir = fs::canonicalize(self.device_dir(self.bottom_of(id))).ok()?;
        let sectors = read_number::<u64>(&dir.join("size")).filter(|size| *size > 0)?;
        let mut found = DeviceIdentity {
            kind: kind::of(&dir),
            capacity_bytes: ByteCount::from_sectors(sectors).0,
            scheduler: read_text(&dir.join("queue/scheduler")).map(|text| chosen(&text).to_owned()),
            ..DeviceIdentity::default()
        };
        match found.kind {
            DeviceKind::Emmc | DeviceKind::Sd => add_mmc(&mut found, self, &dir),
            DeviceKind::Nvme => add_nvme(&mut found, &dir),
            DeviceKind::Ufs
            | DeviceKind::Usb
            | DeviceKind::HardDisk
            | DeviceKind::SolidState
            | DeviceKind::Other => add_scsi(&mut found, &dir),
            _ => {}
        }
        Some(found)
    }
}

/// Adds the fields of the CID register, without the serial number.
fn add_mmc(to: &mut DeviceIdentity, machine: &Machine, dir: &Path) {
    let text = |name: &str| read_text(&dir.join("device").join(name));
    to.model = text("name");
    to.manufacturer_id = text("manfid");
    to.oem_id = text("oemid");
    to.firmware = text("fwrev");
    to.hardware = text("hwrev");
    to.made = text("date");
    let host = dir.ancestors().find_map(|dir| {
        let name = dir.file_name()?.to_string_lossy().into_owned();
        let digits = name.strip_prefix("mmc")?;
        (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
    });
    let ios = host.and_then(|host| read_text(&machine.sys("kernel/debug").join(host).join("ios")));
    if let Some((bus, limit)) = ios.as_deref().and_then(mmc_bus) {
        (to.bus, to.bus_limit_mb_s) = (Some(bus), Some(limit));
    }
}

fn add_nvme(to: &mut DeviceIdentity, dir: &Path) {
    let text = |name: &str| read_text(&dir.join("device").join(name));
    to.model = text("model");
    to.firmware = text("firmware_rev");
    if let (Some(speed), Some(width)) = (text("device/current_link_speed"), text("device/current_link_width"))
    {
        let rate: Option<f64> = speed.split_whitespace().next().and_then(|number| number.parse().ok());
        to.bus_limit_mb_s = rate.zip(width.parse::<f64>().ok()).map(|(rate, width)| pcie_mb_s(rate) * width);
        to.bus = Some(format!("{} x{width}", speed.replace(" PCIe", "")));
    }
}

/// Adds the identity fields of SATA, UFS and USB devices.
fn add_scsi(to: &mut DeviceIdentity, dir: &Path) {
    let text = |name: &str| read_text(&dir.join("device").join(name));
    to.model = text("model");
    to.manufacturer = text("vendor").filter(|vendor| vendor != "ATA");
    to.firmware = text("rev");
    let port = dir.ancestors().find(|dir| dir.join("idVendor").exists());
    if let Some(speed) = port.and_then(|port| read_number::<f64>(&port.join("speed"))) {
        to.bus = Some(format!("USB {speed:.0} Mbit/s"));
        to.bus_limit_mb_s = Some(usb_mb_s(speed));
    }
}

/// Returns the rate of one PCIe lane in 10⁶ bytes per second, after line coding: 8b/10b up to 5 GT/s,
/// 128b/130b above 5 GT/s.
fn pcie_mb_s(giga_transfers: f64) -> f64 {
    let code = if giga_transfers <= 5.0 { 0.8 } else { 128.0 / 130.0 };
    giga_transfers * 1000.0 / 8.0 * code
}

/// Returns the rate of a USB port in 10⁶ bytes per second, after line coding: 8b/10b at 5 Gbit/s, 128b/132b
/// above 5 Gbit/s.
fn usb_mb_s(mega_bits: f64) -> f64 {
    let code = match mega_bits {
        _ if mega_bits <= 480.0 => 1.0,
        _ if mega_bits <= 5000.0 => 0.8,
        _ => 128.0 / 132.0,
    };
    mega_bits / 8.0 * code
}

/// Returns the speed mode and the maximum rate of the bus, from the `ios` file of an MMC host in debugfs.
fn mmc_bus(ios: &str) -> Option<(String, f64)> {
    let field = |name: &str| {
        let line = ios.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let clock: f64 =
        field("actual clock").or_else(|| field("clock"))?.split_whitespace().next()?.parse().ok()?;
    let timing = field("timing spec")?;
    let mode = timing
        .split_once('(')
        .and_then(|(_, rest)| rest.split_once(')'))
        .map_or(timing.as_str(), |(mode, _)| mode);
    let width = field("bus width")?;
    let bits: f64 = width.split_once('(')?.1.split_whitespace().next()?.parse().ok()?;
    let twice = mode.contains("DDR") || mode.contains("HS400");
    let limit = clock * bits / 8.0 / 1e6 * if twice { 2.0 } else { 1.0 };
    (limit > 0.0).then(|| (format!("{mode}, {bits:.0} bit, {:.0} MHz", clock / 1e6), limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_buses() {
        assert_eq!(usb_mb_s(480.0), 60.0);
        assert_eq!(usb_mb_s(5000.0), 500.0);
        assert_eq!(pcie_mb_s(5.0), 500.0);
        assert_eq!(pcie_mb_s(8.0).round(), 985.0);
        let hs400 = "clock:\t\t200000000 Hz\nbus width:\t3 (8 bits)\ntiming spec:\t10 (mmc HS400)\n";
        assert_eq!(mmc_bus(hs400), Some(("mmc HS400, 8 bit, 200 MHz".to_owned(), 400.0)));
        assert_eq!(mmc_bus("clock:\t\t0 Hz\n"), None);
    }
}
