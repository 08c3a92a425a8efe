//! What the machine's storage is and does now: the data behind the status card of bare `fonio`.
//!
//! Reads sysfs and procfs only, needs no root, writes nothing, and takes less than a second. What may not be read is
//! absent, and `notes` says so.

mod devices;
mod writers;

use std::time::{Duration, Instant};

use fonio_core::meta::{Device, Host, Mount};
use fonio_core::{ByteCount, DeviceId};
use serde::Serialize;

use crate::machine::Machine;
use writers::Counters;

/// The machine's storage at one moment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Status {
    /// The machine.
    pub host: Host,
    /// Real block devices, those on flash first; device mapper, loop and zram devices after them.
    pub devices: Vec<StorageDevice>,
    /// Who writes now, and how much.
    pub writing: Writing,
    /// What could not be read, and the line that would make it readable; one sentence each.
    pub notes: Vec<String>,
}

/// One block device.
#[derive(Clone, Debug, Serialize)]
pub struct StorageDevice {
    /// Queue limits, file systems (with how full they are) and stacking.
    pub device: Device,
    /// What it is.
    pub kind: DeviceKind,
    /// Whether it is flash.
    pub flash: bool,
    /// Its own account of its wear, where it gives one without a special command.
    pub health: Option<Health>,
    /// What is mounted from it, from its partitions, and from the devices that are stacked on these.
    pub file_systems: Vec<Mount>,
    /// Bytes written since boot (`/sys/block/*/stat`).
    pub written_bytes: Option<ByteCount>,
    /// Bytes read since boot.
    pub read_bytes: Option<ByteCount>,
    /// Written during [`Writing::interval_ms`].
    pub written_now_bytes: Option<ByteCount>,
    /// Read during [`Writing::interval_ms`].
    pub read_now_bytes: Option<ByteCount>,
    /// Time during [`Writing::interval_ms`] in which it had requests in flight.
    pub busy_now_ms: Option<u64>,
}

/// What a block device is.
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
    /// Another device that says it does not rotate.
    SolidState,
    Usb,
    /// A disk of a virtual machine: what is behind it cannot be seen.
    Virtual,
    HardDisk,
    DeviceMapper,
    Raid,
    Loop,
    /// Compressed memory, mostly for swap.
    Zram,
    Other,
}

/// A device's own account of its wear.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Used life in percent, the upper end of the range that the device states: eMMC and UFS state steps of 10 %.
    /// 110 says "exceeded".
    pub life_used_percent: Option<u32>,
    /// The same for the device's second kind of memory (type B, in eMMC and UFS mostly the MLC part).
    pub life_used_b_percent: Option<u32>,
    /// Reserved blocks: `normal`, `warning` (80 % used), `urgent` (90 % used).
    pub reserved_blocks: Option<String>,
    /// Manufacturer, as a number where the device states only that.
    pub manufacturer: Option<String>,
    /// Month and year of manufacture, as the device states it.
    pub made: Option<String>,
    /// Temperature.
    pub temperature_millicelsius: Option<i64>,
    /// The sysfs files that it was read from.
    pub source: Vec<String>,
}

/// Who writes now.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Writing {
    /// Over how long it was measured.
    pub interval_ms: u64,
    /// Processes that caused storage writes (`write_bytes` of `/proc/PID/io`: pages dirtied, less those never written),
    /// the busiest first; none that wrote nothing.
    pub processes: Vec<ProcessWriting>,
    /// Processes whose counters may not be read without root.
    pub processes_hidden: u32,
    /// cgroups that caused writes (`io.stat` of cgroup v2), leaves only, the busiest first.
    pub cgroups: Vec<CgroupWriting>,
}

/// What one process caused to be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessWriting {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// Path below the cgroup mount.
    pub cgroup: Option<String>,
    /// Written during the interval.
    pub written_bytes: ByteCount,
}

/// What one cgroup wrote on one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CgroupWriting {
    /// Path below the cgroup mount; a systemd unit can be read from it.
    pub cgroup: String,
    /// The device.
    pub device: DeviceId,
    /// Written during the interval.
    pub written_bytes: ByteCount,
}

/// How long writing is watched.
const INTERVAL: Duration = Duration::from_millis(700);

/// Looks at the machine; takes about 0.7 seconds, in which it measures who writes.
pub fn status() -> Status {
    let machine = Machine::here();
    let before = Counters::read(&machine);
    let began = Instant::now();
    // What does not change is read while the counters run.
    let mut devices = devices::find(&machine);
    let host = machine.host();
    std::thread::sleep(INTERVAL.saturating_sub(began.elapsed()));
    let interval_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let after = Counters::read(&machine);

    let mut notes = Vec::new();
    let writing = writers::between(&before, &after, interval_ms);
    // A few kernel-guarded processes hide from root too; no line of ours would change that.
    if writing.processes_hidden > 0 && !rustix::process::geteuid().is_root() {
        notes.push(format!(
            "the counters of {} processes may be read by root only: run `sudo fonio`",
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
        // It is written as JSON by the command line.
        assert!(serde_json::to_string(&status).unwrap().contains("\"writing\""));
    }
}
