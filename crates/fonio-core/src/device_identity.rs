//! Describes the identity of a storage device.

use serde::{Deserialize, Serialize};

use crate::device_kind::DeviceKind;

/// A device, without its serial number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Device"))]
#[serde(deny_unknown_fields)]
pub struct DeviceIdentity {
    /// Its kind.
    pub kind: DeviceKind,
    /// The model; for an eMMC or SD card, the product name that it reports.
    pub model: Option<String>,
    /// The manufacturer's name, if it is known.
    pub manufacturer: Option<String>,
    /// The manufacturer's number that an eMMC or SD card reports: `0x000003`.
    pub manufacturer_id: Option<String>,
    /// The OEM number that an eMMC or SD card reports: `0x5344`.
    pub oem_id: Option<String>,
    /// The revision of the firmware.
    pub firmware: Option<String>,
    /// The revision of the hardware.
    pub hardware: Option<String>,
    /// The month of production, as an eMMC or SD card reports it: `05/2023`.
    pub made: Option<String>,
    /// The size of the complete device in bytes.
    pub capacity_bytes: u64,
    /// The bus and its speed mode: `SDR104`, `HS400`, `PCIe 3.0 x4`, `USB 3`.
    pub bus: Option<String>,
    /// The maximum rate of the bus in 10⁶ bytes per second, if it is known.
    pub bus_limit_mb_s: Option<f64>,
    /// The I/O scheduler.
    pub scheduler: Option<String>,
}

impl DeviceIdentity {
    /// Returns the texts that the device reported about itself.
    pub fn texts(&mut self) -> [&mut Option<String>; 9] {
        [
            &mut self.model,
            &mut self.manufacturer,
            &mut self.manufacturer_id,
            &mut self.oem_id,
            &mut self.firmware,
            &mut self.hardware,
            &mut self.made,
            &mut self.bus,
            &mut self.scheduler,
        ]
    }
}
