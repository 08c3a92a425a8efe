//! Implements the FUSE protocol, version 7 (`include/uapi/linux/fuse.h`): small records of native-endian
//! numbers at fixed offsets.
//!
//! A request consists of a header, the fixed record of its opcode, and a payload (names, data). The three
//! parts are kept separately, as io_uring delivers them; over `/dev/fuse`, they are adjacent in one buffer.

mod fields;
mod opcode;
mod reply;

pub(crate) use fields::{Fields, Malformed};
pub(crate) use opcode::Opcode;
pub(crate) use reply::{Attributes, Record, attributes_of};

/// Major version of the FUSE protocol that the daemon supports. The kernel uses the lower of its version and
/// this version.
pub(crate) const MAJOR: u32 = 7;
/// The first minor version in which `fuse_init_out` has all the fields that the daemon sets.
pub(crate) const MINOR: u32 = 42;

/// Size of `struct fuse_in_header`.
pub(crate) const HEADER_IN: usize = 40;
/// Size of `struct fuse_out_header`.
pub(crate) const HEADER_OUT: usize = 16;
/// The node ID of the mount's root.
pub(crate) const ROOT_ID: u64 = 1;

/// Feature bits of `FUSE_INIT`: `flags` and `flags2` combined in one number.
pub(crate) mod init {
    pub(crate) const ASYNC_READ: u64 = 1;
    pub(crate) const ATOMIC_O_TRUNC: u64 = 1 << 3;
    pub(crate) const BIG_WRITES: u64 = 1 << 5;
    pub(crate) const DONT_MASK: u64 = 1 << 6;
    pub(crate) const AUTO_INVAL_DATA: u64 = 1 << 12;
    pub(crate) const DO_READDIRPLUS: u64 = 1 << 13;
    pub(crate) const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub(crate) const WRITEBACK_CACHE: u64 = 1 << 16;
    pub(crate) const PARALLEL_DIROPS: u64 = 1 << 18;
    pub(crate) const POSIX_ACL: u64 = 1 << 20;
    pub(crate) const MAX_PAGES: u64 = 1 << 22;
    pub(crate) const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub(crate) const SETXATTR_EXT: u64 = 1 << 29;
    pub(crate) const INIT_EXT: u64 = 1 << 30;
    pub(crate) const CREATE_SUPP_GROUP: u64 = 1 << 34;
    pub(crate) const PASSTHROUGH: u64 = 1 << 37;
    pub(crate) const OVER_IO_URING: u64 = 1 << 41;
}

/// Flags in the reply to an open request.
pub(crate) mod open {
    pub(crate) const DIRECT_IO: u32 = 1 << 0;
    pub(crate) const KEEP_CACHE: u32 = 1 << 1;
    pub(crate) const CACHE_DIR: u32 = 1 << 3;
    pub(crate) const NOFLUSH: u32 = 1 << 5;
    pub(crate) const PASSTHROUGH: u32 = 1 << 7;
}

/// Notifications that the daemon sends without a request.
pub(crate) mod notify {
    /// Invalidates attributes: `struct fuse_notify_inval_inode_out`; a negative offset keeps cached data.
    pub(crate) const INVAL_INODE: u32 = 2;
    pub(crate) const INVAL_INODE_BYTES: usize = 24;
    /// Invalidates a name: `struct fuse_notify_inval_entry_out`, then the name with its zero byte.
    pub(crate) const INVAL_ENTRY: u32 = 3;
    pub(crate) const INVAL_ENTRY_BYTES: usize = 16;
    /// Makes the kernel forget unused inodes: `struct fuse_notify_prune_out`, then the node IDs of these
    /// inodes.
    pub(crate) const PRUNE: u32 = 9;
    pub(crate) const PRUNE_BYTES: usize = 16;
}

/// `FUSE_OPEN_KILL_SUIDGID`, a flag of open requests.
pub(crate) const OPEN_KILL_SUIDGID: u32 = 1;
/// `FUSE_WRITE_CACHE`: the write is the write-back of a cached page, through any handle of the file.
pub(crate) const WRITE_CACHE: u32 = 1;
/// `FUSE_WRITE_KILL_SUIDGID`.
pub(crate) const WRITE_KILL_SUIDGID: u32 = 4;
/// `FUSE_FSYNC_FDATASYNC`.
pub(crate) const FSYNC_DATA_ONLY: u32 = 1;
/// `FUSE_SETXATTR_ACL_KILL_SGID`.
pub(crate) const SETXATTR_ACL_KILL_SGID: u32 = 1;
/// `FUSE_GETATTR_FH`.
pub(crate) const GETATTR_HANDLE: u32 = 1;
/// `FUSE_EXT_GROUPS`: the type of the request extension that contains a supplementary group.
pub(crate) const EXTENSION_GROUPS: u32 = 32;

/// Bits that say which fields a `FUSE_SETATTR` request changes.
pub(crate) mod setattr {
    pub(crate) const MODE: u32 = 1;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    pub(crate) const HANDLE: u32 = 1 << 6;
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
    pub(crate) const KILL_SUIDGID: u32 = 1 << 11;
}

/// `struct fuse_in_header`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) length: u32,
    pub(crate) opcode: u32,
    /// Number of the request; the reply repeats this number.
    pub(crate) unique: u64,
    pub(crate) node: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Length of the extensions at the end of the request.
    pub(crate) extension_bytes: usize,
}

impl Header {
    /// Reads the header of a request. Fails if `bytes` is shorter than [`HEADER_IN`].
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(bytes);
        let length = fields.u32()?;
        let opcode = fields.u32()?;
        let unique = fields.u64()?;
        let node = fields.u64()?;
        let uid = fields.u32()?;
        let gid = fields.u32()?;
        fields.skip(4)?;
        let extension_bytes = usize::from(fields.u16()?) * 8;
        Ok(Self { length, opcode, unique, node, uid, gid, extension_bytes })
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) header: Header,
    pub(crate) opcode: Opcode,
    pub(crate) record: &'a [u8],
    /// Names, data and extensions of the request.
    pub(crate) payload: &'a [u8],
}

impl<'a> Request<'a> {
    /// Splits a request read from `/dev/fuse` into header, record and payload. Fails if there are fewer bytes
    /// than the header states or the opcode needs.
    pub(crate) fn split(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let header = Header::read(bytes)?;
        let body = bytes.get(HEADER_IN..header.length as usize).ok_or(Malformed)?;
        let opcode = Opcode::from_number(header.opcode);
        let (record, payload) = body.split_at_checked(opcode.record_bytes()).ok_or(Malformed)?;
        Ok(Self { header, opcode, record, payload })
    }

    /// Returns a reader for the fields of the request's record.
    pub(crate) fn fields(&self) -> Fields<'a> {
        Fields::new(self.record)
    }

    pub(crate) fn payload_fields(&self) -> Fields<'a> {
        Fields::new(self.payload)
    }

    /// Returns the supplementary group of a create request: the parent directory's group, if the caller is a
    /// member.
    pub(crate) fn supplementary_group(&self) -> Option<u32> {
        let start = self.payload.len().checked_sub(self.header.extension_bytes)?;
        let mut rest = self.payload.get(start..)?;
        while !rest.is_empty() {
            let mut fields = Fields::new(rest);
            let size = fields.u32().ok()? as usize;
            let kind = fields.u32().ok()?;
            if kind == EXTENSION_GROUPS && fields.u32().ok()? > 0 {
                return fields.u32().ok();
            }
            rest = rest.get(size.max(8)..)?;
        }
        None
    }
}

#[cfg(test)]
mod tests;
