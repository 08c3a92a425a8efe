//! `buffered`: large requests, and consecutive writes of an inode gather in our buffer until an entry is full, the
//! interval is over, or somebody needs them below (`crate::buffer`). The study's second and third step.

use super::{IO_BYTES, Mode, Plan, Serving};
use crate::options::Options;

pub(super) fn plan(options: &Options) -> Plan {
    Plan {
        mode: Mode::Buffered,
        io_bytes: options.io_bytes.unwrap_or(IO_BYTES),
        writeback: false,
        passthrough: false,
        otherwise: Serving::Buffered,
    }
}
