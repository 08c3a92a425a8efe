//! Moves a folder's content to another device: copies the content to a folder on the other device, and
//! bind-mounts this folder over the original folder.
//!
//! The covered files stay on the first device unchanged until undoing updates them. A file named [`COPY`] in
//! a folder on the other device means that this folder is only a copy and may be emptied: it is being filled,
//! or its content was copied back.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fonio_system::{MountTable, chain};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_bind, mount_remount};

use crate::settings::folder::copy::times;
use crate::settings::folder::mirror::{COPY, mirror, names, remove};
use crate::settings::folder::{
    self, NONE, check_copying_back, check_place, check_writers, copy_back, copyable, copying_back, device_of,
    failed, folder_at, free, lock, not_restorable, open, read_only, words,
};
use crate::settings::kept::fstab;
use crate::settings::kind::*;
use crate::settings::places::mount_flags;

/// The values are `bound` and `none`.
pub(super) struct FolderOn;

const FACTS: Facts = Facts {
    tag: "folder_on",
    content: Some("to"),
    scope: Scope::Folder,
    kept_in: "a line in `/etc/fstab`, also without --keep",
    undone: "the content is copied back",
    must_be_kept: true,
    cannot_switch: Some("the folder's content is copied for each change"),
    needs_value: Some("DIR"),
    fixes: &[SettingFix {
        name: "folder-on",
        changes: Group::Filesystem,
        does: "moves a folder's content to an empty folder on another device, such as `folder-on=/mnt/ssd/app`; undoing copies it back",
        needs: "Linux 5.2, an empty folder on another device, and no program with files in the folder open for writing",
        source: "mount's documentation",
        trial: OF_FOLDERS,
        ..SettingFix::DEFAULT
    }],
    ..Facts::DEFAULT
};

impl Kind for FolderOn {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn parse(&self, _name: &str, text: Option<&str>) -> Result<Value, String> {
        match text.map(PathBuf::from) {
            Some(to) if !to.is_absolute() => Err("write the absolute path of a folder".to_owned()),
            Some(to) => Ok(Value::Folder(to)),
            None => Ok(Value::None),
        }
    }

    fn object(&self, wanted: &Wanted<'_>, path: &Path) -> Result<Object, Refusal> {
        let Value::Folder(to) = wanted.value else {
            return Err(Refusal::Reason(
                "name the folder on the other device, such as folder-on=/mnt/ssd/log".to_owned(),
            ));
        };
        let to = fs::canonicalize(to).map_err(|error| {
            format!("{}: {error}; create it first: mkdir -p {}", to.display(), to.display())
        })?;
        Ok(Object::Folder { content: Some(folder_at(&to)?), dir: folder_at(path)? })
    }

    fn value(&self, _wanted: &Value, _on: &Object) -> Result<String, Refusal> {
        Ok(BOUND.to_owned())
    }

    fn check(&self, wanted: &Wanted<'_>, on: &Object) -> Result<(), Refusal> {
        let (dir, to) = on.with_content();
        Ok(check(dir, to, wanted.despite_writers)?)
    }

    fn current(&self, on: &Object) -> Result<Option<String>, HostError> {
        let (dir, to) = on.with_content();
        current(dir, to)
    }

