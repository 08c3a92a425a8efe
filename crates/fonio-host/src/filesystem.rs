//! Creates file systems, and refuses to overwrite data without the user's confirmation.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::str::FromStr;

use fonio_system::MountTable;
use rustix::fs::OFlags;

use crate::error::HostError;
use crate::{kernel, program};

/// A file system that the test bed can create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filesystem {
    /// ext4 with the defaults of mke2fs, but with completely initialised inode tables and journal.
    Ext4,
    /// ext3, mounted by the ext4 driver, with a journal, without extents and delayed allocation, and with
    /// timestamps in seconds.
    Ext3,
    /// XFS, with the defaults of mkfs.xfs.
    Xfs,
    /// btrfs, with one copy of data and metadata.
    Btrfs,
    /// F2FS, a log-structured file system for flash. The kernel thread of F2FS cleans segments when the
    /// device is idle, as on phones.
    F2fs,
    /// NILFS2, a log-structured file system with checkpoints. Only the cleaner of NILFS2, which must be
    /// started separately ([`Cleaner`](crate::Cleaner)), frees the space of overwritten data.
    Nilfs2,
    /// FAT32 with long names, as on memory cards. Files on FAT32 have no owners or permissions, and are
    /// smaller than 4 GiB. There are no symbolic or hard links. Names ignore case and exclude `"*:<>?\|`.
    /// Modification times have a resolution of two seconds.
    Vfat,
}

/// The block size is one page, even on small devices, for which mke2fs would choose 1 KiB. So the size of
/// writes does not depend on the device's size.
const EXT_OPTIONS: &[&str] = &["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"];

/// The options of ext3: inodes of 128 bytes, whose timestamps have a resolution of one second. So if a file
/// is synced several times within a second, only the first sync writes the inode to the journal.
const EXT3_OPTIONS: &[&str] =
    &["-q", "-F", "-b", "4096", "-I", "128", "-E", "lazy_itable_init=0,lazy_journal_init=0"];

/// The options of FAT32 on devices of any size. A cluster has eight sectors: on most devices 4 KiB, the block
/// size of the other file systems. By default, mkfs.vfat makes FAT16 on a small device, and uses clusters of
/// up to 32 KiB. The option `-I` allows a device without a partition table.
const VFAT_OPTIONS: &[&str] = &["-I", "-F", "32", "-s", "8"];

/// The list of mounts (`_PATH_MOUNTED` of the C library), which mkfs.nilfs2 reads before it does anything
/// else.
const MTAB: &str = "/etc/mtab";

/// Whether the user confirmed that a device may be overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// The user named the device once, so the device must be empty.
    NamedOnce,
    /// The user named the device twice, so its data may be overwritten.
    NamedTwice,
}

impl Filesystem {
    /// All file systems that the test bed can create.
    pub const ALL: [Filesystem; 7] = [
        Filesystem::Ext4,
        Filesystem::Ext3,
        Filesystem::Xfs,
        Filesystem::Btrfs,
        Filesystem::F2fs,
        Filesystem::Nilfs2,
        Filesystem::Vfat,
    ];

    /// Returns the kernel's name of the file system type, which is also the name on the command line.
    pub fn kernel_name(self) -> &'static str {
        match self {
            Filesystem::Ext4 => "ext4",
            // The ext4 driver also mounts ext3, for which it does not delay allocation.
            Filesystem::Ext3 => "ext3",
            Filesystem::Xfs => "xfs",
            Filesystem::Btrfs => "btrfs",
            Filesystem::F2fs => "f2fs",
            Filesystem::Nilfs2 => "nilfs2",
            Filesystem::Vfat => "vfat",
        }
    }

    /// Returns the flags of the `mount` program that this file system requires.
    ///
    /// NILFS2 requires `-i`. Without this flag, `mount` calls mount.nilfs2, which starts the daemon
    /// nilfs_cleanerd. The daemon would outlive a killed run and keep the mount busy.
    pub fn mount_flags(self) -> &'static [&'static str] {
        match self {
            Filesystem::Nilfs2 => &["-i"],
            _ => &[],
        }
    }

    /// Returns whether files of this file system have owners, permissions and symbolic links.
    pub fn has_unix_files(self) -> bool {
        self != Filesystem::Vfat
    }

    /// Returns whether this file system records access times. NILFS2 does not record them
    /// (`Documentation/filesystems/nilfs2.rst`).
    pub fn has_access_times(self) -> bool {
        self != Filesystem::Nilfs2
    }

    /// Checks that the running kernel can mount this file system.
    pub fn check_kernel(self) -> Result<(), HostError> {
        kernel::check_filesystem(self.kernel_name())
    }

    /// Creates this file system on `device`. Unless the device is new, the caller must check it with
    /// [`check_empty`] first.
    ///
    /// ext4 and ext3 get blocks of 4 KiB. Lazy initialisation is off, because the kernel's writes for it
    /// would disturb the first measurement (16 MB in the first 12 s of one run). Fails with
    /// [`HostError::ProgramMissing`], [`HostError::FileMissing`] and [`HostError::ProgramFailed`].
    pub fn make(self, device: &Path) -> Result<(), HostError> {
        let (program, package, options): (_, _, &[&str]) = match self {
            Filesystem::Ext4 => ("mkfs.ext4", "e2fsprogs", EXT_OPTIONS),
            Filesystem::Ext3 => ("mkfs.ext3", "e2fsprogs", EXT3_OPTIONS),
            Filesystem::Xfs => ("mkfs.xfs", "xfsprogs", &["-q", "-f"]),
            Filesystem::Btrfs => ("mkfs.btrfs", "btrfs-progs", &["-q", "-f", "-d", "single", "-m", "single"]),
            // With `-q`, mkfs.f2fs would not print the reason for a failure.
            Filesystem::F2fs => ("mkfs.f2fs", "f2fs-tools", &["-f"]),
            Filesystem::Nilfs2 => ("mkfs.nilfs2", "nilfs-tools", &["-q", "-f"]),
            Filesystem::Vfat => ("mkfs.vfat", "dosfstools", VFAT_OPTIONS),
        };
        if self == Filesystem::Nilfs2 && !Path::new(MTAB).exists() {
            let remedy = "ln -s /proc/self/mounts /etc/mtab";
            return Err(HostError::FileMissing { program, path: MTAB.into(), remedy });
        }
        let mut arguments: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
        arguments.push(device.as_os_str());
        program::run(program, package, &arguments).map(|_| ())
    }
}

