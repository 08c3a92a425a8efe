//! Handles extended attributes, including ACLs, and the inode flags of `chattr`.

use rustix::io::Errno;

use super::io::xattr_flags;
use super::{Answer, FileSystem, Worker};
use crate::kernel;
use crate::protocol::{Record, Request, SETXATTR_ACL_KILL_SGID};

const ACCESS_ACL: &std::ffi::CStr = c"system.posix_acl_access";

impl FileSystem {
    pub(super) fn set_extended(&self, worker: &mut Worker, request: &Request<'_>) -> Answer {
        worker.identity.take_back()?;
        let node = self.node(request.header.node)?;
        let mut fields = request.fields();
        let (size, flags, asks) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let mut payload = request.payload_fields();
        let name = payload.name()?;
        let value = payload.bytes(size as usize)?;
        node.set_privileged();
        let inode = self.inode_of(&node, None)?;
        let path = Self::path_of(&inode);
        rustix::fs::setxattr(&path, name, value, xattr_flags(flags))?;
        if asks & SETXATTR_ACL_KILL_SGID != 0 {
            let mode = rustix::fs::Mode::from_raw_mode(rustix::fs::fstat(&inode)?.st_mode);
            rustix::fs::chmod(&path, mode - rustix::fs::Mode::SGID)?;
        }
        if name == ACCESS_ACL {
            // The ACL also changes the mode, which the kernel knows only if it handles ACLs itself.
            self.tell_attributes(&node);
        }
        Ok(0)
    }

    pub(super) fn get_extended(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let node = self.node(request.header.node)?;
        let size = request.fields().u32()? as usize;
        let name = request.payload_fields().name()?;
        let inode = self.inode_of(&node, None)?;
        let path = Self::path_of(&inode);
        if size == 0 {
            return answer_size(out, rustix::fs::getxattr_query(&path, name)?);
        }
        rustix::fs::getxattr(&path, name, out.get_mut(..size).ok_or(Errno::RANGE)?)
    }

    pub(super) fn list_extended(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let node = self.node(request.header.node)?;
        let size = request.fields().u32()? as usize;
        let inode = self.inode_of(&node, None)?;
        let path = Self::path_of(&inode);
        if size == 0 {
            return answer_size(out, rustix::fs::listxattr_query(&path)?);
        }
        rustix::fs::listxattr(&path, out.get_mut(..size).ok_or(Errno::RANGE)?)
    }

    pub(super) fn remove_extended(&self, request: &Request<'_>) -> Answer {
        let node = self.node(request.header.node)?;
        let inode = self.inode_of(&node, None)?;
        rustix::fs::removexattr(Self::path_of(&inode), request.payload_fields().name()?)?;
        Ok(0)
    }

    /// Executes only the ioctls for inode flags (`lsattr`, `chattr`) and project quotas. Other ioctls could
    /// have effects that are unknown to the daemon.
    pub(super) fn control(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let mut fields = request.fields();
        let handle = fields.u64()?;
        fields.skip(4)?;
        let command = fields.u32()?;
        let node = match self.handle(handle) {
            Ok(handle) => std::sync::Arc::clone(&handle.node),
            Err(_) => self.node(request.header.node)?,
        };
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
        match command {
            GET_FLAGS => {
                let found = rustix::fs::ioctl_getflags(self.open_below(&node, flags)?)?;
                Ok(Record::new(out).u32(0).u32(0).u32(0).u32(0).u32(found.bits()).length())
            }
            SET_FLAGS => {
                let wanted = rustix::fs::IFlags::from_bits_retain(request.payload_fields().u32()?);
                rustix::fs::ioctl_setflags(self.open_below(&node, flags)?, wanted)?;
                self.tell_attributes(&node);
                Ok(Record::new(out).zeros(16).length())
            }
            // The kernel requests these inode attributes before it allows a change of inode flags.
            GET_ATTRIBUTES => {
                let found = kernel::inode_attributes(self.open_below(&node, flags)?)?;
                let mut record = Record::new(out);
                record.zeros(16).bytes(&found);
                Ok(record.length())
            }
            SET_ATTRIBUTES => {
                let wanted = request.payload.first_chunk().ok_or(Errno::INVAL)?;
                kernel::set_inode_attributes(self.open_below(&node, flags)?, wanted)?;
                self.tell_attributes(&node);
                Ok(Record::new(out).zeros(16).length())
            }
            _ => Err(Errno::NOTTY),
        }
    }
}

/// `FS_IOC_GETFLAGS` and `FS_IOC_SETFLAGS` of a 64-bit kernel (`include/uapi/linux/fs.h`).
const GET_FLAGS: u32 = 0x8008_6601;
const SET_FLAGS: u32 = 0x4008_6602;
/// `FS_IOC_FSGETXATTR` and `FS_IOC_FSSETXATTR`.
const GET_ATTRIBUTES: u32 = 0x801c_581f;
const SET_ATTRIBUTES: u32 = 0x401c_5820;

/// Replies with the size of an extended attribute's value, which the kernel requests before the value.
fn answer_size(out: &mut [u8], size: usize) -> Answer {
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    Ok(Record::new(out).u32(size).u32(0).length())
}
