//! Creates RAID-0 arrays with the kernel's md driver.
//!
//! An array has no superblock, as with `mdadm --build`: nothing is written to its devices, and the kernel
//! never assembles it again. The steps are the same as mdadm's: `new_array` adds a number, then four ioctls
//! describe the array, add its devices and start it. Stopping an array also removes it.
//!
//! md stores no owner. fonio recognises its own arrays by their numbers, which are in a range that mdadm does
//! not use by default, and by their devices, which are also fonio's own.

use std::ffi::c_int;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use fonio_core::ByteCount;
use rustix::fs::{major, minor};
use rustix::io::Errno;
use rustix::ioctl::{self, NoArg, Opcode, Setter, opcode};

use crate::error::HostError;
use crate::ledger::{Entry, Ledger, Step};
use crate::loop_device::driver::open_node;
use crate::{kernel, numbered, program};

/// Writing a name to this file adds an array without devices.
const NEW_ARRAY: &str = "/sys/module/md_mod/parameters/new_array";
/// The first line of this file lists the loaded RAID levels.
const MDSTAT: &str = "/proc/mdstat";
const LEVEL: &str = "raid0";

// These numbers are from linux/raid/md_u.h.
const MD_MAJOR: u8 = 9;
const ADD_NEW_DISK: Opcode = opcode::write::<DiskInfo>(MD_MAJOR, 0x21);
const SET_ARRAY_INFO: Opcode = opcode::write::<ArrayInfo>(MD_MAJOR, 0x23);
const RUN_ARRAY: Opcode = opcode::write::<[c_int; 3]>(MD_MAJOR, 0x30);
const STOP_ARRAY: Opcode = opcode::none(MD_MAJOR, 0x32);
/// The state of an active disk: `MD_DISK_ACTIVE` and `MD_DISK_SYNC`.
const IN_SYNC: c_int = 1 << 1 | 1 << 2;
/// `RAID0_ALT_MULTIZONE_LAYOUT` of drivers/md/raid0.h: the layout of data beyond the end of the smaller
/// devices. Without a layout, the kernel refuses devices of different sizes.
const LAYOUT: c_int = 2;

/// Number of attempts to stop an array that is in use.
const BUSY_TRIES: u32 = 40;
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// `mdu_array_info_t` of linux/raid/md_u.h.
#[derive(Default)]
#[repr(C)]
struct ArrayInfo {
    major_version: c_int,
    minor_version: c_int,
    patch_version: c_int,
    created: u32,
    level: c_int,
    size: c_int,
    disks: c_int,
    raid_disks: c_int,
    minor: c_int,
    not_persistent: c_int,
    updated: u32,
    state: c_int,
    active_disks: c_int,
    working_disks: c_int,
    failed_disks: c_int,
    spare_disks: c_int,
    layout: c_int,
    chunk_bytes: c_int,
}

/// `mdu_disk_info_t` of linux/raid/md_u.h.
#[repr(C)]
struct DiskInfo {
    number: c_int,
    major: c_int,
    minor: c_int,
    raid_disk: c_int,
    state: c_int,
}

const _: () = assert!(size_of::<ArrayInfo>() == 72 && size_of::<DiskInfo>() == 20);

/// A RAID-0 array that this process created. Undoing its ledger stops the array.
#[derive(Debug)]
pub struct MdArray {
    path: PathBuf,
    entry: Entry,
}

impl MdArray {
    /// Creates an array that stripes data over `devices` in chunks of `chunk`, a power of two of at least 4
    /// KiB. Devices of different sizes are fully used: beyond the end of the smallest device, data are
    /// striped over the others. Fails with [`HostError::NotRoot`], [`HostError::NotInKernel`],
    /// [`HostError::NoNumber`], or [`HostError::System`].
    pub fn striped(ledger: &mut Ledger, devices: &[PathBuf], chunk: ByteCount) -> Result<MdArray, HostError> {
        HostError::check_root("an md array")?;
        check_md_raid0()?;
        let names: Vec<String> = devices.iter().map(|device| name(device)).collect();
        let step = |number| Step::Md { number, devices: names.clone() };
        let (number, entry) = numbered::add(ledger, "md", NEW_ARRAY, sysfs, step, |number| {
            fs::write(NEW_ARRAY, format!("md{number}"))
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        })?;
        let path = node(number);
        let started = start(&path, devices, chunk);
        if started.is_err() {
            // Return the first error. If undoing fails too, the array stays in the ledger.
            let _ = ledger.undo(entry);
        }
        started.map(|()| MdArray { path, entry })
    }

    /// Returns the path of the array's node, such as `/dev/md700`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stops the array, which also removes it. Fails with [`HostError::System`], for example if the array is
    /// still mounted.
    pub fn stop(self, ledger: &mut Ledger) -> Result<(), HostError> {
        ledger.undo(self.entry)
    }
}

/// Loads the RAID-0 module if it exists, and checks that the running kernel supports RAID-0 arrays.
pub fn check_md_raid0() -> Result<(), HostError> {
    if !has_raid0() {
        // If the module cannot be loaded, the kernel does not list the RAID level.
        let _ = program::run("modprobe", "kmod", &["-q", "--", LEVEL]);
    }
    if has_raid0() { Ok(()) } else { Err(kernel::not_in_kernel("md RAID-0")) }
}

fn has_raid0() -> bool {
    let known = fs::read_to_string(MDSTAT).unwrap_or_default();
    Path::new(NEW_ARRAY).exists() && levels(&known).any(|level| level == LEVEL)
}

