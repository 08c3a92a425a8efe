//! Enters the root directory of an app.
//!
//! The process that calls [`enter`] must be in a mount namespace of its own: the mounts end with its last process, and the
//! installed root stays unchanged, because what the programs write beside their data goes to memory.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive, mount_change,
    unmount,
};
use rustix::process::{chroot, pivot_root};

use crate::error::WorkloadError;

/// Returns a closure that adds the failed operation and its path to an error.
pub(super) fn failed<E: Into<std::io::Error>>(
    operation: &'static str,
    path: &Path,
) -> impl FnOnce(E) -> WorkloadError {
    move |error| WorkloadError::File { operation, path: path.to_owned(), source: error.into() }
}

/// Keeps the mounts of this process from the other namespaces.
pub(super) fn keep_mounts() -> Result<(), WorkloadError> {
    let top = Path::new("/");
    // Not private: what is unmounted outside is unmounted here too, so that no device of another run stays in use.
    mount_change(top, MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM)
        .map_err(failed("keep the mounts to itself below", top))
}

/// Mounts a file system in memory at `place`, which exists.
pub(super) fn mount_memory(place: &Path) -> Result<(), WorkloadError> {
    mount("tmpfs", place, "tmpfs", MountFlags::empty(), Some(c"mode=0755"))
        .map_err(failed("mount a file system in memory at", place))
}

/// Makes `root`, with the folders `shared` at the same paths, the root directory of this process. `scratch` is an empty
/// folder. Fails if a mount fails.
pub(super) fn enter(root: &Path, shared: &[&Path], scratch: &Path) -> Result<(), WorkloadError> {
    mount_memory(scratch)?;
    let [upper, work, merged] = ["upper", "work", "root"].map(|name| scratch.join(name));
    for folder in [&upper, &work, &merged] {
        make(folder)?;
    }
    let options =
        format!("lowerdir={},upperdir={},workdir={}", root.display(), upper.display(), work.display());
    let options =
        std::ffi::CString::new(options).map_err(|error| failed("name", root)(std::io::Error::from(error)))?;
    mount("overlay", &merged, "overlay", MountFlags::empty(), Some(options.as_c_str()))
        .map_err(failed("mount an overlay at", &merged))?;
    for folder in ["dev", "proc", "sys", "tmp", "run"] {
        make(&merged.join(folder))?;
    }
    make_devices(&merged.join("dev"))?;
    mount_bind_recursive("/sys", merged.join("sys")).map_err(failed("mount", Path::new("/sys")))?;
    mount("proc", merged.join("proc"), "proc", MountFlags::empty(), None)
        .map_err(failed("mount", Path::new("/proc")))?;
    for folder in ["tmp", "run"] {
        let folder = merged.join(folder);
        mount_memory(&folder)?;
        set_mode(&folder, 0o1777)?;
    }
    for folder in shared {
        let place = merged.join(folder.strip_prefix("/").unwrap_or(folder));
        make(&place)?;
        mount_bind(*folder, &place).map_err(failed("mount", folder))?;
    }
    let hosts = merged.join("etc/hosts");
    if !hosts.exists() {
        fs::write(&hosts, "127.0.0.1 localhost\n").map_err(failed("write", &hosts))?;
    }
    leave_for(&merged)
}

/// Makes `merged` the root directory, and unmounts all that is outside, so that no device of another run stays in use.
fn leave_for(merged: &Path) -> Result<(), WorkloadError> {
    let outside = merged.join("run/outside");
    make(&outside)?;
    match pivot_root(merged, &outside) {
        Ok(()) => {
            let outside = Path::new("/run/outside");
            std::env::set_current_dir("/").map_err(failed("enter", merged))?;
            unmount(outside, UnmountFlags::DETACH).map_err(failed("unmount", outside))?;
            fs::remove_dir(outside).map_err(failed("remove", outside))
        }
        // A guest's first file system cannot be left, see pivot_root(2). A guest has no other runs.
        Err(rustix::io::Errno::INVAL) => {
            chroot(merged).map_err(failed("enter", merged))?;
            std::env::set_current_dir("/").map_err(failed("enter", merged))
        }
        Err(error) => Err(failed("enter", merged)(error)),
    }
}

/// The device files of an app: name, major and minor number.
const DEVICES: [(&str, u32, u32); 7] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
    ("fuse", 10, 229),
];

/// Makes device files in a file system in memory at `dev`. A program that changes or removes one changes nothing on this
/// machine, and it does not find this machine's disks there.
fn make_devices(dev: &Path) -> Result<(), WorkloadError> {
    mount_memory(dev)?;
    for (name, major, minor) in DEVICES {
        let path = dev.join(name);
        mknodat(CWD, &path, FileType::CharacterDevice, Mode::from(0o666), makedev(major, minor))
            .map_err(failed("make", &path))?;
        set_mode(&path, 0o666)?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        let path = dev.join(name);
        std::os::unix::fs::symlink(target, &path).map_err(failed("make", &path))?;
    }
    let [shm, pts] = ["shm", "pts"].map(|name| dev.join(name));
    make(&shm)?;
    mount_memory(&shm)?;
    set_mode(&shm, 0o1777)?;
    make(&pts)?;
    mount("devpts", &pts, "devpts", MountFlags::empty(), Some(c"newinstance,ptmxmode=0666,mode=0620"))
        .map_err(failed("mount", &pts))
}

fn make(folder: &Path) -> Result<(), WorkloadError> {
    fs::create_dir_all(folder).map_err(failed("create", folder))
}

pub(super) fn set_mode(path: &Path, mode: u32) -> Result<(), WorkloadError> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed("change", path))
}

/// A file system with a smaller share of free space is called full in an error message.
const FULL_BELOW: f64 = 0.02;

/// Returns whether the file system of a folder is full.
pub(super) fn is_full(folder: &Path) -> bool {
    let Ok(stat) = rustix::fs::statvfs(folder) else { return false };
    stat.f_blocks > 0 && (stat.f_bavail as f64) < FULL_BELOW * stat.f_blocks as f64
}

/// A user in a root directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl User {
    /// Returns the user with this name in the list of users of the current root directory.
    pub(super) fn named(app: &str, name: &str) -> Result<User, WorkloadError> {
        let path = PathBuf::from("/etc/passwd");
        let text = fs::read_to_string(&path).map_err(failed("read", &path))?;
        let found = text.lines().find_map(|line| {
            let mut fields = line.split(':');
            let is_wanted = fields.next() == Some(name);
            let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
            is_wanted.then_some(User { uid, gid })
        });
        found.ok_or_else(|| WorkloadError::NoUser { app: app.to_owned(), user: name.to_owned() })
    }
}
