//! `extended`: larger requests, each executed as one call below. The first step of the study (section 4.1); it only helps
//! applications that write in large pieces.

use super::{Mode, Plan, Serving};
use crate::options::Options;

/// The request size of the study.
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
