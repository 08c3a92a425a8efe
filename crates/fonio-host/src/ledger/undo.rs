//! Undoes each kind of step, after checking that the object is ours.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::leftovers::holder;
use super::targets::check;
use super::{Kinds, Ledger, Recovery, Step};
use crate::error::HostError;
use crate::files::{remove, remove_empty_folder};
use crate::{control_group, io_class, link, loop_device, md, ublk, unmount};

const KINDS: Kinds = Kinds { check, undo, holder };

impl Ledger {
    /// Creates a ledger for this process in `dir`, which is created if missing. Fails with
    /// [`HostError::System`] if the ledger cannot be written, or if other users can change `dir`.
    pub fn open(dir: &Path) -> Result<Ledger, HostError> {
        Ledger::create(dir, KINDS)
    }

    /// Undoes the steps in ledgers that dead processes have left in `dir`. If another process undoes a ledger
    /// and takes longer than three seconds, this ledger is among the failures. A step that failed before is tried
    /// again only if the users of its device have changed. Fails with
    /// [`HostError::Ledger`] if a ledger is damaged, or [`HostError::System`] if `dir` cannot be read, other
    /// users can change `dir` or a ledger, or a signal such as Ctrl-C arrives.
    pub fn recover(dir: &Path) -> Result<Recovery, HostError> {
        Ledger::undo_left(dir, KINDS)
    }
}

fn undo(step: &Step) -> Result<(), HostError> {
    match step {
        Step::File { path } => remove(path),
        Step::Directory { path } => remove_empty_folder(path),
        Step::Tree { path } => remove_tree(path),
        Step::Socket { path } => match fs::symlink_metadata(path) {
            Ok(found) if found.file_type().is_socket() => remove(path),
            // Another program has replaced or removed the socket.
            _ => Ok(()),
        },
        Step::Process { id, leads_group } => {
            if *leads_group && id.runs() {
                kill_group(id.pid);
            }
            id.kill();
            Ok(())
        }
        Step::IoClass { id, was, set_to } => {
            io_class::restore(*id, *was, *set_to);
            Ok(())
        }
        Step::Loop { number, backing } => loop_device::driver::remove(*number, backing),
        Step::Ublk { number, tag } => ublk::remove(*number, *tag),
        Step::Md { number, devices } => md::remove(*number, devices),
        Step::Mount { dir, source } => unmount::undo(dir, source),
        Step::Cgroup { path } => control_group::undo(path),
        Step::Setting { path, was } => match fs::write(path, was) {
            // If the file does not exist, the device of the setting is gone.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            outcome => outcome.map_err(HostError::system("write", path)),
        },
        Step::Borrowed { setting } => setting.undo().map(drop),
        Step::Namespace { name } => link::undo(name),
    }
}

fn remove_tree(path: &Path) -> Result<(), HostError> {
    if unmount::mounts_under(path)?.iter().any(|dir| dir != Path::new("/")) {
        let busy = std::io::Error::new(ErrorKind::ResourceBusy, "a file system is mounted in this folder");
        return Err(HostError::system("remove", path)(busy));
    }
    if is_anothers(path) {
        return Ok(());
    }
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(HostError::system("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Returns whether another user has made this folder in a sticky folder such as `/dev/shm`. On some file
/// systems, such as VFAT, every folder has the same owner; these file systems have no sticky folders.
fn is_anothers(path: &Path) -> bool {
    let is_sticky = |folder: &Path| fs::metadata(folder).is_ok_and(|found| found.mode() & 0o1000 != 0);
    let own = rustix::process::geteuid().as_raw();
    path.parent().is_some_and(is_sticky) && fs::symlink_metadata(path).is_ok_and(|found| found.uid() != own)
}

fn kill_group(leader: u32) {
    let pid = i32::try_from(leader).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        // This call fails if the group has already ended.
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Tree { path } => write!(f, "folder {} with its contents", path.display()),
            Step::File { path } => write!(f, "file {}", path.display()),
            Step::Socket { path } => write!(f, "socket {}", path.display()),
            Step::Directory { path } => write!(f, "folder {}", path.display()),
            Step::Process { id, .. } => write!(f, "process {}", id.pid),
            Step::Loop { number, .. } => write!(f, "/dev/loop{number}"),
            Step::Ublk { number, .. } => write!(f, "/dev/ublkb{number}"),
            Step::Md { number, .. } => write!(f, "/dev/md{number}"),
            Step::Mount { dir, .. } => write!(f, "mount on {}", dir.display()),
            Step::Cgroup { path } => write!(f, "control group {}", path.display()),
            Step::Setting { path, was } => write!(f, "{} restored to {was}", path.display()),
            Step::Borrowed { setting } => write!(f, "{} restored to {}", setting.target, setting.old),
            Step::Namespace { name } => write!(f, "network namespace {name}"),
            Step::IoClass { id, .. } => write!(f, "I/O class of process {} restored", id.pid),
        }
    }
}
