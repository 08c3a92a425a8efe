//! Defines the modes, which determine how files are served.
//!
//! When the kernel connects, the mode becomes a [`ChosenMode`] for the whole mount. The first open of an
//! inode chooses the inode's [`Serving`]. All other opens of the inode use the same [`Serving`], because
//! passthrough cannot be mixed with the kernel's page cache or with the write buffer.

use crate::protocol::HEADER_IN;

/// The modes in which a mount can serve files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Uses passthrough if the kernel supports it, otherwise write-back. Files for which the kernel refuses
    /// passthrough, such as files of a stacked file system inside the source, use the write buffer.
    Auto,
    /// FUSE as on phones in 2012, the baseline of the study (section 2.3: 7 of 39 MB/s): each request has at
    /// most 4 KiB and becomes one call to the source file system. Use this mode for measurements only.
    Stock,
    /// Larger requests, each executed as one call to the source file system. This is the first step of the
    /// study (section 4.1); it helps only applications with large writes.
    Extended,
    /// Large requests and fonio's write buffer. The buffer collects consecutive writes of an inode until an
    /// entry is full, the interval ends, or the data are needed in the source. The mode consists of the
    /// second and third step of the study.
    Buffered,
    /// The kernel caches written pages and sends the pages later, in large requests. The kernel maintains
    /// size and times itself, so it may not notice changes to an open file in the source.
    Writeback,
    /// The kernel itself reads, writes and maps the source file; the daemon only serves opens, names and
    /// attributes. Passthrough needs Linux 6.9, root, and a source that is not on a stacked file system.
    Passthrough,
}

/// Whether this machine and the user's privileges allow passthrough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offers {
    /// Whether the kernel and the daemon's privileges allow passthrough.
    pub(crate) passthrough: bool,
    /// Whether the source is on a stacked file system (FUSE or overlay), for which the kernel refuses passthrough.
    pub(crate) source_is_stacked: bool,
}

/// The mode of a mount with its settings, after `auto` is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChosenMode {
    /// The resolved mode, which is never [`Mode::Auto`].
    pub(crate) mode: Mode,
    /// Maximum size of a request in bytes.
    pub(crate) io_bytes: u32,
    /// Whether the kernel may access source files directly (passthrough).
    pub(crate) passthrough: bool,
    /// How inodes without passthrough are served.
    pub(crate) otherwise: Serving,
}

/// `XATTR_SIZE_MAX`.
pub(crate) const XATTR_BYTES_MAX: usize = 64 << 10;

impl ChosenMode {
    /// Returns whether the kernel caches writes and maintains sizes and times.
    pub(crate) fn writeback(&self) -> bool {
        self.otherwise == Serving::Writeback
    }

    /// Returns the buffer size for a request or reply: enough for a write, and for the largest extended
    /// attribute with its name.
    pub(crate) fn request_bytes(&self) -> usize {
        const OTHER: usize = 4096;
        (self.io_bytes as usize).max(XATTR_BYTES_MAX) + OTHER + HEADER_IN
    }
}

/// How an inode is served while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serving {
    /// Each request becomes one call to the source file system.
    Through,
    /// The write buffer collects writes.
    Buffered,
    Writeback,
    /// The kernel reads and writes the source file directly.
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

/// The request size of FUSE in 2012, one page: the limit of libfuse before `big_writes`.
const STOCK_BYTES: u32 = 4096;
const STUDY_BYTES: u32 = 512 << 10;
/// The request size in all other modes: the kernel's default maximum.
const LARGE_BYTES: u32 = 1 << 20;

impl Mode {
    const ALL: [(Self, &str); 6] = [
        (Self::Auto, "auto"),
        (Self::Stock, "stock"),
        (Self::Extended, "extended"),
        (Self::Buffered, "buffered"),
        (Self::Writeback, "writeback"),
        (Self::Passthrough, "passthrough"),
    ];

    /// Returns the mode with the name `name` in mount options.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(mode, _)| *mode)
    }

    /// Returns the mode's name in mount options. Never panics: each mode has a name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(mode, _)| *mode == self).expect("the table names each mode").1
    }

    /// Chooses the mode of a mount on this machine. `io_bytes` is the maximum request size chosen by the
    /// user, if any. Returns a message that names the missing feature.
    pub(crate) fn choose(self, io_bytes: Option<u32>, offers: Offers) -> Result<ChosenMode, &'static str> {
        let can_pass = offers.passthrough && !offers.source_is_stacked;
        let (mode, bytes, passthrough, otherwise) = match self {
            Self::Stock => (Self::Stock, STOCK_BYTES, false, Serving::Through),
            Self::Extended => (Self::Extended, STUDY_BYTES, false, Serving::Through),
            Self::Buffered => (Self::Buffered, LARGE_BYTES, false, Serving::Buffered),
            Self::Auto if can_pass => (Self::Passthrough, LARGE_BYTES, true, Serving::Buffered),
            Self::Auto | Self::Writeback => (Self::Writeback, LARGE_BYTES, false, Serving::Writeback),
            Self::Passthrough if can_pass => (Self::Passthrough, LARGE_BYTES, true, Serving::Through),
            Self::Passthrough if offers.source_is_stacked => {
                return Err(
                    "the source is a FUSE or overlay file system, for which the kernel has no passthrough; \
                     use mode=writeback",
                );
            }
            Self::Passthrough => {
                return Err("passthrough needs Linux 6.9 or later and root; use mode=writeback");
            }
        };
        Ok(ChosenMode { mode, io_bytes: io_bytes.unwrap_or(bytes), passthrough, otherwise })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_needs_what_the_machine_offers() {
        for (mode, passthrough, source_is_stacked, expected) in [
            (Mode::Auto, true, false, Some(Mode::Passthrough)),
            (Mode::Auto, true, true, Some(Mode::Writeback)),
            (Mode::Auto, false, false, Some(Mode::Writeback)),
            (Mode::Passthrough, false, false, None),
            (Mode::Passthrough, true, true, None),
        ] {
            let chosen = mode.choose(None, Offers { passthrough, source_is_stacked }).ok();
            assert_eq!(chosen.map(|chosen| chosen.mode), expected, "{mode:?}");
        }
    }

    #[test]
    fn the_kernel_never_gets_both_passthrough_and_writeback() {
        for (mode, name) in Mode::ALL {
            assert_eq!(Mode::from_name(name), Some(mode));
            let chosen = mode.choose(None, Offers { passthrough: true, source_is_stacked: false });
            let chosen = chosen.expect("all features are available");
            assert!(!(chosen.passthrough && chosen.writeback()), "{name}");
            assert_ne!(chosen.mode, Mode::Auto);
        }
    }
}
