//! Finds the mount or disk that contains a path, and changes mount options.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use fonio_machine::Machine;
use fonio_system::{MountPoint, MountTable};
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{
    FsPickFlags, MountFlags, fsconfig_reconfigure, fsconfig_set_flag, fsconfig_set_string, fspick,
};

use super::refusal::Refusal;
use crate::error::HostError;

/// The mount flag `MS_NOSYMFOLLOW` of Linux 5.10.
const NOSYMFOLLOW: MountFlags = MountFlags::from_bits_retain(256);

pub(super) fn mounted_at(dir: &Path) -> Result<MountPoint, HostError> {
    let found = MountTable::read()?.at(dir).cloned();
    found.ok_or_else(|| HostError::system("find the mount", dir)(std::io::ErrorKind::NotFound))
}

/// Returns the mount that contains a path or, if the path is a device, a mount of that device.
pub(super) fn mount_of(path: &Path) -> Result<MountPoint, HostError> {
    let path = fs::canonicalize(path).map_err(HostError::system("find", path))?;
    let is_device = fs::metadata(&path).is_ok_and(|metadata| metadata.file_type().is_block_device());
    let mounts = MountTable::read()?;
    let found = if is_device {
        let of_device = mounts.iter().filter(|mount| Path::new(&mount.source) == path);
        of_device.max_by_key(|mount| mount.dir.components().count())
    } else {
        mounts.holding(&path)
    };
    found.cloned().ok_or_else(|| HostError::system("find the mount of", &path)(std::io::ErrorKind::NotFound))
}

/// Returns the mount point of the mount that contains a path. The mounted file system must be on a device.
pub(super) fn mount_on_device(path: &Path) -> Result<PathBuf, Refusal> {
    let MountPoint { dir, filesystem, .. } = mount_of(path)?;
    // In this file, the kernel marks the file systems that need no block device.
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if known.lines().any(|line| line.split_once('\t') == Some(("nodev", &filesystem))) {
        return Err(Refusal::On(dir, format!("the file system {filesystem} is not on a device")));
    }
    Ok(dir)
}

/// Fails if the file system at `dir` is mounted read-only.
pub(super) fn check_writable(dir: &Path) -> Result<(), Refusal> {
    match mounted_at(dir)?.filesystem_options.iter().any(|option| option == "ro") {
        true => Err(Refusal::Reason("it is read-only".to_owned())),
        false => Ok(()),
    }
}

/// Returns the flags of a mount except the access time flags; the error says why these flags are unknown.
pub(super) fn mount_flags(options: &[String]) -> Result<MountFlags, String> {
    let mut flags = MountFlags::empty();
    for option in options {
        flags |= match option.as_str() {
            "rw" | "noatime" | "relatime" => MountFlags::empty(),
            "ro" => MountFlags::RDONLY,
            "nosuid" => MountFlags::NOSUID,
            "nodev" => MountFlags::NODEV,
            "noexec" => MountFlags::NOEXEC,
            "nodiratime" => MountFlags::NODIRATIME,
            "nosymfollow" => NOSYMFOLLOW,
            other => return Err(format!("the mount option {other} cannot be preserved")),
        };
    }
    Ok(flags)
}

/// Changes one parameter of the file system mounted on a folder: a flag such as `ro`, or a key with a value.
/// Keeps all other parameters.
pub(super) fn reconfigure(dir: &Path, key: &str, value: Option<&str>) -> Result<(), Errno> {
    let picked = fspick(CWD, dir, FsPickFlags::FSPICK_CLOEXEC)?;
    match value {
        Some(value) => fsconfig_set_string(&picked, key, value)?,
        None => fsconfig_set_flag(&picked, key)?,
    }
    fsconfig_reconfigure(&picked)
}

/// Returns the name in `/sys/block` of the disk that contains a path. The path may also be the node of the
/// disk or of a partition.
pub(crate) fn disk_of(path: &Path) -> Result<String, Refusal> {
    let (name, below) = device_of(path)?;
    if below.is_empty() {
        return Ok(name);
    }
    Err(Refusal::Reason(format!("this device is mapped to {}: name one of those devices", below.join(", "))))
}

/// Finds a disk as [`disk_of`] does, but also returns the devices that the disk is mapped to.
pub(super) fn device_of(path: &Path) -> Result<(String, Vec<String>), Refusal> {
    let machine = Machine::here();
    let bare = Path::new("/dev").join(path);
    let path = if !path.exists() && bare.exists() { &bare } else { path };
    let found = machine.device_below(path).map_err(HostError::system("find", path))?;
    let disk = found.map(|id| machine.disk_of(id));
    let named = disk.and_then(|disk| Some((machine.name_of(disk)?, machine.names_mapped_to(disk))));
    named.ok_or_else(|| Refusal::Reason("this path is not on a block device".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_lies_in_the_deepest_mount() {
        assert_eq!(mount_of(Path::new("/proc/self/status")).expect("mount").dir, Path::new("/proc"));
        assert!(mount_of(Path::new("/no/such/file")).is_err());
    }

    #[test]
    fn what_could_not_be_kept_is_named() {
        let of = |options: &str| mount_flags(&options.split(',').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(of("rw,nosuid,relatime"), Ok(MountFlags::NOSUID));
        assert_eq!(of("rw,idmapped"), Err("the mount option idmapped cannot be preserved".to_owned()));
    }
}
