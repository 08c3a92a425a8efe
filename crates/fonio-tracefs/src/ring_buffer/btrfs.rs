//! Describes btrfs file systems. The events of btrfs contain neither a device nor the write-back unit.

use fonio_core::DeviceId;

/// A mounted btrfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Btrfs {
    /// The id of the file system (`fsid`), which btrfs events contain.
    pub id: [u8; 16],
    /// The device number that the kernel assigned to the file system. Events of the page cache and of direct
    /// I/O contain this number.
    pub fs: DeviceId,
    /// The number of the file system's write-back unit: 1 for `btrfs-1`.
    pub unit: u32,
    /// The mounted subvolume; `None` if different subvolumes are mounted. Files of different subvolumes may
    /// have the same inode numbers, and page-cache events do not distinguish them. So only files in this
    /// subvolume are followed; with `None`, no files are followed.
    pub subvolume: Option<u64>,
    /// The disks or partitions of the file system.
    pub devices: Vec<DeviceId>,
}

impl Btrfs {
    /// Parses an id in the usual form of sysfs: 32 hexadecimal digits with hyphens.
    pub fn parse_id(text: &str) -> Option<[u8; 16]> {
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
        let mut id = [0; 16];
        if digits.len() != 2 * id.len() {
            return None;
        }
        for (byte, digits) in id.iter_mut().zip(digits.chunks(2)) {
            *byte = u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids() {
        let id = Btrfs::parse_id("01234567-89ab-cdef-0123-456789abcdef").unwrap();
        assert_eq!(id, [1, 35, 69, 103, 137, 171, 205, 239, 1, 35, 69, 103, 137, 171, 205, 239]);
        for wrong in [
            "",
            "01234567-89ab-cdef-0123-456789abcde",
            "0123456789abcdef0123456789abcdeg",
            "é".repeat(16).as_str(),
        ] {
            assert_eq!(Btrfs::parse_id(wrong), None, "{wrong}");
        }
    }
}
