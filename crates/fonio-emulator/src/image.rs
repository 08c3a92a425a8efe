//! Stores the data of the emulated device, in memory or in a sparse file on a disk.
//!
//! The server must never wait for the device that it serves. Two kinds of waits would be possible here:
//!
//! 1. **Swap.** The kernel swaps out the pages of a file in memory (memfd, tmpfs) that no process has locked.
//!    `mlockall` locks only mapped pages, so a server that reads and writes such a file with system calls has
//!    its data swapped out, possibly to its own device. Data in memory are therefore mapped and locked.
//! 2. **The page cache.** A write to a cached file waits while the machine has too many dirty pages, even if
//!    the dirty pages belong to the emulated device. Files on a disk are therefore opened for direct I/O.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError, RwLock};

use fonio_core::{ByteCount, SECTOR_BYTES};
use rustix::fs::{FallocateFlags, MemfdFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::aligned::{ALIGNMENT, Aligned};
use crate::error::EmulatorError;
use crate::memory::{self, Allocation};

/// `RAMFS_MAGIC` of linux/magic.h: the root file system of a guest without a disk.
const RAMFS_MAGIC: u64 = 0x8584_58f6;
/// `TMPFS_MAGIC` of linux/magic.h.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Size of the buffer for direct I/O. The emulator splits longer requests.
const BOUNCE_BYTES: usize = 1 << 20;

/// The data of an emulated device.
#[derive(Debug)]
pub struct Image(Store);

#[derive(Debug)]
enum Store {
    Memory(RwLock<Mapping>),
    Disk(Mutex<Direct>),
}

impl Image {
    /// Creates an image in memory, filled with zeros. Fails with [`EmulatorError::NoMemory`] if the machine
    /// has too little memory, or with the errors of locking.
    pub(crate) fn in_memory(capacity: ByteCount, allocation: Allocation) -> Result<Image, EmulatorError> {
        let made = rustix::fs::memfd_create("fonio-emulated-disk", MemfdFlags::CLOEXEC);
        let file = File::from(made.map_err(EmulatorError::system("create", "a file in memory"))?);
        file.set_len(capacity.0).map_err(EmulatorError::system("size", "a file in memory"))?;
        Image::mapped(file, Path::new("a file in memory"), capacity, allocation)
    }

    /// Opens the file at `path` as an image. A new or empty file becomes a sparse file of the device's size.
    /// Fails with [`EmulatorError::ImageSize`] if the file has another size, with
    /// [`EmulatorError::NoDirectIo`] if its file system cannot bypass the page cache,
    /// [`EmulatorError::System`], or, if the file is in memory, with the errors of [`Image::in_memory`].
    pub(crate) fn in_file(
        path: &Path,
        capacity: ByteCount,
        allocation: Allocation,
    ) -> Result<Image, EmulatorError> {
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(EmulatorError::system("open", path))?;
        let found = file.metadata().map_err(EmulatorError::system("look at", path))?.len();
        if found == 0 {
            file.set_len(capacity.0).map_err(EmulatorError::system("size", path))?;
        } else if found != capacity.0 {
            let path = path.to_owned();
            return Err(EmulatorError::ImageSize { path, found: ByteCount(found), wanted: capacity });
        }
        let of = rustix::fs::fstatfs(&file).map_err(EmulatorError::system("look at", path))?;
        // The kernel's type of this number has another width on some processors.
        #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss, reason = "the width differs")]
        let magic = of.f_type as u64 & 0xffff_ffff;
        if [RAMFS_MAGIC, TMPFS_MAGIC].contains(&magic) {
            return Image::mapped(file, path, capacity, allocation);
        }
        let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
        match OpenOptions::new().read(true).write(true).custom_flags(direct).open(path) {
            Ok(file) => Ok(Image(Store::Disk(Mutex::new(Direct::new(file, capacity))))),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => {
                Err(EmulatorError::NoDirectIo { path: path.to_owned() })
            }
            Err(error) => Err(EmulatorError::system("open", path)(error)),
        }
    }

    fn mapped(
        file: File,
        path: &Path,
        capacity: ByteCount,
        allocation: Allocation,
    ) -> Result<Image, EmulatorError> {
        if allocation == Allocation::Complete {
            let held = file.metadata().map_err(EmulatorError::system("look at", path))?.blocks() * 512;
            memory::check_available(ByteCount(capacity.0.saturating_sub(held)))?;
            match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, capacity.0) {
                // Locking allocates the memory of a ramfs.
                Ok(()) | Err(Errno::OPNOTSUPP) => {}
                Err(error) => return Err(EmulatorError::system("allocate", path)(error)),
            }
        }
        let mapping = memory::while_mapping(allocation, || {
            Mapping::new(file, capacity, allocation != Allocation::Complete)
        })?
        .map_err(EmulatorError::system("map", path))?;
        memory::lock(mapping.start.cast(), mapping.bytes, allocation)?;
        Ok(Image(Store::Memory(RwLock::new(mapping))))
    }

    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        match &self.0 {
            Store::Memory(mapping) => {
                let mapping = mapping.read().unwrap_or_else(PoisonError::into_inner);
                into.copy_from_slice(&mapping.bytes()[range(offset, into.len(), mapping.bytes)?]);
                Ok(())
            }
            Store::Disk(direct) => lock(direct).read(offset, into),
        }
    }

    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        match &self.0 {
            Store::Memory(mapping) => {
                let mut mapping = mapping.write().unwrap_or_else(PoisonError::into_inner);
                let range = range(offset, data.len(), mapping.bytes)?;
                mapping.bytes_mut()[range].copy_from_slice(data);
                Ok(())
            }
            Store::Disk(direct) => lock(direct).write(offset, data),
        }
    }

    /// Zeros a range of `bytes` at `offset`. A file on a disk frees the range's space. Data in memory keep
    /// their memory, because allocating it again could wait for write-back.
    pub(crate) fn zero(&self, offset: u64, bytes: u64) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        match &self.0 {
            Store::Memory(mapping) => {
                let mut mapping = mapping.write().unwrap_or_else(PoisonError::into_inner);
                let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
                let range = range(offset, bytes, mapping.bytes)?;
                mapping.zero(range)
            }
            Store::Disk(direct) => {
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                Ok(rustix::fs::fallocate(&lock(direct).file, hole, offset, bytes)?)
            }
        }
    }
}

