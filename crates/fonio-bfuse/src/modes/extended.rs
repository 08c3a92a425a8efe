//! `extended`: larger requests, each still one call below. The study's first step (section 4.1); it helps an
//! application that itself writes in large pieces, and nobody else.

use super::{Mode, Plan, Serving};
use crate::options::Options;

/// The study's unit.
const IO_BYTES: u32 = 512 << 10;

pub(super) fn plan(options: &Options) -> Plan {
    Plan {
        mode: Mode::Extended,
        io_bytes: options.io_bytes.unwrap_or(IO_BYTES),
        writeback: false,
        passthrough: false,
        otherwise: Serving::Through,
    }
}
