//! `stock`: FUSE as phones had it in 2012. Each request has at most 4 KiB and is executed as one call below. It is the
//! baseline of the study (section 2.3: 7 of 39 MB/s); use it for measurements only.

use super::{Mode, Plan, Serving};
use crate::options::Options;

/// One page: the limit of libfuse before `big_writes`.
const IO_BYTES: u32 = 4096;

pub(super) fn plan(options: &Options) -> Plan {
    Plan {
        mode: Mode::Stock,
        io_bytes: options.io_bytes.unwrap_or(IO_BYTES),
        writeback: false,
        passthrough: false,
        otherwise: Serving::Through,
    }
}