/// Locks the file, ignoring poison: a panic ends the process.
fn lock(direct: &Mutex<Direct>) -> std::sync::MutexGuard<'_, Direct> {
    direct.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the indexes of `bytes` at `offset`. Fails if the range reaches beyond `end`.
fn range(offset: u64, bytes: usize, end: usize) -> io::Result<std::ops::Range<usize>> {
    let from = usize::try_from(offset).map_err(io::Error::other)?;
    let to = from.checked_add(bytes).filter(|to| *to <= end).ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(from..to)
}

/// A file in memory, mapped to this process.
#[derive(Debug)]
struct Mapping {
    file: File,
    start: *mut u8,
    bytes: usize,
    /// Whether memory is allocated only for written data.
    is_sparse: bool,
}

// SAFETY: the memory belongs to this value alone and is not bound to a thread.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference only reads the memory.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: File, capacity: ByteCount, is_sparse: bool) -> io::Result<Mapping> {
        let bytes = usize::try_from(capacity.0).map_err(io::Error::other)?;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the kernel chooses the address, so no memory of ours is replaced.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, access, flags, &file, 0) };
        Ok(Mapping { start: start?.cast(), bytes, is_sparse, file })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is mapped with this length until this value is dropped, every bit pattern is
        // valid, and this process changes the memory only through `bytes_mut`.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`; the exclusive reference to this value makes the slice exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) }
    }

    fn zero(&mut self, range: std::ops::Range<usize>) -> io::Result<()> {
        if self.is_sparse {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            return Ok(rustix::fs::fallocate(&self.file, hole, range.start as u64, range.len() as u64)?);
        }
        self.bytes_mut()[range].fill(0);
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this length, and no reference into it exists.
        let _ = unsafe { rustix::mm::munmap(self.start.cast(), self.bytes) };
    }
}

/// A file on a disk, read and written without the page cache. One request at a time uses the disk.
#[derive(Debug)]
struct Direct {
    file: File,
    /// The unit of the requests to the disk.
    unit: u64,
    /// Buffer for the requests to the disk; its size is a multiple of every unit.
    bounce: Aligned,
}

impl Direct {
    fn new(file: File, capacity: ByteCount) -> Direct {
        // The last request to the disk must not make the file longer than the device.
        let unit = if capacity.0.is_multiple_of(ALIGNMENT as u64) { ALIGNMENT as u64 } else { SECTOR_BYTES };
        Direct { file, unit, bounce: Aligned::new(BOUNCE_BYTES) }
    }

