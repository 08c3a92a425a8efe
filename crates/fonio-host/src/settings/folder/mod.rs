//! Covers folders with mounts: a tmpfs, a folder on another device, an image file on the same device, or
//! fonio's FUSE file system.
//!
//! The covered files stay in their folder. fonio accesses them through a private copy of the mount that
//! contains the folder, without nested mounts ([`uncovered`]). This copy needs no mount point, so a killed
//! process leaves nothing behind.

pub(super) mod copy;
pub(super) mod holders;
pub(super) mod mirror;
pub(super) mod survey;
pub(super) mod units;

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fonio_core::ByteCount;
use fonio_core::quantity::Unit;
use fonio_system::{MountTable, TrustedFolder, chain, state};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount,
};

use self::holders::{Use, holders, named, what_to_do};
use self::mirror::{Mirrored, mirror};
use self::survey::{Survey, survey};
use crate::error::HostError;
use crate::files::lock_own_folder;
use crate::kernel::not_in_kernel;
use crate::unmount;

/// Number of attempts to copy a folder that changes while it is copied.
const TRIES: u32 = 3;

/// The setting's value for a folder without a mount.
pub(super) const NONE: &str = "none";

/// System folders that cannot be covered: the system needs them before it mounts file systems, they are not
/// on a disk, or their content must match the installed packages.
const OF_SYSTEM: [&str; 16] = [
    "/etc",
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/boot",
    "/dev",
    "/proc",
    "/sys",
    "/run",
    "/var/lib/dpkg",
    "/var/lib/systemd",
    "/var/lib/fonio",
];

/// Returns the folder at a path; the error is the reason why the path cannot be used.
pub(super) fn folder_at(path: &Path) -> Result<PathBuf, String> {
    let dir = fs::canonicalize(path).map_err(|error| chain(&error))?;
    if !dir.is_dir() {
        return Err("the path is not a folder".to_owned());
    }
    match dir.to_str() {
        Some(text) if !text.contains(char::is_control) => Ok(dir),
        _ => Err("the folder's name has characters that systemd unit names cannot have".to_owned()),
    }
}

/// Rejects folders over which nothing may be mounted.
pub(super) fn check_place(dir: &Path) -> Result<(), String> {
    let mounts = MountTable::read().map_err(|error| chain(&error))?;
    // Users and fonio often mount devices on folders below /run.
    let on_device_in_run = |system: &Path| {
        let holding = mounts.holding(dir).map(|mount| mount.dir.as_path());
        system == Path::new("/run") && holding.is_some_and(|top| top.starts_with(system) && top != system)
    };
    for system in OF_SYSTEM.map(Path::new) {
        if dir == Path::new("/") || dir.starts_with(system) && !on_device_in_run(system) {
            return Err("the system starts from this folder".to_owned());
        }
        if system.starts_with(dir) {
            return Err(format!("{} is in this folder: name a folder below it", system.display()));
        }
    }
    if let Ok(program) = std::env::current_exe()
        && program.starts_with(dir)
    {
        return Err(format!("fonio itself is in this folder ({})", program.display()));
    }
    if let Some(mount) = mounts.iter().find(|mount| mount.dir.starts_with(dir)) {
        return Err(if mount.dir == dir {
            format!("it is already a mount point ({} on {})", mount.filesystem, mount.source)
        } else {
            format!("{} is mounted in this folder", mount.dir.display())
        });
    }
    let Some(holding) = mounts.holding(dir) else { return Err("the folder has no mount".to_owned()) };
    if ["tmpfs", "ramfs"].contains(&holding.filesystem.as_str()) {
        return Err("this folder is already in memory".to_owned());
    }
    if holding.all_options().iter().any(|option| option == "ro") {
        return Err(format!("{} is mounted read-only", holding.dir.display()));
    }
    Ok(())
}

/// Rejects a folder while programs have files in this folder open for writing: the programs would continue to
/// write to the covered files.
pub(super) fn check_writers(dir: &Path) -> Result<(), String> {
    let writers = holders(dir, device_of(dir), Use::Writes);
    if writers.is_empty() {
        return Ok(());
    }
    Err(format!(
        "programs have files in this folder open for writing and would continue to write to the files on the disk: {}. Stop these programs first ({}) and start them afterwards; or add --force and restart them at once, which loses the data that they write in between",
        named(&writers),
        what_to_do(&writers, "stop"),
    ))
}

/// Returns a text for the user: the programs that still use files covered by the mount, the consequence
/// (`means`), and the remedy.
pub(super) fn left_below(dir: &Path, means: &str) -> Option<String> {
    let below = uncovered(dir).and_then(|below| rustix::fs::fstat(&below)).ok()?;
    let own = fs::metadata("/proc/self/exe").map(|stat| (stat.dev(), stat.ino())).ok();
    let mut left = holders(dir, below.st_dev, Use::Any);
    // fonio's FUSE file system itself uses the covered files.
    left.retain(|holder| {
        let exe = fs::metadata(format!("/proc/{}/exe", holder.pid));
        own.is_none() || exe.map(|stat| (stat.dev(), stat.ino())).ok() != own
    });
    let to_do = what_to_do(&left, "restart");
    (!left.is_empty()).then(|| {
        format!("These programs still use the old files, {means}: {}. Do this now: {to_do}.", named(&left))
    })
}

