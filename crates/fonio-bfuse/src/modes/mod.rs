//! Decides how files are served; there is one file per mode.
//!
//! A mode decides twice. When the kernel connects, it makes a [`Plan`] for the whole mount. When an inode is opened that is
//! not open yet, it chooses a [`Serving`] for this inode, which all later opens share: the kernel does not mix passthrough
//! with its page cache, and we do not mix passthrough with our buffer.

mod auto;
mod buffered;
mod extended;
mod passthrough;
mod plan;
mod stock;
mod writeback;

use crate::options::Options;
use plan::IO_BYTES;
pub use plan::Mode;
pub(crate) use plan::{Offers, Plan, Serving, XATTR_BYTES_MAX};

impl Mode {
    /// Makes the plan of a mount of this mode on this machine.
    ///
    /// # Errors
    /// A sentence that names the missing feature.
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
