//! Decides how files are served; there is one file per mode.
//!
//! A mode decides twice. When the kernel connects, it makes a [`Plan`] for the whole mount. When an inode is opened that is
//! not open yet, it chooses a [`Serving`] for this inode, which all later opens share: the kernel does not mix passthrough
//! with its page cache, and we do not mix passthrough with our buffer.

mod auto;
mod buffered;
mod extended;
mod passthrough;
mod stock;
mod writeback;

use crate::options::Options;
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
    const ALL: [(Self, &str); 6] = [
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

    /// Makes the plan of a mount of this mode on this machine.
    ///
    /// # Errors
    /// A sentence that says what is missing.
    pub(crate) fn plan(self, options: &Options, offers: Offers) -> Result<Plan, &'static str> {
        match self {
            Self::Auto => Ok(auto::plan(options, offers)),
            Self::Stock => Ok(stock::plan(options)),
            Self::Extended => Ok(extended::plan(options)),
            Self::Buffered => Ok(buffered::plan(options)),
            Self::Writeback => Ok(writeback::plan(options)),
            Self::Passthrough => passthrough::plan(options, offers),
        }
    }
}

/// Default size of a request for all modes but those of the study: the maximum of a kernel with default limits.
const IO_BYTES: u32 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_takes_what_the_machine_offers() {
        let options = Options::default();
        let chosen = |passthrough, source_is_stacked| {
            Mode::Auto.plan(&options, Offers { passthrough, source_is_stacked }).map(|plan| plan.mode)
        };
        assert_eq!(chosen(true, false), Ok(Mode::Passthrough));
        assert_eq!(chosen(true, true), Ok(Mode::Writeback));
        assert_eq!(chosen(false, false), Ok(Mode::Writeback));
    }

    #[test]
    fn passthrough_alone_is_refused_where_it_cannot_be() {
        let offers = Offers { passthrough: false, source_is_stacked: false };
        assert!(Mode::Passthrough.plan(&Options::default(), offers).is_err());
    }

    #[test]
    fn the_kernel_never_gets_both_passthrough_and_writeback() {
        for (mode, name) in Mode::ALL {
            assert_eq!(Mode::from_name(name), Some(mode));
            let plan = mode.plan(&Options::default(), Offers { passthrough: true, source_is_stacked: false });
            let plan = plan.expect("everything is offered");
            assert!(!(plan.passthrough && plan.writeback), "{name}");
            assert_ne!(plan.mode, Mode::Auto);
        }
    }
}
