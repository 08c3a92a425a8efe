//! Views: private mount namespaces in which a command finds copies in the place of the original files.
//!
//! A thread leaves the mount namespace of this process, covers folders there, and hands out a descriptor of
//! its namespace. A command enters the namespace between fork and exec. The mounts exist only there. They
//! vanish with the last process or descriptor that uses the namespace, so they need no entry in a ledger.
//!
//! A single file cannot be replaced by a mount: SQLite creates and removes the files NAME-journal, NAME-wal
//! and NAME-shm next to a database, and a mount point cannot be removed. So a view always covers the folder.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use fonio_core::DeviceId;
use fonio_system::{MountPoint, MountTable};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use crate::error::HostError;

/// A private mount namespace.
#[derive(Clone, Debug)]
pub struct View {
    namespace: Arc<OwnedFd>,
    overlays: Vec<(DeviceId, PathBuf)>,
    copies: Vec<(PathBuf, PathBuf)>,
}

/// A folder that shows other contents in a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cover {
    /// `at` shows the files of `lower`. Changed files and new files are in `upper`; `work` is an empty folder
    /// for the kernel on the same file system as `upper`.
    Overlay { lower: PathBuf, upper: PathBuf, work: PathBuf, at: PathBuf },
    /// `at` shows the folder `content` with the mounts in it.
    Folder { content: PathBuf, at: PathBuf },
}

impl Cover {
    /// Returns the folder that contains the changed or copied files, and the user's folder with these files.
    fn copied(&self) -> (PathBuf, PathBuf) {
        match self {
            // The overlay can be in a copied folder, which another cover shows in the place of the user's folder.
            Cover::Overlay { lower, upper, .. } => (upper.clone(), lower.clone()),
            Cover::Folder { content, at } => (content.clone(), at.clone()),
        }
    }
}

/// The files that a command changed in a view whose changes are thrown away.
#[derive(Debug)]
pub struct Written {
    top: OwnedFd,
    /// The mount points, in the order of their folders for changed files.
    layers: Vec<PathBuf>,
    /// The mounts that the command could only read, because they cannot be covered.
    pub read_only: Vec<PathBuf>,
}

/// A file that a command changed or created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFile {
    /// The path at which the command found the file.
    pub path: PathBuf,
    /// The path at which this process can read the file while the [`Written`] exists.
    pub readable: PathBuf,
}

/// Maximum number of changed files that are looked at.
const WRITTEN_MAX: usize = 100_000;
/// File systems of the kernel and of devices, without files of programs.
const VIRTUAL: [&str; 20] = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "ramfs",
    "securityfs",
    "sysfs",
    "tracefs",
];

impl View {
    /// Makes a view with these covers. A later cover can be below an earlier one. Fails with [`HostError::NotRoot`]
    /// without root, and with [`HostError::System`] if the kernel refuses a mount.
    pub(crate) fn make(covers: &[Cover]) -> Result<View, HostError> {
        in_own_namespace(|| {
            // The folders are opened before anything is mounted, because a cover hides the folders below it.
            let opened: Vec<Option<Overlay>> = covers.iter().map(Overlay::open).collect::<Result<_, _>>()?;
            let mut overlays = Vec::new();
            for (cover, overlay) in covers.iter().zip(opened) {
                match (cover, overlay) {
                    (Cover::Overlay { upper, at, .. }, Some(overlay)) => {
                        cover_folder(at, None, || overlay.mount(at))?;
                        let device = fs::metadata(at).map_err(HostError::system("look at", at))?.dev();
                        let device = DeviceId::new(rustix::fs::major(device), rustix::fs::minor(device));
                        overlays.push((device, upper.clone()));
                    }
                    (Cover::Folder { content, at }, _) => cover_folder(at, Some(content), || {
                        rustix::mount::mount_bind_recursive(content, at)
                            .map_err(HostError::system("mount", at))
                    })?,
                    (Cover::Overlay { .. }, None) => unreachable!("every overlay was opened"),
                }
            }
            let mut view = View::of_this_thread()?;
            view.overlays = overlays;
            view.copies = covers.iter().map(Cover::copied).collect();
            Ok(view)
        })
    }

