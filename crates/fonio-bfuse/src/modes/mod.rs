//! How files are served: one file per mode.
//!
//! A mode decides twice. When the kernel connects it fixes a [`Plan`] for the whole mount; when an inode is opened
//! while nobody else has it open, it fixes a [`Serving`] for that inode, which all later opens share: the kernel
//! refuses to mix passthrough with its page cache, and so must we refuse to mix it with our buffer.

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
    /// The best for each file.
    Auto,
    /// Requests of 4 KiB: FUSE as phones had it in 2012, the study's baseline.
    Stock,
    /// Larger requests, written through.
    Extended,
    /// The study's buffer.
    Buffered,
    /// The kernel's write-back cache.
    Writeback,
    /// The kernel reads and writes the file below itself.
    Passthrough,
}

/// What the machine and the user allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offers {
    /// The kernel and our privilege allow passthrough.
    pub(crate) passthrough: bool,
    /// The source is a stacked file system itself: FUSE or overlay. The kernel refuses to pass through to it.
    pub(crate) source_is_stacked: bool,
}

/// What holds for the whole mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The mode that was chosen: never [`Mode::Auto`].
    pub(crate) mode: Mode,
    /// The most bytes of one request.
    pub(crate) io_bytes: u32,
    /// The kernel coalesces writes and answers for sizes and times.
    pub(crate) writeback: bool,
    /// Files may be passed through.
    pub(crate) passthrough: bool,
    /// How an inode is served that is not passed through.
    pub(crate) otherwise: Serving,
}

/// `XATTR_SIZE_MAX`.
pub(crate) const XATTR_BYTES_MAX: usize = 64 << 10;

impl Plan {
    /// The least that a read of `/dev/fuse` must have room for, and an answer too: a request with the data of a write,
    /// or an extended attribute of the largest size with its name.
    pub(crate) fn request_bytes(&self) -> usize {
        const OTHER: usize = 4096;
        (self.io_bytes as usize).max(XATTR_BYTES_MAX) + OTHER + HEADER_IN
    }
}

/// How an open inode is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serving {
    /// Each request is a call below.
    Through,
    /// Writes gather in our buffer.
    Buffered,
    /// Writes gather in the kernel.
    Writeback,
    /// The kernel does it alone.
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

    /// Its name, as options say it.
    ///
    /// # Panics
    /// Never: each mode has one.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(mode, _)| *mode == self).expect("each mode is in the table").1
    }

    /// What a mount of this mode does on this machine.
    ///
    /// # Errors
    /// A sentence about what is missing.
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

/// Unless said otherwise, for all modes but the study's: what a kernel with its default limits takes.
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
