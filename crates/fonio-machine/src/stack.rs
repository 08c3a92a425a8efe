//! Finds the block devices, and how partitions, device-mapper, RAID and loop devices are stacked on them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{fs, io};

use fonio_core::DeviceId;
use fonio_core::meta::{Device, Mount};
use fonio_system::{MountTable, device};
use rustix::fs::FileType;

use crate::machine::Machine;
use crate::mounts;
use crate::sysfs::{entries, read_device_id, read_text};

const STACK_MAX: u32 = 8;

impl Machine {
    /// Returns all block devices except partitions, sorted by name. Omits loop, zram and RAM disks that are
    /// not in use.
    pub fn devices(&self) -> Vec<Device> {
        let (mounts, modules) = (self.mounts(), self.scheduler_modules());
        entries(&self.sys("block"))
            .iter()
            .filter_map(|dir| self.read_device(dir, &mounts, &modules))
            .filter(|device| device.size_bytes.is_some_and(|size| size.0 > 0))
            .collect()
    }

    /// Returns the disks that hardware or a hypervisor provides, sorted by name. Virtual disks such as loop
    /// devices are left out.
    pub fn disks(&self) -> Vec<Device> {
        let mut devices = self.devices();
        let has_hardware = |name: &String| self.sys("block").join(name).join("device").exists();
        devices.retain(|device| device.name.as_ref().is_some_and(has_hardware));
        devices
    }

    /// Returns the device with this id; `None` if it does not exist. For a partition, the queue is the queue
    /// of its disk.
    pub fn device(&self, id: DeviceId) -> Option<Device> {
        self.read_device(&self.device_dir(id), &self.mounts(), &self.scheduler_modules())
    }

    /// Returns the path of the device's link below `/sys/dev/block`, such as `8:1`. It links to the device's
    /// directory.
    pub fn device_dir(&self, id: DeviceId) -> PathBuf {
        self.sys("dev/block").join(id.to_string())
    }

    /// Returns the disk of a partition; for a disk, the disk itself.
    pub fn disk_of(&self, id: DeviceId) -> DeviceId {
        let dir = self.device_dir(id);
        if !dir.join("partition").exists() {
            return id;
        }
        let parent = fs::canonicalize(&dir).ok().and_then(|dir| dir.parent().map(Path::to_owned));
        parent.and_then(|disk| read_device_id(&disk.join("dev"))).unwrap_or(id)
    }

    /// Returns the name of a device in sysfs, such as `sda1`.
    pub fn name_of(&self, id: DeviceId) -> Option<String> {
        let dir = fs::canonicalize(self.device_dir(id)).ok()?;
        Some(dir.file_name()?.to_string_lossy().into_owned())
    }

    /// Returns the names of the devices, such as `sda1`, that a device-mapper or RAID device maps to.
    pub fn names_mapped_to(&self, id: DeviceId) -> Vec<String> {
        let slaves = entries(&self.device_dir(self.disk_of(id)).join("slaves")).into_iter();
        slaves.filter_map(|slave| Some(slave.file_name()?.to_string_lossy().into_owned())).collect()
    }

    /// Returns the disks directly below `id`: the disks that a device-mapper or RAID device maps to, or the
    /// disk with the file of a loop device.
    pub fn below(&self, id: DeviceId) -> Vec<DeviceId> {
        let mut below = self.mapped_to(id);
        let dir = self.device_dir(self.disk_of(id));
        if let Some(file) = read_text(&dir.join("loop/backing_file")) {
            below.extend(self.device_of_backing(Path::new(&file)).map(|id| self.disk_of(id)));
        }
        below.sort_unstable();
        below.dedup();
        below
    }

    /// Returns the device that holds the file of a loop device. For a file on a FUSE file system, only the mount
    /// table is asked: if the server of the file system hangs, a look at its files blocks for good.
    fn device_of_backing(&self, file: &Path) -> Option<DeviceId> {
        let table = self.mounts();
        let holding = table.iter().filter(|mount| file.starts_with(&mount.dir));
        match holding.max_by_key(|mount| mount.dir.components().count()) {
            Some(mount) if mount.filesystem.starts_with("fuse") => mounts::block_device(mount),
            _ => device_of_path(file),
        }
    }

    /// Returns the disks that a device-mapper or RAID device maps to. The bios of the device become requests
    /// of these disks.
    fn mapped_to(&self, id: DeviceId) -> Vec<DeviceId> {
        let dir = self.device_dir(self.disk_of(id));
        let slaves = entries(&dir.join("slaves")).into_iter();
        slaves.filter_map(|slave| read_device_id(&slave.join("dev"))).map(|id| self.disk_of(id)).collect()
    }

    /// Returns the disk at the bottom of a stack of device-mapper and RAID devices. If a device in the stack
    /// has several devices below it, returns this device.
    pub(crate) fn bottom_of(&self, id: DeviceId) -> DeviceId {
        let mut bottom = self.disk_of(id);
        // The kernel allows no cycles, but a copy of sysfs might contain a cycle.
        for _ in 0..STACK_MAX {
            match &self.mapped_to(bottom)[..] {
                [one] => bottom = *one,
                _ => break,
            }
        }
        bottom
    }

    /// Returns the device with this name in sysfs: a disk or a partition.
    pub fn device_named(&self, name: &OsStr) -> Option<DeviceId> {
        read_device_id(&self.sys("class/block").join(name).join("dev"))
    }

