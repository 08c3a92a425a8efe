//! Stores the data of the emulated device, in memory or in a sparse file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fonio_core::ByteCount;
use rustix::fs::{FallocateFlags, MemfdFlags};

use crate::error::EmulatorError;

/// The data of an emulated device.
#[derive(Debug)]
pub struct Image {
    file: File,
}

impl Image {
    /// Creates an image in memory, filled with zeros.
    pub fn in_memory(capacity: ByteCount) -> Result<Image, EmulatorError> {
        let made = rustix::fs::memfd_create("fonio-emulated-disk", MemfdFlags::CLOEXEC);
        let file = File::from(made.map_err(EmulatorError::system("create", "a file in memory"))?);
        file.set_len(capacity.0).map_err(EmulatorError::system("size", "a file in memory"))?;
        Ok(Image { file })
    }

    /// Opens the file at `path` as an image. A new or empty file becomes a sparse file of the device's size.
    /// Fails with [`EmulatorError::ImageSize`] if the file has another size, or [`EmulatorError::System`].
    pub fn in_file(path: &Path, capacity: ByteCount) -> Result<Image, EmulatorError> {
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(EmulatorError::system("open", path))?;
        let found = file.metadata().map_err(EmulatorError::system("look at", path))?.len();
        if found == 0 {
            file.set_len(capacity.0).map_err(EmulatorError::system("size", path))?;
        } else if found != capacity.0 {
            let path = path.to_owned();
            return Err(EmulatorError::ImageSize { path, found: ByteCount(found), wanted: capacity });
        }
        Ok(Image { file })
    }

    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }

    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }

    /// Zeros a range of `bytes` at `offset` and frees its space.
    pub(crate) fn zero(&self, offset: u64, bytes: u64) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.file, hole, offset, bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_zeroed() {
        let dir = tempfile::tempdir().expect("dir");
        let capacity = ByteCount(1 << 20);
        let file = Image::in_file(&dir.path().join("image"), capacity).expect("file");
        for image in [Image::in_memory(capacity).expect("memory"), file] {
            image.write(4096, &[7; 8192]).expect("write");
            image.zero(8192, 4096).expect("zero");
            let mut seen = [1; 16384];
            image.read(0, &mut seen).expect("read");
            let expected: Vec<u8> = [0, 7, 0, 0].iter().flat_map(|byte| [*byte; 4096]).collect();
            assert_eq!(seen.as_slice(), expected);
            assert!(image.read((1 << 20) - 1, &mut [0; 2]).is_err());
        }
        let other = Image::in_file(&dir.path().join("image"), ByteCount(1 << 21));
        assert!(matches!(other, Err(EmulatorError::ImageSize { .. })));
    }
}
