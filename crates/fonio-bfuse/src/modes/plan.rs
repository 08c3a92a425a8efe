//! The modes, and what a mode decides for a mount and for an inode.

use crate::protocol::HEADER_IN;

/// The modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// The fastest way for each file.
    Auto,
    /// Requests of at most 4 KiB: FUSE as phones had it in 2012, the baseline of the study.
    Stock,
    /// Larger requests, executed directly.
    Extended,
    /// The study's write buffer.
    Buffered,
    /// The kernel's write-back cache.
    Writeback,
    /// The kernel reads and writes the file below itself.
    Passthrough,
}

/// The features that the machine and the user's privilege make available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offers {
    /// Whether the kernel and our privilege allow passthrough.
    pub(crate) passthrough: bool,
    /// Whether the source is on a stacked file system (FUSE or overlay), for which the kernel refuses passthrough.
    pub(crate) source_is_stacked: bool,
}

/// The settings of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The chosen mode, never [`Mode::Auto`].
    pub(crate) mode: Mode,
    /// Largest size of a request.
    pub(crate) io_bytes: u32,
    /// Whether the kernel caches writes and maintains sizes and times.
    pub(crate) writeback: bool,
    /// Whether files may be passed through.
    pub(crate) passthrough: bool,
    /// How inodes are served that are not passed through.
    pub(crate) otherwise: Serving,
}

/// `XATTR_SIZE_MAX`.
pub(crate) const XATTR_BYTES_MAX: usize = 64 << 10;

impl Plan {
    /// Size of the buffer for a request or an answer: enough for a write, and for the largest extended attribute with its
    /// name.
    pub(crate) fn request_bytes(&self) -> usize {
        const OTHER: usize = 4096;
        (self.io_bytes as usize).max(XATTR_BYTES_MAX) + OTHER + HEADER_IN
    }
}

/// How an open inode is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serving {
    /// Each request is executed as a call below.
    Through,
    /// Our buffer collects writes.
    Buffered,
    /// The kernel's page cache collects writes.
    Writeback,
    /// The kernel reads and writes the file below.
    Passthrough,
}

impl Serving {
    pub(crate) const ALL: [(Self, &str); 4] = [
        (Self::Through, "through"),
        (Self::Buffered, "buffered"),
        (Self::Writeback, "writeback"),
        (Self::Passthrough, "passthrough"),
    ];
}

impl Mode {
    pub(super) const ALL: [(Self, &str); 6] = [
        (Self::Auto, "auto"),
        (Self::Stock, "stock"),
        (Self::Extended, "extended"),
        (Self::Buffered, "buffered"),
        (Self::Writeback, "writeback"),
        (Self::Passthrough, "passthrough"),
    ];

    /// The mode with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(mode, _)| *mode)
    }

    /// Its name in mount options.
    ///
    /// # Panics
    /// Never: each mode has a name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(mode, _)| *mode == self).expect("each mode is in the table").1
    }
}

/// Default size of a request for all modes but those of the study: the maximum of a kernel with default limits.
pub(super) const IO_BYTES: u32 = 1 << 20;