    /// Calls `each` for every part of the range that fits in the buffer, with the part's offset in the
    /// request, the offset of its units in the file, and the indexes of the part within these units.
    fn parts(
        &mut self,
        offset: u64,
        bytes: usize,
        mut each: impl FnMut(&File, usize, u64, std::ops::Range<usize>, &mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < bytes {
            let at = offset + done as u64;
            let begin = at - at % self.unit;
            // The buffer has at most 1 MiB, so its indexes fit.
            let skipped = (at - begin) as usize;
            let part = (bytes - done).min(BOUNCE_BYTES - skipped);
            let length = (skipped + part).next_multiple_of(self.unit as usize);
            let units = &mut self.bounce.bytes()[..length];
            each(&self.file, done, begin, skipped..skipped + part, units)?;
            done += part;
        }
        Ok(())
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.parts(offset, into.len(), |file, done, begin, part, units| {
            file.read_exact_at(units, begin)?;
            into[done..done + part.len()].copy_from_slice(&units[part]);
            Ok(())
        })
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let unit = self.unit as usize;
        self.parts(offset, data.len(), |file, done, begin, part, units| {
            // Bytes of the first and the last unit outside the part keep their values.
            let last = units.len() - unit;
            if part.start > 0 {
                file.read_exact_at(&mut units[..unit], begin)?;
            }
            if part.end < units.len() && (last > 0 || part.start == 0) {
                file.read_exact_at(&mut units[last..], begin + last as u64)?;
            }
            let from = &data[done..done + part.len()];
            units[part].copy_from_slice(from);
            file.write_all_at(units, begin)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CAPACITY: u64 = 4 << 20;

    fn images(dir: &Path) -> Vec<(&'static str, Image)> {
        let bytes = ByteCount(CAPACITY);
        let mut images =
            vec![("not locked", Image::in_memory(bytes, Allocation::NotLocked).expect("memory"))];
        if rustix::process::geteuid().is_root() {
            for (name, allocation) in [("complete", Allocation::Complete), ("sparse", Allocation::AsWritten)]
            {
                images.push((name, Image::in_memory(bytes, allocation).expect(name)));
            }
        }
        let shm = tempfile::tempfile_in("/dev/shm").expect("a tmpfs");
        shm.set_len(CAPACITY).expect("size");
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&shm));
        let mapped = Image::in_file(Path::new(&path), bytes, Allocation::NotLocked).expect("tmpfs");
        assert!(matches!(mapped.0, Store::Memory(_)), "a file in memory is mapped");
        images.push(("tmpfs", mapped));
        match Image::in_file(&dir.join("image"), bytes, Allocation::Complete) {
            Ok(disk) => images.push(("disk", disk)),
            Err(EmulatorError::NoDirectIo { path }) => {
                fonio_testing::skip_part(
                    fonio_testing::Need::DirectIo,
                    format_args!("the file system of {} has no direct I/O", path.display()),
                );
            }
            Err(error) => panic!("{error}"),
        }
        images
    }

    #[derive(Clone, Debug)]
    enum Step {
        Write { offset: u64, bytes: usize, value: u8 },
        Zero { offset: u64, bytes: u64 },
    }

    fn step() -> impl Strategy<Value = Step> {
        let place = (0..CAPACITY / 512).prop_flat_map(|sector| {
            let most = (CAPACITY / 512 - sector).min(3000);
            (Just(sector * 512), 1..=most)
        });
        (place, 0_u8..8).prop_map(|((offset, sectors), value)| match value {
            0 => Step::Zero { offset, bytes: sectors * 512 },
            value => Step::Write { offset, bytes: sectors as usize * 512, value },
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Every kind of image contains the same bytes as a plain vector after the same steps.
        #[test]
        fn images_equal_a_vector(steps in prop::collection::vec(step(), 1..12)) {
            let dir = tempfile::tempdir().expect("dir");
            for (name, image) in images(dir.path()) {
                let mut model = vec![0_u8; CAPACITY as usize];
                for step in &steps {
                    let (offset, bytes, value) = match *step {
                        Step::Write { offset, bytes, value } => {
                            image.write(offset, &vec![value; bytes]).expect(name);
                            (offset as usize, bytes, value)
                        }
                        Step::Zero { offset, bytes } => {
                            image.zero(offset, bytes).expect(name);
                            (offset as usize, bytes as usize, 0)
                        }
                    };
                    model[offset..offset + bytes].fill(value);
                }
                let mut seen = vec![1; CAPACITY as usize];
                image.read(0, &mut seen).expect(name);
                prop_assert!(seen == model, "{name}");
                let mut part = vec![1; 1536];
                image.read(3584, &mut part).expect(name);
                prop_assert!(part == model[3584..5120], "{name}: not aligned");
                prop_assert!(image.read(CAPACITY - 512, &mut [0; 1024]).is_err(), "{name}: beyond the end");
            }
        }
    }

    #[test]
    fn a_file_of_another_size_is_refused() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("image");
        File::create(&path).and_then(|file| file.set_len(CAPACITY)).expect("file");
        let other = Image::in_file(&path, ByteCount(CAPACITY * 2), Allocation::NotLocked);
        assert!(matches!(other, Err(EmulatorError::ImageSize { .. })));
    }

    #[test]
    fn data_that_do_not_fit_in_memory_are_refused() {
        let error = Image::in_memory(ByteCount(1 << 46), Allocation::Complete).expect_err("64 TiB");
        assert!(matches!(error, EmulatorError::NoMemory { .. }), "{error}");
        for way_out in ["--image FILE", crate::memory::SPARSE_VARIABLE] {
            assert!(error.to_string().contains(way_out), "{error}");
        }
    }
}