/// Returns the error for a folder that cannot be unmounted because programs use it.
fn in_use(dir: &Path, how: Use) -> HostError {
    let found = holders(dir, device_of(dir), how);
    let by = if found.is_empty() {
        "by a program that fonio does not see, or by a mount in the folder".to_owned()
    } else {
        format!("{}. First {}", named(&found), what_to_do(&found, "stop"))
    };
    HostError::InUse { path: dir.to_owned(), by }
}

pub(super) fn check_unused(dir: &Path) -> Result<(), HostError> {
    if holders(dir, device_of(dir), Use::Any).is_empty() { Ok(()) } else { Err(in_use(dir, Use::Any)) }
}

/// Unmounts a folder; the error names the programs that use the folder.
pub(super) fn unmount(dir: &Path) -> Result<(), HostError> {
    unmount::unmount(dir).map_err(|error| match &error {
        HostError::System(system) if system.source.kind() == std::io::ErrorKind::ResourceBusy => {
            in_use(dir, Use::Any)
        }
        _ => error,
    })
}

/// Converts the errno of the attempt to make a mount read-only into a [`HostError`]. A mount is made
/// read-only before its content is copied.
pub(super) fn read_only(dir: &Path, outcome: Result<(), Errno>) -> Result<(), HostError> {
    match outcome {
        Err(Errno::BUSY) => Err(in_use(dir, Use::Writes)),
        outcome => outcome.map_err(failed("make read-only", dir)),
    }
}

pub(super) fn copy_back(dir: &Path) -> Result<Mirrored, HostError> {
    let from = visible(dir).map_err(failed("open", dir))?;
    let below = uncovered(dir).map_err(failed("open the folder covered by", dir))?;
    mirror(&from, &below, dir)
}

/// Creates a mount that is not attached to a folder yet, and opens its root. The new mount has the same flags
/// as the mount that contains `dir`.
pub(super) fn detached_mount(
    filesystem: &str,
    settings: &[(&str, &str)],
    dir: &Path,
) -> Result<(OwnedFd, OwnedFd), HostError> {
    let flags = attributes_around(dir)?;
    let make = || {
        let context = fsopen(filesystem, FsOpenFlags::FSOPEN_CLOEXEC)?;
        for (name, value) in settings {
            fsconfig_set_string(&context, *name, *value)?;
        }
        fsconfig_create(&context)?;
        let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)?;
        let root = rustix::fs::openat(&mount, ".", AS_FOLDER, Mode::empty())?;
        Ok((mount, root))
    };
    make().map_err(failed("create a mount for", dir))
}

pub(super) fn put_on(mount: &OwnedFd, dir: &Path) -> Result<(), HostError> {
    move_mount(mount, "", CWD, dir, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).map_err(failed("mount on", dir))
}

/// Copies a folder, and repeats the copy if the folder changed meanwhile. The error is the reason why the
/// folder cannot be copied.
pub(super) fn copy_unchanged(
    from: &OwnedFd,
    to: &OwnedFd,
    dir: &Path,
) -> Result<Option<&'static str>, HostError> {
    for _ in 0..TRIES {
        let before = survey(from, dir)?;
        mirror(from, to, dir)?;
        if survey(from, dir)?.is_same_as(&before) {
            return Ok(None);
        }
    }
    Ok(Some("programs keep changing this folder: stop them first"))
}

/// Surveys a folder before copying it; the error is the reason why the folder cannot be copied.
pub(super) fn copyable(dir: &Path) -> Result<Survey, String> {
    let found = open(dir).and_then(|own| survey(&own, dir)).map_err(|error| chain(&error))?;
    match found.obstacle {
        Some((path, reason)) => Err(format!("{}: {reason}", path.display())),
        None => Ok(found),
    }
}

/// Returns the error for a folder that cannot be restored without losing data.
pub(super) fn not_restorable(dir: &Path, reason: String) -> HostError {
    HostError::NotSettable { setting: "its old content".to_owned(), path: dir.to_owned(), reason }
}

/// Fails if programs use the folder, or if there is not enough space to copy its content back.
pub(super) fn check_copying_back(dir: &Path) -> Result<(), HostError> {
    check_unused(dir)?;
    let (needs, has) = needs(dir)?;
    if needs <= has {
        return Ok(());
    }
    let (needs, has) = (words(needs), words(has));
    let reason =
        format!("copying the content back needs up to {needs} of free space, but only {has} are free");
    Err(not_restorable(dir, reason))
}

pub(super) fn open(dir: &Path) -> Result<OwnedFd, HostError> {
    rustix::fs::open(dir, AS_FOLDER, Mode::empty()).map_err(failed("open", dir))
}

pub(super) fn free(dir: &OwnedFd) -> Result<ByteCount, Errno> {
    let found = rustix::fs::fstatvfs(dir)?;
    Ok(ByteCount(found.f_bavail.saturating_mul(found.f_frsize)))
}

