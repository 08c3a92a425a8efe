//! Presents the emulated device as the only file of a FUSE file system. A loop device is bound to this file.
//!
//! The file is open for direct I/O, so each request of the loop driver becomes one FUSE request. The reply is
//! sent at the model's completion time; until then, the device accepts other requests. A flush of the loop
//! device is an fsync of the file; a discard or a write of zeros is an fallocate.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request as FuseRequest, Session, WriteFlags,
};

use crate::disk::{Disk, Request};

pub(crate) const FILE_NAME: &str = "disk";

/// The source that `/proc/self/mountinfo` shows for fonio's FUSE mounts.
pub(crate) const SOURCE: &str = "fonio-emulated-disk";

const FILE: INodeNo = INodeNo(2);

/// Cache lifetime of names and attributes, which never change.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);

/// Maximum FUSE request with the kernel's default limit of 256 pages.
const WRITE_BYTES_MAX: u32 = 1 << 20;

/// Returns the value of FUSE's option `max_background`. The kernel's default of 12 would limit a deep queue.
/// Each command is one FUSE request; twice the queue depth leaves room for pending replies.
fn background(depth: u32) -> u16 {
    u16::try_from(depth.saturating_mul(2)).unwrap_or(u16::MAX).max(16)
}

struct OneFile {
    disk: Arc<Disk>,
    started: SystemTime,
}

/// Mounts the file system at `dir` and serves this file system until the session is dropped.
pub(crate) fn mount(disk: Arc<Disk>, dir: &Path) -> io::Result<BackgroundSession> {
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName(SOURCE.to_owned()), MountOption::DefaultPermissions];
    let file_system = OneFile { disk, started: SystemTime::now() };
    Session::new(file_system, dir, &config)?.spawn()
}

impl OneFile {
    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size) = match inode {
            INodeNo::ROOT => (FileType::Directory, 0o700, 0),
            FILE => (FileType::RegularFile, 0o600, self.disk.limits().capacity.0),
            _ => return None,
        };
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: self.started,
            mtime: self.started,
            ctime: self.started,
            crtime: self.started,
            kind,
            perm,
            nlink: 1,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

impl Filesystem for OneFile {
    fn init(&mut self, _request: &FuseRequest, config: &mut KernelConfig) -> io::Result<()> {
        // The kernel accepts all these values. A kernel without asynchronous direct I/O would send one
        // command at a time, which is wrong for a device with a queue.
        let depth = background(self.disk.limits().depth);
        let refused = |_| io::Error::other("the kernel refuses a setting that every FUSE version supports");
        config.set_max_write(WRITE_BYTES_MAX).map_err(refused)?;
        config.set_max_background(depth).map_err(|_| io::Error::other("max_background"))?;
        config.set_congestion_threshold(depth).map_err(|_| io::Error::other("congestion_threshold"))?;
        config
            .add_capabilities(InitFlags::FUSE_ASYNC_DIO)
            .map_err(|_| io::Error::other("this kernel's FUSE has no asynchronous direct I/O"))
    }

    fn lookup(&self, _request: &FuseRequest, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(FILE).filter(|_| parent == INodeNo::ROOT && name == FILE_NAME) {
            Some(attributes) => reply.entry(&FOR_EVER, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _request: &FuseRequest, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&FOR_EVER, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _request: &FuseRequest, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _request: &FuseRequest,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let request = Request::Read { offset, bytes: u64::from(size) };
        self.disk.submit(request, move |outcome| match outcome {
            Ok(data) => reply.data(&data),
            Err(_) => reply.error(Errno::EIO),
        });
    }

    fn write(
        &self,
        _request: &FuseRequest,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let length = u32::try_from(data.len()).expect("a FUSE request is shorter than 4 GiB");
        self.disk.submit(Request::Write { offset, data, fua: false }, move |outcome| match outcome {
            Ok(_) => reply.written(length),
            Err(_) => reply.error(Errno::EIO),
        });
    }

    /// Does nothing, because there is no cache to write back on close.
    fn flush(
        &self,
        _request: &FuseRequest,
        _inode: INodeNo,
        _handle: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn fsync(
        &self,
        _request: &FuseRequest,
        _inode: INodeNo,
        _handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.disk.submit(Request::Flush, move |outcome| answer(outcome.is_ok(), reply));
    }

    fn fallocate(
        &self,
        _request: &FuseRequest,
        _inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        use rustix::fs::FallocateFlags as Flags;
        let mode = Flags::from_bits_retain(mode.cast_unsigned());
        let request = if mode.contains(Flags::PUNCH_HOLE) {
            Request::Discard { offset, bytes: length }
        } else if mode.contains(Flags::ZERO_RANGE) {
            Request::WriteZeroes { offset, bytes: length, fua: false }
        } else {
            return reply.error(Errno::EOPNOTSUPP);
        };
        self.disk.submit(request, move |outcome| answer(outcome.is_ok(), reply));
    }
}

fn answer(done: bool, reply: ReplyEmpty) {
    if done { reply.ok() } else { reply.error(Errno::EIO) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_may_have_twice_the_depth_in_the_background() {
        for (depth, expected) in [(1, 16), (32, 64), (1 << 20, u16::MAX)] {
            assert_eq!(background(depth), expected);
        }
    }
}
