//! Tracks the watched devices: their counters per minute, their wear, and their presence.

use fonio_core::{ByteCount, DeviceId, DeviceKind};
use fonio_machine::{Health, Machine, StorageDevice, storage_devices};
use rustc_hash::FxHashMap;

use crate::summary::{DeviceFigures, Event, HealthReading, Traffic, UnixSeconds};

/// Types of file systems whose data are on another machine.
const NETWORK: [&str; 10] =
    ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "afs", "fuse.sshfs", "fuse.glusterfs", "fuse.rclone"];

/// Returns the device numbers of the mounted network file systems.
pub fn network_file_systems(machine: &Machine) -> Vec<DeviceId> {
    let mounts = machine.mounts();
    let of_network = mounts.iter().filter(|mount| NETWORK.contains(&mount.filesystem.as_str()));
    of_network.map(|mount| mount.device).collect()
}

/// The watched devices, as found by the last [`Devices::look`].
#[derive(Debug, Default)]
pub struct Devices {
    /// Device names chosen by the user; if empty, all disks are watched.
    chosen: Vec<String>,
    known: FxHashMap<DeviceId, Known>,
    looked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    name: String,
    model: Option<String>,
    size: Option<ByteCount>,
    /// Distinguishes disks that have the same device number in turn.
    sequence: Option<u64>,
    counters: Counters,
}

impl Known {
    fn is_same_disk(&self, other: &Known) -> bool {
        self.name == other.name && self.model == other.model && self.sequence == other.sequence
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    read: u64,
    written: u64,
    busy_ms: u64,
}

impl Devices {
    /// Watches the devices with these names, or all disks if no names are given. "All disks" excludes devices
    /// backed by files, memory or other devices, because their I/O is counted on the underlying disks.
    pub fn new(chosen: &[String]) -> Devices {
        let chosen = chosen.iter().map(|name| name.trim_start_matches("/dev/").to_owned()).collect();
        Devices { chosen, ..Devices::default() }
    }

    /// Returns the name of a watched device.
    pub fn name(&self, id: DeviceId) -> Option<&str> {
        self.known.get(&id).map(|known| known.name.as_str())
    }

    /// Returns the name of a disk that is not watched; for a network file system, its type. Returns `None` for a
    /// watched disk, for a layer such as a loop device whose data are on a watched disk, and for an unknown
    /// device.
    pub fn unwatched(&self, id: DeviceId, machine: &Machine) -> Option<String> {
        if id.major() == 0 {
            let mounts = machine.mounts();
            let mount = mounts.iter().find(|mount| mount.device == id)?;
            return NETWORK.contains(&mount.filesystem.as_str()).then(|| mount.filesystem.clone());
        }
        let is_above_watched = || machine.with_all_below(&[id]).iter().any(|id| self.known.contains_key(id));
        if self.known.contains_key(&id) || is_above_watched() {
            return None;
        }
        machine.name_of(machine.disk_of(id))
    }

    /// Reads the devices' counters. Returns the increase of the counters since the last call, and the devices
    /// that appeared or were removed.
    pub fn look(&mut self, at: UnixSeconds) -> (Vec<DeviceFigures>, Vec<Event>) {
        self.take(storage_devices(), at)
    }

    /// Forgets the counters, because the machine was restarted: the next look only begins the count.
    pub(crate) fn begin_again(&mut self) {
        self.known.clear();
        self.looked = false;
    }

    pub(crate) fn take(
        &mut self,
        found: Vec<StorageDevice>,
        at: UnixSeconds,
    ) -> (Vec<DeviceFigures>, Vec<Event>) {
        let (mut rows, mut events) = (Vec::new(), Vec::new());
        let mut now: FxHashMap<DeviceId, Known> = FxHashMap::default();
        for device in found {
            let Some(name) = device.device.name.clone().filter(|name| self.is_watched(name, device.kind))
            else {
                continue;
            };
            let count = |bytes: Option<ByteCount>| bytes.map_or(0, |bytes| bytes.0);
            let counters = Counters {
                read: count(device.read_bytes),
                written: count(device.written_bytes),
                busy_ms: device.busy_ms.unwrap_or(0),
            };
            let (model, size) = (device.device.model.clone(), device.device.size_bytes);
            let known = Known { name, model, size, sequence: device.sequence, counters };
            let before = self.known.remove(&device.device.id);
            let is_same = before.as_ref().is_some_and(|old| old.is_same_disk(&known));
            if let Some(old) = before.as_ref().filter(|_| !is_same) {
                events.push(Event::Removed { at, device: old.name.clone() });
            }
            if !is_same && self.looked {
                events.push(Event::Added { at, device: known.name.clone() });
            }
            // For a disk that appeared during the watch, count from zero. For a disk that existed before the
            // watch, count from the counters' present values. A loop device keeps its counters when it gets
            // another file.
            let from = match before {
                Some(old) if is_same => old.counters,
                Some(old) if device.kind == DeviceKind::Loop && old.counters.written <= counters.written => {
                    old.counters
                }
                _ if self.looked => Counters::default(),
                _ => counters,
            };
            rows.push(DeviceFigures {
                name: known.name.clone(),
                model: known.model.clone(),
                size: known.size,
                traffic: Traffic {
                    read_bytes: ByteCount(counters.read.saturating_sub(from.read)),
                    written_bytes: ByteCount(counters.written.saturating_sub(from.written)),
                    ..Traffic::default()
                },
                busy_ms: counters.busy_ms.saturating_sub(from.busy_ms),
                health: device.health.as_ref().map(reading),
            });
            now.insert(device.device.id, known);
        }
        let mut gone: Vec<String> = self.known.drain().map(|(_, known)| known.name).collect();
        gone.sort_unstable();
        events.extend(gone.into_iter().map(|device| Event::Removed { at, device }));
        self.known = now;
        self.looked = true;
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        (rows, events)
    }

