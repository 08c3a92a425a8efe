//! Dropping our own caches, and nobody else's.
//!
//! `/proc/sys/vm/drop_caches` drops those of the whole machine, which changes what everybody measures. A file's cache
//! goes by `POSIX_FADV_DONTNEED` after its dirty pages were written; a device's by `BLKFLSBUF`; that of a whole file
//! system by unmounting it.

use std::fs::File;
use std::path::Path;

use rustix::fs::Advice;
use rustix::ioctl;

use crate::HostError;

/// `BLKFLSBUF` of `linux/fs.h`: write back and forget a block device's page cache.
const BLKFLSBUF: ioctl::Opcode = ioctl::opcode::none(0x12, 97);

/// Writes back and forgets what the page cache holds of one file.
///
/// # Errors
///
/// [`HostError::System`] where the file cannot be opened or synced.
pub fn drop_file_cache(path: &Path) -> Result<(), HostError> {
    let file = File::open(path).map_err(HostError::system("open", path))?;
    rustix::fs::fdatasync(&file).map_err(|error| HostError::system("sync", path)(error.into()))?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)
        .map_err(|error| HostError::system("drop the cache of", path)(error.into()))
}

/// Writes back and forgets what the page cache holds of one block device. Files of a mounted file system on it have
/// caches of their own, which stay.
///
/// # Errors
///
/// [`HostError::System`]; the user must be root.
pub fn drop_device_cache(path: &Path) -> Result<(), HostError> {
    let file = File::open(path).map_err(HostError::system("open", path))?;
    // SAFETY: BLKFLSBUF takes no argument and writes no memory of ours.
    unsafe { ioctl::ioctl(&file, ioctl::NoArg::<BLKFLSBUF>::new()) }
        .map_err(|error| HostError::system("flush the buffers of", path)(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_content_when_its_cache_goes() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        std::fs::write(file.path(), b"here").expect("write");
        drop_file_cache(file.path()).expect("drop");
        assert_eq!(std::fs::read(file.path()).expect("read"), b"here");
    }
}
