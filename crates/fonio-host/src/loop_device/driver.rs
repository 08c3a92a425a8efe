//! Calls the kernel's loop driver, with the numbers from linux/loop.h.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::ioctl::{self, IntegerSetter, NoArg, Opcode, Setter};

use crate::device_users::users_of;
use crate::error::HostError;

/// Number of attempts to use a device that is still busy after its last user has ended, or that has no node
/// yet.
const TRIES: u32 = 500;
/// Number of attempts to add a device. The kernel does not wait for the memory of the device's requests
/// (`blk_mq_alloc_rqs`), so an attempt can fail while the page cache has nearly all memory.
const TRIES_FOR_MEMORY: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

pub(super) const CONTROL: &str = "/dev/loop-control";

const LOOP_CONFIGURE: Opcode = 0x4c0a;
const LOOP_CLR_FD: Opcode = 0x4c01;
const LOOP_CTL_ADD: Opcode = 0x4c80;
const LOOP_CTL_REMOVE: Opcode = 0x4c81;
const LOOP_CTL_GET_FREE: Opcode = 0x4c82;
pub(super) const FLAG_READ_ONLY: u32 = 1;
const FLAG_AUTOCLEAR: u32 = 4;
pub(super) const FLAG_DIRECT_IO: u32 = 16;

/// `struct loop_info64` of linux/loop.h.
#[derive(Default)]
#[repr(C)]
struct LoopInfo64 {
    /// The unused fields from `lo_device` to `lo_encrypt_key_size`.
    unused: [u32; 13],
    flags: u32,
    /// The unused fields from `lo_file_name` to `lo_init`.
    unused_2: [u64; 22],
}

/// `struct loop_config` of linux/loop.h.
#[derive(Default)]
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo64,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopInfo64>() == 232 && size_of::<LoopConfig>() == 304);

pub(super) fn sysfs(number: u32) -> PathBuf {
    format!("/sys/block/loop{number}").into()
}

pub(super) fn control() -> Result<File, HostError> {
    OpenOptions::new().read(true).write(true).open(CONTROL).map_err(HostError::system("open", CONTROL))
}

pub(super) fn add(control: &File, number: u32) -> Result<(), Errno> {
    for _ in 0..TRIES_FOR_MEMORY {
        // SAFETY: LOOP_CTL_ADD takes a number, not a pointer.
        match unsafe { ioctl::ioctl(control, IntegerSetter::<LOOP_CTL_ADD>::new_usize(number as usize)) } {
            Err(Errno::NOMEM) => thread::sleep(PAUSE),
            added => return added,
        }
    }
    Err(Errno::NOMEM)
}

pub(super) fn configure(device: &File, file: &File, block_bytes: u32, flags: u32) -> Result<(), Errno> {
    let config = LoopConfig {
        fd: file.as_raw_fd().cast_unsigned(),
        block_size: block_bytes,
        info: LoopInfo64 { flags, ..LoopInfo64::default() },
        ..LoopConfig::default()
    };
    // SAFETY: LOOP_CONFIGURE reads a `struct loop_config`, whose layout `LoopConfig` has (asserted above),
    // and keeps no pointer to it.
    unsafe { ioctl::ioctl(device, Setter::<LOOP_CONFIGURE, LoopConfig>::new(config)) }
}

/// Binds a free loop device from the ordinary range to a file that is open for reading and writing. Uses
/// direct I/O if the file's file system supports this. The kernel unbinds the device when it is no longer
/// open or mounted. Returns the open device and its node.
pub(crate) fn attach_while_used(file: &File) -> Result<(File, PathBuf), HostError> {
    let control = control()?;
    for _ in 0..TRIES {
        // SAFETY: LOOP_CTL_GET_FREE takes no argument, and returns a number.
        let number = unsafe { ioctl::ioctl(&control, GetFree) }
            .map_err(HostError::system("find a free loop device through", CONTROL))?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = open_node(&path)?;
        let bound = match configure(&device, file, 512, FLAG_AUTOCLEAR | FLAG_DIRECT_IO) {
            // Some kernels reject direct I/O on this file; others ignore the flag.
            Err(Errno::INVAL) => configure(&device, file, 512, FLAG_AUTOCLEAR),
            bound => bound,
        };
        match bound {
            Ok(()) => return Ok((device, path)),
            // Another process has bound this loop device first.
            Err(Errno::BUSY) => {}
            Err(error) => return Err(HostError::system("bind", path)(error)),
        }
    }
    Err(HostError::system("find a free loop device through", CONTROL)(Errno::BUSY))
}