    /// Makes a view in which every change of a file goes to memory and is thrown away with the view and
    /// [`Written`]. `dir` is an empty folder, which stays empty in this process's own mount namespace. A mount
    /// that cannot be covered is read-only in the view. `/dev`, `/run` and the kernel's file systems stay
    /// themselves, but not the disks that are mounted below them. Fails with [`HostError::NotRoot`] without root, and with [`HostError::System`] if the kernel
    /// has no overlays.
    pub fn thrown_away(dir: &Path) -> Result<(View, Written), HostError> {
        in_own_namespace(|| {
            let options = c"mode=0700";
            rustix::mount::mount("fonio-view", dir, "tmpfs", MountFlags::empty(), options)
                .map_err(HostError::system("mount a tmpfs on", dir))?;
            let top =
                rustix::fs::open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
                    .map_err(HostError::system("open", dir))?;
            let root = dir.join("root");
            fs::create_dir(&root).map_err(HostError::system("make", &root))?;
            let mut written = Written { top, layers: Vec::new(), read_only: Vec::new() };
            for mount in visible(&own_table()?) {
                if mount.dir.starts_with(dir) {
                    continue;
                }
                written.show(&mount, dir, &root)?;
            }
            rustix::mount::mount_move(&root, "/").map_err(HostError::system("move a mount to", "/"))?;
            Ok((View::of_this_thread()?, written))
        })
    }

    fn of_this_thread() -> Result<View, HostError> {
        let path = "/proc/thread-self/ns/mnt";
        let namespace = File::open(path).map_err(HostError::system("open", path))?;
        Ok(View { namespace: Arc::new(namespace.into()), overlays: Vec::new(), copies: Vec::new() })
    }

    /// Returns the device number and the upper folder of each overlay over the user's folders. A recorder needs
    /// them to name files, because the mounts exist only in the view.
    pub fn overlays(&self) -> &[(DeviceId, PathBuf)] {
        &self.overlays
    }

    /// Returns the folders with changed or copied files, each with the folder that shows these files in the view.
    pub fn copies(&self) -> &[(PathBuf, PathBuf)] {
        &self.copies
    }

    /// Returns the descriptor with which a process enters the view (setns(2)).
    pub fn namespace(&self) -> &Arc<OwnedFd> {
        &self.namespace
    }

    /// Makes a command start in this view, in the folder `dir` of the view.
    pub fn enter(&self, command: &mut Command, dir: &Path) {
        let namespace = Arc::clone(&self.namespace);
        let dir = CString::new(dir.as_os_str().as_bytes()).unwrap_or_default();
        let enter = move || {
            rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))?;
            // The old working directory belongs to the old namespace.
            Ok(rustix::process::chdir(dir.as_c_str())?)
        };
        // SAFETY: between fork and exec, the closure only makes two system calls, and allocates nothing.
        unsafe { command.pre_exec(enter) };
    }
}

impl Written {
    /// Shows a mount in the new root. `dir` is the folder of the tmpfs.
    fn show(&mut self, mount: &MountPoint, dir: &Path, root: &Path) -> Result<(), HostError> {
        let at = root.join(mount.dir.strip_prefix("/").unwrap_or(&mount.dir));
        // A hidden mount has no path, or the path of another kind of file.
        let (Ok(found), Ok(place)) = (fs::metadata(&mount.dir), fs::metadata(&at)) else { return Ok(()) };
        if found.is_dir() != place.is_dir() {
            return Ok(());
        }
        let is_writable = mount.options.iter().any(|option| option == "rw");
        let is_covered = is_writable && keeps_files(mount);
        if is_covered && found.is_dir() {
            let number = self.layers.len();
            let (upper, work) = (dir.join(format!("upper{number}")), dir.join(format!("work{number}")));
            for folder in [&upper, &work] {
                fs::create_dir(folder).map_err(HostError::system("make", folder))?;
            }
            let overlay = Overlay::new(&mount.dir, &upper, &work)?;
            copy_mode(&mount.dir, &upper)?;
            match overlay.mount(&at) {
                Ok(()) => {
                    self.layers.push(mount.dir.clone());
                    return Ok(());
                }
                // Without the root, the view would show nothing.
                Err(error) if mount.dir == Path::new("/") => return Err(error),
                Err(_) => {
                    for folder in [&upper, &work] {
                        fs::remove_dir_all(folder).map_err(HostError::system("remove", folder))?;
                    }
                }
            }
        }
        rustix::mount::mount_bind(&mount.dir, &at).map_err(HostError::system("mount", &mount.dir))?;
        if is_covered {
            let read_only = MountFlags::BIND | MountFlags::RDONLY;
            rustix::mount::mount_remount(&at, read_only, c"")
                .map_err(HostError::system("make read-only", &mount.dir))?;
            self.read_only.push(mount.dir.clone());
        }
        Ok(())
    }

    /// Returns the files that the command changed or created and did not remove, at most 100,000.
    pub fn files(&self) -> Vec<WrittenFile> {
        let top = PathBuf::from(format!("/proc/self/fd/{}", self.top.as_raw_fd()));
        let mut found = Vec::new();
        for (number, mount) in self.layers.iter().enumerate() {
            collect(&top.join(format!("upper{number}")), mount, &mut found);
        }
        found.sort_by(|one, other| one.path.cmp(&other.path));
        found
    }
}

