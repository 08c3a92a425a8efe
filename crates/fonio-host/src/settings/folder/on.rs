//! A folder's content on another device: copied to a folder there, which is bound over it.
//!
//! What is below stays on the first device as it was. Undoing brings it up to date. A folder on the other device whose content
//! is only a copy has a file named [`COPY`] in it: it is being filled, or was copied back. It may be emptied.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fonio_core::ByteCount;
use fonio_system::MountTable;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_bind, mount_remount};

use super::super::target::mount_flags;
use super::copy::times;
use super::holders::Use;
use super::mirror::{COPY, mirror, names, remove};
use super::survey::survey;
use super::{
    AS_FOLDER, NONE, check_place, check_writers, device_of, failed, holders, in_use, lock, uncovered,
    visible, words,
};
use crate::error::chain;
use crate::{HostError, mount};

/// The value of a folder whose content is elsewhere.
pub(in crate::settings) const BOUND: &str = "bound";

/// The folder that a value names.
pub(in crate::settings) fn destination(to: &Path) -> Result<PathBuf, String> {
    let found = fs::canonicalize(to);
    found.map_err(|error| format!("{}: {error}; make it first: mkdir -p {}", to.display(), to.display()))
}

/// Whether the folder `to` is bound over a folder; `None` if that is gone.
pub(in crate::settings) fn current(dir: &Path, to: &Path) -> Result<Option<String>, HostError> {
    let numbers = |path: &Path| fs::metadata(path).map(|stat| (stat.dev(), stat.ino())).ok();
    let Some(own) = numbers(dir) else { return Ok(None) };
    let is_bound = MountTable::read()?.at(dir).is_some() && numbers(to) == Some(own);
    Ok(Some(if is_bound { BOUND } else { NONE }.to_owned()))
}

/// Refuses what could not be done, or undone.
pub(in crate::settings) fn check(dir: &Path, to: &Path, despite_writers: bool) -> Result<(), String> {
    check_place(dir)?;
    if to.starts_with(dir) || dir.starts_with(to) {
        return Err(format!("{} is in it, or it is in that", to.display()));
    }
    if device_of(dir) == device_of(to) {
        return Err(format!("{} is on the same device", to.display()));
    }
    let mounts = MountTable::read().map_err(|error| chain(&error))?;
    let holding = mounts.holding(to).ok_or_else(|| format!("the mount of {} is not found", to.display()))?;
    if ["tmpfs", "ramfs"].contains(&holding.filesystem.as_str()) {
        return Err(format!("{} is in memory: use folder-in-ram", to.display()));
    }
    let there = open(to).map_err(|error| chain(&error))?;
    if !is_free(&there).map_err(|error| chain(&error))? {
        return Err(format!("{} is not empty", to.display()));
    }
    let found = open(dir).and_then(|own| survey(&own, dir)).map_err(|error| chain(&error))?;
    if let Some((path, reason)) = found.obstacle {
        return Err(format!("{}: {reason}", path.display()));
    }
    let free = free(&there).map_err(|error| chain(&error))?;
    if found.bytes > free {
        let (needs, has) = (words(found.bytes), words(free));
        return Err(format!("it holds {needs}, but {} has only {has} free", to.display()));
    }
    if despite_writers { Ok(()) } else { check_writers(dir) }
}

pub(super) fn open(dir: &Path) -> Result<OwnedFd, HostError> {
    rustix::fs::open(dir, AS_FOLDER, Mode::empty()).map_err(failed("open", dir))
}

/// Whether nothing is in a folder, or only a copy.
fn is_free(dir: &OwnedFd) -> Result<bool, Errno> {
    let names = names(dir.as_fd())?;
    Ok(names.iter().all(|name| name.as_bytes() == b"lost+found")
        || names.iter().any(|name| name.as_c_str() == COPY))
}

/// The free space of a file system.
pub(super) fn free(dir: &OwnedFd) -> Result<ByteCount, Errno> {
    let found = rustix::fs::fstatvfs(dir)?;
    Ok(ByteCount(found.f_bavail.saturating_mul(found.f_frsize)))
}

/// Moves a folder's content, or brings it back.
pub(in crate::settings) fn set(dir: &Path, to: &Path, value: &str) -> Result<(), HostError> {
    let _lock = lock()?;
    if value == NONE {
        return take_down(dir, to);
    }
    let (from, there) = (open(dir)?, open(to)?);
    empty(&there, to)?;
    mark(&there, to)?;
    mirror(&from, &there, to)?;
    mount_bind(to, dir).map_err(failed("mount on", dir))?;
    unmark(&there, to)
}

fn mark(there: &OwnedFd, to: &Path) -> Result<(), HostError> {
    rustix::fs::mknodat(there, COPY, rustix::fs::FileType::RegularFile, Mode::RUSR | Mode::WUSR, 0)
        .or_else(|error| if error == Errno::EXIST { Ok(()) } else { Err(error) })
        .and_then(|()| rustix::fs::fsync(there))
        .map_err(failed("write in", to))
}

