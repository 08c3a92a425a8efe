//! The interface of all device models: commands in, completion times out.

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

/// One command as the host sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The operation; a device completes an unknown one at once.
    pub op: Op,
    /// The first sector. Zero for a flush.
    pub sector: Sector,
    /// The length. Zero for a flush.
    pub bytes: ByteCount,
    /// The write must be durable when it completes (forced unit access). Only if [`Limits::fua`] says so.
    pub fua: bool,
}

/// A device in virtual time.
///
/// Instants given to [`Device::submit`] must not go backwards. The completion time of a command is computed when it is
/// submitted: commands use dies, channels and the bus in the order of their arrival, as in firmware without reordering.
/// This lets the same model run at millions of commands per second and in real time.
pub trait Device: Send {
    /// Accepts `command` at `now` and returns when it completes, never before `now`.
    ///
    /// A command that arrives while [`Limits::depth`] commands are in flight waits for a free slot.
    ///
    /// # Panics
    ///
    /// If the command ends beyond [`Limits::capacity`], or `now` is earlier than for the command before.
    fn submit(&mut self, command: &Command, now: Timestamp) -> Timestamp;

    /// The device's limits.
    fn limits(&self) -> &Limits;

    /// The counters since the device was made or [`Device::reset_counters`] was called.
    fn counters(&self) -> Counters;

    /// Sets the counters to zero; the state of the flash stays.
    fn reset_counters(&mut self);
}

/// The limits that a device reports to its host: the queue limits of the kernel's block layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The size that the host sees.
    pub capacity: ByteCount,
    /// How many commands the device takes at once; 1 for SD cards without a command queue.
    pub depth: u32,
    /// The largest single command (`max_sectors_kb`).
    pub command_max: ByteCount,
    /// The unit of a discard; `None` if the device has no discard.
    pub discard_granularity: Option<ByteCount>,
    /// Whether it takes writes with forced unit access; otherwise the host adds a flush.
    pub fua: bool,
    /// Whether it holds acknowledged writes in volatile memory, so that a power cut loses data that were not flushed.
    pub volatile_cache: bool,
    /// Whether no other command proceeds during a flush.
    pub flush_blocks_all: bool,
}

/// The work that a device has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes that the host wrote.
    pub host_written: ByteCount,
    /// Bytes that the host read.
    pub host_read: ByteCount,
    /// Bytes programmed into flash, copies included. Divided by `host_written` it is the write amplification.
    pub programmed: ByteCount,
    /// Erase blocks erased.
    pub erases: u64,
    /// Log blocks that became data blocks without a copy.
    pub switch_merges: u64,
    /// Merges that copied the rest of a block behind the beginning in its log block.
    pub partial_merges: u64,
    /// Merges that copied all of a block.
    pub full_merges: u64,
    /// Pages copied by garbage collection and merges.
    pub pages_copied: u64,
    /// Time in which at least one command was in flight.
    pub busy: Nanos,
}

/// Panics if a command breaks the conditions of [`Device::submit`].
fn assert_fits(command: &Command, now: Timestamp, last: u64, limits: &Limits) {
    assert!(now.0 >= last, "a command at {} ns came after one at {last} ns", now.0);
    let end = command.sector.after(command.bytes);
    let sectors = limits.capacity.0 / fonio_core::SECTOR_BYTES;
    assert!(end.0 <= sectors, "a command up to sector {} on a device of {sectors} sectors", end.0);
}

#[cfg(test)]
mod tests;
