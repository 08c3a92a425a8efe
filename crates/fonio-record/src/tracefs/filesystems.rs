//! Selects the file systems on the watched disks; only files on these file systems are followed.

use fonio_core::DeviceId;
use fonio_machine::{Machine, mounts};
use fonio_system::MountPoint;
use fonio_tracefs::ring_buffer::Btrfs;

use crate::attribution::btrfs;
use crate::tracefs::disks::Watched;

/// The file systems whose files are followed, and the disks of partitions.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileScope {
    /// The devices of the followed file systems; `None` for all file systems.
    filesystems: Option<Vec<DeviceId>>,
    /// Each partition, and the disk that contains it.
    pub partitions: Vec<(DeviceId, DeviceId)>,
    /// The followed btrfs file systems.
    pub btrfs: Vec<Btrfs>,
    /// The followed file systems on disks whose events do not show the files of writes.
    pub without_events: Vec<DeviceId>,
}

/// The file systems whose events show the files of writes.
const WITH_EVENTS: [&str; 6] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"];

impl FileScope {
    /// Returns the file systems on the watched disks, including file systems on device mapper or RAID.
    pub(crate) fn of(machine: &Machine, watched: &Watched) -> FileScope {
        let mut partitions = Vec::new();
        for disk in machine.devices() {
            let parts = machine.parts_of(disk.id).into_iter().filter(|part| *part != disk.id);
            partitions.extend(parts.map(|part| (part, disk.id)));
        }
        let mut btrfs = btrfs::mounted(machine);
        let filesystems = match watched {
            Watched::AllBut(_) => None,
            Watched::Only(disks) => {
                let mut filesystems: Vec<DeviceId> = disks.clone();
                let on_watched = partitions.iter().filter(|(_, disk)| disks.contains(disk));
                filesystems.extend(on_watched.map(|(part, _)| *part));
                for mount in &machine.mounts() {
                    let Some(device) = mounts::block_device(mount) else { continue };
                    let below = machine.with_mapped(&[device]);
                    if mount.device.major() != 0 && below.iter().any(|disk| disks.contains(disk)) {
                        filesystems.push(mount.device);
                    }
                }
                let is_watched = |device: &DeviceId| {
                    machine.with_mapped(&[*device]).iter().any(|disk| disks.contains(disk))
                };
                btrfs.retain(|btrfs| btrfs.devices.iter().any(is_watched));
                filesystems.extend(btrfs.iter().map(|btrfs| btrfs.fs));
                filesystems.sort_unstable();
                filesystems.dedup();
                Some(filesystems)
            }
        };
        let mut scope = FileScope { filesystems, partitions, btrfs, without_events: Vec::new() };
        let table = machine.mounts();
        let without = table.iter().filter(|mount| is_without_events(mount) && scope.has(mount.device));
        scope.without_events = without.map(|mount| mount.device).collect();
        scope.without_events.sort_unstable();
        scope.without_events.dedup();
        scope
    }

    /// Returns whether the files of this file system are followed.
    pub(crate) fn has(&self, fs: DeviceId) -> bool {
        self.filesystems.as_ref().is_none_or(|filesystems| filesystems.contains(&fs))
    }

    /// Returns the kernel's filter for the named event; `None` if every event passes.
    pub(crate) fn event_filter(&self, event: &str) -> Option<String> {
        let any = |terms: Vec<String>| (!terms.is_empty()).then(|| terms.join("||"));
        let of_device = |field: &str| {
            any(self.filesystems.iter().flatten().map(|fs| format!("{field}=={}", fs.0)).collect())
        };
        match event {
            // These btrfs events contain no device number.
            "sched_process_exit" | "task_rename" | "extent_writepage" | "__extent_writepage"
            | "btrfs_sync_file" => None,
            "writeback_dirty_folio" | "writeback_dirty_page" => {
                let filesystems = self.filesystems.as_ref()?;
                let mut units: Vec<DeviceId> = filesystems.iter().map(|fs| self.disk_of(*fs)).collect();
                units.sort_unstable();
                units.dedup();
                let disks = units.iter().map(|unit| format!("name==\"{unit}\""));
                any(disks
                    .chain(self.btrfs.iter().map(|btrfs| format!("name==\"btrfs-{}\"", btrfs.unit)))
                    .collect())
            }
            // The pages of block devices and of most network file systems have device numbers with the major
            // number 0.
            "mm_filemap_add_to_page_cache" => {
                let with_device = format!("s_dev>={}", DeviceId::new(1, 0).0);
                let btrfs = self.btrfs.iter().map(|btrfs| format!("s_dev=={}", btrfs.fs.0));
                of_device("s_dev").or_else(|| any(std::iter::once(with_device).chain(btrfs).collect()))
            }
            _ => of_device("dev"),
        }
    }

