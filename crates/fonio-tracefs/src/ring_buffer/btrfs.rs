//! The file systems of kind btrfs, whose events name neither a device nor the unit of write-back.

use fonio_core::DeviceId;

/// A mounted btrfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Btrfs {
    /// Its id (`fsid`), which its own events show.
    pub id: [u8; 16],
    /// The number that the kernel assigned to it, which the events of the page cache and of direct I/O show.
    pub fs: DeviceId,
    /// The number of its unit of write-back: 1 for `btrfs-1`.
    pub unit: u32,
    /// The subvolume of all its mounts. Files of other subvolumes can have the same inode numbers, and no event of the
    /// page cache tells them apart; so files are followed only if this is known, and only in this subvolume.
    pub subvolume: Option<u64>,
    /// The disks or partitions on which it lies.
    pub devices: Vec<DeviceId>,
}

impl Btrfs {
    /// Reads an id as people and sysfs write it, 32 hexadecimal digits with hyphens.
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
