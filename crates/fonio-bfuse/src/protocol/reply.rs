//! Writes the records of FUSE replies.

use rustix::fs::Stat;

/// A writer for a record at the front of the transport's buffer.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    out: &'a mut [u8],
    used: usize,
}

impl<'a> Record<'a> {
    pub(crate) fn new(out: &'a mut [u8]) -> Self {
        Self { out, used: 0 }
    }

    /// Never panics: the buffer of the transport has room for every record.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        let end = self.used + bytes.len();
        self.out[self.used..end].copy_from_slice(bytes);
        self.used = end;
        self
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_ne_bytes())
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_ne_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_ne_bytes())
    }

    pub(crate) fn zeros(&mut self, bytes: usize) -> &mut Self {
        let end = self.used + bytes;
        self.out[self.used..end].fill(0);
        self.used = end;
        self
    }

    pub(crate) fn length(&self) -> usize {
        self.used
    }

    /// Returns the number of bytes that the record can still take.
    pub(crate) fn room(&self) -> usize {
        self.out.len() - self.used
    }

    pub(crate) fn attributes(&mut self, attributes: &Attributes) -> &mut Self {
        self.u64(attributes.inode)
            .u64(attributes.size)
            .u64(attributes.sectors)
            .u64(attributes.atime.0)
            .u64(attributes.mtime.0)
            .u64(attributes.ctime.0)
            .u32(attributes.atime.1)
            .u32(attributes.mtime.1)
            .u32(attributes.ctime.1)
            .u32(attributes.mode)
            .u32(attributes.links)
            .u32(attributes.uid)
            .u32(attributes.gid)
            .u32(attributes.device)
            .u32(attributes.block_bytes)
            .u32(0)
    }
}

/// The attributes of an inode, in the format of the FUSE protocol. Times are seconds (two's complement) and
/// nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) inode: u64,
    pub(crate) size: u64,
    /// Space used by the source file, in units of 512 bytes.
    pub(crate) sectors: u64,
    pub(crate) atime: (u64, u32),
    pub(crate) mtime: (u64, u32),
    pub(crate) ctime: (u64, u32),
    pub(crate) mode: u32,
    pub(crate) links: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) device: u32,
    pub(crate) block_bytes: u32,
}

/// Converts the attributes of a source file to the format of the FUSE protocol.
pub(crate) fn attributes_of(stat: &Stat) -> Attributes {
    // The widths of the fields of `Stat` depend on the processor architecture.
    let time = |seconds: i64, nanoseconds: i64| {
        (seconds.cast_unsigned(), u32::try_from(nanoseconds).expect("a second has 10^9 nanoseconds"))
    };
    Attributes {
        inode: stat.st_ino,
        size: stat.st_size.cast_unsigned(),
        sectors: stat.st_blocks as u64,
        atime: time(stat.st_atime, stat.st_atime_nsec as i64),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec as i64),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec as i64),
        mode: stat.st_mode,
        links: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        device: encode_device(stat.st_rdev),
        block_bytes: u32::try_from(stat.st_blksize).unwrap_or(4096),
    }
}

/// Encodes a device number as `new_encode_dev` in `include/linux/kdev_t.h` does.
fn encode_device(device: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}