    fn disk_of(&self, device: DeviceId) -> DeviceId {
        self.partitions.iter().find(|(part, _)| *part == device).map_or(device, |(_, disk)| *disk)
    }
}

/// Returns whether no event shows the files of writes to this file system on a disk. File systems for booting do not count: nearly
/// every machine has one, hardly anything writes to them, and to load a probe takes a quarter of a second.
fn is_without_events(mount: &MountPoint) -> bool {
    let is_for_booting = ["/boot", "/efi"].iter().any(|folder| mount.dir.starts_with(folder));
    let is_read_only = mount.filesystem_options.iter().any(|option| option == "ro");
    let has_events = WITH_EVENTS.contains(&mount.filesystem.as_str());
    mount.device.major() != 0 && !has_events && !is_for_booting && !is_read_only
}

#[cfg(test)]
mod tests {
    use fonio_system::MountTable;

    use super::*;

    #[test]
    fn file_systems_whose_events_do_not_show_files() {
        let table = MountTable::parse(
            b"25 1 179:2 / / rw - ext4 /dev/mmcblk0p2 rw\n\
              26 25 179:1 / /boot/firmware rw - vfat /dev/mmcblk0p1 rw\n\
              27 25 8:1 / /media/card rw - vfat /dev/sda1 rw\n\
              28 25 11:0 / /media/disc rw - iso9660 /dev/sr0 ro\n\
              29 25 0:23 / /run rw - tmpfs tmpfs rw\n\
              30 25 8:17 / /data rw - nilfs2 /dev/sdb1 rw\n",
        );
        let found: Vec<_> = table.iter().filter(|mount| is_without_events(mount)).collect();
        assert_eq!(
            found.iter().map(|mount| &mount.source[..]).collect::<Vec<_>>(),
            ["/dev/sda1", "/dev/sdb1"]
        );
    }

    #[test]
    fn each_event_passes_for_the_watched_file_systems_only() {
        let (disk, first, second) = (DeviceId::new(8, 0), DeviceId::new(8, 1), DeviceId::new(8, 2));
        let partitions = vec![(first, disk), (second, disk)];
        let none = FileScope::default();
        let some = FileScope {
            filesystems: Some(vec![first, second]),
            partitions: partitions.clone(),
            ..FileScope::default()
        };
        let all = FileScope { filesystems: None, partitions, ..FileScope::default() };
        let (fs, devices) = (DeviceId::new(0, 45), vec![disk]);
        let btrfs = vec![Btrfs { id: [7; 16], fs, unit: 1, subvolume: Some(5), devices }];
        let of_btrfs =
            FileScope { filesystems: Some(vec![disk, fs]), btrfs: btrfs.clone(), ..FileScope::default() };
        let all_with = FileScope { btrfs, ..FileScope::default() };
        let dev = format!("dev=={}||dev=={}", first.0, second.0);
        for (scope, event, expected) in [
            (&some, "ext4_writepages", Some(dev.clone())),
            (&some, "writeback_dirty_folio", Some("name==\"8:0\"".to_owned())),
            (&some, "mm_filemap_add_to_page_cache", Some(dev.replace("dev", "s_dev"))),
            (&some, "sched_process_exit", None),
            (&of_btrfs, "extent_writepage", None),
            (
                &of_btrfs,
                "writeback_dirty_folio",
                Some("name==\"0:45\"||name==\"8:0\"||name==\"btrfs-1\"".to_owned()),
            ),
            (&all_with, "mm_filemap_add_to_page_cache", Some("s_dev>=1048576||s_dev==45".to_owned())),
            (&none, "writeback_dirty_folio", None),
            (&all, "ext4_writepages", None),
            (&all, "writeback_dirty_folio", None),
            (&all, "mm_filemap_add_to_page_cache", Some("s_dev>=1048576".to_owned())),
        ] {
            assert_eq!(scope.event_filter(event), expected, "{event}");
        }
    }
}
