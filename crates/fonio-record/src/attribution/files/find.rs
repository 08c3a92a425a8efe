//! Finds the path of a file by its inode number.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use fonio_core::lives::Generation;
use fonio_core::{DeviceId, Inode};
use fonio_machine::Machine;
use fonio_system::{MountPoint, device};
use rustc_hash::FxHashMap;
use rustix::fs::{Mode, OFlags};

use super::handle::{HANDLE, HANDLE_64, HANDLE_BTRFS, HANDLE_NILFS, generation_of, open_by_handle};

/// A folder of each file system, opened on demand. All these folders are closed after each round of look-ups,
/// because an open folder prevents unmounting.
pub(crate) struct Roots<'a> {
    machine: &'a Machine,
    folders: FxHashMap<u32, Option<Root>>,
}

/// A file that was found by its number.
#[derive(Debug)]
pub(crate) struct Found {
    pub file: OwnedFd,
    /// The path of the file; `None` if the kernel has no name for it.
    pub path: Option<PathBuf>,
    /// The generation of the file. The file has the number as long as this value exists.
    pub generation: Option<Generation>,
}

/// Why no file was found by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotFound {
    /// No file has the number, or the file with this number has another generation.
    NoFile,
    /// The file system cannot find files by number, or the file could not be opened.
    Unknown,
}

struct Root {
    folder: OwnedFd,
    /// The device number (`st_dev`) of the root's files. For btrfs subvolumes, it differs from the device
    /// number in the mount table.
    device: DeviceId,
    numbers: Numbers,
}

/// How a file system finds a file by inode number.
#[derive(Clone, Copy)]
enum Numbers {
    /// By the inode number alone: ext2, ext3, ext4, f2fs.
    Alone,
    /// By the inode number and the generation; the file system reports the generation.
    WithGeneration,
    /// By the inode and subvolume numbers: btrfs. The trace shows only the inode number, so all mounts of the
    /// file system must be of the same subvolume.
    InSubvolume(u64),
    /// By the inode number and a checkpoint: nilfs2.
    AtCheckpoint,
}

/// Returns whether files of this mount can be found by inode number.
pub(super) fn can_find(mount: &MountPoint) -> bool {
    Numbers::of(&mount.filesystem, &[mount]).is_some()
}

impl Numbers {
    /// Returns `None` if the file system cannot find a file by number. `mounts` are all mounts of this file
    /// system.
    fn of(filesystem: &str, mounts: &[&MountPoint]) -> Option<Numbers> {
        match filesystem {
            "ext2" | "ext3" | "ext4" | "f2fs" => Some(Numbers::Alone),
            "xfs" => Some(Numbers::WithGeneration),
            "nilfs2" => Some(Numbers::AtCheckpoint),
            "btrfs" => {
                let mut subvolumes = mounts.iter().map(|mount| subvolume(mount));
                let first = subvolumes.next()??;
                subvolumes.all(|other| other == Some(first)).then_some(Numbers::InSubvolume(first))
            }
            _ => None,
        }
    }
}

impl Roots<'_> {
    pub(crate) fn new(machine: &Machine) -> Roots<'_> {
        Roots { machine, folders: FxHashMap::default() }
    }

    pub(super) fn machine(&self) -> &Machine {
        self.machine
    }

    /// Returns the path of the file, and an `O_PATH` descriptor of the file. Without a generation, finds the
    /// file that has the number now.
    pub(crate) fn find(
        &mut self,
        inode: Inode,
        generation: Option<Generation>,
    ) -> Option<(PathBuf, OwnedFd)> {
        let found = self.look(inode, generation).ok()?;
        Some((found.path?, found.file))
    }

    /// Opens the file with this number and, if it is known, this generation.
    pub(crate) fn look(&mut self, inode: Inode, generation: Option<Generation>) -> Result<Found, NotFound> {
        let machine = self.machine;
        let root = self.folders.entry(inode.fs.0).or_insert_with(|| {
            let mounts = machine.mounts();
            let of_fs: Vec<&MountPoint> = mounts.iter().filter(|mount| mount.device == inode.fs).collect();
            of_fs.iter().find_map(|mount| {
                let numbers = Numbers::of(&mount.filesystem, &of_fs)?;
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let folder = rustix::fs::open(&mount.dir, flags, Mode::empty()).ok()?;
                let device = device::from_dev(rustix::fs::fstat(&folder).ok()?.st_dev);
                Some(Root { folder, device, numbers })
            })
        });
        let root = root.as_ref().ok_or(NotFound::Unknown)?;
        let file = root.open(inode.number, generation)?;
        let found = generation_of(&file);
        if generation.is_some_and(|wanted| found.is_some_and(|found| found != wanted)) {
            return Err(NotFound::NoFile);
        }
        let path = located(&file, Inode { fs: root.device, ..inode });
        Ok(Found { file, path, generation: found })
    }
}

