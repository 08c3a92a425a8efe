//! Implements the file system, which executes each request on the source directory.
//!
//! Either the kernel checks permissions (`default_permissions`), or only the mounting user has access. So the
//! daemon executes every request with its own identity. The daemon uses the caller's identity only to create
//! a file, because the file must belong to the caller.

mod attributes;
mod directory;
mod extended;
mod file;
mod io;
mod names;

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::buffer::{Buffer, Seen};
use crate::descriptors::Descriptors;
use crate::kernel::{Caller, FileHandle, Identity};
use crate::modes::{ChosenMode, Serving};
use crate::node::{Node, Nodes};
use crate::options::Options;
use crate::place::{ByHandle, Opened, Place};
use crate::protocol::{Attributes, Fields, HEADER_OUT, Opcode, Record, Request, attributes_of, notify};
use crate::slab::Slab;
use crate::statistics::Statistics;
use crate::write_behind::WriteBehind;
use directory::Directory;

/// The length of the reply to a request, or an error.
pub(crate) type Answer = Result<usize, Errno>;

#[derive(Debug)]
pub(crate) struct FileSystem {
    pub(crate) chosen: ChosenMode,
    pub(crate) options: Options,
    pub(crate) statistics: Statistics,
    pub(crate) nodes: Nodes,
    pub(crate) buffer: Arc<Buffer>,
    pub(crate) behind: Arc<WriteBehind>,
    handles: Slab<Handle>,
    directories: Slab<Directory>,
    /// `/dev/fuse`, used to register backing files and to send notifications.
    device: Arc<OwnedFd>,
    pub(crate) descriptors: Descriptors,
    /// `/proc/self/fd`, used to open the files to which `O_PATH` descriptors refer.
    descriptor_links: OwnedFd,
    /// If inodes can be opened by their file handles, new inodes need no descriptors when these become scarce.
    by_handle: Option<ByHandle>,
    /// The device of the source's root. Inodes of other devices get new numbers, so inode numbers do not
    /// collide.
    root_device: u64,
}

#[derive(Debug)]
pub(crate) struct Handle {
    number: u64,
    node: Arc<Node>,
    file: Arc<OwnedFd>,
    serving: Serving,
    /// Whether the handle appends on each write (`O_APPEND`).
    appends: bool,
    /// Whether each write through this handle must be durable (`O_SYNC`).
    is_sync: bool,
    writable: bool,
    /// The position in the inode's error sequence up to which this handle has received errors.
    seen: Mutex<Seen>,
    /// The time of the last change reported to the kernel, in nanoseconds; only for a passed-through file
    /// that can change while the kernel's inode stays the same.
    changed: Option<AtomicI64>,
}

#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) identity: Identity,
}

