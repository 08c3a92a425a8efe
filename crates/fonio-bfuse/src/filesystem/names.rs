//! Implements operations on names: look up, create, link, rename, remove.

use std::ffi::CStr;
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::{Answer, FileSystem, Worker};
use crate::node::Node;
use crate::protocol::{Opcode, Record, Request};

impl FileSystem {
    /// Returns the node of `name` and its attributes, and counts a lookup.
    pub(super) fn find(&self, parent: &Node, name: &CStr) -> Result<(Arc<Node>, super::Attributes), Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(parent.directory()?, name, flags, Mode::empty());
        let file = self.descriptors.find_one(Some(parent.id), open)?;
        let stat = rustix::fs::fstat(&file)?;
        let node = self.know(file, &stat, parent);
        let attributes = if node.pending.was_used() {
            let inode = self.inode_of(&node, Some(parent.id));
            let attributes = inode.and_then(|inode| self.attributes(&node, &inode));
            // Without a reply, the kernel will not forget this lookup.
            attributes.inspect_err(|_| self.nodes.forget(node.id, 1))?
        } else {
            self.overlay(&stat, None)
        };
        Ok((node, attributes))
    }

    fn answer_entry(&self, parent: &Node, name: &CStr, out: &mut [u8]) -> Answer {
        let (node, attributes) = self.find(parent, name)?;
        let mut record = Record::new(out);
        self.write_entry(&mut record, &node, &attributes);
        Ok(record.length())
    }

    pub(super) fn lookup(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let parent = self.node(request.header.node)?;
        self.answer_entry(&parent, request.payload_fields().name()?, out)
    }

    pub(super) fn read_link(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let node = self.node(request.header.node)?;
        let target = rustix::fs::readlinkat(self.inode_of(&node, None)?, c"", Vec::new())?;
        Ok(Record::new(out).bytes(target.to_bytes()).length())
    }

    pub(super) fn symlink(&self, worker: &mut Worker, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let parent = self.node(request.header.node)?;
        let mut fields = request.payload_fields();
        let (name, target) = (fields.name()?, fields.name()?);
        worker.identity.act_as(Self::caller(request), 0o022, || {
            rustix::fs::symlinkat(target, parent.directory()?, name)
        })?;
        self.answer_entry(&parent, name, out)
    }

    pub(super) fn make_node(&self, worker: &mut Worker, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let parent = self.node(request.header.node)?;
        let name = request.payload_fields().name()?;
        let mut fields = request.fields();
        let (mode, device, umask) = (fields.u32()?, fields.u32()?, fields.u32()?);
        keep_group_bit(worker, mode)?;
        let kind = rustix::fs::FileType::from_raw_mode(mode);
        // Decode the device number as `new_decode_dev` in include/linux/kdev_t.h does.
        let (major, minor) = ((device & 0xf_ff00) >> 8, (device & 0xff) | ((device >> 12) & 0xf_ff00));
        worker.identity.act_as(Self::caller(request), umask, || {
            let device = rustix::fs::makedev(major, minor);
            rustix::fs::mknodat(parent.directory()?, name, kind, Mode::from_raw_mode(mode), device)
        })?;
        self.answer_entry(&parent, name, out)
    }

    pub(super) fn make_directory(
        &self,
        worker: &mut Worker,
        request: &Request<'_>,
        out: &mut [u8],
    ) -> Answer {
        let parent = self.node(request.header.node)?;
        let name = request.payload_fields().name()?;
        let mut fields = request.fields();
        let (mode, umask) = (fields.u32()?, fields.u32()?);
        keep_group_bit(worker, mode)?;
        worker.identity.act_as(Self::caller(request), umask, || {
            rustix::fs::mkdirat(parent.directory()?, name, Mode::from_raw_mode(mode))
        })?;
        self.answer_entry(&parent, name, out)
    }

    pub(super) fn unlink(&self, request: &Request<'_>, is_directory: bool) -> Answer {
        let parent = self.node(request.header.node)?;
        let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        rustix::fs::unlinkat(parent.directory()?, request.payload_fields().name()?, flags)?;
        Ok(0)
    }

    pub(super) fn rename(&self, request: &Request<'_>) -> Answer {
        let from = self.node(request.header.node)?;
        let (target, flags, mut names) = if request.opcode == Opcode::Rename {
            (request.fields().u64()?, 0, request.payload_fields())
        } else {
            let mut fields = request.fields();
            (fields.u64()?, fields.u32()?, request.payload_fields())
        };
        let to = self.node(target)?;
        let (name, new_name) = (names.name()?, names.name()?);
        // Applications replace a file safely by writing a new file and renaming it over the old one. Buffered
        // data must be written to the source before the rename.
        if let Ok(stat) = rustix::fs::statat(from.directory()?, name, AtFlags::SYMLINK_NOFOLLOW)
            && let Some(node) = self.nodes.find(stat.st_dev, stat.st_ino)
        {
            self.buffer.drain(&node.pending);
            node.set_parent(to.id);
        }
        let flags = RenameFlags::from_bits_retain(flags);
        rustix::fs::renameat_with(from.directory()?, name, to.directory()?, new_name, flags)?;
        Ok(0)
    }

    pub(super) fn link(&self, request: &Request<'_>, out: &mut [u8]) -> Answer {
        let parent = self.node(request.header.node)?;
        let node = self.node(request.fields().u64()?)?;
        let name = request.payload_fields().name()?;
        let inode = self.inode_of(&node, Some(parent.id))?;
        let path = Self::path_of(&inode);
        rustix::fs::linkat(rustix::fs::CWD, path, parent.directory()?, name, AtFlags::SYMLINK_FOLLOW)?;
        self.answer_entry(&parent, name, out)
    }
}

/// Takes the capability that keeps the set-group-ID bit, if a new file gets this bit.
pub(super) fn keep_group_bit(worker: &mut Worker, mode: u32) -> Result<(), Errno> {
    if mode & Mode::SGID.bits() != 0 { worker.identity.take_back() } else { Ok(()) }
}
