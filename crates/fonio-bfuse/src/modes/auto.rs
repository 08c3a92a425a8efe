//! `auto`, the default: passthrough for every file that the kernel takes, our buffer for the few that it refuses
//! (a file system mounted inside the source that is stacked itself); the kernel's write-back cache where
//! passthrough cannot be had at all.

use super::{IO_BYTES, Mode, Offers, Plan, Serving, writeback};
use crate::options::Options;

pub(super) fn plan(options: &Options, offers: Offers) -> Plan {
    if !offers.passthrough || offers.source_is_stacked {
        return writeback::plan(options);
    }
    Plan {
        mode: Mode::Passthrough,
        io_bytes: options.io_bytes.unwrap_or(IO_BYTES),
        writeback: false,
        passthrough: true,
        otherwise: Serving::Buffered,
    }
}
