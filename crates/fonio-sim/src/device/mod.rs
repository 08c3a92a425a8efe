//! The interface of all device models, which turn commands into completion times.

pub mod buffered;
mod dies;
pub mod flash;
mod gather;
pub mod memory;
mod parameters;
pub mod raid0;
mod slots;
mod streams;

pub use parameters::ReadsWaitFor;

use fonio_core::{ByteCount, Nanos, Op, Sector, Timestamp};
use serde::{Deserialize, Serialize};

use crate::ftl::Census;

/// A command from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The operation; an unknown operation completes at once.
    pub op: Op,
    /// The first sector of the command; zero for a flush.
    pub sector: Sector,
    /// The length of the command; zero for a flush.
    pub bytes: ByteCount,
    /// Whether the write must be durable when it completes (forced unit access). Forced unit access requires
    /// [`Limits::fua`].
    pub fua: bool,
}

/// A device in virtual time.
///
/// Times given to [`Device::submit`] must not decrease. A command's completion time is computed when the
/// command is submitted, because commands use dies, channels and the bus in the order of arrival, as in
/// firmware without reordering. Therefore, the same model can run in real time, or simulate millions of
/// commands per second.
pub trait Device: Send {
    /// Accepts `command` at `now` and returns its completion time, which is not before `now`.
    ///
    /// A command that arrives while [`Limits::depth`] commands are in flight waits for a free slot. Panics if
    /// the command ends beyond [`Limits::capacity`], or `now` is earlier than at the previous call.
    fn submit(&mut self, command: &Command, now: Timestamp) -> Timestamp;

    /// Returns the device's limits.
    fn limits(&self) -> &Limits;

    /// Returns the counters since the device was created or [`Device::reset_counters`] was last called.
    fn counters(&self) -> Counters;

    /// Sets the counters to zero; the flash keeps its state.
    fn reset_counters(&mut self);

    /// Counts the erase blocks by their use; `None` if the device has no translation layer of its own.
    fn census(&self) -> Option<Census> {
        None
    }

    /// Returns how often each erase block was erased since the device was created. Blocks after the end of the
    /// slice were never erased. Empty if the device does not count erasures
    /// ([`Profile::wearing_device`](crate::profile::Profile::wearing_device)).
    fn erase_counts(&self) -> &[u32] {
        &[]
    }
}

/// The limits that a device reports to its host: the queue limits of the kernel's block layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The capacity that the host sees.
    pub capacity: ByteCount,
    /// The queue depth; 1 for SD cards without a command queue.
    pub depth: u32,
    /// The maximum size of a command (`max_sectors_kb`).
    pub command_max: ByteCount,
    /// The unit of a discard; `None` if the device does not support discard.
    pub discard_granularity: Option<ByteCount>,
    /// Whether the device supports writes with forced unit access. Without support, the host adds a flush.
    pub fua: bool,
    /// Whether acknowledged writes stay in volatile memory until a flush. A power cut before the flush loses
    /// them.
    pub volatile_cache: bool,
    /// Whether a flush blocks all other commands.
    pub flush_blocks_all: bool,
}

/// Work counters of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of bytes that the host wrote.
    pub host_written: ByteCount,
    /// Number of bytes that the host read.
    pub host_read: ByteCount,
    /// Number of bytes programmed into flash, including copies. The write amplification is this number
    /// divided by `host_written`.
    pub programmed: ByteCount,
    /// Number of erased blocks.
    pub erases: u64,
    /// Number of log blocks that became data blocks without a copy.
    pub switch_merges: u64,
    /// Number of merges that kept the beginning of a block in its log block and copied the rest of the block
    /// there.
    pub partial_merges: u64,
    /// Number of merges that copied a complete block.
    pub full_merges: u64,
    /// Number of pages copied by garbage collection and merges.
    pub pages_copied: u64,
    /// Time in which at least one command was in flight.
    pub busy: Nanos,
}

/// Panics if a command breaks the conditions of [`Device::submit`].
fn assert_fits(command: &Command, now: Timestamp, last: u64, limits: &Limits) {
    assert!(now.0 >= last, "a command at {} ns follows a command at {last} ns", now.0);
    let end = command.sector.after(command.bytes);
    let sectors = limits.capacity.0 / fonio_core::SECTOR_BYTES;
    assert!(end.0 <= sectors, "a command ends at sector {} of {sectors} sectors", end.0);
}

#[cfg(test)]
mod tests;
