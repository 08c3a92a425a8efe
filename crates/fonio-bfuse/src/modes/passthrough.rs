//! `passthrough`: the kernel reads, writes and maps the file below itself; the daemon only serves opens, names and
//! attributes. Needs Linux 6.9, root, and a source that is not on a stacked file system.

use super::{IO_BYTES, Mode, Offers, Plan, Serving};
use crate::options::Options;

pub(super) fn plan(options: &Options, offers: Offers) -> Result<Plan, &'static str> {
    if offers.source_is_stacked {
        return Err(
            "the source is a FUSE or overlay file system, to which the kernel does not pass through; \
             use mode=writeback",
        );
    }
    if !offers.passthrough {
        return Err("passthrough needs Linux 6.9 or later and root; use mode=writeback");
    }
    Ok(Plan {
        mode: Mode::Passthrough,
        io_bytes: options.io_bytes.unwrap_or(IO_BYTES),
        writeback: false,
        passthrough: true,
        otherwise: Serving::Through,
    })
}