impl FileSystem {
    /// Creates the file system for the directory `root` (`O_PATH`). Fails if `/proc` is not mounted, or the
    /// attributes of the root cannot be read.
    pub(crate) fn new(
        root: OwnedFd,
        device: Arc<OwnedFd>,
        chosen: ChosenMode,
        options: Options,
        buffer: Arc<Buffer>,
        descriptors: Descriptors,
    ) -> std::io::Result<Self> {
        let stat = rustix::fs::fstat(&root)?;
        let descriptor_links = rustix::fs::open(
            "/proc/self/fd",
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let by_handle = options.file_handles.then(|| ByHandle::of_source(&root)).flatten();
        Ok(Self {
            chosen,
            options,
            statistics: Statistics::default(),
            nodes: Nodes::new(root, &stat),
            buffer,
            behind: Arc::default(),
            handles: Slab::default(),
            directories: Slab::default(),
            device,
            descriptors,
            descriptor_links,
            by_handle,
            root_device: stat.st_dev,
        })
    }

    /// Serves a request: writes the reply into `out` and returns the reply's length; `None` if the kernel
    /// expects no reply.
    pub(crate) fn serve(&self, worker: &mut Worker, request: &Request<'_>, out: &mut [u8]) -> Option<Answer> {
        let started = Instant::now();
        let answer = self.dispatch(worker, request, out);
        let statistics = self.statistics.of(request.opcode);
        statistics.time.record(started.elapsed());
        if answer.is_err() {
            statistics.errors.add(1);
        }
        let is_silent = matches!(request.opcode, Opcode::Forget | Opcode::BatchForget);
        (!is_silent).then_some(answer)
    }

    fn dispatch(&self, worker: &mut Worker, request: &Request<'_>, out: &mut [u8]) -> Answer {
        match request.opcode {
            Opcode::Lookup => self.lookup(request, out),
            Opcode::Forget => self.forget(request),
            Opcode::BatchForget => self.forget_batch(request),
            Opcode::Getattr => self.get_attributes(request, out),
            Opcode::Setattr => self.set_attributes(worker, request, out),
            Opcode::Statx if self.options.birth_times => self.statx(request, out),
            Opcode::Readlink => self.read_link(request, out),
            Opcode::Symlink => self.symlink(worker, request, out),
            Opcode::Mknod => self.make_node(worker, request, out),
            Opcode::Mkdir => self.make_directory(worker, request, out),
            Opcode::Unlink => self.unlink(request, false),
            Opcode::Rmdir => self.unlink(request, true),
            Opcode::Rename | Opcode::Rename2 => self.rename(request),
            Opcode::Link => self.link(request, out),
            Opcode::Create => self.create(worker, request, out),
            Opcode::Tmpfile => self.create_unnamed(worker, request, out),
            Opcode::Open => self.open(worker, request, out),
            Opcode::Release => self.release(request),
            Opcode::Read => self.read(request, out),
            Opcode::Write => self.write(request, out),
            Opcode::Flush => self.flush(request),
            Opcode::Fsync => self.sync(request),
            Opcode::Fallocate => self.allocate(worker, request),
            Opcode::Lseek => self.seek(request, out),
            Opcode::CopyFileRange => self.copy_range(worker, request, out),
            Opcode::Opendir => self.open_directory(request, out),
            Opcode::Readdir => self.read_directory(request, out, false),
            Opcode::Readdirplus => self.read_directory(request, out, true),
            Opcode::Releasedir => self.release_directory(request),
            Opcode::Fsyncdir => self.sync_directory(request),
            Opcode::Statfs => self.statfs(request, out),
            Opcode::Access => self.access(request),
            Opcode::Setxattr => self.set_extended(worker, request),
            Opcode::Getxattr => self.get_extended(request, out),
            Opcode::Listxattr => self.list_extended(request, out),
            Opcode::Removexattr => self.remove_extended(request),
            Opcode::Ioctl => self.control(request, out),
            Opcode::Destroy => {
                self.buffer.drain_all();
                Ok(0)
            }
            // The kernel handles locks itself; an interrupted request gets its normal reply.
            Opcode::Statx | Opcode::Init | Opcode::Interrupt | Opcode::Unknown => Err(Errno::NOSYS),
        }
    }

    fn node(&self, id: u64) -> Result<Arc<Node>, Errno> {
        // The kernel only sends IDs of nodes that it has not forgotten.
        self.nodes.get(id).ok_or(Errno::STALE)
    }

    fn handle(&self, number: u64) -> Result<Arc<Handle>, Errno> {
        self.handles.get(number).ok_or(Errno::BADF)
    }

    fn directory_handle(&self, number: u64) -> Result<Arc<Directory>, Errno> {
        self.directories.get(number).ok_or(Errno::BADF)
    }

    /// Opens the source file of a node again.
    fn open_below(&self, node: &Node, flags: OFlags) -> Result<OwnedFd, Errno> {
        match &node.place {
            Place::Descriptor(file) => self.reopen(file, None, flags),
            Place::Handle(handle) => self.open_by_handle(handle, None, flags - OFlags::NOFOLLOW),
        }
    }

    fn open_by_handle(
        &self,
        handle: &FileHandle,
        locked: Option<u64>,
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        let by_handle = self.by_handle.as_ref().ok_or(Errno::STALE)?;
        self.descriptors.find_one(locked, || by_handle.open(handle, flags))
    }

    /// Returns a descriptor of a node's inode, perhaps with `O_PATH`. During the call, the kernel holds the lock of
    /// the directory `locked`. Fails with `ESTALE` if the inode has been deleted.
    fn inode_of<'a>(&self, node: &'a Node, locked: Option<u64>) -> Result<Opened<'a>, Errno> {
        match &node.place {
            Place::Descriptor(file) => Ok(Opened::Held(file.as_fd())),
            Place::Handle(handle) => {
                let open = node.lock_open().file.upgrade();
                match open {
                    Some(file) => Ok(Opened::Shared(file)),
                    None => Ok(Opened::Own(self.open_by_handle(handle, locked, OFlags::PATH)?)),
                }
            }
        }
    }

    /// Opens a file for an application, which keeps it open, with `open`. Leaves some descriptors for requests
    /// that need one for a moment.
    fn open_to_keep<T>(
        &self,
        locked: Option<u64>,
        mut open: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.descriptors.find_one(locked, || {
            if self.descriptors.are_used_up(self.descriptors_used()) { Err(Errno::MFILE) } else { open() }
        })
    }

    fn reopen(&self, file: impl AsFd, locked: Option<u64>, flags: OFlags) -> Result<OwnedFd, Errno> {
        let link = file.as_fd().as_raw_fd().to_string();
        let flags = (flags | OFlags::CLOEXEC) - OFlags::NOFOLLOW;
        self.descriptors
            .find_one(locked, || rustix::fs::openat(&self.descriptor_links, &link, flags, Mode::empty()))
    }

    /// Returns the number of descriptors held by inodes and open files.
    pub(crate) fn descriptors_used(&self) -> u64 {
        self.nodes.descriptors() + self.handles.count() + self.directories.count()
    }

    /// Returns whether descriptors are short, so that the kernel should forget inodes and get no new inodes.
    pub(crate) fn is_short_of_descriptors(&self) -> bool {
        self.descriptors.are_short(self.descriptors_used())
    }

    /// Returns the node for `file`, which was found in `parent`, and counts a lookup.
    fn know(&self, file: OwnedFd, stat: &Stat, parent: &Node) -> Arc<Node> {
        let spares = self.descriptors.are_spared(self.descriptors_used());
        let node = self.nodes.look_up(file, stat, parent.id, self.by_handle.as_ref(), spares);
        if self.is_short_of_descriptors() {
            self.descriptors.ask();
        }
        node
    }

    /// Returns the last component of a node's path, which is one of the node's names; `None` if the node has no
    /// descriptor.
    pub(crate) fn name_of(&self, node: &Node) -> Option<Vec<u8>> {
        let Place::Descriptor(file) = &node.place else { return None };
        let link = file.as_raw_fd().to_string();
        let path = rustix::fs::readlinkat(&self.descriptor_links, &link, Vec::new()).ok()?;
        path.to_bytes().rsplit(|byte| *byte == b'/').next().map(<[u8]>::to_vec)
    }

    /// Returns a path to an opened inode, for system calls that need a path.
    fn path_of(inode: &Opened<'_>) -> String {
        format!("/proc/self/fd/{}", inode.as_fd().as_raw_fd())
    }

    /// Returns the attributes of a node as applications see them, including pending data. `inode` is the node's
    /// inode.
    fn attributes(&self, node: &Node, inode: &Opened<'_>) -> Result<Attributes, Errno> {
        // Read the buffer first: data that leave the buffer afterwards are then visible in the source file.
        let pending = node.pending.end_and_time();
        let stat = rustix::fs::fstat(inode)?;
        Ok(self.overlay(&stat, pending))
    }

    fn overlay(&self, stat: &Stat, pending: Option<(u64, rustix::fs::Timespec)>) -> Attributes {
        let mut attributes = attributes_of(stat);
        if stat.st_dev != self.root_device {
            attributes.inode ^= (stat.st_dev ^ self.root_device).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        if let Some((end, time)) = pending {
            attributes.size = attributes.size.max(end);
            attributes.mtime = (time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0));
        }
        attributes
    }

    fn write_entry(&self, record: &mut Record<'_>, node: &Node, attributes: &Attributes) {
        let (seconds, nanoseconds) = (self.options.timeout.as_secs(), self.options.timeout.subsec_nanos());
        record.u64(node.id).u64(0).u64(seconds).u64(seconds).u32(nanoseconds).u32(nanoseconds);
        record.attributes(attributes);
    }

    /// Invalidates the kernel's attributes of a file that has changed in the source: through a mapping, or by
    /// losing set-user-ID bits.
    fn tell_change(&self, handle: &Handle) {
        let Some(told) = &handle.changed else { return };
        let Ok(stat) = rustix::fs::fstat(&handle.file) else { return };
        let now = change_time(&stat);
        if told.swap(now, Ordering::Relaxed) != now {
            self.tell_attributes(&handle.node);
        }
    }

    /// Invalidates the kernel's cached attributes of an inode.
    fn tell_attributes(&self, node: &Node) {
        let mut message = [0; HEADER_OUT + notify::INVAL_INODE_BYTES];
        let length = message.len() as u32;
        let mut record = Record::new(&mut message);
        record.u32(length).u32(notify::INVAL_INODE).u64(0);
        record.u64(node.id).u64((-1i64).cast_unsigned()).u64(0);
        self.tell(&message);
    }

    /// Sends a notification to the kernel. The write fails for inodes that the kernel has forgotten, which is
    /// harmless.
    pub(crate) fn tell(&self, message: &[u8]) {
        let _ = rustix::io::write(&*self.device, message);
    }

    fn caller(request: &Request<'_>) -> Caller {
        Caller { uid: request.header.uid, gid: request.header.gid, group: request.supplementary_group() }
    }

    fn forget(&self, request: &Request<'_>) -> Answer {
        self.nodes.forget(request.header.node, request.fields().u64()?);
        Ok(0)
    }

    fn forget_batch(&self, request: &Request<'_>) -> Answer {
        let count = request.fields().u32()?;
        let mut fields: Fields<'_> = request.payload_fields();
        for _ in 0..count {
            let (id, lookups) = (fields.u64()?, fields.u64()?);
            self.nodes.forget(id, lookups);
        }
        Ok(0)
    }
}

/// Returns the change time of an inode, in nanoseconds since 1970.
fn change_time(stat: &Stat) -> i64 {
    stat.st_ctime.wrapping_mul(1_000_000_000).wrapping_add(stat.st_ctime_nsec as i64)
}