impl fmt::Display for Filesystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kernel_name())
    }
}

impl FromStr for Filesystem {
    type Err = String;
    fn from_str(name: &str) -> Result<Filesystem, String> {
        Filesystem::ALL.into_iter().find(|filesystem| filesystem.to_string() == name).ok_or_else(|| {
            let known = Filesystem::ALL.map(|filesystem| filesystem.to_string()).join(", ");
            format!("unknown file system `{name}`; use one of: {known}")
        })
    }
}

/// Number of bytes checked at each end of a device. Known partition tables and file systems leave nonzero
/// bytes in this range.
const LOOKED_AT_BYTES: u64 = 1 << 20;

/// Checks that [`claim`] succeeds for the device, and releases the device again. Returns the errors of
/// [`claim`].
pub fn check_empty(device: &Path, confirmation: Confirmation) -> Result<(), HostError> {
    claim(device, confirmation).map(drop)
}

/// Opens `device` exclusively: no process can mount it while the returned file is open. Fails if the device
/// is in use, or if it contains data and the user named it only once. Fails with [`HostError::InUse`],
/// [`HostError::HoldsData`], or [`HostError::System`] if the device cannot be read.
pub fn claim(device: &Path, confirmation: Confirmation) -> Result<File, HostError> {
    // An exclusive open fails if the device or one of its partitions is mounted, used as swap, or part of
    // another device.
    let opened = OpenOptions::new().read(true).custom_flags(OFlags::EXCL.bits().cast_signed()).open(device);
    let file = match opened {
        Err(error) if error.kind() == ErrorKind::ResourceBusy => {
            return Err(HostError::InUse { path: device.to_owned(), by: user_of(device)? });
        }
        other => other.map_err(HostError::system("open", device))?,
    };
    if confirmation == Confirmation::NamedTwice {
        return Ok(file);
    }
    match first_data(&file, device)? {
        Some(byte) => {
            let found = format!("data (first nonzero byte at {byte})");
            Err(HostError::HoldsData { path: device.to_owned(), found })
        }
        None => Ok(file),
    }
}

fn user_of(device: &Path) -> Result<String, HostError> {
    let source = device.to_string_lossy();
    let mounted = MountTable::read()?.into_iter().find(|mounted| mounted.source == source);
    Ok(match mounted {
        Some(mounted) => format!("the device is mounted on {}", mounted.dir.display()),
        None => "the device or a partition is mounted, used as swap, or part of another device".to_owned(),
    })
}

/// Returns the offset of the first nonzero byte near the device's start or end.
fn first_data(mut file: &File, device: &Path) -> Result<Option<u64>, HostError> {
    let end = file.seek(SeekFrom::End(0)).map_err(HostError::system("find the size of", device))?;
    let tail = end.saturating_sub(LOOKED_AT_BYTES).max(LOOKED_AT_BYTES.min(end));
    for (from, to) in [(0, LOOKED_AT_BYTES.min(end)), (tail, end)] {
        let mut bytes = vec![0; usize::try_from(to - from).expect("at most a megabyte")];
        file.read_exact_at(&mut bytes, from).map_err(HostError::system("read", device))?;
        if let Some(at) = bytes.iter().position(|byte| *byte != 0) {
            return Ok(Some(from + at as u64));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_there_and_back() {
        for filesystem in Filesystem::ALL {
            assert_eq!(filesystem.to_string().parse(), Ok(filesystem));
        }
        let refused = "fat".parse::<Filesystem>().expect_err("it is called vfat");
        assert_eq!(
            refused,
            "unknown file system `fat`; use one of: ext4, ext3, xfs, btrfs, f2fs, nilfs2, vfat"
        );
    }

    #[test]
    fn a_device_with_data_must_be_named_twice() {
        let file = tempfile::NamedTempFile::new().expect("file");
        let found = |data: &[u8], at| {
            file.as_file().set_len(0).expect("truncate");
            file.as_file().set_len(8 << 20).expect("grow");
            file.as_file().write_all_at(data, at).expect("write");
            check_empty(file.path(), Confirmation::NamedOnce)
        };
        assert!(found(b"", 0).is_ok());
        assert!(found(&[0, 0], 1024).is_ok());
        for at in [0, 1080, (8 << 20) - 1] {
            assert!(matches!(found(b"x", at), Err(HostError::HoldsData { .. })), "{at}");
        }
        assert!(check_empty(file.path(), Confirmation::NamedTwice).is_ok());
    }
}
