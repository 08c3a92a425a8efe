//! `buffered`: large requests, and a buffer that collects consecutive writes of an inode until an entry is full, the
//! interval is over, or the data are needed below (`crate::buffer`). The second and third step of the study.

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
