//! Mounts, waits for and unmounts a file system.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode as FileMode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::buffer::{Buffer, Manager};
use crate::descriptors::{Descriptors, Pruner};
use crate::device;
use crate::error::MountError;
use crate::filesystem::FileSystem;
use crate::handshake::{Agreed, RingsAllowed, shake_hands};
use crate::kernel;
use crate::modes::Mode;
use crate::options::{IoUring, Options};
use crate::our_mounts;
use crate::report::Server;
use crate::session::Session;
use crate::statistics::BufferStatistics;
use crate::write_behind::Writer;

/// A mount, served by threads of this process until it is unmounted.
#[derive(Debug)]
pub struct Mount {
    dir: PathBuf,
    file_system: Arc<FileSystem>,
    session: Arc<Session>,
    /// Becomes readable when the kernel has ended the FUSE connection.
    ended: OwnedFd,
    server: Option<Server>,
    manager: Option<Manager>,
    pruner: Option<Pruner>,
    writer: Option<Writer>,
    detached: Vec<PathBuf>,
}

impl Mount {
    /// Mounts the directory `source` at `dir`. Before this, detaches fonio mounts whose daemon was killed.
    /// Fails if `source` or `dir` is not a directory, the mode is not available, or the kernel refuses, and
    /// with [`MountError::NotLocked`] if root cannot lock the memory of the buffer.
    pub fn start(source: &Path, dir: &Path, options: Options) -> Result<Self, MountError> {
        let detached = device::detach_dead(crate::report::is_served);
        crate::report::sweep();
        let source = source.canonicalize().map_err(MountError::system("find", source))?;
        let dir = dir.canonicalize().map_err(MountError::system("find", dir))?;
        let limit = kernel::raise_open_files(options.files);
        // Open the source before mounting, because it can be inside `dir`.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&source, flags, FileMode::empty())
            .map_err(MountError::system("open the directory", &source))?;
        // Every read of the mount also reads the source, so the mount's access-time rules apply to the
        // source. For a user's mount, the options of the source's mount apply.
        let times = kernel::AccessTimes::of(options.flags.bits());
        let root = times.and_then(|times| kernel::with_access_times(&source, times).ok()).unwrap_or(root);
        // A user's limit of locked memory may be lower than the size of the buffer.
        let is_root = rustix::process::geteuid().is_root();
        let buffer = Buffer::new(options.buffer, Arc::new(BufferStatistics::default()), is_root)
            .map_err(MountError::not_locked("the buffer"))?;
        let allowed = (options.io_uring != IoUring::No).then(RingsAllowed::now);
        let session = Arc::new(device::mount(&source, &dir, &options)?);
        let mut outcome = Self::serve(root, session, &dir, options, Arc::new(buffer), allowed, limit);
        if let Ok(mount) = &mut outcome {
            mount.detached = detached;
        } else {
            // Ignore errors of the unmount, because only the first error is reported.
            let _ = device::unmount(&dir, true);
        }
        outcome
    }

    fn serve(
        root: OwnedFd,
        session: Arc<OwnedFd>,
        dir: &Path,
        options: Options,
        buffer: Arc<Buffer>,
        allowed: Option<RingsAllowed>,
        limit: u64,
    ) -> Result<Self, MountError> {
        let Agreed { chosen, over_ring, minor } = shake_hands(&session, &root, dir, &options)?;
        drop(allowed);
        let statistics = Arc::clone(&buffer.statistics);
        let manager = Manager::start(&buffer).map_err(MountError::system("start a thread for", dir))?;
        let prometheus = options.prometheus;
        let descriptors = Descriptors::new(limit, Session::threads_max(&options, over_ring));
        let file_system = FileSystem::new(root, Arc::clone(&session), chosen, options, buffer, descriptors)
            .map_err(MountError::system("serve", dir))?;
        let file_system = Arc::new(file_system);
        let (ended, notice) =
            pipe_with(PipeFlags::CLOEXEC).map_err(MountError::system("create a pipe for", dir))?;
        let notify = move || {
            // Writing this single byte never blocks, because the pipe is empty.
            let _ = rustix::io::write(&notice, b"x");
        };
        let pruner =
            Pruner::start(&file_system, minor).map_err(MountError::system("start a thread for", dir))?;
        let writer = (chosen.passthrough && file_system.options.write_behind)
            .then(|| Writer::start(&file_system.behind))
            .transpose()
            .map_err(MountError::system("start a thread for", dir))?;
        let session = Session::start(Arc::clone(&file_system), session, over_ring, notify)
            .map_err(MountError::system("start a thread for", dir))?;
        let server = our_mounts::at(dir)
            .map(|mount| Server::start(&mount, &file_system, &statistics, prometheus))
            .transpose()?;
        let mount = Self {
            dir: dir.to_owned(),
            file_system,
            session,
            ended,
            server,
            manager: Some(manager),
            pruner: Some(pruner),
            writer,
            detached: Vec::new(),
        };
        Ok(mount)
    }