impl Root {
    /// Opens a file by its inode number.
    fn open(&self, number: u64, generation: Option<Generation>) -> Result<OwnedFd, NotFound> {
        // Generation 0 in a file handle matches every generation.
        let any = generation.map_or(0, Generation::get);
        let opened = match self.numbers {
            Numbers::Alone => {
                let number = u32::try_from(number).map_err(|_| NotFound::Unknown)?;
                open_by_handle(&self.folder, HANDLE, [number, any])
            }
            Numbers::WithGeneration => {
                let generation = generation.map(Generation::get);
                let generation = generation.or_else(|| xfs_generation(&self.folder, number));
                let [first, second] = words(number);
                let words = [first, second, generation.ok_or(NotFound::Unknown)?];
                open_by_handle(&self.folder, HANDLE_64, words)
            }
            Numbers::InSubvolume(subvolume) => {
                let ([first, second], [third, fourth]) = (words(number), words(subvolume));
                // The kernel compares 64 bits, but only 32 of these bits are known.
                open_by_handle(&self.folder, HANDLE_BTRFS, [first, second, third, fourth, 0])
            }
            Numbers::AtCheckpoint => {
                let [first, second] = words(number);
                open_by_handle(&self.folder, HANDLE_NILFS, [0, 0, first, second, any])
            }
        };
        opened.map_err(|error| if error == libc::ESTALE { NotFound::NoFile } else { NotFound::Unknown })
    }
}

/// Splits a number into two 32-bit words in memory order.
fn words(number: u64) -> [u32; 2] {
    let bytes = number.to_ne_bytes();
    let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    [word(0), word(4)]
}

/// Returns the subvolume number of a btrfs mount.
pub(crate) fn subvolume(mount: &MountPoint) -> Option<u64> {
    let mut options = mount.filesystem_options.iter();
    options.find_map(|option| option.strip_prefix("subvolid=")?.parse().ok())
}

/// Asks xfs for the generation of an inode number (`XFS_IOC_FSBULKSTAT_SINGLE` of `fs/xfs/libxfs/xfs_fs.h`).
#[cfg(target_pointer_width = "64")]
fn xfs_generation(folder: &OwnedFd, number: u64) -> Option<u32> {
    /// The kernel's `struct xfs_fsop_bulkreq`.
    #[repr(C)]
    struct Request {
        number: *mut u64,
        count: i32,
        answer: *mut u64,
        answered: *mut i32,
    }
    /// `_IOWR('X', 102, struct xfs_fsop_bulkreq)`.
    const BULKSTAT_SINGLE: u32 = 3 << 30 | (size_of::<Request>() as u32) << 16 | 0x58 << 8 | 102;
    // `struct xfs_bstat` has 136 bytes. The inode number is the first field of the structure; the generation
    // is at byte 108.
    let mut answer = [0_u64; 32];
    let (mut asked, mut answered) = (number, 0_i32);
    let mut request = Request {
        number: &raw mut asked,
        count: 1,
        answer: answer.as_mut_ptr(),
        answered: &raw mut answered,
    };
    // SAFETY: every pointer refers to memory of the expected size that outlives the call.
    let done = unsafe { libc::ioctl(folder.as_raw_fd(), BULKSTAT_SINGLE as libc::Ioctl, &raw mut request) };
    let bytes = answer[13].to_ne_bytes();
    let generation = u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    (done == 0 && answer[0] == number).then_some(generation)
}

/// The ioctl is not used here: on 32-bit machines its structures differ.
#[cfg(not(target_pointer_width = "64"))]
fn xfs_generation(_folder: &OwnedFd, _number: u64) -> Option<u32> {
    None
}

/// Returns the path of an open file, if it still has one. `inode` is the file's identity according to `stat`.
fn located(file: &OwnedFd, inode: Inode) -> Option<PathBuf> {
    let link = rustix::fs::readlink(own_link(file), Vec::new()).ok()?;
    let link = link.as_bytes();
    if let Some(path) = link.strip_suffix(b" (deleted)") {
        // The kernel shows `/` or `#NUMBER` for a file that never had a name.
        let path = Path::new(OsStr::from_bytes(path));
        let is_name = path.file_name().is_some_and(|name| !name.as_bytes().starts_with(b"#"));
        return is_name.then(|| path.to_owned());
    }
    let path = Path::new(OsStr::from_bytes(link));
    // Without a cached name, the kernel invents a path to another file.
    let stat = rustix::fs::lstat(path).ok()?;
    let is_it = stat.st_ino == inode.number && device::from_dev(stat.st_dev) == inode.fs;
    is_it.then(|| path.to_owned())
}

pub(super) fn own_link(file: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}
