//! Describes the machine: its block devices with their queues, file systems and stacking, from sysfs and procfs.
//!
//! A fact that does not exist or is not readable is `None`.

pub(crate) mod mounts;
mod queue;

use std::fs;
use std::path::{Path, PathBuf};

use fonio_core::DeviceId;
use fonio_core::meta::{Device, Host, Mount};
use fonio_system::procfs::memory;
use fonio_system::{MountTable, Task, device};

/// The places to read; tests use copies.
#[derive(Clone, Debug)]
pub struct Machine {
    sys: PathBuf,
    proc: PathBuf,
    /// The kernel's modules.
    modules: PathBuf,
}

impl Default for Machine {
    fn default() -> Machine {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        Machine { sys: "/sys".into(), proc: "/proc".into(), modules: Path::new("/lib/modules").join(release) }
    }
}

impl Machine {
    /// This machine.
    pub fn here() -> Machine {
        Machine::default()
    }

    #[cfg(test)]
    pub(crate) fn at(root: &Path) -> Machine {
        Machine { sys: root.join("sys"), proc: root.join("proc"), modules: root.join("modules") }
    }

    pub(crate) fn sys(&self, below: impl AsRef<Path>) -> PathBuf {
        self.sys.join(below)
    }

    pub(crate) fn proc(&self, below: impl AsRef<Path>) -> PathBuf {
        self.proc.join(below)
    }

    /// The machine's name, model, kernel, processors and memory.
    pub fn host(&self) -> Host {
        let uname = rustix::system::uname();
        let text = |value: &std::ffi::CStr| Some(value.to_string_lossy().into_owned());
        let stat = fs::read_to_string(self.proc("stat")).unwrap_or_default();
        let processors = stat
            .lines()
            .filter(|line| {
                line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            })
            .count();
        let model = ["firmware/devicetree/base/model", "class/dmi/id/product_name"]
            .iter()
            .find_map(|place| read_text(&self.sys(place)));
        Host {
            name: text(uname.nodename()),
            model,
            kernel: text(uname.release()),
            architecture: text(uname.machine()),
            processors: u32::try_from(processors).ok().filter(|&count| count > 0),
            memory_bytes: memory(&fs::read_to_string(self.proc("meminfo")).unwrap_or_default(), "MemTotal"),
        }
    }

    /// Every block device except partitions, by name. Loop, zram and RAM disks only if they are in use.
    pub fn devices(&self) -> Vec<Device> {
        let mut names: Vec<String> = fs::read_dir(self.sys("block"))
            .map(|entries| {
                entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
            })
            .unwrap_or_default();
        names.sort_unstable();
        let (mounts, modules) = (self.mounts(), self.scheduler_modules());
        names
            .iter()
            .filter_map(|name| self.read_device(&self.sys("block").join(name), &mounts, &modules))
            .filter(|device| device.size_bytes.is_some_and(|size| size.0 > 0))
            .collect()
    }

    /// One device. For a partition, the queue is that of its disk. `None` if the device does not exist.
    pub fn device(&self, id: DeviceId) -> Option<Device> {
        self.read_device(&self.device_dir(id), &self.mounts(), &self.scheduler_modules())
    }

    /// The device's path below `/sys/dev/block`, such as `8:1`: a link to its directory.
    pub(crate) fn device_dir(&self, id: DeviceId) -> PathBuf {
        self.sys("dev/block").join(id.to_string())
    }

    /// The disk of a partition; for a disk, the disk itself.
    pub(crate) fn disk_of(&self, id: DeviceId) -> DeviceId {
        let dir = self.device_dir(id);
        if !dir.join("partition").exists() {
            return id;
        }
        let parent = fs::canonicalize(&dir).ok().and_then(|dir| dir.parent().map(Path::to_owned));
        parent.and_then(|disk| read_device_id(&disk.join("dev"))).unwrap_or(id)
    }

