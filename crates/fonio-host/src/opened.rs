//! Records with fanotify which files each process on this machine opens.
//!
//! The watch covers every mount of a file system that is on a disk, and every mount of a file system that is
//! stacked on other file systems, such as overlayfs. A separate thread reads the events, so they do not
//! accumulate in the kernel's queue. No access is blocked.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use fonio_system::{MountPoint, MountTable};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::HostError;

/// Maximum time until the thread notices that it must end.
const NOTICE: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// A file that a process opened.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Opened {
    /// The id of the process that opened the file.
    pub pid: u32,
    /// The file's path in the mount namespace of this process.
    pub path: PathBuf,
}

/// A running watch, which ends when it is finished or dropped.
#[derive(Debug)]
pub struct OpenWatch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<BTreeSet<Opened>>>>,
}

impl OpenWatch {
    /// Begins to watch which files processes open. Fails with [`HostError::NotRoot`], or
    /// [`HostError::System`] if the kernel has no fanotify.
    pub fn begin() -> Result<OpenWatch, HostError> {
        HostError::check_root("finding the files that a command opens")?;
        let failed = || HostError::system("watch with", "fanotify (CONFIG_FANOTIFY=y)");
        let flags =
            libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_UNLIMITED_QUEUE | libc::FAN_NONBLOCK;
        let opened_with = libc::O_RDONLY | libc::O_LARGEFILE | libc::O_CLOEXEC | libc::O_NOATIME;
        // SAFETY: the call takes two numbers and returns a descriptor, or -1.
        let fd = unsafe { libc::fanotify_init(flags, opened_with as u32) };
        if fd < 0 {
            return Err(failed()(io::Error::last_os_error()));
        }
        // SAFETY: the kernel has just opened this descriptor, so nothing else owns it.
        let queue = unsafe { OwnedFd::from_raw_fd(fd) };
        for mount in MountTable::read()?.iter().filter(|mount| keeps_files(mount)) {
            let Ok(dir) = CString::new(mount.dir.as_os_str().as_bytes()) else { continue };
            let add = libc::FAN_MARK_ADD | libc::FAN_MARK_MOUNT;
            // SAFETY: the path is a C string that outlives the call, and the call does not write to our
            // memory.
            let marked = unsafe {
                libc::fanotify_mark(queue.as_raw_fd(), add, libc::FAN_OPEN, libc::AT_FDCWD, dir.as_ptr())
            };
            let error = io::Error::last_os_error();
            // A mount that is hidden by another mount cannot be reached.
            let is_hidden = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied);
            if marked < 0 && !is_hidden {
                return Err(HostError::system("watch", &mount.dir)(error));
            }
        }
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("fonio-opened".to_owned())
            .spawn(move || take(File::from(queue), &asked))
            .map_err(failed())?;
        Ok(OpenWatch { stop, thread: Some(thread) })
    }

    /// Ends the watch and returns the opened regular files, each file once per process. Fails with
    /// [`HostError::System`] if the kernel's queue could not be read.
    pub fn finish(mut self) -> Result<Vec<Opened>, HostError> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("only `finish` takes the thread");
        let opened = thread.join().unwrap_or_else(|_| Err(io::Error::other("the watching thread panicked")));
        Ok(opened.map_err(HostError::system("read", "the list of opened files"))?.into_iter().collect())
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn take(mut queue: File, stop: &AtomicBool) -> io::Result<BTreeSet<Opened>> {
    let mut found = BTreeSet::new();
    let mut buffer = vec![0_u8; 64 << 10];
    loop {
        // Read the flag before the queue, so that the last read returns all opens before the flag was set.
        let last = stop.load(Ordering::Relaxed);
        match queue.read(&mut buffer) {
            Ok(read) => events(&buffer[..read], &mut found),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if last {
                    return Ok(found);
                }
                match poll(&mut [PollFd::new(&queue, PollFlags::IN)], Some(&NOTICE)) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns whether a mount's files are stored on a device or in other file systems, rather than generated by
/// the kernel.
fn keeps_files(mount: &MountPoint) -> bool {
    mount.source.starts_with('/') || matches!(mount.filesystem.as_str(), "overlay" | "zfs" | "fuse.bindfs")
}

fn events(mut bytes: &[u8], found: &mut BTreeSet<Opened>) {
    const HEAD: usize = size_of::<libc::fanotify_event_metadata>();
    while bytes.len() >= HEAD {
        // SAFETY: the buffer has at least as many bytes as the struct, every bit pattern is a valid value of
        // it, and the read does not need alignment.
        let event =
            unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast::<libc::fanotify_event_metadata>()) };
        let length = (event.event_len as usize).max(HEAD);
        bytes = bytes.get(length..).unwrap_or_default();
        if event.fd < 0 {
            continue;
        }
        // SAFETY: the kernel opened this descriptor for this event, so nothing else owns it.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(event.fd) });
        let Ok(pid) = u32::try_from(event.pid) else { continue };
        if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            continue;
        }
        if let Ok(path) = fs::read_link(Path::new("/proc/self/fd").join(file.as_raw_fd().to_string())) {
            found.insert(Opened { pid, path });
        }
    }
}
