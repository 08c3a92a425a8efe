//! Handles requests for the attributes of inodes and of the file system.

use rustix::fs::{Access, AtFlags, Gid, Mode, StatxFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid};

use super::{Answer, FileSystem, Worker};
use crate::node::Node;
use crate::place::Opened;
use crate::protocol::{GETATTR_HANDLE, Record, Request, setattr};

impl FileSystem {
    pub(super) fn get_attributes(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let mut fields = request.fields();
        let flags = fields.u32()?;
        if flags & GETATTR_HANDLE != 0 {
            fields.skip(4)?;
            if let Ok(handle) = self.handle(fields.u64()?) {
                return self.answer_attributes(&handle.node, out);
            }
        }
        self.answer_attributes(&*self.node(request.header.node)?, out)
    }

    fn answer_attributes(&self, node: &Node, out: &mut [u8]) -> Answer {
        self.answer_attributes_of(node, &self.inode_of(node, None)?, out)
    }

    fn answer_attributes_of(&self, node: &Node, inode: &Opened<'_>, out: &mut [u8]) -> Answer {
        let attributes = self.attributes(node, inode)?;
        let mut record = Record::new(out);
        let timeout = self.options.timeout;
        record.u64(timeout.as_secs()).u32(timeout.subsec_nanos()).u32(0).attributes(&attributes);
        Ok(record.length())
    }

    pub(super) fn set_attributes(
        &self,
        worker: &mut Worker,
        request: &Request<'_>,
        out: &mut [u8],
    ) -> Answer {
        worker.identity.take_back()?;
        let node = self.node(request.header.node)?;
        let mut fields = request.fields();
        let valid = fields.u32()?;
        fields.skip(4)?;
        let (handle, size) = (fields.u64()?, fields.u64()?);
        fields.skip(8)?;
        let (atime, mtime, _ctime) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let (atime_nsec, mtime_nsec, _) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let mode = fields.u32()?;
        fields.skip(4)?;
        let (uid, gid) = (fields.u32()?, fields.u32()?);
        let handle = if valid & setattr::HANDLE != 0 { self.handle(handle).ok() } else { None };

        // Drain the buffer first: a later flush must not overwrite the new attributes.
        self.buffer.drain(&node.pending);
        // One descriptor for all steps: the last step cannot fail for lack of another one.
        let inode = self.inode_of(&node, None)?;
        if valid & setattr::KILL_SUIDGID != 0 && valid & setattr::SIZE != 0 {
            let file = self.open_below(&node, rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK)?;
            self.kill_privileges(&node, &file)?;
        }
        if valid & setattr::MODE != 0 {
            node.set_privileged();
            rustix::fs::chmod(Self::path_of(&inode), Mode::from_raw_mode(mode & 0o7777))?;
        }
        if valid & (setattr::UID | setattr::GID) != 0 {
            let uid = (valid & setattr::UID != 0).then(|| Uid::from_raw(uid));
            let gid = (valid & setattr::GID != 0).then(|| Gid::from_raw(gid));
            rustix::fs::chownat(&inode, c"", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        if valid & setattr::SIZE != 0 {
            self.truncate(&node, handle.as_deref(), size)?;
        }
        if valid & (setattr::ATIME | setattr::MTIME) != 0 {
            let time = |is_set: u32, is_now: u32, seconds: u64, nanoseconds: u32| Timespec {
                tv_sec: seconds.cast_signed(),
                tv_nsec: match () {
                    () if valid & is_now != 0 => UTIME_NOW,
                    () if valid & is_set != 0 => i64::from(nanoseconds),
                    () => UTIME_OMIT,
                },
            };
            let times = Timestamps {
                last_access: time(setattr::ATIME, setattr::ATIME_NOW, atime, atime_nsec),
                last_modification: time(setattr::MTIME, setattr::MTIME_NOW, mtime, mtime_nsec),
            };
            rustix::fs::utimensat(&inode, c"", &times, AtFlags::EMPTY_PATH)?;
        }
        self.answer_attributes_of(&node, &inode, out)
    }

    pub(super) fn statx(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let node = self.node(request.header.node)?;
        let mut fields = request.fields();
        fields.skip(16)?;
        let (_sync, mask) = (fields.u32()?, fields.u32()?);
        let inode = self.inode_of(&node, None)?;
        let attributes = self.attributes(&node, &inode)?;
        let wanted = StatxFlags::from_bits_retain(mask) | StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let found = rustix::fs::statx(&inode, c"", AtFlags::EMPTY_PATH, wanted)?;
        // Other fields (mount ID, alignment of direct I/O) belong to the mount, not to the source.
        let known = (StatxFlags::BASIC_STATS | StatxFlags::BTIME).bits() & found.stx_mask;
        let mut record = Record::new(out);
        let timeout = self.options.timeout;
        record.u64(timeout.as_secs()).u32(timeout.subsec_nanos()).u32(0).zeros(16);
        record.u32(known).u32(attributes.block_bytes).u64(found.stx_attributes.bits());
        record.u32(attributes.links).u32(attributes.uid).u32(attributes.gid);
        record.u16(found.stx_mode).zeros(2);
        record.u64(attributes.inode).u64(attributes.size).u64(attributes.sectors);
        record.u64(found.stx_attributes_mask.bits());
        let birth = (found.stx_btime.tv_sec.cast_unsigned(), found.stx_btime.tv_nsec);
        for (seconds, nanoseconds) in [attributes.atime, birth, attributes.ctime, attributes.mtime] {
            record.u64(seconds).u32(nanoseconds).u32(0);
        }
        record.u32(found.stx_rdev_major).u32(found.stx_rdev_minor).zeros(8).zeros(14 * 8);
        Ok(record.length())
    }

    /// Serves the system call access(2). The kernel sends this request only if it does not check permissions
    /// itself; in this case, the caller is the mounting user.
    pub(super) fn access(&self, request: &Request<'_>) -> Answer {
        let node = self.node(request.header.node)?;
        let wanted = Access::from_bits_truncate(request.fields().u32()?);
        let inode = self.inode_of(&node, None)?;
        rustix::fs::accessat(rustix::fs::CWD, Self::path_of(&inode), wanted, AtFlags::EACCESS)?;
        Ok(0)
    }

    pub(super) fn statfs(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let node = self.node(request.header.node)?;
        let below = rustix::fs::fstatvfs(self.inode_of(&node, None)?)?;
        let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let mut record = Record::new(out);
        record
            .u64(below.f_blocks)
            .u64(below.f_bfree)
            .u64(below.f_bavail)
            .u64(below.f_files)
            .u64(below.f_ffree);
        record.u32(narrow(below.f_bsize)).u32(narrow(below.f_namemax)).u32(narrow(below.f_frsize)).zeros(28);
        Ok(record.length())
    }
}
