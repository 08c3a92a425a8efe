//! `writeback`: the kernel keeps written pages and sends them later, in large requests. It then answers for size
//! and times itself, so what others do to an open file of the source behind its back may go unseen.

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
