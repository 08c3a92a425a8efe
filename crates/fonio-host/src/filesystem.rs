//! Makes file systems, and refuses to overwrite data.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::str::FromStr;

use fonio_system::MountTable;
use rustix::fs::OFlags;

use crate::{HostError, program};

/// A file system that the test bed can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filesystem {
    /// ext4 as mke2fs makes it, but completely initialised.
    Ext4,
    /// ext3's format: a journal, no extents, no delayed allocation, times to the second; the ext4 driver mounts
    /// it.
    Ext3,
    /// XFS.
    Xfs,
    /// btrfs, with one copy of data and metadata.
    Btrfs,
}

/// Blocks of one page, even on a small device, for which mke2fs would choose 1 KiB. The size of the device then does
/// not change what is written.
const EXT_OPTIONS: &[&str] = &["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"];

/// With inodes of 128 bytes, whose times have a resolution of one second, as in ext3. Of several syncs within a second,
/// only the first then has a changed inode to journal.
const EXT3_OPTIONS: &[&str] =
    &["-q", "-F", "-b", "4096", "-I", "128", "-E", "lazy_itable_init=0,lazy_journal_init=0"];

/// How the user confirmed that a device may be overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// The user named the device once: it must be empty.
    NamedOnce,
    /// The user named it twice: its data may be overwritten.
    NamedTwice,
}

impl Filesystem {
    /// All file systems.
    pub const ALL: [Filesystem; 4] = [Filesystem::Ext4, Filesystem::Ext3, Filesystem::Xfs, Filesystem::Btrfs];

    /// The name of the kernel's driver that mounts it.
    pub fn kernel_name(self) -> &'static str {
        match self {
            Filesystem::Ext4 => "ext4",
            // The same driver as for ext4, but under this name it allocates at the write, as ext3 did.
            Filesystem::Ext3 => "ext3",
            Filesystem::Xfs => "xfs",
            Filesystem::Btrfs => "btrfs",
        }
    }

    /// Makes the file system on `device`. Unless the device is new, the caller has checked it with [`check_empty`].
    ///
    /// ext4 and ext3 get blocks of 4 KiB and no lazy initialisation. With it, the kernel writes for some seconds into
    /// the first measurement (16 MB in the first 12 s of a run were seen).
    ///
    /// # Errors
    ///
    /// [`HostError::ProgramMissing`] and [`HostError::ProgramFailed`].
    pub fn make(self, device: &Path) -> Result<(), HostError> {
        let (program, package, options): (_, _, &[&str]) = match self {
            Filesystem::Ext4 => ("mkfs.ext4", "e2fsprogs", EXT_OPTIONS),
            Filesystem::Ext3 => ("mkfs.ext3", "e2fsprogs", EXT3_OPTIONS),
            Filesystem::Xfs => ("mkfs.xfs", "xfsprogs", &["-q", "-f"]),
            Filesystem::Btrfs => ("mkfs.btrfs", "btrfs-progs", &["-q", "-f", "-d", "single", "-m", "single"]),
        };
        let mut arguments: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
        arguments.push(device.as_os_str());
        program::run(program, package, &arguments).map(|_| ())
    }
}

impl fmt::Display for Filesystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Filesystem::Ext4 => "ext4",
            Filesystem::Ext3 => "ext3",
            Filesystem::Xfs => "xfs",
            Filesystem::Btrfs => "btrfs",
        })
    }
}

impl FromStr for Filesystem {
    type Err = String;
    fn from_str(name: &str) -> Result<Filesystem, String> {
        Filesystem::ALL
            .into_iter()
            .find(|filesystem| filesystem.to_string() == name)
            .ok_or_else(|| format!("no file system `{name}`; there are ext4, ext3, xfs and btrfs"))
    }
}

/// Number of bytes checked at each end of a device: every partition table and file system that we know leaves bytes
/// other than zero there.
const LOOKED_AT_BYTES: u64 = 1 << 20;

/// Checks that [`claim`] would succeed, without keeping the device.
///
/// # Errors
///
/// Those of [`claim`].
pub fn check_empty(device: &Path, confirmation: Confirmation) -> Result<(), HostError> {
    claim(device, confirmation).map(drop)
}

/// Claims `device` while the returned file is open: nobody can mount it during that time. Refuses a device that is in
/// use, or that is not empty unless the user named it twice.
///
/// # Errors
///
/// [`HostError::InUse`], [`HostError::HoldsData`], or [`HostError::System`] if it cannot be read.
pub fn claim(device: &Path, confirmation: Confirmation) -> Result<File, HostError> {
    // The kernel refuses to open exclusively a device that is mounted, is swap, or is below another device, even if
    // only a partition is.
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
            let found = format!("data (the first at byte {byte})");
            Err(HostError::HoldsData { path: device.to_owned(), found })
        }
        None => Ok(file),
    }
}

fn user_of(device: &Path) -> Result<String, HostError> {
    let source = device.to_string_lossy();
    let mounted = MountTable::read()?.into_iter().find(|mounted| mounted.source == source);
    Ok(match mounted {
        Some(mounted) => format!("it is mounted on {}", mounted.dir.display()),
        None => "it, or a part of it, is mounted, swap, or below another device".to_owned(),
    })
}

/// The offset of the first byte that is not zero, at the device's beginning or end.
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
        assert!("vfat".parse::<Filesystem>().is_err());
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