    fn is_watched(&self, name: &str, kind: DeviceKind) -> bool {
        if !self.chosen.is_empty() {
            return self.chosen.iter().any(|chosen| chosen == name);
        }
        !kind.is_layer()
    }

    /// Returns the names that the user chose but that no present device has.
    pub fn missing(&self) -> Vec<&str> {
        let is_there = |name: &&str| self.known.values().any(|known| known.name == *name);
        self.chosen.iter().map(String::as_str).filter(|name| !is_there(name)).collect()
    }
}

fn reading(health: &Health) -> HealthReading {
    HealthReading {
        life_used_percent: health.life_used_percent,
        life_used_b_percent: health.life_used_b_percent,
        reserved_blocks: health.reserved_blocks.clone(),
        temperature_millicelsius: health.temperature_millicelsius,
        made: health.made.clone(),
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::meta::Device;

    use super::*;

    fn device(name: &str, minor: u32, kind: DeviceKind, written: u64) -> StorageDevice {
        StorageDevice {
            device: Device {
                id: DeviceId::new(179, minor),
                name: Some(name.to_owned()),
                size_bytes: Some(ByteCount(1 << 30)),
                ..Device::default()
            },
            kind,
            flash: true,
            written_bytes: Some(ByteCount(written)),
            read_bytes: Some(ByteCount(0)),
            busy_ms: Some(written),
            ..StorageDevice::default()
        }
    }

    #[test]
    fn counters_are_differences_and_devices_come_and_go() {
        let mut devices = Devices::new(&[]);
        let written = |rows: &[DeviceFigures]| -> Vec<(String, u64)> {
            rows.iter().map(|row| (row.name.clone(), row.traffic.written_bytes.0)).collect()
        };
        let card = |written| device("mmcblk0", 0, DeviceKind::Sd, written);
        let stick = |written| device("sda", 1, DeviceKind::Usb, written);
        let (rows, events) = devices.take(vec![card(500), device("loop0", 9, DeviceKind::Loop, 3)], 0);
        assert_eq!((written(&rows), events), (vec![("mmcblk0".into(), 0)], vec![]));
        let (rows, events) = devices.take(vec![card(700), stick(40)], 60);
        assert_eq!(written(&rows), [("mmcblk0".into(), 200), ("sda".into(), 40)]);
        assert_eq!(events, [Event::Added { at: 60, device: "sda".into() }]);
        let (rows, events) = devices.take(vec![stick(40)], 120);
        assert_eq!(written(&rows), [("sda".into(), 0)]);
        assert_eq!(events, [Event::Removed { at: 120, device: "mmcblk0".into() }]);
        // The counters of another card in the slot start at 0.
        let (rows, _) = devices.take(vec![card(30), stick(40)], 180);
        assert_eq!(written(&rows), [("mmcblk0".into(), 30), ("sda".into(), 0)]);
        assert_eq!(devices.name(DeviceId::new(179, 0)), Some("mmcblk0"));
    }

    #[test]
    fn another_disk_with_the_same_number_is_another_device() {
        let mut devices = Devices::new(&["loop0".to_owned(), "sda".to_owned()]);
        let seen = |name, kind, sequence, written| StorageDevice {
            sequence: Some(sequence),
            ..device(name, u32::from(kind == DeviceKind::Usb), kind, written)
        };
        let both = |sequence, [file, stick]: [u64; 2]| {
            vec![
                seen("loop0", DeviceKind::Loop, sequence, file),
                seen("sda", DeviceKind::Usb, sequence, stick),
            ]
        };
        devices.take(both(7, [500, 500]), 0);
        assert_eq!(devices.take(both(7, [600, 600]), 60).1, []);
        let (rows, events) = devices.take(both(9, [650, 650]), 120);
        let written: Vec<u64> = rows.iter().map(|row| row.traffic.written_bytes.0).collect();
        assert_eq!(written, [50, 650], "only the loop device keeps its counters");
        let told = |device: &str| {
            let device = device.to_owned();
            [Event::Removed { at: 120, device: device.clone() }, Event::Added { at: 120, device }]
        };
        assert_eq!(events, [told("loop0"), told("sda")].concat());
    }

    #[test]
    fn chosen_devices_are_watched_whatever_they_are() {
        let mut devices = Devices::new(&["/dev/loop0".to_owned(), "sdz".to_owned()]);
        let (rows, _) = devices
            .take(vec![device("loop0", 9, DeviceKind::Loop, 3), device("mmcblk0", 0, DeviceKind::Sd, 1)], 0);
        assert_eq!((rows.len(), devices.missing()), (1, vec!["sdz"]));
    }
}