    /// The disks directly below `id`: those to which a device mapper or RAID device maps, or that of a loop device's
    /// file. One level only.
    pub(crate) fn below(&self, id: DeviceId) -> Vec<DeviceId> {
        let mut below = self.mapped_to(id);
        let dir = self.device_dir(self.disk_of(id));
        if let Some(file) = read_text(&dir.join("loop/backing_file")) {
            below.extend(device_of_path(Path::new(&file)).map(|id| self.disk_of(id)));
        }
        below.sort_unstable();
        below.dedup();
        below
    }

    /// The disks to which a device mapper or RAID device maps; there its bios become requests.
    fn mapped_to(&self, id: DeviceId) -> Vec<DeviceId> {
        let dir = self.device_dir(self.disk_of(id));
        fs::read_dir(dir.join("slaves"))
            .map(|entries| entries.flatten().filter_map(|e| read_device_id(&e.path().join("dev"))).collect())
            .unwrap_or_else(|_| Vec::new())
            .into_iter()
            .map(|id| self.disk_of(id))
            .collect()
    }

    /// `ids` and the disks on which their requests are made, in order of number. A loop device makes its own requests;
    /// other I/O on the disk of its file does not belong to it.
    pub(crate) fn with_mapped(&self, ids: &[DeviceId]) -> Vec<DeviceId> {
        self.closure(ids, |id| self.mapped_to(id))
    }

    /// The devices of device mapper and RAID.
    pub(crate) fn mapped(&self) -> Vec<DeviceId> {
        let devices = self.devices().into_iter().map(|device| device.id);
        devices.filter(|id| !self.mapped_to(*id).is_empty()).collect()
    }

    /// `disks` and the devices whose requests are made on them: of device mapper or RAID. In order of number.
    pub(crate) fn with_mapping(&self, disks: &[DeviceId]) -> Vec<DeviceId> {
        let mut found = disks.to_vec();
        let is_above = |id: &DeviceId| self.with_mapped(&[*id]).iter().any(|below| disks.contains(below));
        found.extend(self.devices().into_iter().map(|device| device.id).filter(is_above));
        found.sort_unstable();
        found.dedup();
        found
    }

    /// `ids` and all disks below them, in order of number.
    pub(crate) fn with_all_below(&self, ids: &[DeviceId]) -> Vec<DeviceId> {
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

    /// The partitions of a disk, and the disk itself.
    pub(crate) fn parts_of(&self, disk: DeviceId) -> Vec<DeviceId> {
        let dir = self.device_dir(disk);
        let mut parts = vec![disk];
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.path().join("partition").exists() {
                parts.extend(read_device_id(&entry.path().join("dev")));
            }
        }
        parts
    }

    /// The mount table; empty if procfs cannot be read.
    pub(crate) fn mounts(&self) -> MountTable {
        MountTable::read_below(&self.proc).unwrap_or_default()
    }

    /// The process or thread with this number.
    pub(crate) fn task(&self, number: u32) -> Task {
        Task::below(&self.proc, number)
    }

    /// The file systems on `disk` and its partitions.
    fn mounts_of(&self, disk: DeviceId, mounts: &MountTable) -> Vec<Mount> {
        let parts = self.parts_of(disk);
        let mut found: Vec<Mount> = Vec::new();
        for mount in mounts {
            let device = mounts::block_device(mount).filter(|device| parts.contains(device));
            let Some(device) = device else { continue };
            // Bind mounts repeat the same file system; the first mount is the oldest.
            if !found.iter().any(|known| known.device == device) {
                found.push(mounts::describe(mount, device));
            }
        }
        found
    }
}

/// The block device that holds the file system of `path`; `None` if there is no such device or no such path.
fn device_of_path(path: &Path) -> Option<DeviceId> {
    let stat = rustix::fs::stat(path).ok()?;
    let id = device::from_dev(stat.st_dev);
    (id.major() != 0).then_some(id)
}

pub(crate) fn read_device_id(path: &Path) -> Option<DeviceId> {
    device::parse(&read_text(path)?)
}

/// A short text file without surrounding blanks; `None` if it cannot be read or is empty.
pub(crate) fn read_text(path: &Path) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

pub(crate) fn read_number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    read_text(path)?.parse().ok()
}