    fn set(&self, on: &Object, value: &str) -> Result<(), HostError> {
        let (dir, to) = on.with_content();
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

    fn check_restore(&self, on: &Object) -> Result<(), HostError> {
        let (dir, to) = on.with_content();
        check_undo(dir, to)
    }

    fn restore_needs(&self, on: &Object) -> Option<String> {
        let (dir, to) = on.with_content();
        if current(dir, to).ok()?.as_deref() == Some(BOUND) { copying_back(dir) } else { None }
    }

    fn kept_as(&self, on: &Object, _value: &str, _files: &KeptFiles) -> Result<KeptAs, Refusal> {
        let (dir, to) = on.with_content();
        Ok(KeptAs::MountLine(fstab::line_of_bind(to, dir)))
    }

    fn describe(&self, on: &Object) -> String {
        let (dir, to) = on.with_content();
        format!("{} as the storage of {}", to.display(), dir.display())
    }

    fn is_of(&self, wanted: &Value, on: &Object) -> bool {
        match wanted {
            Value::Folder(to) => to == on.with_content().1,
            _ => true,
        }
    }

    fn remains_to_do(&self, path: &Path) -> Option<String> {
        folder::left_below(&folder_at(path).ok()?, "and their writes to these files are lost")
    }
}

const BOUND: &str = "bound";

/// Returns `bound` if the folder `to` is bound over `dir`, otherwise `none`; `None` if `dir` is gone.
fn current(dir: &Path, to: &Path) -> Result<Option<String>, HostError> {
    let numbers = |path: &Path| fs::metadata(path).map(|stat| (stat.dev(), stat.ino())).ok();
    let Some(own) = numbers(dir) else { return Ok(None) };
    let is_bound = MountTable::read()?.at(dir).is_some() && numbers(to) == Some(own);
    Ok(Some(if is_bound { BOUND } else { NONE }.to_owned()))
}

/// Checks that the folder's content can be moved to `to` and later moved back.
fn check(dir: &Path, to: &Path, despite_writers: bool) -> Result<(), String> {
    check_place(dir)?;
    if to.starts_with(dir) || dir.starts_with(to) {
        return Err(format!("{} contains this folder or is in it", to.display()));
    }
    if device_of(dir) == device_of(to) {
        return Err(format!("{} is on the same device", to.display()));
    }
    let mounts = MountTable::read().map_err(|error| chain(&error))?;
    let holding = mounts.holding(to).ok_or_else(|| format!("the mount of {} was not found", to.display()))?;
    if ["tmpfs", "ramfs"].contains(&holding.filesystem.as_str()) {
        return Err(format!("{} is in memory: use folder-in-ram", to.display()));
    }
    let there = open(to).map_err(|error| chain(&error))?;
    if !is_free(&there).map_err(|error| chain(&error))? {
        return Err(format!("{} is not empty", to.display()));
    }
    let found = copyable(dir)?;
    let free = free(&there).map_err(|error| chain(&error))?;
    if found.bytes > free {
        let (needs, has) = (words(found.bytes), words(free));
        return Err(format!("the folder holds {needs}, but {} has only {has} free", to.display()));
    }
    if despite_writers { Ok(()) } else { check_writers(dir) }
}

/// Returns whether a folder is empty or contains only a copy.
fn is_free(dir: &OwnedFd) -> Result<bool, Errno> {
    let names = names(dir.as_fd())?;
    Ok(names.iter().all(|name| name.as_bytes() == b"lost+found")
        || names.iter().any(|name| name.as_c_str() == COPY))
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
        // Restore the timestamps, which are equal to those of the copied folder.
        rustix::fs::futimens(there, &times)
    };
    unmark().map_err(failed("write in", to))
}

/// Empties a folder on the other device that is only a copy. Removes the marker file last.
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

/// Fails if moving the content back would lose data. Does not change anything.
fn check_undo(dir: &Path, to: &Path) -> Result<(), HostError> {
    if current(dir, to)?.as_deref() != Some(BOUND) {
        let content = match open(to) {
            Ok(there) => !is_free(&there).map_err(failed("list", to))?,
            // The other device may be absent.
            Err(_) => true,
        };
        let (from, dir, to) = (dir, dir.display(), to.display());
        return if content {
            Err(not_restorable(
                from,
                format!(
                    "the folder's content is in {to}, which is not mounted on the folder now: run `mount --bind {to} {dir}`, then undo the fix"
                ),
            ))
        } else {
            Ok(())
        };
    }
    check_copying_back(dir)
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
    // Mounts with unknown options are never bound.
    let flags = MountFlags::BIND | mount_flags(&options).unwrap_or(MountFlags::empty());
    read_only(dir, mount_remount(dir, flags | MountFlags::RDONLY, c""))?;
    let leave = || {
        copy_back(dir)?;
        folder::unmount(dir)?;
        mark(&open(to)?, to)
    };
    leave().inspect_err(|_| {
        // Report the first error rather than an error of this call.
        let _ = mount_remount(dir, flags.difference(MountFlags::RDONLY), c"");
    })
}
