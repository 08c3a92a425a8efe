//! Drops the cached pages of individual files and devices, or starts to write them back.
//!
//! `/proc/sys/vm/drop_caches` drops the caches of all files, which disturbs other measurements. For a single
//! file, fonio writes its dirty pages back and drops its cached pages with `POSIX_FADV_DONTNEED`. For a
//! device, `BLKFLSBUF` writes back and drops the pages; for a file system, unmounting does.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use fonio_core::ByteCount;

use rustix::fs::Advice;
use rustix::io::Errno;
use rustix::ioctl;

use crate::error::HostError;

/// The ioctl `BLKFLSBUF` of `linux/fs.h`. It writes back and drops a block device's page cache.
const BLKFLSBUF: ioctl::Opcode = ioctl::opcode::none(0x12, 97);

/// Writes back and drops the page cache of one file. Fails with [`HostError::System`] if the file cannot be
/// opened or synced.
pub fn drop_file_cache(path: &Path) -> Result<(), HostError> {
    let file = File::open(path).map_err(HostError::system("open", path))?;
    rustix::fs::fdatasync(&file).map_err(HostError::system("sync", path))?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)
        .map_err(HostError::system("drop the cache of", path))
}

/// Starts the write-back of dirty pages in the `length` bytes from `offset`, as the kernel does it for old pages. Returns
/// when the requests have been issued, without waiting for their completion.
pub fn start_write_back(file: &File, offset: u64, length: u64) -> io::Result<()> {
    let signed = |value: u64| i64::try_from(value).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let (descriptor, flags) = (file.as_raw_fd(), libc::SYNC_FILE_RANGE_WRITE);
    // SAFETY: the arguments are numbers and a descriptor, which is open during the call.
    match unsafe { libc::sync_file_range(descriptor, signed(offset)?, signed(length)?, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `cachestat` of Linux 6.5. This system call number is the same on all architectures that use the generic
/// system call table.
const SYS_CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range` of `linux/mman.h`; length 0 means up to the end of the file.
#[repr(C)]
struct CacheRange {
    offset: u64,
    length: u64,
}

/// `struct cachestat`, which counts pages.
#[repr(C)]
#[derive(Default)]
struct CacheStat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Returns the number of cached bytes of a file; `None` on kernels without `cachestat` (before Linux 6.5).
/// Fails with [`HostError::System`] if the file cannot be opened.
pub fn cached_bytes(path: &Path) -> Result<Option<ByteCount>, HostError> {
    let file = File::open(path).map_err(HostError::system("open", path))?;
    let range = CacheRange { offset: 0, length: 0 };
    let mut stat = CacheStat::default();
    // SAFETY: both structs have the kernel's layout and outlive the call, which writes only to the second
    // struct.
    let done =
        unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut stat, 0_u32) };
    if done == 0 {
        return Ok(Some(ByteCount(stat.cached * rustix::param::page_size() as u64)));
    }
    match Errno::from_io_error(&std::io::Error::last_os_error()) {
        Some(Errno::NOSYS | Errno::OPNOTSUPP) | None => Ok(None),
        Some(error) => Err(HostError::system("query the page cache of", path)(error)),
    }
}

/// Writes back and drops the page cache of one block device. Files of a file system mounted from the device
/// stay cached. Fails with [`HostError::System`], for example because only root may drop this cache.
pub fn drop_device_cache(path: &Path) -> Result<(), HostError> {
    let file = File::open(path).map_err(HostError::system("open", path))?;
    // SAFETY: BLKFLSBUF takes no argument and does not write to our memory.
    unsafe { ioctl::ioctl(&file, ioctl::NoArg::<BLKFLSBUF>::new()) }
        .map_err(HostError::system("flush the buffers of", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_content_when_its_cache_goes() {
        // Use the folder of the test program, because it is on a disk. Pages of a tmpfs cannot be dropped.
        let folder = std::env::current_exe().expect("the path of a test program is known");
        let folder = folder.parent().expect("a test program is in a folder");
        let file = tempfile::NamedTempFile::new_in(folder).expect("temporary file");
        std::fs::write(file.path(), b"here").expect("write");
        let held = cached_bytes(file.path()).expect("cachestat");
        drop_file_cache(file.path()).expect("drop");
        match held {
            Some(held) => {
                let left = cached_bytes(file.path()).expect("cachestat");
                assert_eq!((held.0 > 0, left), (true, Some(ByteCount(0))));
            }
            None => fonio_testing::skip_part(fonio_testing::Need::Cachestat, "no cachestat"),
        }
        assert_eq!(std::fs::read(file.path()).expect("read"), b"here");
    }
}
