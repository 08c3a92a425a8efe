//! Finds the swap areas. The trace does not mark the bios of swap, but fonio can recognise the bios of swap
//! by their sectors.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use fonio_core::{DeviceId, SECTOR_BYTES};
use fonio_machine::{Machine, read_number};
use fonio_system::device;

/// Number of extents requested with one call, which is also the maximum per swap file. A swap file is
/// allocated in one step, so it has few extents.
const EXTENTS_PER_CALL: usize = 256;
const EXTENTS_MAX: usize = 1 << 16;
/// `FIEMAP_EXTENT_LAST` of `include/uapi/linux/fiemap.h`.
const LAST: u32 = 1;
/// `FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_ENCODED`: the extent's offset on the device is unknown.
const NO_PLACE: u32 = 2 | 8;

/// Returns the sectors of disks and mapped devices that are in use for swap. A swap file on a file system
/// without its own device number, such as btrfs, is omitted: the offsets of such a file are not device
/// offsets.
pub(crate) fn areas(machine: &Machine) -> Vec<(DeviceId, Range<u64>)> {
    let mut areas = Vec::new();
    for area in machine.swap_areas() {
        let Ok(file) = File::open(&area.path) else { continue };
        let Ok(metadata) = file.metadata() else { continue };
        let (id, ranges) = if area.is_partition {
            (device::from_dev(metadata.rdev()), std::iter::once(0..u64::MAX / 2).collect())
        } else {
            (device::from_dev(metadata.dev()), extents(&file))
        };
        if id.major() == 0 {
            continue;
        }
        let dir = machine.device_dir(id);
        let start: u64 = read_number(&dir.join("start")).unwrap_or(0);
        let size: u64 = read_number(&dir.join("size")).unwrap_or(u64::MAX / 2);
        let on_disk = |range: Range<u64>| start + range.start..start + range.end.min(size);
        areas.extend(ranges.into_iter().map(|range| (machine.disk_of(id), on_disk(range))));
    }
    areas
}

/// Returns a file's sectors on the device of its file system; the list is empty if the file system does not
/// report sectors.
fn extents(file: &File) -> Vec<Range<u64>> {
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct Extent {
        logical: u64,
        physical: u64,
        length: u64,
        reserved: [u64; 2],
        flags: u32,
        reserved_too: [u32; 3],
    }
    /// The kernel's `struct fiemap`.
    #[repr(C)]
    struct Request {
        start: u64,
        length: u64,
        flags: u32,
        mapped: u32,
        count: u32,
        reserved: u32,
        extents: [Extent; EXTENTS_PER_CALL],
    }
    /// `_IOWR('f', 11, struct fiemap)`. The structure's size excludes the extents.
    const FIEMAP: u32 = 3 << 30 | 32 << 16 | 0x66 << 8 | 11;
    let mut found = Vec::new();
    let mut start = 0;
    while found.len() < EXTENTS_MAX {
        let mut request = Box::new(Request {
            start,
            length: u64::MAX - start,
            flags: 0,
            mapped: 0,
            count: EXTENTS_PER_CALL as u32,
            reserved: 0,
            extents: [Extent::default(); EXTENTS_PER_CALL],
        });
        // SAFETY: `request` has the layout of `struct fiemap`, followed by room for the announced number of
        // extents.
        let asked = unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP as libc::Ioctl, &raw mut *request) };
        let mapped = &request.extents[..(request.mapped as usize).min(EXTENTS_PER_CALL)];
        if asked != 0 || mapped.is_empty() {
            break;
        }
        for extent in mapped.iter().filter(|extent| extent.flags & NO_PLACE == 0) {
            let first = extent.physical / SECTOR_BYTES;
            found.push(first..first + extent.length / SECTOR_BYTES);
        }
        let last = &mapped[mapped.len() - 1];
        if last.flags & LAST != 0 {
            break;
        }
        start = last.logical + last.length;
    }
    found
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use fonio_testing::{Need, has, skip};

    use super::*;

    #[test]
    fn a_file_has_the_extents_of_its_length() {
        if !has(&[Need::Root]) {
            return;
        }
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![7; 64 << 10]).unwrap();
        file.sync_all().unwrap();
        let extents = extents(&file);
        if extents.is_empty() {
            return skip(Need::Root, "the file system of this folder does not report extents");
        }
        assert_eq!(extents.iter().map(|range| range.end - range.start).sum::<u64>(), 128);
    }
}
