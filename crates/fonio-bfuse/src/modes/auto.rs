//! `auto`, the default: passthrough if the kernel supports it, otherwise write-back. If the kernel refuses passthrough for
//! single files, such as those of a stacked file system that is mounted inside the source, these use our buffer.

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
