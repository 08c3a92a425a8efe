//! `writeback`: the kernel caches written pages and sends them later, in large requests. It then maintains size and times
//! itself, so it may not notice that other programs change an open file in the source.

use super::{IO_BYTES, Mode, Plan, Serving};
use crate::options::Options;

pub(super) fn plan(options: &Options) -> Plan {
    Plan {
        mode: Mode::Writeback,
        io_bytes: options.io_bytes.unwrap_or(IO_BYTES),
        writeback: true,
        passthrough: false,
        otherwise: Serving::Writeback,
    }
}