/// Returns the maximum space needed to copy a folder's content back to the folder's own device, and the free
/// space on that device.
fn needs(dir: &Path) -> Result<(ByteCount, ByteCount), HostError> {
    let own = visible(dir).map_err(failed("open", dir))?;
    // Each new file is written completely before it replaces the old file, so both files need space.
    let needs = survey(&own, dir)?.bytes;
    let below = uncovered(dir).map_err(failed("open the folder covered by", dir))?;
    Ok((needs, free(&below).map_err(failed("look at", dir))?))
}

/// Returns a sentence on the space needed to copy a folder's content back.
pub(super) fn copying_back(dir: &Path) -> Option<String> {
    let (needs, has) = needs(dir).ok()?;
    Some(format!(
        "Copying the changes back takes at most {} on the device of {}, which has {} free.",
        words(needs),
        dir.display(),
        words(has)
    ))
}

/// Formats a number of bytes, rounded for people.
pub(super) fn words(bytes: ByteCount) -> String {
    Unit::Bytes.format(bytes.0 as f64)
}

pub(super) fn device_of(dir: &Path) -> u64 {
    fs::metadata(dir).map_or(0, |stat| stat.dev())
}

/// Maximum time to wait for another process that copies a folder. At boot, several units copy a folder each.
const PATIENCE: Duration = Duration::from_secs(600);

/// Takes the lock for copying folders, so that only one process copies folders at a time. The kernel releases
/// this lock when the process ends.
pub(super) fn lock() -> Result<TrustedFolder, HostError> {
    lock_own_folder(&state::folder().join("folders"), PATIENCE)
}

pub(super) const AS_FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens a folder without the mounts over it and in it.
pub(super) fn uncovered(dir: &Path) -> Result<OwnedFd, Errno> {
    let (parent, name) = (dir.parent().ok_or(Errno::INVAL)?, dir.file_name().ok_or(Errno::INVAL)?);
    let mount = copy_of_mount(parent)?;
    rustix::fs::openat(&mount, name, AS_FOLDER | OFlags::NOFOLLOW, Mode::empty())
}

/// Opens a folder with the mount over it, but without the mounts in it.
fn visible(dir: &Path) -> Result<OwnedFd, Errno> {
    let mount = copy_of_mount(dir)?;
    rustix::fs::openat(&mount, ".", AS_FOLDER, Mode::empty())
}

fn copy_of_mount(dir: &Path) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    rustix::mount::open_tree(CWD, dir, flags)
}

/// The mount options that a mount over a folder inherits from the mount that contains the folder. Each option
/// has its flag.
const ATTRIBUTES: [(&str, MountAttrFlags); 4] = [
    ("nosuid", MountAttrFlags::MOUNT_ATTR_NOSUID),
    ("nodev", MountAttrFlags::MOUNT_ATTR_NODEV),
    ("noexec", MountAttrFlags::MOUNT_ATTR_NOEXEC),
    ("noatime", MountAttrFlags::MOUNT_ATTR_NOATIME),
];

/// Returns the options that a mount over a folder inherits from the mount that contains the folder.
pub(super) fn options_around(dir: &Path) -> Result<Vec<&'static str>, HostError> {
    let table = MountTable::read()?;
    // Look up the mount of the parent folder, because the folder itself can be a mount point.
    let around = table.holding(dir.parent().unwrap_or(dir));
    let options = around.map(|mount| mount.options.clone()).unwrap_or_default();
    let names = ATTRIBUTES.iter().map(|(name, _)| *name);
    Ok(names.filter(|name| options.iter().any(|option| option == name)).collect())
}

/// Returns [`options_around`] as flags.
fn attributes_around(dir: &Path) -> Result<MountAttrFlags, HostError> {
    let names = options_around(dir)?;
    let flags = ATTRIBUTES.iter().filter(|(name, _)| names.contains(name)).map(|(_, flag)| *flag);
    Ok(flags.fold(MountAttrFlags::empty(), |all, flag| all | flag))
}

/// Returns a closure that converts the errno of a failed system call on a folder into a [`HostError`]. For
/// `ENOSYS`, the error explains that copying mounts needs Linux 5.2.
pub(super) fn failed(action: &'static str, dir: &Path) -> impl Fn(Errno) -> HostError {
    move |error| match error {
        Errno::NOSYS => not_in_kernel("open_tree call (new in Linux 5.2)"),
        _ => HostError::system(action, dir)(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_the_system_are_refused() {
        for (dir, expected) in [
            ("/", "the system starts from this folder"),
            ("/etc", "the system starts from this folder"),
            ("/usr/share/x", "the system starts from this folder"),
            ("/var", "/var/lib/dpkg is in this folder: name a folder below it"),
            ("/var/lib", "/var/lib/dpkg is in this folder: name a folder below it"),
            ("/var/lib/fonio", "the system starts from this folder"),
        ] {
            assert_eq!(check_place(Path::new(dir)), Err(expected.to_owned()), "{dir}");
        }
        assert_eq!(folder_at(Path::new("/proc/self/status")), Err("the path is not a folder".to_owned()));
    }
}