fn unmark(there: &OwnedFd, to: &Path) -> Result<(), HostError> {
    let unmark = || {
        let times = times(&rustix::fs::fstat(there)?);
        remove(there.as_fd(), COPY)?;
        // The folder has the times of the one that was copied.
        rustix::fs::futimens(there, &times)
    };
    unmark().map_err(failed("write in", to))
}

/// Removes all that is in a folder that has only a copy; last what says so.
fn empty(there: &OwnedFd, to: &Path) -> Result<(), HostError> {
    let clear = || {
        let names = names(there.as_fd())?;
        if names.iter().any(|name| name.as_c_str() == COPY) {
            for name in
                names.iter().filter(|name| name.as_c_str() != COPY && name.as_bytes() != b"lost+found")
            {
                remove(there.as_fd(), name)?;
            }
            remove(there.as_fd(), COPY)?;
        }
        Ok(())
    };
    clear().map_err(failed("empty", to))
}

/// Refuses to undo what would lose data, before anything is changed.
pub(in crate::settings) fn check_undo(dir: &Path, to: &Path) -> Result<(), HostError> {
    let refused = |reason: String| HostError::NotSettable {
        setting: "its content from before".to_owned(),
        path: dir.to_owned(),
        reason,
    };
    if current(dir, to)?.as_deref() != Some(BOUND) {
        let content = match open(to) {
            Ok(there) => !is_free(&there).map_err(failed("list", to))?,
            // Its device may be absent now.
            Err(_) => true,
        };
        let (dir, to) = (dir.display(), to.display());
        return if content {
            Err(refused(format!(
                "its content is in {to}, which is not mounted on it now: `mount --bind {to} {dir}`, and undo it then"
            )))
        } else {
            Ok(())
        };
    }
    if !holders(dir, device_of(dir), Use::Any).is_empty() {
        return Err(in_use(dir, Use::Any));
    }
    let (needs, has) = needs(dir)?;
    if needs > has {
        return Err(refused(format!(
            "it has grown: to copy it back needs {} of free space, and there are {}",
            words(needs),
            words(has)
        )));
    }
    Ok(())
}

/// At most how much space copying back needs on the folder's own device, and how much is free there.
pub(super) fn needs(dir: &Path) -> Result<(ByteCount, ByteCount), HostError> {
    let own = visible(dir).map_err(failed("open", dir))?;
    // Files are written beside those that they replace.
    let needs = survey(&own, dir)?.bytes;
    let below = uncovered(dir).map_err(failed("open the folder below", dir))?;
    Ok((needs, free(&below).map_err(failed("look at", dir))?))
}

/// What undoing needs, as a sentence.
pub(in crate::settings) fn undo_needs(dir: &Path, to: &Path) -> Option<String> {
    if current(dir, to).ok()?.as_deref() != Some(BOUND) {
        return None;
    }
    copying_back(dir)
}

/// What copying the content back takes, as a sentence.
pub(super) fn copying_back(dir: &Path) -> Option<String> {
    let (needs, has) = needs(dir).ok()?;
    Some(format!(
        "Copying the changes back takes at most {} on the device of {}, which has {} free.",
        words(needs),
        dir.display(),
        words(has)
    ))
}

fn take_down(dir: &Path, to: &Path) -> Result<(), HostError> {
    check_undo(dir, to)?;
    if current(dir, to)?.as_deref() == Some(BOUND) {
        unmount(dir, to)?;
    }
    match open(to) {
        Ok(there) => empty(&there, to),
        Err(_) => Ok(()),
    }
}

fn unmount(dir: &Path, to: &Path) -> Result<(), HostError> {
    let table = MountTable::read()?;
    let options = table.at(dir).map(|mount| mount.options.clone()).unwrap_or_default();
    // Options that we do not know are those of mounts that nobody binds.
    let flags = MountFlags::BIND | mount_flags(&options).unwrap_or(MountFlags::empty());
    match mount_remount(dir, flags | MountFlags::RDONLY, c"") {
        Err(Errno::BUSY) => return Err(in_use(dir, Use::Writes)),
        outcome => outcome.map_err(failed("make read-only", dir))?,
    }
    let leave = || {
        {
            let from = visible(dir).map_err(failed("open", dir))?;
            let below = uncovered(dir).map_err(failed("open the folder below", dir))?;
            mirror(&from, &below, dir)?;
        }
        mount::unmount(dir).map_err(|error| super::or_in_use(error, dir))?;
        mark(&open(to)?, to)
    };
    leave().inspect_err(|_| {
        // The first error is the one to report.
        let _ = mount_remount(dir, flags.difference(MountFlags::RDONLY), c"");
    })
}
