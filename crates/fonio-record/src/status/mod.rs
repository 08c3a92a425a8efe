//! The machine's storage and its present writes: the data of the status card that `fonio` shows without a subcommand.
//!
//! Reads sysfs and procfs only, needs no root, writes nothing, and takes less than a second. Unreadable facts are
//! absent, and `notes` says so.

mod devices;
mod writers;

use std::time::{Duration, Instant};

use fonio_core::meta::{Device, Host, Mount};
use fonio_core::{ByteCount, DeviceId};
use serde::Serialize;

use crate::machine::Machine;
use crate::units::Units;
use writers::Counters;

/// The machine's storage at one moment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Status {
    /// The machine.
    pub host: Host,
    /// Real block devices, flash first; after them device mapper, loop and zram devices.
    pub devices: Vec<StorageDevice>,
    /// Which processes and cgroups write at present, and how much.
    pub writing: Writing,
    /// One sentence for each fact that could not be read, with the command that makes it readable.
    pub notes: Vec<String>,
}

/// One block device.
#[derive(Clone, Debug, Serialize)]
pub struct StorageDevice {
    /// Queue limits, file systems (with their free space) and stacking.
    pub device: Device,
    /// Its kind.
    pub kind: DeviceKind,
    /// Whether it is flash.
    pub flash: bool,
    /// The wear that the device reports, if it needs no special command.
    pub health: Option<Health>,
    /// The file systems mounted from it, from its partitions, and from the devices stacked on these.
    pub file_systems: Vec<Mount>,
    /// Bytes written since boot (`/sys/block/*/stat`).
    pub written_bytes: Option<ByteCount>,
    /// Bytes read since boot.
    pub read_bytes: Option<ByteCount>,
    /// Bytes written during [`Writing::interval_ms`].
    pub written_now_bytes: Option<ByteCount>,
    /// Bytes read during [`Writing::interval_ms`].
    pub read_now_bytes: Option<ByteCount>,
    /// Time since boot for which requests were in flight.
    pub busy_ms: Option<u64>,
    /// Time during [`Writing::interval_ms`] for which requests were in flight.
    pub busy_now_ms: Option<u64>,
}

/// The kind of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum DeviceKind {
    Emmc,
    SdCard,
    Ufs,
    Nvme,
    /// Raw flash (`mtdblock`, `ubiblock`).
    RawFlash,
    /// Any other device that reports that it does not rotate.
    SolidState,
    Usb,
    /// A disk of a virtual machine; the hardware behind it is hidden.
    Virtual,
    HardDisk,
    DeviceMapper,
    Raid,
    Loop,
    /// Compressed memory, mostly for swap.
    Zram,
    Other,
}

/// The wear that a device reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Used life in percent: the upper end of the range that the device states, since eMMC and UFS state steps of 10 %.
    /// 110 means "exceeded".
    pub life_used_percent: Option<u32>,
    /// The same for the device's second kind of memory (type B, in eMMC and UFS mostly the MLC part).
    pub life_used_b_percent: Option<u32>,
    /// Reserved blocks: `normal`, `warning` (80 % used), `urgent` (90 % used).
    pub reserved_blocks: Option<String>,
    /// Manufacturer; a number if the device states only that.
    pub manufacturer: Option<String>,
    /// Month and year of manufacture, as the device states it.
    pub made: Option<String>,
    /// Temperature.
    pub temperature_millicelsius: Option<i64>,
    /// The sysfs files with these facts.
    pub source: Vec<String>,
}

/// The processes and cgroups that write at present.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Writing {
    /// How long the writes were measured.
    pub interval_ms: u64,
    /// Processes that caused storage writes (`write_bytes` of `/proc/PID/io`: dirtied pages, less those never written),
    /// the busiest first. Processes without writes are left out.
    pub processes: Vec<ProcessWriting>,
    /// Number of processes whose counters only root may read.
    pub processes_hidden: u32,
    /// cgroups that caused writes (`io.stat` of cgroup v2), the busiest first; only those without children.
    pub cgroups: Vec<CgroupWriting>,
}

/// The bytes that one process caused to be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessWriting {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// Path below the cgroup mount.
    pub cgroup: Option<String>,
    /// The systemd unit, container, add-on or Android package.
    pub unit: Option<String>,
    /// Bytes written during the interval.
    pub written_bytes: ByteCount,
}

/// The bytes that one cgroup wrote on one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CgroupWriting {
    /// Path below the cgroup mount.
    pub cgroup: String,
    /// The systemd unit, container or add-on.
    pub unit: Option<String>,
    /// The device.
    pub device: DeviceId,
    /// Bytes written during the interval.
    pub written_bytes: ByteCount,
}

/// How long writes are measured.
const INTERVAL: Duration = Duration::from_millis(700);

/// Looks at the machine. Takes about 0.7 seconds, in which it measures the writes of processes and cgroups.
pub fn status() -> Status {
    let machine = Machine::here();
    let before = Counters::read(&machine);
    let began = Instant::now();
    // Read the constant facts while the counters run.
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
    // The kernel hides a few processes from root too; no advice of ours would change that.
    if writing.processes_hidden > 0 && !rustix::process::geteuid().is_root() {
        notes.push(format!(
            "only root can read the counters of {} processes: run `sudo fonio`",
            writing.processes_hidden
        ));
    }
    if after.processes.is_empty() && after.processes_hidden == 0 {
        notes.push("this kernel does not count what processes write: it must be built with CONFIG_TASK_IO_ACCOUNTING=y".to_owned());
    }
    for device in &mut devices {
        device.add_counters(before.disks.get(&device.device.id), after.disks.get(&device.device.id));
    }
    Status { host, devices, writing, notes }
}

/// The machine's block devices with their counters and wear, without measuring who writes. Takes some milliseconds.
pub fn storage_devices() -> Vec<StorageDevice> {
    let machine = Machine::here();
    let mut devices = devices::find(&machine);
    let counters = writers::read_disks(&machine);
    for device in &mut devices {
        device.add_counters(None, counters.get(&device.device.id));
    }
    devices
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // The command line writes it as JSON.
        assert!(serde_json::to_string(&status).unwrap().contains("\"writing\""));
    }
}