/// Returns the RAID levels in the first line of `/proc/mdstat`: `Personalities : [raid0] [raid1]`.
fn levels(mdstat: &str) -> impl Iterator<Item = &str> {
    let line = mdstat.lines().next().unwrap_or_default();
    line.split_whitespace().filter_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}

fn node(number: u32) -> PathBuf {
    format!("/dev/md{number}").into()
}

fn sysfs(number: u32) -> PathBuf {
    format!("/sys/block/md{number}").into()
}

/// Returns the name of a device in sysfs: `ublkb700` for `/dev/ublkb700`.
fn name(device: &Path) -> String {
    device.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn start(path: &Path, devices: &[PathBuf], chunk: ByteCount) -> Result<(), HostError> {
    let array = open_node(path)?;
    let count = c_int::try_from(devices.len()).unwrap_or(c_int::MAX);
    let info = ArrayInfo {
        // This version is for arrays whose devices are added by number.
        minor_version: 90,
        disks: count,
        raid_disks: count,
        not_persistent: 1,
        active_disks: count,
        working_disks: count,
        layout: LAYOUT,
        chunk_bytes: c_int::try_from(chunk.0).unwrap_or(c_int::MAX),
        ..ArrayInfo::default()
    };
    // SAFETY: SET_ARRAY_INFO reads an `mdu_array_info_t`, whose layout `ArrayInfo` has (asserted above), and
    // keeps no pointer to it.
    unsafe { ioctl::ioctl(&array, Setter::<SET_ARRAY_INFO, ArrayInfo>::new(info)) }
        .map_err(HostError::system("describe", path))?;
    for (device, number) in devices.iter().zip(0..) {
        let id = fs::metadata(device).map_err(HostError::system("look at", device))?.rdev();
        let disk = DiskInfo {
            number,
            major: major(id).cast_signed(),
            minor: minor(id).cast_signed(),
            raid_disk: number,
            state: IN_SYNC,
        };
        // SAFETY: ADD_NEW_DISK reads an `mdu_disk_info_t`, whose layout `DiskInfo` has, and keeps no pointer
        // to it.
        unsafe { ioctl::ioctl(&array, Setter::<ADD_NEW_DISK, DiskInfo>::new(disk)) }
            .map_err(HostError::system("add to an array", device))?;
    }
    // SAFETY: RUN_ARRAY reads at most an `mdu_param_t`, which is three numbers, and keeps no pointer to it.
    unsafe { ioctl::ioctl(&array, Setter::<RUN_ARRAY, [c_int; 3]>::new([0; 3])) }
        .map_err(HostError::system("start", path))
}

/// Stops the array `number` if all its devices are in `devices`. An array whose setup was interrupted has no
/// devices.
pub(crate) fn remove(number: u32, devices: &[String]) -> Result<(), HostError> {
    let (sysfs, path) = (sysfs(number), node(number));
    if !sysfs.exists() || !members(&sysfs).iter().all(|member| devices.contains(member)) {
        return Ok(());
    }
    for _ in 0..BUSY_TRIES {
        let array = match File::open(&path) {
            Ok(array) => array,
            // The kernel has just removed the array.
            Err(_) if !sysfs.exists() => return Ok(()),
            Err(error) => return Err(HostError::system("open", path)(error)),
        };
        // SAFETY: STOP_ARRAY takes no argument.
        match unsafe { ioctl::ioctl(&array, NoArg::<STOP_ARRAY>::new()) } {
            Ok(()) | Err(Errno::NODEV | Errno::NXIO) => {
                drop(array);
                return gone(&sysfs, &path);
            }
            Err(Errno::BUSY) => thread::sleep(BUSY_PAUSE),
            Err(error) => return Err(HostError::system("stop", path)(error)),
        }
    }
    Err(HostError::system("stop", path)(Errno::BUSY))
}

/// Waits until the kernel has removed a stopped array and freed its number and devices.
fn gone(sysfs: &Path, path: &Path) -> Result<(), HostError> {
    for _ in 0..BUSY_TRIES {
        if !sysfs.exists() {
            return Ok(());
        }
        thread::sleep(BUSY_PAUSE);
    }
    Err(HostError::system("remove", path)(Errno::BUSY))
}

/// Returns the devices of an array from sysfs, including devices that have disappeared.
fn members(sysfs: &Path) -> Vec<String> {
    let entries = fs::read_dir(sysfs.join("md")).into_iter().flatten().flatten();
    let name = |entry: fs::DirEntry| Some(entry.file_name().to_str()?.strip_prefix("dev-")?.to_owned());
    entries.filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_lists_its_levels() {
        let text = "Personalities : [raid0] [raid6]\nunused devices: <none>\n";
        for (text, expected) in [(text, &["raid0", "raid6"][..]), ("Personalities : \n", &[]), ("", &[])] {
            assert_eq!(levels(text).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn an_arrays_devices_are_recognised() {
        let dir = tempfile::tempdir().expect("dir");
        for name in ["dev-ublkb700", "dev-loop701", "rd0", "array_state"] {
            fs::create_dir_all(dir.path().join("md").join(name)).expect("a directory");
        }
        let mut found = members(dir.path());
        found.sort();
        assert_eq!(found, ["loop701", "ublkb700"]);
        assert_eq!(name(Path::new("/dev/ublkb700")), "ublkb700");
    }

    #[test]
    fn the_numbers_are_those_of_the_kernels_header() {
        let numbers = [ADD_NEW_DISK, SET_ARRAY_INFO, RUN_ARRAY, STOP_ARRAY];
        assert_eq!(numbers, [0x4014_0921, 0x4048_0923, 0x400c_0930, 0x932]);
    }
}