    /// Returns the block device of a path: the device itself if the path is a device, otherwise its file
    /// system's device. Returns `None` if the mount table shows no device. Fails if the path cannot be
    /// examined.
    pub fn device_below(&self, path: &Path) -> io::Result<Option<DeviceId>> {
        let stat = rustix::fs::stat(path)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice {
            return Ok(Some(device::from_dev(stat.st_rdev)));
        }
        let id = device::from_dev(stat.st_dev);
        if id.major() != 0 {
            return Ok(Some(id));
        }
        // Files on btrfs and some other file systems have virtual device numbers, so use the mount table. The
        // innermost mount that contains the path counts.
        let (real, table) = (fs::canonicalize(path)?, self.mounts());
        let holding = table.iter().filter(|mount| real.starts_with(&mount.dir));
        let mount = holding.max_by_key(|mount| (mount.device == id, mount.dir.components().count()));
        Ok(mount.and_then(mounts::block_device))
    }

    /// Returns `ids`, and the disks that serve the requests of these devices, in numeric order. Does not
    /// descend below a loop device, because a loop device has its own requests, and the disk of its file also
    /// serves other I/O.
    pub fn with_mapped(&self, ids: &[DeviceId]) -> Vec<DeviceId> {
        self.closure(ids, |id| self.mapped_to(id))
    }

    /// Returns the ids of the machine's device-mapper and RAID devices.
    pub fn mapped(&self) -> Vec<DeviceId> {
        let devices = self.devices().into_iter().map(|device| device.id);
        devices.filter(|id| !self.mapped_to(*id).is_empty()).collect()
    }

    /// Returns `disks`, and the device-mapper or RAID devices that these disks serve, in numeric order.
    pub fn with_mapping(&self, disks: &[DeviceId]) -> Vec<DeviceId> {
        let mut found = disks.to_vec();
        let is_above = |id: &DeviceId| self.with_mapped(&[*id]).iter().any(|below| disks.contains(below));
        found.extend(self.devices().into_iter().map(|device| device.id).filter(is_above));
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns `ids` and all devices below them in the stack, sorted by id.
    pub fn with_all_below(&self, ids: &[DeviceId]) -> Vec<DeviceId> {
        self.closure(ids, |id| self.below(id))
    }

    fn closure(&self, ids: &[DeviceId], next: impl Fn(DeviceId) -> Vec<DeviceId>) -> Vec<DeviceId> {
        let mut found: Vec<DeviceId> = Vec::new();
        let mut waiting: Vec<DeviceId> = ids.iter().map(|&id| self.disk_of(id)).collect();
        while let Some(id) = waiting.pop() {
            if !found.contains(&id) {
                found.push(id);
                waiting.extend(next(id));
            }
        }
        found.sort_unstable();
        found
    }

    /// Returns the partitions of a disk, and the disk itself.
    pub fn parts_of(&self, disk: DeviceId) -> Vec<DeviceId> {
        let inside = entries(&self.device_dir(disk)).into_iter();
        let partitions = inside.filter(|entry| entry.join("partition").exists());
        let ids = partitions.filter_map(|partition| read_device_id(&partition.join("dev")));
        std::iter::once(disk).chain(ids).collect()
    }

    /// Returns the file systems on `disk` and its partitions.
    pub(crate) fn mounts_of(&self, disk: DeviceId, mounts: &MountTable) -> Vec<Mount> {
        let parts = self.parts_of(disk);
        let mut found: Vec<Mount> = Vec::new();
        for mount in mounts {
            let device = match self.is_here() {
                true => mounts::block_device(mount),
                // The node of the device is on another machine.
                false => (mount.device.major() != 0).then_some(mount.device),
            };
            let Some(device) = device.filter(|device| parts.contains(device)) else { continue };
            // A bind mount shows a file system again, so only the first mount of each file system is listed.
            // The first mount is the oldest.
            if !found.iter().any(|known| known.device == device) {
                found.push(mounts::describe(mount, device, self.is_here()));
            }
        }
        found
    }
}

/// Returns the block device with the file system of `path`; `None` if the device or the path does not exist.
fn device_of_path(path: &Path) -> Option<DeviceId> {
    let stat = rustix::fs::stat(path).ok()?;
    let id = device::from_dev(stat.st_dev);
    (id.major() != 0).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_loop_device_is_not_examined_on_fuse() {
        let machine = tempfile::tempdir().expect("dir");
        std::fs::create_dir_all(machine.path().join("proc/self")).expect("dir");
        // A file of this machine on a file system with a device of its own.
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let of_file = device_of_path(&file);
        let folder = file.parent().expect("a folder").display();
        for (filesystem, numbers, expected) in [
            ("ext4", "0:44", of_file),
            ("fuse.fonio", "0:44", None),
            ("fuseblk", "8:17", Some(DeviceId::new(8, 17))),
        ] {
            let root = "1 0 253:1 / / rw - ext4 /dev/root rw\n";
            let mounts = format!("{root}2 1 {numbers} / {folder} rw - {filesystem} none rw\n");
            std::fs::write(machine.path().join("proc/self/mountinfo"), mounts).expect("write");
            assert_eq!(Machine::at(machine.path()).device_of_backing(&file), expected, "{filesystem}");
        }
    }
}
