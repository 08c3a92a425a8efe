//! Mounts and unmounts file systems.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use fonio_system::MountTable;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::{Entry, Filesystem, HostError, Ledger, Step, program};

/// Number of attempts to unmount while the mount is in use; its last user often ends soon.
const BUSY_TRIES: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// Mounts the file system on `device` at `dir`, or at a new folder next to the ledger. `options` are those of mount,
/// separated by commas; empty for the defaults. Returns the folder and the ledger's entry of the mount.
///
/// The `mount` program does it in a separate process, because a process that serves the device itself, or is about to
/// be killed, must not wait for the mount. It starts no daemon ([`Filesystem::mount_flags`]).
///
/// # Errors
///
/// [`HostError::ProgramFailed`] with mount's message.
pub fn mount(
    ledger: &mut Ledger,
    device: &Path,
    filesystem: Filesystem,
    dir: Option<&Path>,
    options: &str,
) -> Result<(PathBuf, Entry), HostError> {
    let dir = match dir {
        Some(dir) => fs::canonicalize(dir).map_err(HostError::system("find", dir))?,
        None => own_dir(ledger)?,
    };
    let source = device.to_string_lossy().into_owned();
    let entry = ledger.begin(Step::Mount { dir: dir.clone(), source })?;
    let mut arguments = vec![OsStr::new("-t"), OsStr::new(filesystem.kernel_name())];
    arguments.extend(filesystem.mount_flags().iter().map(OsStr::new));
    if !options.is_empty() {
        arguments.extend([OsStr::new("-o"), OsStr::new(options)]);
    }
    arguments.extend([device.as_os_str(), dir.as_os_str()]);
    if let Err(error) = program::run("mount", "mount", &arguments) {
        ledger.end(entry)?;
        return Err(error);
    }
    Ok((dir, entry))
}

/// Mounts a tmpfs of at most `bytes` at a new folder next to the ledger.
///
/// # Errors
///
/// [`HostError::ProgramFailed`] with mount's message.
pub fn mount_tmpfs(ledger: &mut Ledger, bytes: u64) -> Result<(PathBuf, Entry), HostError> {
    let dir = own_dir(ledger)?;
    let source = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let entry = ledger.begin(Step::Mount { dir: dir.clone(), source: source.clone() })?;
    let options = format!("size={bytes},mode=0700");
    let arguments = ["-t", "tmpfs", "-o", &options, &source].map(OsStr::new);
    if let Err(error) = program::run("mount", "mount", &[&arguments[..], &[dir.as_os_str()]].concat()) {
        ledger.end(entry)?;
        return Err(error);
    }
    Ok((dir, entry))
}

/// Makes a new mount point next to the ledger.
fn own_dir(ledger: &mut Ledger) -> Result<PathBuf, HostError> {
    let path = ledger.own_path(&format!("mount{}", ledger.steps()));
    ledger.begin(Step::Directory { path: path.clone() })?;
    fs::create_dir(&path).map_err(HostError::system("make", &path))?;
    Ok(path)
}

/// Unmounts `dir`; waits up to one second for its last user.
///
/// # Errors
///
/// [`HostError::System`], also if it stays in use.
pub fn unmount(dir: &Path) -> Result<(), HostError> {
    for _ in 0..BUSY_TRIES {
        match rustix::mount::unmount(dir, UnmountFlags::NOFOLLOW) {
            Ok(()) => return Ok(()),
            Err(Errno::BUSY) => thread::sleep(BUSY_PAUSE),
            Err(error) => return Err(HostError::system("unmount", dir)(error.into())),
        }
    }
    Err(HostError::system("unmount", dir)(Errno::BUSY.into()))
}

/// Unmounts `dir` if `source` is mounted there. A mount that stays in use is detached from its folder, and disappears
/// with its last user.
pub(crate) fn undo(dir: &Path, source: &str) -> Result<(), HostError> {
    let mounts = MountTable::read()?;
    if mounts.at(dir).is_none_or(|mount| mount.source != source) {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        // A user's mounts are FUSE mounts.
        let arguments = [OsStr::new("-uz"), OsStr::new("--"), dir.as_os_str()];
        return program::run("fusermount3", "fuse3", &arguments).map(drop);
    }
    unmount(dir).or_else(|_| {
        rustix::mount::unmount(dir, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
            .map_err(|error| HostError::system("unmount", dir)(error.into()))
    })
}

/// The mount points at or below `dir`.
///
/// # Errors
///
/// [`HostError::System`] if `/proc` is not mounted.
pub fn mounts_under(dir: &Path) -> Result<Vec<PathBuf>, HostError> {
    Ok(MountTable::read()?.into_iter().map(|mount| mount.dir).filter(|at| at.starts_with(dir)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_is_mounted_at_the_root() {
        assert!(mounts_under(Path::new("/")).expect("mounts").contains(&PathBuf::from("/")));
    }
}
