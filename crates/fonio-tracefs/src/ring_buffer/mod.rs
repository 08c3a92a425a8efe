//! Decodes ftrace's binary ring buffer: its pages, its records, and the `format` files that describe the
//! records.
//!
//! The pages come from live tracefs (`per_cpu/cpuN/trace_pipe_raw`) or from files. The caller supplies
//! texts and pages:
//!
//! - [`PageLayout`] is parsed from `events/header_page`; [`PageLayout::open`] and [`Cursor`] then read one page.
//! - [`EventFormat`] is parsed from `events/SYSTEM/EVENT/format`; with the offsets in it, [`BlockDecoder`]
//!   turns records into [`BlockEvent`](fonio_core::BlockEvent)s. [`FileDecoder`] decodes file events, and
//!   [`SchedDecoder`] decodes scheduler events.
//! - [`MergedRecords`] merges the streams of all processors by time; [`RingBufferReader`] decodes the block
//!   events in them.
//!
//! Sources of the layout: `kernel/trace/ring_buffer.c` and `include/linux/ring_buffer.h` of Linux 3.4 to 6.18, and the
//! texts in tracefs.

mod block;
mod btrfs;
mod file;
mod format;
mod merge;
mod page;
mod reader;
mod sched;

pub use block::{BLOCK_EVENTS, BlockDecoder};
pub use btrfs::Btrfs;
pub use file::{FILE_EVENTS, FileDecoder, FileEvent, FileRecord, WritebackUnit};
pub use format::{EventFormat, Field, FieldKind, FormatError};
pub use merge::{MergedRecords, PageSource, Trouble};
pub use page::{Cursor, Damage, PageHeader, PageLayout, Record};
pub use reader::RingBufferReader;
pub use sched::{
    BLOCKED_EVENTS, Interrupt, Left, RUNTIME_EVENT, SCHED_EVENTS, STACK_EVENT, SchedDecoder, SchedEvent,
    SchedRecord,
};

/// The byte order of the traced machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// The byte order of this machine.
    pub const NATIVE: ByteOrder =
        if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };

    /// Reads an unsigned number of 1, 2, 4 or 8 bytes at `offset`; `None` if `size` is another number or the
    /// value extends beyond `bytes`.
    pub(crate) fn unsigned(self, bytes: &[u8], offset: usize, size: usize) -> Option<u64> {
        let field = bytes.get(offset..offset.checked_add(size)?)?;
        Some(match (self, size) {
            (_, 1) => u64::from(field[0]),
            (ByteOrder::Little, 2) => u64::from(u16::from_le_bytes(field.try_into().ok()?)),
            (ByteOrder::Little, 4) => u64::from(u32::from_le_bytes(field.try_into().ok()?)),
            (ByteOrder::Little, 8) => u64::from_le_bytes(field.try_into().ok()?),
            (ByteOrder::Big, 2) => u64::from(u16::from_be_bytes(field.try_into().ok()?)),
            (ByteOrder::Big, 4) => u64::from(u32::from_be_bytes(field.try_into().ok()?)),
            (ByteOrder::Big, 8) => u64::from_be_bytes(field.try_into().ok()?),
            _ => return None,
        })
    }

    /// Reads a `u32` at `offset`; `None` if it extends beyond `bytes`.
    pub(crate) fn u32(self, bytes: &[u8], offset: usize) -> Option<u32> {
        let field = bytes.get(offset..offset.checked_add(4)?)?.try_into().ok()?;
        Some(match self {
            ByteOrder::Little => u32::from_le_bytes(field),
            ByteOrder::Big => u32::from_be_bytes(field),
        })
    }
}