fn collect(folder: &Path, shown: &Path, found: &mut Vec<WrittenFile>) {
    // A folder that vanished meanwhile has no files.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (readable, path) = (entry.path(), shown.join(entry.file_name()));
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect(&readable, &path, found),
            // A removed file is a device here.
            Ok(kind) if kind.is_file() && found.len() < WRITTEN_MAX => {
                found.push(WrittenFile { path, readable })
            }
            _ => {}
        }
    }
}

/// Returns whether programs keep files on the mount. `/dev` and `/run` have sockets and locks that the command
/// shares with other processes. A disk that is mounted below them, such as a stick in `/run/media`, has files.
fn keeps_files(mount: &MountPoint) -> bool {
    let is_shared = ["/dev", "/run", "/proc", "/sys"].iter().any(|dir| mount.dir.starts_with(dir));
    let is_on_disk = mount.source.starts_with("/dev/");
    (!is_shared || is_on_disk) && !VIRTUAL.contains(&mount.filesystem.as_str())
}

/// Returns the newest mount of each mount point, in the order of the table, in which a mount comes after the
/// mount that contains it.
fn visible(table: &MountTable) -> Vec<MountPoint> {
    let mounts: Vec<&MountPoint> = table.iter().collect();
    let is_newest =
        |at: usize, mount: &MountPoint| mounts[at + 1..].iter().all(|later| later.dir != mount.dir);
    let newest = mounts.iter().enumerate().filter(|(at, mount)| is_newest(*at, mount));
    let mut newest: Vec<MountPoint> = newest.map(|(_, mount)| (*mount).clone()).collect();
    newest.sort_by_key(|mount| mount.dir.components().count());
    newest
}

/// Returns the mounts of this thread, which can differ from the mounts of the process.
fn own_table() -> Result<MountTable, HostError> {
    let path = "/proc/thread-self/mountinfo";
    let mut text = Vec::new();
    let read = File::open(path).and_then(|mut file| file.read_to_end(&mut text));
    read.map_err(HostError::system("read", path))?;
    Ok(MountTable::parse(&text))
}