/// An ioctl that returns the number of a free loop device. The kernel adds a device if none is free.
struct GetFree;

// SAFETY: the request takes no pointer; the kernel returns the number as the result of the call.
unsafe impl ioctl::Ioctl for GetFree {
    type Output = u32;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        LOOP_CTL_GET_FREE
    }

    fn as_ptr(&mut self) -> *mut core::ffi::c_void {
        core::ptr::null_mut()
    }

    unsafe fn output_from_ptr(
        output: ioctl::IoctlOutput,
        _: *mut core::ffi::c_void,
    ) -> rustix::io::Result<u32> {
        Ok(output.cast_unsigned())
    }
}

/// Opens a device node, which udev or devtmpfs creates shortly after the device.
pub(crate) fn open_node(path: &Path) -> Result<File, HostError> {
    let mut last = None;
    for _ in 0..TRIES {
        match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => return Ok(file),
            Err(error) => last = Some(error),
        }
        thread::sleep(PAUSE);
    }
    Err(HostError::system("open", path)(last.expect("it was tried")))
}

/// Detaches and removes the loop device `number` if it is bound to `backing` or not bound to a file.
pub(crate) fn remove(number: u32, backing: &Path) -> Result<(), HostError> {
    let sysfs = sysfs(number);
    let path = PathBuf::from(format!("/dev/loop{number}"));
    if !sysfs.exists() {
        return Ok(());
    }
    let bound = || fs::read_to_string(sysfs.join("loop/backing_file")).ok();
    let is_ours = |bound: &str| is_backing(bound.trim_end_matches('\n'), backing);
    if let Some(bound) = bound() {
        if !is_ours(&bound) {
            return Ok(());
        }
        let device = File::open(&path).map_err(HostError::system("open", &path))?;
        // SAFETY: LOOP_CLR_FD takes no argument.
        match unsafe { ioctl::ioctl(&device, NoArg::<LOOP_CLR_FD>::new()) } {
            // The device is already unbound, or the kernel unbinds the device when its last user closes it.
            Ok(()) | Err(Errno::NXIO) => {}
            Err(error) => return Err(HostError::system("detach", path)(error)),
        }
    }
    let control = control()?;
    for _ in 0..TRIES {
        // SAFETY: LOOP_CTL_REMOVE takes a number, not a pointer.
        let removed =
            unsafe { ioctl::ioctl(&control, IntegerSetter::<LOOP_CTL_REMOVE>::new_usize(number as usize)) };
        match removed {
            Ok(()) | Err(Errno::NODEV) => return Ok(()),
            // Another process has since added a device with this number.
            Err(Errno::BUSY) if bound().is_some_and(|bound| !is_ours(&bound)) => return Ok(()),
            Err(Errno::BUSY) => thread::sleep(PAUSE),
            Err(error) => return Err(HostError::system("remove", path)(error)),
        }
    }
    let by = users_of(&path);
    Err(HostError::InUse { path, by })
}

/// Returns whether the backing file's path in sysfs names the file `backing`. If the file's mount is gone,
/// the kernel shows the path inside that mount. If the file was deleted, the kernel adds a suffix to the
/// path.
pub(crate) fn is_backing(shown: &str, backing: &Path) -> bool {
    let shown = Path::new(shown.strip_suffix(" (deleted)").unwrap_or(shown));
    shown == backing || shown.is_absolute() && backing.ends_with(shown.strip_prefix("/").unwrap_or(shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_below_is_recognised_in_the_kernels_words() {
        let backing = Path::new("/run/fonio/1-0.disk/disk");
        for (shown, ours) in [
            ("/run/fonio/1-0.disk/disk", true),
            ("/run/fonio/1-0.disk/disk (deleted)", true),
            ("/disk", true),
            ("/run/fonio/2-0.disk/disk", false),
            ("/home/disk2", false),
            ("", false),
        ] {
            assert_eq!(is_backing(shown, backing), ours, "{shown}");
        }
    }
}
