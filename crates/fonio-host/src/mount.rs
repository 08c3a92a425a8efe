//! Mounts file systems until the ledger unmounts them.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::HostError;
use crate::filesystem::Filesystem;
use crate::ledger::{Entry, Ledger, Step};
use crate::program;

/// Mounts the file system on `device` at `dir`, or at a new folder next to the ledger. `options` are mount
/// options, separated by commas; empty for the defaults. Returns the mount point and the ledger entry of the
/// mount.
///
/// Runs the `mount` program instead of calling mount(2): a process that serves the device, or that may be
/// killed, must not block in a mount call. The flags of the call prevent the program from starting a daemon
/// ([`Filesystem::mount_flags`]). Fails with [`HostError::ProgramFailed`] with the message of `mount`.
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
    let mut arguments = vec![OsStr::new("-t"), OsStr::new(filesystem.kernel_name())];
    arguments.extend(filesystem.mount_flags().iter().map(OsStr::new));
    if !options.is_empty() {
        arguments.extend([OsStr::new("-o"), OsStr::new(options)]);
    }
    arguments.extend([device.as_os_str(), dir.as_os_str()]);
    let step = Step::Mount { dir: dir.clone(), source };
    let entry = ledger.perform(step, || program::run("mount", "mount", &arguments).map(drop))?;
    Ok((dir, entry))
}

/// Mounts a tmpfs with a capacity of `bytes` at a new folder next to the ledger. Fails with
/// [`HostError::ProgramFailed`] with the message of `mount`.
pub fn mount_tmpfs(ledger: &mut Ledger, bytes: u64) -> Result<(PathBuf, Entry), HostError> {
    let dir = own_dir(ledger)?;
    let source = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let step = Step::Mount { dir: dir.clone(), source: source.clone() };
    let options = format!("size={bytes},mode=0700");
    let arguments = ["-t", "tmpfs", "-o", &options, &source].map(OsStr::new);
    let arguments = [&arguments[..], &[dir.as_os_str()]].concat();
    let entry = ledger.perform(step, || program::run("mount", "mount", &arguments).map(drop))?;
    Ok((dir, entry))
}

fn own_dir(ledger: &mut Ledger) -> Result<PathBuf, HostError> {
    let path = ledger.own_path(&format!("mount{}", ledger.steps()));
    ledger.begin(Step::Directory { path: path.clone() })?;
    fs::create_dir(&path).map_err(HostError::system("make", &path))?;
    Ok(path)
}
