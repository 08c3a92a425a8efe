//! Divides a block device into partitions.
//!
//! Only the kernel knows these partitions: nothing is written to the device, and they end with it.

use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

use fonio_core::ByteCount;
use rustix::ioctl::{self, Opcode, Setter};

use crate::error::HostError;
use crate::loop_device::driver::open_node;

// These numbers and structs are from linux/blkpg.h.
const BLKPG: Opcode = ioctl::opcode::none(0x12, 105);
const ADD_PARTITION: c_int = 1;

/// `struct blkpg_ioctl_arg`.
#[repr(C)]
struct Argument {
    op: c_int,
    flags: c_int,
    length: c_int,
    data: *mut c_void,
}

/// `struct blkpg_partition`, in bytes.
#[repr(C)]
struct Partition {
    start: i64,
    length: i64,
    number: c_int,
    names: [c_char; 128],
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Argument>() == 24 && size_of::<Partition>() == 152);

/// Adds a partition to a block device, and returns the path of its node. Fails with [`HostError::System`], for example
/// if the partition is not within the device, or if devices of this kind have no partitions.
pub fn add_partition(
    device: &Path,
    number: u32,
    start: ByteCount,
    length: ByteCount,
) -> Result<PathBuf, HostError> {
    let of = |bytes: ByteCount| i64::try_from(bytes.0).unwrap_or(i64::MAX);
    let mut partition = Partition {
        start: of(start),
        length: of(length),
        number: c_int::try_from(number).unwrap_or(c_int::MAX),
        names: [0; 128],
    };
    let argument = Argument {
        op: ADD_PARTITION,
        flags: 0,
        length: size_of::<Partition>() as c_int,
        data: ptr::from_mut(&mut partition).cast(),
    };
    let node = open_node(device)?;
    // SAFETY: BLKPG takes this struct, whose pointer and length name a partition that outlives the call.
    unsafe { ioctl::ioctl(&node, Setter::<BLKPG, Argument>::new(argument)) }
        .map_err(HostError::system("add a partition to", device))?;
    Ok(path_of(device, number))
}

/// Returns the path of a partition's node: `/dev/sda2`, or `/dev/ublkb0p2` if the device's name ends with a digit.
fn path_of(device: &Path, number: u32) -> PathBuf {
    let name = device.display().to_string();
    let separator = if name.ends_with(|last: char| last.is_ascii_digit()) { "p" } else { "" };
    format!("{name}{separator}{number}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_named_as_the_kernel_names_it() {
        assert_eq!(path_of(Path::new("/dev/sda"), 2), Path::new("/dev/sda2"));
        assert_eq!(path_of(Path::new("/dev/ublkb700"), 1), Path::new("/dev/ublkb700p1"));
    }
}