    /// Sets the flags in `options` on the fonio mount at `dir`. Other options cannot change while the file
    /// system is mounted. Fails with [`MountError::NotMounted`], or with the kernel's error.
    pub fn remount(dir: &Path, options: &Options) -> Result<(), MountError> {
        let dir = dir.canonicalize().map_err(MountError::system("find", dir))?;
        our_mounts::at(&dir).ok_or_else(|| MountError::NotMounted { path: dir.clone() })?;
        device::remount(&dir, options)
    }

    /// Returns the mode in use; never `auto`, but the mode that `auto` chose.
    pub fn mode(&self) -> Mode {
        self.file_system.chosen.mode
    }

    /// Returns the directory at which the file system is mounted, without symbolic links.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the mounts of killed daemons that were detached at the start.
    pub fn detached(&self) -> &[PathBuf] {
        &self.detached
    }

    /// Waits until the directory is unmounted, or `stop` becomes readable. Returns errors of the system call
    /// that waits.
    pub fn wait(&self, stop: Option<BorrowedFd<'_>>) -> Result<(), MountError> {
        let mut waited = vec![PollFd::new(&self.ended, PollFlags::IN)];
        waited.extend(stop.as_ref().map(|stop| PollFd::new(stop, PollFlags::IN)));
        loop {
            match poll(&mut waited, None) {
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(MountError::system("wait for", &self.dir)(error)),
            }
        }
    }

    /// Writes all buffered data to the source and unmounts. A busy mount is detached; its open files stay
    /// usable until this process ends. Fails if the unmount fails.
    pub fn stop(mut self) -> Result<(), MountError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), MountError> {
        let Some(manager) = self.manager.take() else { return Ok(()) };
        let outcome = if self.has_ended() {
            Ok(())
        } else {
            self.write_back();
            device::unmount(&self.dir, false)
                .or_else(|_| device::unmount(&self.dir, true))
                .map_err(MountError::system("unmount", &self.dir))
        };
        // After a lazy unmount, the threads of a busy mount continue to serve requests until the process
        // ends.
        if self.has_ended_soon() {
            self.session.wait();
        }
        drop(manager);
        self.pruner = None;
        self.writer = None;
        self.server = None;
        outcome
    }

    /// Makes the kernel write back all dirty pages of the mount. The calling thread serves no requests, so it
    /// can access the mount without waiting for itself.
    fn write_back(&self) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if let Ok(root) = rustix::fs::open(&self.dir, flags, FileMode::empty()) {
            // The application that wrote the data gets the error.
            let _ = rustix::fs::syncfs(root);
        }
        self.file_system.buffer.drain_all();
    }

    fn has_ended(&self) -> bool {
        self.poll_ended(rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })
    }

    /// Returns whether the connection ends within a short time. The connection of a busy mount ends with the
    /// mount's last use.
    fn has_ended_soon(&self) -> bool {
        self.poll_ended(rustix::event::Timespec { tv_sec: 0, tv_nsec: 500_000_000 })
    }

    fn poll_ended(&self, time: rustix::event::Timespec) -> bool {
        let mut waited = [PollFd::new(&self.ended, PollFlags::IN)];
        matches!(poll(&mut waited, Some(&time)), Ok(1))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Ignore the error; callers that need it call `stop`.
        let _ = self.end();
    }
}

impl AsFd for Mount {
    /// Returns a descriptor that becomes readable when the mount has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }
}