/// Runs `work` in a thread with a mount namespace of its own, whose mounts are private.
fn in_own_namespace<T: Send>(work: impl FnOnce() -> Result<T, HostError> + Send) -> Result<T, HostError> {
    HostError::check_root("showing copies of files to a command")?;
    let in_thread = || {
        // SAFETY: only this thread gets a namespace and a working directory of its own, and it ends soon.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
            .map_err(HostError::system("make", "a mount namespace"))?;
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        rustix::mount::mount_change("/", private).map_err(HostError::system("make private", "/"))?;
        work()
    };
    std::thread::scope(|scope| scope.spawn(in_thread).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Mounts over `at` with `mount`, and shows the mounts below `at` again, except those in `content`.
fn cover_folder(
    at: &Path,
    content: Option<&Path>,
    mount: impl FnOnce() -> Result<(), HostError>,
) -> Result<(), HostError> {
    let table = own_table()?;
    let is_below =
        |dir: &Path| dir != at && dir.starts_with(at) && content.is_none_or(|own| !dir.starts_with(own));
    let below: Vec<MountPoint> = visible(&table).into_iter().filter(|mount| is_below(&mount.dir)).collect();
    let mut clones = Vec::new();
    for MountPoint { dir, .. } in &below {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        clones.push(
            rustix::mount::open_tree(CWD, dir, flags).map_err(HostError::system("copy the mount", dir))?,
        );
    }
    mount()?;
    for (MountPoint { dir, .. }, clone) in below.iter().zip(clones) {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        rustix::mount::move_mount(&clone, "", CWD, dir, flags).map_err(HostError::system("mount", dir))?;
    }
    Ok(())
}

/// The opened folders of an overlay. The kernel gets them as paths of descriptors, because names can contain
/// the commas and colons that separate mount options.
struct Overlay {
    lower: OwnedFd,
    upper: OwnedFd,
    work: OwnedFd,
}

impl Overlay {
    fn open(cover: &Cover) -> Result<Option<Overlay>, HostError> {
        match cover {
            Cover::Overlay { lower, upper, work, .. } => Overlay::new(lower, upper, work).map(Some),
            Cover::Folder { .. } => Ok(None),
        }
    }

    fn new(lower: &Path, upper: &Path, work: &Path) -> Result<Overlay, HostError> {
        let open = |path: &Path| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::open(path, flags, Mode::empty()).map_err(HostError::system("open", path))
        };
        Ok(Overlay { lower: open(lower)?, upper: open(upper)?, work: open(work)? })
    }

    fn mount(&self, at: &Path) -> Result<(), HostError> {
        let path = |fd: &OwnedFd| format!("/proc/self/fd/{}", fd.as_raw_fd());
        // Folders can be renamed, and a change of a file's attributes copies the file with its content.
        let options = format!(
            "lowerdir={},upperdir={},workdir={},redirect_dir=on,metacopy=off,index=off",
            path(&self.lower),
            path(&self.upper),
            path(&self.work)
        );
        let options = CString::new(options).expect("the options contain no null byte");
        rustix::mount::mount("fonio-view", at, "overlay", MountFlags::empty(), options.as_c_str())
            .map_err(HostError::system("mount an overlay on", at))
    }
}

/// Gives a new folder the mode and owner of another one, because an overlay shows those of its upper folder.
pub(crate) fn copy_mode(from: &Path, to: &Path) -> Result<(), HostError> {
    let copy = || -> io::Result<()> {
        let found = fs::metadata(from)?;
        std::os::unix::fs::chown(to, Some(found.uid()), Some(found.gid()))?;
        fs::set_permissions(to, found.permissions())
    };
    copy().map_err(HostError::system("set the mode of", to))
}

#[cfg(test)]
mod tests {
    use fonio_testing::skip_without;

    use super::*;

    fn shell(view: &View, dir: &Path, script: &str) -> String {
        let mut command = Command::new("sh");
        command.args(["-ec", script]);
        view.enter(&mut command, dir);
        let out = command.output().expect("sh");
        assert!(out.status.success(), "{script}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    #[test]
    fn a_command_finds_the_copy_and_the_original_stays() {
        skip_without!(Root);
        let dir = tempfile::tempdir().expect("a folder");
        // Commas and colons separate mount options.
        let path = |name: &str| dir.path().join("a,b:c").join(name);
        for folder in ["app/sub", "upper", "work"] {
            fs::create_dir_all(path(folder)).expect("a folder");
        }
        fs::write(path("app/data"), "original").expect("a file");
        fs::write(path("app/sub/other"), "other").expect("a file");
        fs::write(path("upper/data"), "copy").expect("a file");
        let cover =
            Cover::Overlay { lower: path("app"), upper: path("upper"), work: path("work"), at: path("app") };
        let view = View::make(&[cover]).expect("a view");
        let script = "cat data sub/other; echo more >> data; rm sub/other; echo new > new";
        assert_eq!(shell(&view, &path("app"), script), "copyother");
        drop(view);
        assert_eq!(fs::read(path("app/data")).expect("read"), b"original");
        assert_eq!(fs::read(path("app/sub/other")).expect("read"), b"other");
        assert!(!path("app/new").exists());
        assert_eq!(fs::read(path("upper/data")).expect("read"), b"copymore\n");
    }

    #[test]
    fn disks_keep_files_wherever_they_are_mounted() {
        for (line, keeps) in [
            ("1 0 8:1 / / rw - ext4 /dev/sda1 rw", true),
            ("2 1 0:5 / /run rw - tmpfs tmpfs rw", false),
            ("3 2 8:17 / /run/media/alice/stick rw - ext4 /dev/sdb1 rw", true),
            ("4 2 0:9 / /run/user/1000 rw - tmpfs tmpfs rw", false),
            ("5 2 0:10 / /run/containerd/x/rootfs rw - overlay overlay rw", false),
            ("6 1 0:6 / /dev rw - devtmpfs /dev/none rw", false),
            ("7 1 0:7 / /srv rw - tmpfs tmpfs rw", true),
        ] {
            let table = MountTable::parse(line.as_bytes());
            let mount = table.iter().next().expect("a mount");
            assert_eq!(keeps_files(mount), keeps, "{line}");
        }
    }

    #[test]
    fn changes_in_memory_are_listed_and_thrown_away() {
        skip_without!(Root);
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder");
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("view")).expect("a folder");
        fs::write(path("data"), "original").expect("a file");
        fs::write(path("gone"), "gone").expect("a file");
        let (view, written) = View::thrown_away(&path("view")).expect("a view");
        let script =
            "echo more >> data; rm gone; mkdir sub; echo new > sub/new; cat /proc/self/comm > /dev/null";
        shell(&view, dir.path(), script);
        let files = written.files();
        let own: Vec<&WrittenFile> = files.iter().filter(|file| file.path.starts_with(dir.path())).collect();
        let names: Vec<&Path> = own.iter().map(|file| file.path.as_path()).collect();
        assert_eq!(names, [path("data"), path("sub/new")]);
        assert_eq!(fs::read(&own[0].readable).expect("read"), b"originalmore\n");
        assert_eq!(fs::read(path("data")).expect("read"), b"original");
        assert!(path("gone").exists() && !path("sub").exists());
        assert_eq!(fs::read_dir(path("view")).expect("list").count(), 0);
    }
}
