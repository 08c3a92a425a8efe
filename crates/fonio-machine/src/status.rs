//! Collects the data of the status card that `fonio` shows without a subcommand: the machine's storage and
//! the current writes.
//!
//! Reads sysfs and procfs only, needs no root, writes nothing, and takes less than a second. Facts that
//! cannot be read are `None` and listed in `notes`.

use std::time::{Duration, Instant};

use fonio_core::DeviceKind;
use fonio_core::meta::{Host, Mount};
use serde::Serialize;

use crate::devices::{self, StorageDevice};
use crate::machine::Machine;
use crate::units::Units;
use crate::writers::{self, Counters, Writing};

/// State of the machine's storage at one moment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Status {
    /// The machine's name, model, kernel, processors and memory.
    pub host: Host,
    /// Real block devices, flash first; then device-mapper, loop and zram devices.
    pub devices: Vec<StorageDevice>,
    /// The processes and cgroups that are writing now, with the number of bytes that they wrote.
    pub writing: Writing,
    /// One sentence per unreadable fact, with the command that makes the fact readable.
    pub notes: Vec<String>,
}

/// The fill level in percent at which a file system gets a warning. Nearly full flash is slower and wears
/// faster.
const NEARLY_FULL_PERCENT: u64 = 90;

impl Status {
    /// Returns the devices to show: real devices and mounted stacked devices, but no empty devices.
    pub fn shown(&self) -> impl Iterator<Item = &StorageDevice> {
        self.devices.iter().filter(|device| {
            let is_empty = device.device.size_bytes.is_none_or(|size| size.0 == 0);
            let is_real = !device.kind.is_layer() && device.kind != DeviceKind::Other;
            !is_empty && (is_real || !device.device.mounts.is_empty())
        })
    }

    /// Returns one sentence that names the devices that are worn or full; if there are none, it names the
    /// flash devices.
    pub fn verdict(&self) -> String {
        let mut troubles = Vec::new();
        for device in &self.devices {
            let name = device.device.name.as_deref().unwrap_or("?");
            if let Some(health) = &device.health {
                troubles.extend(health.troubles().map(|trouble| format!("{name} {trouble}")));
            }
            for mount in &device.device.mounts {
                if let Some(full) = percent_full(mount).filter(|full| *full >= NEARLY_FULL_PERCENT) {
                    troubles.push(format!("{} is {full} % full", mount.at));
                }
            }
        }
        if !troubles.is_empty() {
            return format!("Worth a look: {}.", troubles.join("; "));
        }
        let flash = self.devices.iter().filter(|device| device.flash);
        let flash: Vec<&str> = flash.filter_map(|device| device.device.name.as_deref()).collect();
        match &flash[..] {
            [] => "No flash device was found.".to_owned(),
            [one] => format!("{one} is flash; nothing on it looks worn or full."),
            several => format!("{} are flash; nothing on them looks worn or full.", several.join(", ")),
        }
    }
}

/// Returns the percentage of a file system's space that is used. Space reserved for root counts as used.
pub fn percent_full(mount: &Mount) -> Option<u64> {
    let (size, available) = (mount.size_bytes?.0, mount.available_bytes?.0);
    (size > 0).then(|| size.saturating_sub(available).saturating_mul(100) / size)
}

const INTERVAL: Duration = Duration::from_millis(700);

/// Reads the machine's status. Takes about 0.7 seconds to measure the writes of processes and cgroups.
pub fn status() -> Status {
    let machine = Machine::here();
    let before = Counters::read(&machine);
    let began = Instant::now();
    // Read the facts that do not change between the two readings of the counters.
    let mut devices = devices::find(&machine);
    let host = machine.host();
    std::thread::sleep(INTERVAL.saturating_sub(began.elapsed()));
    let interval_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let after = Counters::read(&machine);

    let mut notes = Vec::new();
    let mut writing = writers::between(&before, &after, interval_ms);
    let mut units = Units::default();
    for process in &mut writing.processes {
        let user = machine.task(process.pid).owner().and_then(|owner| owner.user);
        process.unit = units.of(process.cgroup.as_deref(), user);
    }
    for group in &mut writing.cgroups {
        group.unit = units.of(Some(&group.cgroup), None);
    }
    // The kernel hides a few processes even from root, so this note would not help root.
    if writing.processes_hidden > 0 && !rustix::process::geteuid().is_root() {
        notes.push(format!(
            "only root can read the counters of {} processes: run `sudo fonio`",
            writing.processes_hidden
        ));
    }
    if after.processes.is_empty() && after.processes_hidden == 0 {
        notes.push("this kernel does not count the bytes that processes write: it must be built with CONFIG_TASK_IO_ACCOUNTING=y".to_owned());
    }
    for device in &mut devices {
        device.add_counters(before.disks.get(&device.device.id), after.disks.get(&device.device.id));
    }
    Status { host, devices, writing, notes }
}

#[cfg(test)]
mod tests {
    use fonio_core::ByteCount;
    use fonio_core::meta::Device;

    use super::*;
    use crate::health::Health;

    #[test]
    fn the_verdict_names_what_is_worn_or_full() {
        let device = |name: &str, kind: DeviceKind, life_used_percent, available| StorageDevice {
            device: Device {
                name: Some(name.to_owned()),
                size_bytes: Some(ByteCount(1000)),
                mounts: vec![Mount {
                    at: format!("/{name}"),
                    size_bytes: Some(ByteCount(1000)),
                    available_bytes: Some(ByteCount(available)),
                    ..Mount::default()
                }],
                ..Device::default()
            },
            kind,
            flash: kind.is_flash(),
            health: Some(Health { life_used_percent, ..Health::default() }),
            ..StorageDevice::default()
        };
        let verdict = |devices| Status { devices, ..Status::default() }.verdict();
        let card = || device("card", DeviceKind::Sd, None, 101);
        assert_eq!(verdict(vec![]), "No flash device was found.");
        assert_eq!(verdict(vec![card()]), "card is flash; nothing on it looks worn or full.");
        assert_eq!(
            verdict(vec![card(), device("sda", DeviceKind::Ufs, Some(80), 100)]),
            "Worth a look: sda has used 80 % of its life; /sda is 90 % full."
        );
        let layers = vec![card(), device("loop0", DeviceKind::Loop, None, 500)];
        assert_eq!(Status { devices: layers, ..Status::default() }.shown().count(), 2, "both are mounted");
    }

    #[test]
    fn this_machine() {
        let status = status();
        assert!(status.writing.interval_ms >= 700);
        assert!(status.host.kernel.is_some());
        for found in &status.devices {
            assert!(found.device.size_bytes.is_some_and(|size| size.0 > 0));
            for mount in &found.file_systems {
                assert!(mount.at.starts_with('/'));
            }
        }
        assert!(status.devices.is_sorted_by_key(|found| !found.flash));
        assert!(serde_json::to_string(&status).unwrap().contains("\"writing\""));
    }
}
