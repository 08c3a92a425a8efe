//! Describes a block device and its queue.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use fonio_core::ByteCount;
use fonio_core::meta::Device;
use fonio_system::{MountTable, device, emulated, state};

use crate::machine::Machine;
use crate::sysfs::{chosen, entries, read_number, read_text, scheduler_names};

impl Machine {
    /// Reads a block device's sysfs directory. The queue of a partition is the queue of its disk.
    pub(crate) fn read_device(&self, dir: &Path, mounts: &MountTable, modules: &[String]) -> Option<Device> {
        let id = device::parse(&read_text(&dir.join("dev"))?)?;
        let own = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
        let disk = if own.join("partition").exists() { own.parent()?.to_owned() } else { own.clone() };
        let queue = disk.join("queue");
        let number = |name: &str| read_number::<u32>(&queue.join(name));
        let flag = |path: &Path| read_number::<u32>(path).map(|value| value != 0);
        let driver_depth = [disk.join("device/queue_depth"), disk.join("mq/0/nr_tags")];
        Some(Device {
            id,
            name: own.file_name().map(|name| name.to_string_lossy().into_owned()),
            model: model(&disk).or_else(|| self.emulated(&disk)),
            size_bytes: read_number::<u64>(&own.join("size")).map(ByteCount::from_sectors),
            rotational: flag(&queue.join("rotational")),
            removable: flag(&disk.join("removable")),
            scheduler: read_text(&queue.join("scheduler")).map(|text| chosen(&text).to_owned()),
            schedulers: read_text(&queue.join("scheduler"))
                .map(|text| offered(&text, modules))
                .unwrap_or_default(),
            // With an I/O scheduler, nr_requests is larger than the driver's queue depth.
            depth: driver_depth.iter().find_map(|path| read_number(path)).or_else(|| number("nr_requests")),
            max_sectors_kb: number("max_sectors_kb"),
            read_ahead_kb: number("read_ahead_kb"),
            logical_block_bytes: number("logical_block_size"),
            physical_block_bytes: number("physical_block_size"),
            discard_granularity_bytes: read_number(&queue.join("discard_granularity")),
            fua: flag(&queue.join("fua")),
            write_cache: read_text(&queue.join("write_cache")),
            encrypted: read_text(&disk.join("dm/uuid")).map(|uuid| uuid.starts_with("CRYPT-")),
            mounts: self.mounts_of(id, mounts),
            below: self.below(id),
        })
    }

    /// Returns the model of one of fonio's emulated devices, such as `emulated kingston`; `None` for other
    /// devices, and without permission to read fonio's state folder.
    fn emulated(&self, disk: &Path) -> Option<String> {
        let name = disk.file_name()?.to_str().filter(|name| {
            let number = name.strip_prefix("loop").or_else(|| name.strip_prefix("ublkb"));
            number.is_some_and(|number| number.parse::<u32>().is_ok())
        })?;
        let sequence = read_number(&disk.join("diskseq")).unwrap_or(0);
        let profile = emulated::profile_of(&self.file(state::folder()), name, sequence)?;
        Some(format!("emulated {profile}"))
    }

    /// Returns the loaded schedulers in name order. A scheduler is loaded if at least one device offers it.
    pub fn loaded_schedulers(&self) -> Vec<String> {
        let devices = entries(&self.sys("block")).into_iter();
        let lists = devices.filter_map(|device| read_text(&device.join("queue/scheduler")));
        let names: BTreeSet<String> =
            lists.flat_map(|list| scheduler_names(&list).map(str::to_owned).collect::<Vec<_>>()).collect();
        names.into_iter().collect()
    }

    /// Returns the I/O schedulers that are modules of this kernel. A device lists such a scheduler only after
    /// its module is loaded.
    pub(crate) fn scheduler_modules(&self) -> Vec<String> {
        let aliases = fs::read_to_string(self.modules().join("modules.alias")).unwrap_or_default();
        let mut names: Vec<String> = aliases.lines().filter_map(scheduler_alias).map(str::to_owned).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Returns the scheduler in a line such as `alias bfq-iosched bfq`. The kernel loads modules by this alias
/// (`block/elevator.c`).
fn scheduler_alias(line: &str) -> Option<&str> {
    line.strip_prefix("alias ")?.split_whitespace().next()?.strip_suffix("-iosched")
}

/// Returns the model name of a disk. In sysfs, eMMC devices have a `name`, and SCSI and NVMe devices have a
/// `model`. SCSI devices also have a `vendor`.
fn model(disk: &Path) -> Option<String> {
    let device = disk.join("device");
    match (read_text(&device.join("vendor")), read_text(&device.join("model"))) {
        // For a PCI function, the file `vendor` contains a number such as 0x1af4.
        (Some(vendor), Some(model)) if !vendor.starts_with("0x") && vendor != "ATA" => {
            Some(format!("{vendor} {model}"))
        }
        (_, Some(model)) => Some(model),
        _ => read_text(&device.join("name")),
    }
}

/// Returns the I/O schedulers that a device lists, and the schedulers that are available as modules. A device
/// without a request queue has only `none`.
fn offered(text: &str, modules: &[String]) -> Vec<String> {
    let mut names: Vec<String> = scheduler_names(text).map(str::to_owned).collect();
    if names.iter().any(|name| name != "none") {
        names.extend(modules.iter().filter(|module| !text.contains(module.as_str())).cloned());
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedulers_are_listed_or_modules() {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine::at(root.path());
        fs::create_dir_all(machine.modules()).unwrap();
        let text = "alias fs-ext4 ext4\nalias bfq-iosched bfq\nalias mq-deadline-iosched x\nalias bfq-iosched bfq\nalias\n";
        fs::write(machine.modules().join("modules.alias"), text).unwrap();
        let modules = machine.scheduler_modules();
        assert_eq!(offered("none [mq-deadline]", &modules), ["none", "mq-deadline", "bfq"]);
        assert_eq!(offered("[none]", &modules), ["none"]);
        assert_eq!(offered("[bfq] none", &[]), ["bfq", "none"]);
        assert_eq!(Machine::at(Path::new("/nonexistent")).scheduler_modules(), [""; 0]);
    }
}
